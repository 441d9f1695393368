"""Kernel tests of joint independence and of high-order interaction that need no permutations.

Whether d variables are jointly independent, or whether an interaction exists that splits into no two independent
groups (as in an exclusive or), is usually tested by recomputing a kernel statistic for hundreds of permuted samples,
for the second question even once for each way to split the variables. Here the rows are split into two halves; the
interaction measured on one half is compared with that on the other by cross-Gram matrices alone, and the ratio to its
standard error is standard normal if there is no interaction, so that one statistic and one normal quantile do.

Reference: Z. Liu, R. L. Peach, M. Barahona, "Permutation-Free High-Order Interaction Tests", ICML 2025,
arXiv:2506.05963. The statistics are V-statistics of the joint, Lancaster and Streitberg interactions, split over two
samples; the variance comes from their empirical influence function.

Use it where rows are independent and a permutation test takes too long: many subsets to scan, many rows, a test inside
a loop. With fewer than 40 rows, or where the last third of the power matters more than time, a permutation test is
better: splitting the sample costs power. Rows that are ordered in time are not independent; no test here knows that.

The pieces: `samples` (variables, kernels, the split), `statistics` (the three statistics on cross-Gram matrices),
`hypotheses` (the tests), `scan` (all subsets of a table).
"""

from paperworks.causal.interaction_tests.hypotheses import (
    InteractionTestResult,
    factorisation_test,
    joint_independence_test,
)
from paperworks.causal.interaction_tests.samples import cross_gram
from paperworks.causal.interaction_tests.scan import interaction_scan
from paperworks.causal.interaction_tests.statistics import (
    joint_statistic,
    lancaster_statistic,
    streitberg_statistic,
)

__all__ = [
    "InteractionTestResult",
    "cross_gram",
    "factorisation_test",
    "interaction_scan",
    "joint_independence_test",
    "joint_statistic",
    "lancaster_statistic",
    "streitberg_statistic",
]
