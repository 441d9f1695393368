"""Bins of equal mass that keep equal scores together, and the error that is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from paperworks.online import HistogramCalibrator, JobScheduler, max_calibration_error

few = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])
pytestmark = pytest.mark.filterwarnings("ignore:.*labels are too few")


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(26, 900), st.sampled_from(["few", "many", "mixed"]))
@settings(max_examples=150)
def test_bins(seed: int, n_bins: int, m: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random(m) if kind == "many" else rng.choice([0.0, 0.1, 0.25, 0.5, 1.0], m)
    if kind == "mixed":
        scores = np.where(rng.random(m) < 0.5, scores, rng.random(m))
    labels = rng.random(m) < scores
    labels[:2] = [False, True]
    calibrator = HistogramCalibrator(n_bins).fit(scores, labels)
    edges, values = calibrator.bin_edges_, calibrator.bin_values_
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert values.size == edges.size - 1 <= min(n_bins, max(1, m // 25))
    place = np.array([max(j for j in range(values.size) if edges[j] <= s) for s in scores])  # the definition
    for j in range(values.size):
        members = labels[place == j]
        assert members.size == calibrator.bin_counts_[j] >= 25
        assert values[j] == pytest.approx(members.mean(), abs=1e-12)
    np.testing.assert_array_equal(calibrator.transform(scores), values[place])
    assert max_calibration_error(calibrator.transform(scores), labels, n_bins) < 1e-12
    if kind == "many":
        nominal = m / min(n_bins, max(1, m // 25))
        assert np.abs(calibrator.bin_counts_ - nominal).max() <= 1


def test_cuts_lie_halfway() -> None:
    scores = np.linspace(0, 1, 101)[:100]
    calibrator = HistogramCalibrator(4).fit(scores, np.arange(100) % 2)
    np.testing.assert_allclose(calibrator.bin_edges_, [0, 0.245, 0.495, 0.745, 1])


@pytest.mark.parametrize("zeros", [25, 60, 975])
def test_binary_scores_give_two_bins(zeros: int) -> None:
    scores = np.repeat([0.0, 1.0], [zeros, 1000 - zeros])
    labels = np.random.default_rng(0).random(1000) < 0.3 + 0.4 * scores
    calibrator = HistogramCalibrator(20).fit(scores, labels)
    np.testing.assert_array_equal(calibrator.bin_edges_, [0, 0.5, 1])
    np.testing.assert_allclose(calibrator.bin_values_, [labels[:zeros].mean(), labels[zeros:].mean()])


def test_a_long_run_is_never_split() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.random(500), np.full(500, 0.5)])
    calibrator = HistogramCalibrator(10).fit(scores, rng.random(1000) < scores)
    inside = np.searchsorted(calibrator.bin_edges_, 0.5, side="right") - 1
    left, right = calibrator.bin_edges_[inside : inside + 2]
    assert calibrator.bin_counts_[inside] == np.sum((scores >= left) & (scores < right)) > 500


def test_neighbouring_floats_are_kept_apart() -> None:
    low = 0.3
    scores = np.repeat([low, np.nextafter(low, 1)], 30)
    calibrator = HistogramCalibrator(2).fit(scores, np.repeat([0, 1], 30))
    np.testing.assert_array_equal(calibrator.transform(scores), np.repeat([0.0, 1.0], 30))
    last = np.repeat([np.nextafter(1, 0), 1.0], 30)
    assert (np.diff(HistogramCalibrator(2).fit(last, np.repeat([0, 1], 30)).bin_edges_) > 0).all()


def test_few_labels_give_fewer_bins_and_a_warning() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(80)
    with pytest.warns(UserWarning, match=r"80 labels are too few for 20 bins of 25; 3 bin\(s\)"):
        calibrator = HistogramCalibrator().fit(scores, rng.random(80) < scores)
    assert calibrator.bin_values_.size == 3


@pytest.mark.parametrize(
    ("scores", "labels", "named"),
    [
        ([0.1, 0.2], [0, 0], "of class 0"),
        ([0.1, 0.2], [0, 2], "labels must be 0 or 1, got 2.0"),
        ([0.1, 1.2], [0, 1], "scores"),
        ([0.1], [0, 1], "equally long"),
        ([], [], "got none"),
    ],
)
def test_bad_input_is_named(scores: list[float], labels: list[int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        HistogramCalibrator(1).fit(scores, labels)
    with pytest.raises(NotFittedError):
        HistogramCalibrator(1).transform([0.5])


def test_max_calibration_error_by_hand() -> None:
    p = np.repeat([0.2, 0.6, 0.9], [50, 50, 20])
    y = np.concatenate([np.repeat([0, 1], [35, 15]), np.repeat([0, 1], [10, 40]), np.zeros(20, int)])
    assert max_calibration_error(p, y, 20) == pytest.approx(0.2)  # the third is too small
    assert max_calibration_error(p, y, 20, min_count=20) == pytest.approx(0.9)
    assert max_calibration_error(p, y, 1) == pytest.approx(abs(p.mean() - y.mean()))
    assert max_calibration_error(p[:20], y[:20], 20) == 0
    assert max_calibration_error([], [], 20) == 0
    for bad, named in (((p, y[1:], 5), "equally long"), ((p, y, 0), "n_bins"), ((p, y, 5, 0), "min_count")):
        with pytest.raises(ValueError, match=named):
            max_calibration_error(*bad)


def test_measured_error_finds_a_known_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.8, 200_000)
    y = rng.random(p.size) < p + 0.1
    assert max_calibration_error(p, y, 10) == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize("calibrator", ["histogram", "isotonic", "platt"])
def test_each_calibrator_finds_the_law(calibrator: str) -> None:
    """Scores are the logit of the truth halved and moved: all three undo it."""
    rng = np.random.default_rng(0)
    truth = 1 / (1 + np.exp(-rng.normal(size=40_000)))
    scores = 1 / (1 + np.exp(-0.5 * np.log(truth / (1 - truth)) - 1))
    fitted = JobScheduler(0.3, calibrator=calibrator).fit(scores, rng.random(truth.size) < truth).calibrator_
    found = np.asarray(fitted.transform(scores))
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.03 < np.sqrt(np.mean((scores - truth) ** 2))
    if calibrator == "platt":
        assert np.abs(found - truth).max() < 0.02
