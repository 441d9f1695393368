import numpy as np

from paperworks.causal import FactorialDesign
from tests.battery import Example


def use(design: FactorialDesign, dtype: str) -> np.ndarray:
    again = FactorialDesign.from_state(design.state())
    rng = np.random.default_rng(0)
    given = (rng.random((40, 4)) < 0.5).astype(dtype)
    y = (given @ np.array([1.0, -2.0, 0.5, 3.0]) + rng.normal(size=40)).astype(dtype)
    again.update(given, y).fit()
    dose = again.propose(20, upper=np.array([0.5, 0.25, 0.75, 1.0], dtype=dtype))
    return np.r_[again.coef_, again.coef_std_, again.predict(given[:5]), dose, again.assign(dose, 3).ravel()]


EXAMPLES = {"FactorialDesign": Example(make=lambda seed: FactorialDesign(4, random_state=seed), use=use)}
