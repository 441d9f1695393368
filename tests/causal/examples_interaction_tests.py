import numpy as np

from paperworks.causal import InteractionTestResult, factorisation_test, joint_independence_test
from tests.battery import Example


def sample(dtype: str) -> np.ndarray:
    u = np.random.default_rng(0).random((120, 3))
    return np.c_[u, u.sum(axis=1) % 1].astype(dtype)


def use(result: InteractionTestResult, dtype: str) -> np.ndarray:
    again = joint_independence_test(sample(dtype), bandwidth=list(result.bandwidths), split="halves")
    return np.array([result.statistic, result.pvalue, again.statistic, again.estimate, again.stderr, again.pvalue])


EXAMPLES = {
    "InteractionTestResult": Example(
        make=lambda seed: factorisation_test(sample("float64"), random_state=seed), use=use
    )
}
