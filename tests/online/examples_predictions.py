import numpy as np
from numpy.typing import NDArray

from paperworks.online import HistogramCalibrator, JobScheduler, Schedule, ScheduleResult, SkiRental
from tests.battery import Example


def scores_and_labels(dtype: str) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    return scores.astype(dtype), rng.random(2000) < 0.9 * scores


def use_rental(rental: SkiRental, dtype: str) -> NDArray[np.float64]:
    scores, long = scores_and_labels(dtype)
    durations = np.where(long, 90.0, 10.0).astype(dtype)
    rental.fit(scores, durations)
    found = [rental.alpha_, rental.mse_, rental.global_bound_, rental.robustness_, rental.score(scores, durations)]
    return np.concatenate([found, rental.rent_time(scores), rental.bound(scores)])


def use_scheduler(scheduler: JobScheduler, dtype: str) -> NDArray[np.float64]:
    scores, urgent = scores_and_labels(dtype)
    result = scheduler.fit(scores, urgent).run(scores[:200], urgent[:200])
    return np.concatenate([result.completion_times, [result.cost, result.regret, scheduler.expected_regret(scores, 9)]])


def use_calibrator(calibrator: HistogramCalibrator, dtype: str) -> NDArray[np.float64]:
    scores, labels = scores_and_labels(dtype)
    return calibrator.fit(scores, labels).transform(scores)


def schedule(seed: int) -> Schedule:
    scores, _ = scores_and_labels("float64")
    return JobScheduler(0.3, calibrator=None, random_state=seed).schedule(scores[:50])


def result(seed: int) -> ScheduleResult:
    scores, urgent = scores_and_labels("float64")
    return JobScheduler(0.3, calibrator=None, random_state=seed).run(scores[:50], urgent[:50])


EXAMPLES = {
    "SkiRental": Example(make=lambda seed: SkiRental(30.0, alpha="heldout", random_state=seed), use=use_rental),
    "JobScheduler": Example(make=lambda seed: JobScheduler(0.3, random_state=seed), use=use_scheduler),
    "HistogramCalibrator": Example(make=lambda seed: HistogramCalibrator(10), use=use_calibrator),
    "Schedule": Example(make=schedule, use=lambda given, dtype: given.order.astype(dtype)),
    "ScheduleResult": Example(make=result, use=lambda given, dtype: given.completion_times.astype(dtype)),
}
