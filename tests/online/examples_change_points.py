import copy

import numpy as np

from paperworks.online import ChangePointBandit, ChangePointResult
from tests.battery import Example


def use(bandit: ChangePointBandit, dtype: str) -> np.ndarray:
    bandit = copy.deepcopy(bandit)
    rng = np.random.default_rng(0)
    means = np.repeat([0.0, 2.0, 0.5], 4).astype(dtype)
    result = bandit.run(lambda arm: means[arm] + rng.normal(size=1).astype(dtype)[0])
    return np.r_[result.change_points, result.sizes, result.counts, result.statistics, bandit.means_]


def use_result(result: ChangePointResult, dtype: str) -> np.ndarray:
    return np.r_[result.change_points, result.sizes.astype(dtype), result.intervals.ravel(), result.counts]


def result(seed: int) -> ChangePointResult:
    return ChangePointBandit(4, sigma=0.1).run(lambda arm: float(arm >= 2))


EXAMPLES = {
    "ChangePointBandit": Example(make=lambda seed: ChangePointBandit(12, 2, random_state=seed), use=use),
    "ChangePointResult": Example(make=result, use=use_result),
}
