import numpy as np
from numpy.typing import NDArray

from paperworks.conformal import DistortionRiskControl, GuardedGenerator
from tests.battery import Example


def scores(dtype: str) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    rng = np.random.default_rng(0)
    human = rng.beta(0.5, 2, size=(200, 6))
    machine = np.clip(human + rng.normal(scale=0.1, size=human.shape), 0, 1)
    return machine.astype(dtype), human.astype(dtype)


def use_control(control: DistortionRiskControl, dtype: str) -> NDArray[np.float64]:
    machine, human = scores(dtype)
    control.fit(machine, human)
    return np.concatenate([[control.lambda_], control.risk_curve_, control.ucb_curve_])


def generate(prompt: str) -> str:
    return prompt + "!"


def score(texts: list[str]) -> list[float]:
    return [min(len(text) / 10, 1.0) for text in texts]


def guard(seed: int) -> GuardedGenerator:
    control = DistortionRiskControl("cvar", method="bootstrap", random_state=seed)
    return GuardedGenerator(generate, score, control.fit(*scores("float64")), max_tries=6)


def use_guard(guarded: GuardedGenerator, dtype: str) -> NDArray[np.float64]:
    tries = [guarded("a" * length)[1] for length in range(12)]
    return np.array([*tries, guarded.control.lambda_])


EXAMPLES = {
    "DistortionRiskControl": Example(
        make=lambda seed: DistortionRiskControl(
            method="bootstrap", n_bootstrap=100, lambdas=np.linspace(0.05, 0.95, 50), random_state=seed
        ),
        use=use_control,
    ),
    "GuardedGenerator": Example(make=guard, use=use_guard),
}
