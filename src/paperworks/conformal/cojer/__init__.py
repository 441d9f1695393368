"""CoJER: prediction intervals whose share of misses in a batch is bounded with high probability.

The idea: m test points share one calibration set, so their conformal ranks are dependent, but their joint law is known
exactly. A lower envelope of the *ordered* ranks that holds with probability 1 - delta bounds the false coverage
proportion of the batch for all levels at once, and the sets of several models are combined through their p-values.

Use it for a finite batch (houses, patients, parcels) when "at most alpha of *these* intervals miss, with probability
1 - delta" is wanted and data are exchangeable. Do not use it for one point at a time (``band="scp"`` and any split
conformal library say the same there), for time series with drift, or, with its default band, if one alpha is fixed in
advance: then ``band="exact"`` gives shorter intervals with the same promise.

Reference: Blain, Thirion and Neuvial, "False Coverage Proportion Control for Conformal Prediction", ICML 2025,
PMLR 267:4471-4481. The law of the ranks and the DKW bound: Gazin, Blanchard and Roquain (2024).
"""

from .coverage import false_coverage_proportion
from .estimator import CoJER
from .thresholds import cojer_threshold, dkw_deviation, joint_error_rate, sample_conformal_ranks

__all__ = [
    "CoJER",
    "cojer_threshold",
    "dkw_deviation",
    "false_coverage_proportion",
    "joint_error_rate",
    "sample_conformal_ranks",
]
