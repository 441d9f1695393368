"""The cut-off on machine scores: losses by brute force, selection, guarantee, deployment, bad input."""

import sys
import types
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.exceptions import NotFittedError

from paperworks.conformal import (
    DistortionRiskControl,
    GuardedGenerator,
    distortion_risk,
    distortion_ucb,
    prompt_losses,
)

pytestmark = pytest.mark.filterwarnings("ignore:the bound is asymptotic", "ignore:no cut-off is safe")


def simulated(n: int, m: int = 8, seed: int = 0, noise: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hardness = rng.beta(0.5, 3, size=(n, 1))
    human = rng.beta(0.5 + 4 * hardness, 3, size=(n, m))
    return np.clip(human + rng.normal(scale=noise, size=human.shape), 0, 1), human


def with_holes(machine: np.ndarray, human: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    holes = np.random.default_rng(seed).random(machine.shape) < 0.3
    holes[:, 1] = False
    return np.where(holes, np.nan, machine), np.where(holes, np.nan, human)


INNER = {
    "max": np.max,
    "mean": np.mean,
    "first": lambda kept: kept[0],
}


# --- losses ------------------------------------------------------------------------------------------------------

grids = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.8]), min_size=1, max_size=8)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6), grids, st.sampled_from(sorted(INNER)))
@settings(max_examples=150)
def test_losses_by_brute_force(seed: int, n: int, m: int, grid: list[float], inner: str) -> None:
    rng = np.random.default_rng(seed)
    machine = rng.choice([0.0, 0.1, 0.25, 0.3, 0.7], size=(n, m))  # ties among scores and with the grid
    human = rng.random((n, m))
    holes = rng.random((n, m)) < 0.3
    holes[:, rng.integers(m)] = False
    machine[holes] = human[holes] = np.nan
    expected = np.zeros((n, len(grid)))
    for i in range(n):
        for k, cut in enumerate(grid):
            kept = human[i][machine[i] <= cut]
            expected[i, k] = INNER[inner](kept) if kept.size else 0.0
    np.testing.assert_allclose(prompt_losses(machine, human, grid, inner), expected, atol=1e-14)
    np.testing.assert_allclose(prompt_losses(machine, human, grid, INNER[inner]), expected, atol=1e-14)


def test_losses_grow_with_lambda_up_to_the_row_maximum() -> None:
    machine, human = with_holes(*simulated(50))
    losses = prompt_losses(machine, human, [-np.inf, *np.linspace(0, 1, 30), np.inf])
    assert (np.diff(losses, axis=1) >= 0).all()
    np.testing.assert_array_equal(losses[:, 0], 0.0)
    np.testing.assert_array_equal(losses[:, -1], np.nanmax(human, axis=1))
    assert np.ptp(losses[:, 15]) > 0


def test_the_three_forms_of_scores_agree() -> None:
    machine, human = with_holes(*simulated(200))
    full = DistortionRiskControl().fit(machine, human)
    ragged = [[row[~np.isnan(row)] for row in table] for table in (machine, human)]
    place = ~np.isnan(machine)
    frame = pd.DataFrame({"prompt": np.nonzero(place)[0].astype(str), "machine": machine[place], "human": human[place]})
    mixed = frame.iloc[np.random.default_rng(0).permutation(len(frame))]
    for scores in (ragged, (frame, None), (mixed, None)):
        other = DistortionRiskControl().fit(*scores)
        assert other.lambda_ == full.lambda_
        np.testing.assert_allclose(other.ucb_curve_, full.ucb_curve_, atol=1e-12)
    evaluated = full.evaluate(machine, human)
    assert full.evaluate(*ragged) == pytest.approx(evaluated)
    assert full.evaluate(frame) == pytest.approx(evaluated)
    np.testing.assert_array_equal(full.select(frame), full.select(ragged[0]))
    np.testing.assert_array_equal(full.keep(frame), full.keep(machine)[place])
    kept = full.keep(ragged[0])
    assert [row.shape for row in kept] == [row.shape for row in ragged[0]]
    np.testing.assert_array_equal(np.concatenate(kept), full.keep(machine)[place])


# --- the cut-off -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("risk", "beta", "method", "alpha"),
    [
        ("cvar", 0.75, "L", 0.35),
        ("mean", 0.75, "L", 0.15),
        ("var", 0.9, "exact", 0.45),
        ("cvar", 0.5, "DKW", 0.35),
        ("cvar", 0.5, "BJ", 0.35),
        ("var", 0.8, "bootstrap", 0.4),
    ],
)
def test_curves_and_choice_equal_one_cut_off_at_a_time(risk: str, beta: float, method: str, alpha: float) -> None:
    machine, human = with_holes(*simulated(300))
    grid = np.linspace(0.02, 0.9, 40)
    control = DistortionRiskControl(risk, beta, alpha=alpha, method=method, lambdas=grid, random_state=3)
    control.fit(machine, human)
    losses = prompt_losses(machine, human, grid)
    kind = {"risk": risk, "beta": beta}
    risks = [distortion_risk(column, **kind) for column in losses.T]
    ucbs = [distortion_ucb(column, method=method, random_state=3, **kind) for column in losses.T]
    np.testing.assert_allclose(control.risk_curve_, risks, atol=1e-12)
    np.testing.assert_allclose(control.ucb_curve_, ucbs, atol=1e-10)
    below = [k for k in range(len(grid)) if max(ucbs[: k + 1]) <= alpha]
    assert 0 < len(below) < len(grid)
    assert control.lambda_ == grid[below[-1]]
    np.testing.assert_array_equal(control.losses_at_lambda_, losses[:, below[-1]])
    assert (control.n_prompts_, control.feasible_) == (300, True)
    assert control.n_candidates_ == (~np.isnan(machine)).sum(axis=1).min()


def test_order_of_prompts_and_candidates_is_irrelevant() -> None:
    machine, human = simulated(300)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(300), rng.permutation(8)
    first = DistortionRiskControl().fit(machine, human)
    second = DistortionRiskControl().fit(machine[rows][:, columns], human[rows][:, columns])
    assert first.lambda_ == second.lambda_ > 0
    np.testing.assert_allclose(first.ucb_curve_, second.ucb_curve_, atol=1e-12)
    doubled = DistortionRiskControl().fit(np.tile(machine, (2, 1)), np.tile(human, (2, 1)))
    np.testing.assert_allclose(doubled.risk_curve_, first.risk_curve_, atol=1e-12)
    assert (doubled.ucb_curve_[20:] < first.ucb_curve_[20:]).all()


def test_default_grid() -> None:
    machine, human = simulated(100)
    np.testing.assert_array_equal(DistortionRiskControl().fit(machine, human).lambdas_, np.unique(machine))
    machine, human = simulated(1000)
    grid = DistortionRiskControl().fit(machine, human).lambdas_
    assert 1500 < grid.size <= 2000
    assert np.isin(grid, machine).all()
    assert grid[-1] == machine.max()
    ranks = np.searchsorted(np.sort(machine.ravel()), grid[grid > 0], side="right") / machine.size
    assert np.diff(ranks[ranks < 1]).max() < 2 / 1000


def test_given_grid_is_sorted_without_touching_it() -> None:
    machine, human = simulated(200)
    grid = np.array([0.5, 0.1, 0.3])
    control = DistortionRiskControl(lambdas=grid).fit(machine, human)
    np.testing.assert_array_equal(control.lambdas_, [0.1, 0.3, 0.5])
    np.testing.assert_array_equal(grid, [0.5, 0.1, 0.3])
    assert control.get_params()["lambdas"] is grid


def dipping() -> tuple[np.ndarray, np.ndarray]:
    """The mean kept loss is high where one bad candidate is kept alone and falls when good ones join."""
    machine = np.tile([0.1, 0.2, 0.3, 0.4], (100, 1))
    human = np.tile([0.1, 0.9, 0.0, 0.0], (100, 1)) + np.random.default_rng(0).uniform(0, 0.01, (100, 4))
    return machine, human


def test_fixed_sequence_stops_at_the_first_excess() -> None:
    settings = {"risk": "mean", "alpha": 0.4, "inner": "mean"}
    assert DistortionRiskControl(**settings).fit(*dipping()).lambda_ == 0.1
    assert DistortionRiskControl(**settings, selection="largest").fit(*dipping()).lambda_ == 0.4
    both = [DistortionRiskControl(selection=s).fit(*simulated(300)).lambda_ for s in ("fixed_sequence", "largest")]
    assert both[0] == both[1]


def test_no_safe_cut_off() -> None:
    machine, human = simulated(200)
    control = DistortionRiskControl(alpha=0.01, lambdas=[0.5, 0.7])
    with pytest.warns(UserWarning, match="no cut-off is safe"):
        control.fit(machine, human)
    assert (control.lambda_, control.feasible_) == (-np.inf, False)
    np.testing.assert_array_equal(control.losses_at_lambda_, 0)
    assert not control.keep(machine).any()
    np.testing.assert_array_equal(control.select(machine), -1)
    expected = {"risk": 0.0, "mean": 0.0, "max": 0.0, "abstain_rate": 1.0, "deployment_cost": 8.0}
    assert control.evaluate(machine, human) == expected
    assert DistortionRiskControl(alpha=0.99).fit(machine, human).lambda_ == machine.max()


def test_a_cut_off_of_zero_is_a_cut_off() -> None:
    machine, human = np.zeros((100, 2)), np.full((100, 2), 0.1)
    machine[:, 1], human[:, 1] = 1.0, 0.9
    control = DistortionRiskControl(alpha=0.5).fit(machine, human)
    assert (control.lambda_, control.feasible_) == (0.0, True)
    np.testing.assert_array_equal(control.select(machine), 0)


def test_several_risks_take_the_smallest_cut_off() -> None:
    machine, human = simulated(400)
    grid = np.linspace(0, 1, 100)
    mean, tail = (
        DistortionRiskControl(risk, alpha=alpha, lambdas=grid).fit(machine, human)
        for risk, alpha in (("mean", 0.1), ("cvar", 0.35))
    )
    for alphas, binding in (((0.1, 0.35), mean), ((0.4, 0.35), tail)):
        both = DistortionRiskControl(["mean", "cvar"], alpha=alphas, lambdas=grid).fit(machine, human)
        assert both.lambda_ == binding.lambda_
        np.testing.assert_allclose(both.ucb_curve_, [mean.ucb_curve_, tail.ucb_curve_], atol=1e-12)
        risks = both.evaluate(machine, human)["risk"]
        np.testing.assert_allclose(risks[1], distortion_risk(both.losses_at_lambda_), atol=1e-12)
    assert mean.lambda_ != tail.lambda_
    quantiles = DistortionRiskControl(["var", "var"], [0.5, 0.9], alpha=[0.2, 0.5], method="exact", lambdas=grid).fit(
        machine, human
    )
    assert (quantiles.ucb_curve_[1] >= quantiles.ucb_curve_[0]).all()


def test_several_risks_are_checked_one_by_one() -> None:
    machine, human = simulated(50)
    with pytest.raises(ValueError, match="alpha must be one number or one for each of 2"):
        DistortionRiskControl(["mean", "cvar"], alpha=[0.1, 0.2, 0.3]).fit(machine, human)
    with pytest.raises(ValueError, match="risk must"):
        DistortionRiskControl(["mean", "median"]).fit(machine, human)
    with pytest.raises(ValueError, match="at least one risk"):
        DistortionRiskControl([]).fit(machine, human)
    with pytest.raises(ValueError, match="spectral"):
        DistortionRiskControl(["mean", "cvar"], psi=np.ones_like).fit(machine, human)


# --- use of the cut-off ------------------------------------------------------------------------------------------


def fitted(cut: float) -> DistortionRiskControl:
    """A control with a known cut-off and calibration prompts of three candidates."""
    machine = np.tile([cut, 0.9, 0.95], (200, 1))
    control = DistortionRiskControl("mean", alpha=0.5).fit(machine, np.tile([0.0, 1.0, 1.0], (200, 1)))
    assert control.lambda_ == cut
    return control


def test_select_and_cost_count_draws() -> None:
    control = fitted(0.5)
    machine = np.array([[0.7, np.nan, 0.2], [0.1, 0.9, 0.9], [0.9, 0.8, np.nan], [np.nan, 0.6, 0.5]])
    np.testing.assert_array_equal(control.select(machine), [2, 0, -1, 2])
    assert control.select(machine[0]) == 2
    assert control.select([0.9, 0.8]) == -1
    np.testing.assert_array_equal(control.select([[0.9], [0.6, 0.4]]), [-1, 1])
    np.testing.assert_array_equal(control.select(pd.DataFrame(machine)), [2, 0, -1, 2])
    human = np.where(np.isnan(machine), np.nan, [[0.3, 0.0, 0.4]])
    found = control.evaluate(machine, human)
    assert found["deployment_cost"] == np.mean([2, 1, 2, 2])
    assert found["abstain_rate"] == 0.25
    assert found["mean"] == pytest.approx(np.mean([0.4, 0.3, 0.0, 0.4]))
    assert found["max"] == 0.4


def test_keep_has_the_shape_of_its_input() -> None:
    control = fitted(0.5)
    assert control.keep(0.5)
    assert not control.keep(np.nan)
    assert control.keep(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    np.testing.assert_array_equal(control.keep([[0.5, 0.6], [np.nan, -np.inf]]), [[True, False], [False, True]])


def test_risk_profile_brackets_the_tail() -> None:
    machine, human = simulated(500)
    control = DistortionRiskControl(delta=0.1).fit(machine, human)
    profile = control.risk_profile([0.0, 0.75])
    losses = control.losses_at_lambda_
    np.testing.assert_allclose(profile["cvar"], [losses.mean(), distortion_risk(losses)], atol=1e-12)
    half = stats.norm.ppf(0.95) * losses.std() / np.sqrt(500)
    np.testing.assert_allclose(
        profile.loc[0, ["low", "high"]].astype(float), [losses.mean() - half, losses.mean() + half]
    )
    assert profile.loc[1, "high"] == pytest.approx(distortion_ucb(losses, delta=0.05), abs=1e-12)
    with pytest.raises(ValueError, match="beta"):
        control.risk_profile([1.0])


def test_generator_returns_the_first_that_passes() -> None:
    control = fitted(0.5)
    texts = iter("abcdef")
    scores = {"a": 0.9, "b": 0.5, "c": 0.6, "d": 0.7, "e": 0.8, "f": 0.1}
    guard = GuardedGenerator(lambda prompt: next(texts), lambda drawn: [scores[t] for t in drawn], control, max_tries=3)
    assert guard("?") == ("b", 2)
    assert guard("?") == (None, 3)
    assert guard("?") == ("f", 1)


def test_generator_warns_beyond_the_certificate() -> None:
    control = fitted(0.5)
    with pytest.warns(UserWarning, match="outside the certificate"):
        GuardedGenerator(str, len, control, max_tries=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GuardedGenerator(str, len, control, max_tries=3)


def test_generator_takes_the_name_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def pipeline(task: str, model: str) -> object:
        def draw(prompt: str, **given: object) -> list[dict[str, str]]:
            calls.append(given)
            return [{"generated_text": f"{task}/{model}: {prompt}"}]

        return draw

    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(pipeline=pipeline))
    guard = GuardedGenerator("tiny-model", lambda texts: [0.1 for _ in texts], fitted(0.5), max_tries=2)
    assert guard("hello") == ("text-generation/tiny-model: hello", 1)
    assert calls == [{"do_sample": True, "return_full_text": False}]
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"paperworks\[hf\]"):
        GuardedGenerator("tiny-model", len, fitted(0.5), max_tries=2)


def test_generator_names_bad_input() -> None:
    control = fitted(0.5)
    with pytest.raises(NotFittedError):
        GuardedGenerator(str, len, DistortionRiskControl())
    with pytest.raises(TypeError, match="generate"):
        GuardedGenerator(3, len, control)
    with pytest.raises(TypeError, match="score"):
        GuardedGenerator(str, 0.5, control)
    with pytest.raises(ValueError, match="max_tries"):
        GuardedGenerator(str, len, control, max_tries=0)
    for bad in ([np.nan], [0.1, 0.2], []):
        with pytest.raises(ValueError, match="score must return one number"):
            GuardedGenerator(str, lambda texts, bad=bad: bad, control, max_tries=1)("?")


# --- the guarantee -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "level"), [("L", 0.95), ("DKW", 0.95), ("BJ", 0.95), ("exact", 0.95)])
def test_risk_is_controlled_over_calibrations(method: str, level: float) -> None:
    """Prompts are drawn with replacement from a finite pool, so the true risk at each cut-off is known exactly."""
    machine, human = simulated(4000, seed=1)
    kind = {"risk": "var", "beta": 0.9} if method == "exact" else {"risk": "cvar", "beta": 0.75}
    alpha = 0.45
    rng = np.random.default_rng(2)
    controlled, realised = [], []
    for _ in range(300):
        rows = rng.integers(4000, size=300)
        control = DistortionRiskControl(**kind, alpha=alpha, method=method, lambdas=np.linspace(0, 1, 200))
        control.fit(machine[rows], human[rows])
        risk = control.evaluate(machine, human)["risk"]
        controlled.append(risk <= alpha + 1e-12)
        realised.append(risk)
    assert stats.binomtest(sum(controlled), 300, level - 0.015, alternative="less").pvalue > 1e-3
    assert np.mean(realised) > {"L": 0.38, "DKW": 0.2, "BJ": 0.3, "exact": 0.35}[method], "not by rejecting everything"


@pytest.mark.slow
def test_l_control_is_tight_over_many_calibrations() -> None:
    machine, human = simulated(4000, seed=1)
    rng = np.random.default_rng(3)
    controlled = []
    for _ in range(3000):
        rows = rng.integers(4000, size=1000)
        control = DistortionRiskControl(alpha=0.45, lambdas=np.linspace(0, 1, 400)).fit(machine[rows], human[rows])
        controlled.append(control.evaluate(machine, human)["risk"] <= 0.45)
    assert np.mean(controlled) == pytest.approx(0.95, abs=0.015)


@pytest.mark.slow
def test_thousand_cut_offs_on_a_hundred_thousand_prompts() -> None:
    machine, human = simulated(100_000, m=1)
    grid = np.linspace(0.021, 0.856, 1000)
    control = DistortionRiskControl(alpha=0.3, lambdas=grid).fit(machine, human)
    for k in (0, 333, 999):
        losses = np.where(machine[:, 0] <= grid[k], human[:, 0], 0.0)
        assert control.risk_curve_[k] == pytest.approx(np.sort(losses)[75_000:].mean(), abs=1e-12)


# --- bad input ---------------------------------------------------------------------------------------------------

MACHINE, HUMAN = simulated(60)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"risk": "median"}, "risk"),
        ({"beta": 1.0}, "beta"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.5}, "delta"),
        ({"method": "CLT"}, "method"),
        ({"risk": "var", "method": "L"}, "exact"),
        ({"selection": "best"}, "selection"),
        ({"inner": "min"}, "inner"),
        ({"inner": lambda kept: kept}, "inner"),
        ({"lambdas": []}, "lambdas"),
        ({"lambdas": [0.1, np.nan]}, "lambdas"),
        ({"lambdas": [[0.1]]}, "lambdas"),
        ({"loss_bound": 0.0}, "loss_bound"),
        ({"risk": "spectral", "psi": lambda p: 3 * np.ones_like(p)}, "integrate to 1"),
        ({"risk": "spectral", "cdf": np.cos}, "cdf"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DistortionRiskControl(**given).fit(MACHINE, HUMAN)


def changed(table: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    table = table.copy()
    table[place] = value
    return table


@pytest.mark.parametrize(
    ("machine", "human", "message"),
    [
        (MACHINE, HUMAN[:, :3], "same shape"),
        (MACHINE, changed(HUMAN, (5, 2), np.nan), "prompt 5, candidate 2 is NaN in human_scores only"),
        (changed(MACHINE, (5, 2), np.nan), HUMAN, "NaN in machine_scores only"),
        (changed(MACHINE, (7,), np.nan), changed(HUMAN, (7,), np.nan), "prompt 7 has none"),
        (MACHINE[0], HUMAN[0], "n_prompts, n_candidates"),
        (changed(MACHINE, (3, 1), np.inf), HUMAN, "infinite"),
        (MACHINE, changed(HUMAN, (3, 1), -np.inf), "infinite"),
        (MACHINE[:1], HUMAN[:1], "at least 2"),
        (MACHINE[:0], HUMAN[:0], "at least one prompt"),
        (MACHINE, None, "human_scores is needed"),
        ([[0.1], []], [[0.1], []], "prompt 1 has none"),
        ([[0.1], [0.2]], [[0.1], [0.2, 0.3]], "same shape"),
        ([0.1, 0.2], [0.1, 0.2], "one vector of candidates"),
        (pd.DataFrame({"prompt": [1], "machine": [0.1]}), None, "missing: human"),
        (pd.DataFrame({"prompt": [1, None], "machine": [0.1] * 2, "human": [0.1] * 2}), None, "line 1"),
        (pd.DataFrame({"prompt": ["a", "b"], "machine": [0.1] * 2, "human": [0.1, None]}), None, "prompt b"),
    ],
)
def test_bad_scores_are_named(machine: object, human: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DistortionRiskControl().fit(machine, human)


def test_losses_beyond_the_bound_are_named_by_bounded_methods() -> None:
    for method in ("DKW", "BJ"):
        with pytest.raises(ValueError, match=r"human_scores .* a maximum of 3"):
            DistortionRiskControl(method=method).fit(MACHINE, changed(HUMAN, (0, 0), 3.0))
    machine, human = simulated(400)
    control = DistortionRiskControl(method="DKW", loss_bound=3.0, alpha=2.1).fit(machine, 3 * human)
    same = DistortionRiskControl(method="DKW", alpha=0.7).fit(machine, human)
    assert control.lambda_ == same.lambda_ > 0


def test_text_is_refused() -> None:
    with pytest.raises(TypeError, match="machine_scores must be numeric"):
        DistortionRiskControl().fit([["a"], ["b"]], [[0.1], [0.2]])
    with pytest.raises(TypeError, match="the column human must be numeric"):
        DistortionRiskControl().fit(pd.DataFrame({"prompt": [1, 2], "machine": [0.1] * 2, "human": ["x", "y"]}))
    with pytest.raises(TypeError, match="machine_scores"):
        fitted(0.5).keep("text")


def test_use_before_fit() -> None:
    control = DistortionRiskControl()
    for call in (
        lambda: control.keep(MACHINE),
        lambda: control.select(MACHINE),
        lambda: control.evaluate(MACHINE, HUMAN),
        lambda: control.risk_profile(),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_a_failed_fit_leaves_nothing_behind() -> None:
    control = DistortionRiskControl(method="DKW")
    with pytest.raises(ValueError, match="maximum"):
        control.fit(MACHINE, 2 * HUMAN)
    with pytest.raises(NotFittedError):
        control.keep(MACHINE)


@pytest.mark.filterwarnings("default:the bound is asymptotic")
def test_few_prompts_warn() -> None:
    with pytest.warns(UserWarning, match=r"asymptotic .* 15 losses"):
        DistortionRiskControl("mean").fit(MACHINE[:15], HUMAN[:15])
    with pytest.warns(UserWarning, match="15.0 losses in the tail"):
        DistortionRiskControl().fit(MACHINE, HUMAN)


def test_progress_bar_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    loud = DistortionRiskControl(verbose=1).fit(MACHINE, HUMAN)
    assert "cut-offs" in capsys.readouterr().out
    assert loud.lambda_ == DistortionRiskControl().fit(MACHINE, HUMAN).lambda_
    assert capsys.readouterr().out == ""
