"""Online decisions advised by calibrated predictions: rent or buy, and which job to open first.

A classifier's probability is only worth as much as its calibration. Made calibrated on held-out data, it tells for each
single instance how far to trust it: *ski rental* rents for a time that falls as the probability of a long stay grows,
*scheduling* opens those jobs early whose probability of being urgent is above a threshold. For both the expected loss
against an all-knowing planner has a bound in terms of the calibrated probability.

Reference: J. H. Shen, E. Vitercik, A. Wikum, "Algorithms with Calibrated Machine Learning Predictions", ICML 2025,
arXiv 2502.02861. The peers: K. Anand, R. Ge, D. Panigrahi, "Customizing ML Predictions for Online Algorithms", ICML
2020 (one error rate for a binary prediction), and B. Sun, J. Huang, N. Christianson, M. Hajiesmaili, A. Wierman, R.
Boutaba, "Online Algorithms with Uncertainty-Quantified Predictions", ICML 2024 (an interval with a miss probability).

Use it with a few hundred labelled instances that the model has not seen. Don't use it where a single instance must not
go wrong (the default is about averages: give `SkiRental` a positive `alpha`), where instances shift after calibration,
or where a duration is predicted well to within a few per cent: an interval then says more than one probability.
"""

from .calibration import HistogramCalibrator, max_calibration_error
from .rental import SkiRental
from .rules import binary_rent_time, conformal_rent_time, ski_rental_cost
from .scheduling import JobScheduler, Schedule, ScheduleResult

__all__ = [
    "HistogramCalibrator",
    "JobScheduler",
    "Schedule",
    "ScheduleResult",
    "SkiRental",
    "binary_rent_time",
    "conformal_rent_time",
    "max_calibration_error",
    "ski_rental_cost",
]
