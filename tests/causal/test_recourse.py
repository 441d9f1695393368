"""The estimator: recommendations, rounds and reports."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from paperworks.causal import CostModel, ImprovementRecourse, Recommendation

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "income": rng.normal(30, 8, 400),
        "debt": rng.exponential(10, 400),
        "age": rng.integers(20, 24, 400),
        "owner": rng.random(400) < 0.5,
    }
)
LABEL = (FRAME.income - FRAME.debt + rng.normal(0, 4, 400) > 20).astype(int)
METHODS = ("linucb", "bwo", "gp", "nearest", "trust", "random")


def fitted(**parameters: object) -> ImprovementRecourse:
    """Return a new object fitted to the first 300 rows."""
    key = repr(sorted(parameters.items()))
    if key not in FITTED:
        recourse = ImprovementRecourse(LogisticRegression(), **{"random_state": 0, "alpha": 2.0, **parameters})
        FITTED[key] = recourse.fit(FRAME[:300], LABEL[:300])
    return copy.deepcopy(FITTED[key])


FITTED: dict[str, ImprovementRecourse] = {}
PLAIN = fitted()
REJECTED = FRAME[300:][PLAIN.estimator_.predict(FRAME[300:].astype(float)) == 0].reset_index(drop=True)


def persons(n: int, seed: int = 0) -> pd.DataFrame:
    return REJECTED.iloc[np.random.default_rng(seed).integers(len(REJECTED), size=n)]


def state(recourse: ImprovementRecourse) -> bytes:
    return pickle.dumps((recourse.bandit_, recourse._entries, recourse._pending, recourse._closed, recourse._open))


def bits(recourse: ImprovementRecourse) -> list[bytes]:
    """All numbers of the state, byte for byte, whatever shares memory with what."""
    bandit = recourse.bandit_
    parts = [pickle.dumps(tuple(map(str, (recourse._entries, recourse._pending, recourse._closed, recourse._open))))]
    for _, x in REJECTED[:5].iterrows():
        parts += [part.tobytes() for part in bandit.rank(recourse._situation(x)[1])]
    for name in ("theta_", "precision_", "_told", "arrival_", "_window", "_current", "threshold_", "n_rounds_"):
        if hasattr(bandit, name):
            parts.append(np.asarray(getattr(bandit, name), dtype=float).tobytes())
    if hasattr(bandit, "_rng"):
        parts.append(str(bandit._rng.bit_generator.state).encode())
    if hasattr(bandit, "_records"):
        records = bandit._records
        parts += [records.rows.tobytes(), records.targets.tobytes(), str((records._since_fit, records._news)).encode()]
    return parts


@pytest.mark.parametrize(
    ("method", "cost"), [*((method, "norm") for method in METHODS), ("linucb", "mps"), ("bwo", "mahalanobis")]
)
def test_targets_are_favourable_and_immutable_features_stay(method: str, cost: str) -> None:
    recourse = fitted(method=method, cost=cost, immutable=["age", 3], n_estimators=10)
    found = 0
    for _, x in persons(15).iterrows():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            advice = recourse.recommend(x)
        if advice.candidate < 0:
            assert method == "trust"
            continue
        found += 1
        assert isinstance(advice, Recommendation)
        assert advice.action["age"] == 0.0
        assert advice.action["owner"] == 0.0
        assert (advice.target.to_numpy() == recourse.candidates_[advice.candidate]).all()
        np.testing.assert_allclose(x.to_numpy(float) + advice.action, advice.target, rtol=1e-12)
        assert recourse.estimator_.predict(advice.target.to_frame().T)[0] == 1
        assert 0 < advice.acceptance <= 1
        assert advice.cost > 0
        scale = 2 if cost == "mahalanobis" else 1
        assert advice.acceptance == pytest.approx(np.exp(-advice.cost / 4 / scale))
    assert found > (0 if method == "trust" else 14)


def test_costs_are_those_of_the_scaled_features() -> None:
    for cost in ("norm", "mahalanobis", "mps"):
        recourse = fitted(cost=cost)
        advice = recourse.recommend(REJECTED.iloc[0])
        table = recourse.scaler_.transform(FRAME[:300].to_numpy(float))
        x, target = (recourse.scaler_.transform(np.asarray(v, float)[None]) for v in (REJECTED.iloc[0], advice.target))
        assert advice.cost == pytest.approx(CostModel(cost).fit(table).cost(x[0], target)[0], rel=1e-9)


@given(st.floats(10, 40), st.floats(0, 20), st.floats(0, 20))
@settings(max_examples=15, deadline=None)
def test_bounds_hold_exactly(low: float, width: float, debt: float) -> None:
    limits = {"income": (low, low + width), "debt": (None, debt)}
    rows = FRAME[:300].sample(frac=1, random_state=0)
    free = ImprovementRecourse(LogisticRegression(), max_candidates=400, random_state=0).fit(rows, LABEL[rows.index])
    inside = free.candidates().query("@low <= income <= @low + @width and debt <= @debt")
    recourse = ImprovementRecourse(LogisticRegression(), bounds=limits, random_state=0)
    if inside.empty:
        with pytest.raises(ValueError, match="within bounds"):
            recourse.fit(rows, LABEL[rows.index])
        return
    recourse.fit(rows, LABEL[rows.index])
    pd.testing.assert_frame_equal(recourse.candidates().reset_index(drop=True), inside.reset_index(drop=True))
    target = recourse.recommend(REJECTED.iloc[0]).target
    assert low <= target["income"] <= low + width
    assert target["debt"] <= debt


def test_candidates_come_from_rows_that_the_classifier_has_not_seen() -> None:
    seen = []

    class Spy(LogisticRegression):
        def fit(self, X: pd.DataFrame, y: np.ndarray) -> "Spy":
            seen.append((X.copy(), y.copy()))
            return super().fit(X, y)

    recourse = ImprovementRecourse(Spy(), candidate_fraction=0.4, max_candidates=30, random_state=0).fit(FRAME, LABEL)
    ((X, y),) = seen
    assert len(X) == 240
    assert abs(y.mean() - LABEL.mean()) < 0.01
    assert recourse.candidates_.shape == (30, 4)
    assert not set(map(tuple, X.to_numpy())) & set(map(tuple, recourse.candidates_))
    assert set(map(tuple, recourse.candidates_)) <= set(map(tuple, FRAME.to_numpy(float)))
    assert (recourse.estimator_.predict(recourse.candidates()) == 1).all()


def test_frozen_classifier_is_used_as_it_is() -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME.to_numpy(float), LABEL)
    before = pickle.dumps(model)
    recourse = ImprovementRecourse(FrozenEstimator(model), random_state=0).fit(FRAME, LABEL)
    assert recourse.estimator_.estimator is model
    assert pickle.dumps(model) == before
    with pytest.raises(NotFittedError):
        ImprovementRecourse(FrozenEstimator(LogisticRegression())).fit(FRAME, LABEL)


def test_outlier_limit_keeps_odd_candidates_out() -> None:
    free, strict = fitted(), fitted(outlier_limit=0.5)
    assert (free.candidates_ == strict.candidates_).all()
    x = REJECTED.iloc[0]
    kept = strict.explain(x, top=999).candidate
    assert 0 < len(kept) < len(free.explain(x, top=999))
    centre = free.candidates_.mean(axis=0)
    spread = free.candidates_.std(axis=0)
    odd = np.setdiff1d(np.arange(len(free.candidates_)), kept)
    distance = np.abs((free.candidates_ - centre) / spread).sum(axis=1)
    assert distance[odd].mean() > distance[kept].mean()
    with pytest.warns(UserWarning, match="no candidate is feasible"):
        advice = fitted(outlier_limit=0.0).recommend(x)
    assert (advice.candidate, advice.action, advice.target, advice.feasible_count) == (-1, None, None, 0)
    assert len(fitted(outlier_limit=1.0).explain(x, top=999)) == len(free.candidates_)


def test_own_acceptance() -> None:
    recourse = fitted(acceptance=lambda cost, d: 1 / (1 + d * cost))
    advice = recourse.recommend(REJECTED.iloc[0])
    assert advice.acceptance == pytest.approx(1 / (1 + 4 * advice.cost))
    for bad, match in (
        (lambda c, d: c + 1, "probabilities"),
        (lambda c, d: 0.5, "one probability"),
        (lambda c, d: c * np.nan, "NaN"),
    ):
        broken = fitted(acceptance=bad)
        before = state(broken)
        with pytest.raises(ValueError, match=match):
            broken.recommend(REJECTED.iloc[0])
        assert state(broken) == before


# Rounds and reports


def test_late_double_and_wrong_reports() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    m = ImprovementRecourse(random_state=0).fit(X[:400], y[:400])
    bad = X[400:][m.estimator_.predict(X[400:]) == 0]
    a, b = m.recommend(bad[0]), m.recommend(bad[1])
    m = pickle.loads(pickle.dumps(m))
    m.report(b.ticket)
    m.report(a.ticket)
    assert m.history_.delay.tolist() == [2, 1]
    before = state(m)
    for ticket in (b.ticket, "no such ticket", 2, -1, None, True, [0]):
        with pytest.raises(ValueError, match="ticket"):
            m.report(ticket)
    with pytest.raises(TypeError, match="improved"):
        m.report(a.ticket, "yes")
    assert state(m) == before
    m.tick(50)
    assert np.count_nonzero(m.bandit_.theta_) == len({a.candidate, b.candidate})
    c = m.recommend(bad[2])
    m.tick(50)
    before = state(m)
    with pytest.warns(UserWarning, match="past the time-out"):
        m.report(c.ticket)
    assert state(m) == before
    assert m.history_.improved.isna().tolist() == [False, False, True]


@pytest.mark.parametrize("timeout", [1, 3])
def test_report_counts_up_to_the_last_round_before_the_timeout(timeout: int) -> None:
    for rounds in range(6):
        recourse = fitted(timeout=timeout, auto_tick=False)
        advice = recourse.recommend(REJECTED.iloc[0])
        if rounds:
            recourse.tick(rounds)
        if rounds < timeout:
            recourse.report(advice.ticket)
        else:
            with pytest.warns(UserWarning, match="time-out"):
                recourse.report(advice.ticket)
        recourse.tick()
        v = 2.0 + advice.acceptance**2
        expected = advice.acceptance / v if rounds < timeout else 0.0
        assert recourse.bandit_.theta_[advice.candidate] == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.tuples(st.sampled_from(["recommend", "report", "fail", "tick"]), st.integers(0, 9)), max_size=40))
@settings(max_examples=40, deadline=None)
def test_reports_are_counted_exactly(operations: list[tuple[str, int]]) -> None:
    """Any order of calls, against a ledger kept by hand."""
    recourse = copy.deepcopy(PLAIN)
    closed, is_open, tickets, told, arrivals = 0, False, [], set(), []
    for name, number in operations:
        if name == "recommend":
            closed += is_open
            is_open = True
            advice = recourse.recommend(REJECTED.iloc[number])
            tickets.append((closed, advice))
        elif name == "tick":
            recourse.tick(number % 4 + 1)
            closed, is_open = closed + number % 4 + 1, False
        elif number < len(tickets):
            made, advice = tickets[number]
            if number in told:
                with pytest.raises(ValueError, match="reported before"):
                    recourse.report(advice.ticket, name == "report")
            elif closed - made >= 10:
                with pytest.warns(UserWarning, match="time-out"):
                    recourse.report(advice.ticket, name == "report")
            else:
                recourse.report(advice.ticket, name == "report")
                told.add(number)
                if name == "report":
                    arrivals.append(advice)
    recourse.tick()
    b, v = np.zeros(len(recourse.candidates_)), np.full(len(recourse.candidates_), 2.0)
    for _, advice in tickets:
        v[advice.candidate] += advice.acceptance**2
    for advice in arrivals:
        b[advice.candidate] += advice.acceptance
    np.testing.assert_allclose(recourse.bandit_.theta_, b / v, rtol=1e-12)
    assert recourse.bandit_.n_rounds_ == closed + 1
    assert recourse.history_.improved.notna().sum() == len(told)


@pytest.mark.parametrize("method", ["linucb", "bwo", "gp"])
def test_order_of_reports_inside_a_round_does_not_matter(method: str) -> None:
    one, other = (fitted(method=method, auto_tick=False, n_estimators=10) for _ in range(2))
    for recourse, turn in ((one, 1), (other, -1)):
        for start in range(4):
            advices = [recourse.recommend(x) for _, x in persons(8, start).iterrows()]
            for advice in advices[::turn]:
                if advice.ticket % 3:
                    recourse.report(advice.ticket)
            recourse.tick()
    assert state(one) == state(other)
    assert one.history_.improved.sum() > 15


def test_failures_say_no_more_than_silence() -> None:
    for method in ("linucb", "bwo"):
        told, silent = (fitted(method=method, n_estimators=10) for _ in range(2))
        for i, (_, x) in enumerate(persons(20).iterrows()):
            a, b = told.recommend(x), silent.recommend(x)
            assert a.candidate == b.candidate
            if i % 3 == 0:
                told.report(a.ticket)
                silent.report(b.ticket)
            else:
                told.report(a.ticket, improved=False)
        assert pickle.dumps(told.bandit_) == pickle.dumps(silent.bandit_)
        assert told.history_.improved.eq(False).sum() == 13


def run(recourse: ImprovementRecourse, people: pd.DataFrame, lucky: np.ndarray, delays: np.ndarray) -> list[int]:
    """Serve people; what happens to each is fixed beforehand, and told after its delay if ever."""
    choices, due = [], {}
    for t, (_, x) in enumerate(people.iterrows()):
        advice = recourse.recommend(x)
        choices.append(advice.candidate)
        if lucky[t] and advice.candidate % 2 == 0:
            due.setdefault(t + delays[t] - 1, []).append(advice.ticket)
        for ticket in due.pop(t, []):
            recourse.report(ticket)
    return choices


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:no candidate")
def test_the_future_does_not_reach_the_past(method: str) -> None:
    """Other persons, outcomes and delays from round 25 on leave the first 25 recommendations as they were."""
    n, cut = 50, 25
    source = np.random.default_rng(3)
    people, lucky, delays = persons(n, 5), source.random(n) < 0.7, source.integers(1, 10, n)
    base = run(fitted(method=method, n_estimators=10, immutable=[3]), people, lucky, delays)
    changed = 0
    for seed in range(2):
        shuffled = np.concatenate([np.arange(cut), cut + np.random.default_rng(seed).permutation(n - cut)])
        other = run(
            fitted(method=method, n_estimators=10, immutable=[3]),
            people.iloc[shuffled],
            lucky[shuffled],
            delays[shuffled],
        )
        assert other[:cut] == base[:cut]
        changed += other[cut:] != base[cut:]
    assert changed == 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:no candidate")
def test_state_is_saved_and_restored_bit_for_bit(method: str) -> None:
    recourse = fitted(method=method, n_estimators=10)
    people = persons(40, 7)
    tickets = []
    for _, x in people[:15].iterrows():
        tickets.append(recourse.recommend(x).ticket)
        if tickets[-1] % 2 and recourse.history_.candidate.iloc[-1] >= 0:
            recourse.report(tickets[-1])
    # A round is open, reports are pending, other tickets may still be reported.
    copies = [pickle.loads(pickle.dumps(recourse)), copy.deepcopy(recourse)]
    results = []
    for one in (recourse, *copies):
        advices = []
        for i, (_, x) in enumerate(people[15:].iterrows()):
            advices.append(one.recommend(x))
            if i == 2 and one.history_.candidate.iloc[12] >= 0:
                one.report(tickets[12])
            if i % 2 and advices[-1].candidate >= 0:
                one.report(advices[-1].ticket)
        results.append(([tuple(map(str, advice)) for advice in advices], bits(one), one.history_))
    for advices, kept, history in results[1:]:
        assert advices == results[0][0]
        assert len(kept) > 12
        assert kept == results[0][1]
        pd.testing.assert_frame_equal(history, results[0][2])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("auto_tick", [True, False])
def test_explain_shows_what_recommend_compares_and_changes_nothing(method: str, auto_tick: bool) -> None:
    recourse = fitted(method=method, auto_tick=auto_tick, immutable=[3], n_estimators=10)
    compared = 0
    for i, (_, x) in enumerate(persons(30, 9).iterrows()):
        before = state(recourse)
        table = recourse.explain(x, top=999)
        assert state(recourse) == before
        assert table.columns.tolist() == ["candidate", "value", "mean", "bonus", "cost", "acceptance"]
        np.testing.assert_allclose(table.value, table["mean"] + table.bonus)
        assert table.value.is_monotonic_decreasing
        pd.testing.assert_frame_equal(recourse.explain(x, top=3), table.head(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            advice = recourse.recommend(x)
        assert advice.feasible_count == len(table)
        if table.empty:
            assert advice.candidate == -1
            continue
        best = table.set_index("candidate").loc[advice.candidate]
        assert (advice.cost, advice.acceptance) == (best.cost, best.acceptance)
        if method in ("nearest", "trust", "linucb") or table["mean"].max() > 0:
            assert advice.candidate == table.candidate[0]
            compared += 1
        expected = {"linucb": best["mean"] / best.acceptance, "bwo": best["mean"], "gp": best["mean"]}.get(
            method, np.nan
        )
        np.testing.assert_allclose(advice.improvement, expected, rtol=1e-12)
        if advice.candidate % 2 == 0:
            recourse.report(advice.ticket)
        if not auto_tick and i % 3 == 2:
            recourse.tick()
    assert compared > (5 if method != "random" else -1)


def test_before_any_report_linucb_is_nearest_for_the_first_person() -> None:
    for _, x in persons(10).iterrows():
        first, nearest = fitted(alpha=20.0).recommend(x), fitted(method="nearest").recommend(x)
        assert first.candidate == nearest.candidate
        assert first.improvement == 0.0
        assert np.isnan(nearest.improvement)


def test_recommendations_learn_which_candidates_work() -> None:
    """Only targets with a high income really help, whatever the classifier says of the debt."""
    shares = {}
    for method in ("linucb", "bwo", "nearest"):
        recourse = fitted(method=method, alpha=20.0, n_estimators=20)
        works = []
        for i, (_, x) in enumerate(persons(160, 2).iterrows()):
            advice = recourse.recommend(x)
            works.append(advice.target["income"] > 32)
            if works[-1] and i % 4:  # every fourth report is lost
                recourse.report(advice.ticket)
        shares[method] = np.mean(works[-60:])
    assert shares["linucb"] > shares["nearest"] + 0.2
    assert shares["bwo"] > shares["nearest"] + 0.2


def test_persons_of_one_round_without_auto_tick() -> None:
    recourse = fitted(auto_tick=False)
    advices = [recourse.recommend(x) for _, x in persons(3).iterrows()]
    assert recourse.history_["round"].tolist() == [1, 1, 1]
    assert recourse.bandit_.n_rounds_ == 0
    recourse.report(advices[0].ticket)
    assert not recourse.bandit_.theta_.any()
    recourse.tick()
    assert recourse.bandit_.n_rounds_ == 1
    assert recourse.bandit_.theta_.any()


def test_infeasible_round_counts_and_takes_no_report() -> None:
    recourse = fitted(immutable=["age"])
    x = REJECTED.iloc[0].copy()
    x["age"] = 99
    with pytest.warns(UserWarning, match="no candidate is feasible"):
        advice = recourse.recommend(x)
    assert advice[1:4] == (None, None, -1)
    with pytest.raises(ValueError, match="nothing was recommended"):
        recourse.report(advice.ticket)
    recourse.recommend(REJECTED.iloc[1])
    assert recourse.history_["round"].tolist() == [1, 2]
    assert recourse.bandit_.n_rounds_ == 1
    assert recourse.explain(x).empty


# Input


def test_forms_of_a_person_agree() -> None:
    row = REJECTED.iloc[0]
    forms = [
        row,
        row[::-1],
        dict(row),
        REJECTED[:1],
        REJECTED[:1].iloc[:, ::-1],
        row.to_numpy(float),
        list(row),
        [list(row)],
    ]
    tables = [fitted().explain(form) for form in forms]
    for other in tables[1:]:
        pd.testing.assert_frame_equal(other, tables[0])
    array = ImprovementRecourse(LogisticRegression(), random_state=0).fit(
        FRAME[:300].to_numpy(float), LABEL[:300].to_numpy()
    )
    advice = array.recommend(row.to_numpy(float))
    assert isinstance(advice.action, np.ndarray)
    assert array.candidates().columns.tolist() == ["x0", "x1", "x2", "x3"]
    assert not hasattr(array, "feature_names_in_")
    assert fitted().feature_names_in_.tolist() == list(FRAME.columns)
    assert isinstance(fitted().recommend(row).action, pd.Series)


def test_result_is_not_a_view_of_the_candidates() -> None:
    recourse = fitted()
    advice = recourse.recommend(REJECTED.iloc[0])
    advice.target[:] = -1.0
    assert recourse.candidates_.min() >= 0


def test_categorical_columns_are_named() -> None:
    X = pd.DataFrame(
        {
            "income": rng.normal(3e4, 8e3, 200),
            "job": rng.choice(["clerk", "nurse"], 200),
            "since": pd.date_range("2020-01-01", periods=200),
        }
    )
    y = (X["income"] > 3e4).astype(int)
    for frame in (X, X.astype({"job": "category"}), X.astype({"job": "string"})):
        with pytest.raises(TypeError, match=r"encode.*'job'.*'since'"):
            ImprovementRecourse(random_state=0).fit(frame, y)
    coded = X.assign(job=pd.Categorical(rng.integers(0, 2, 200)), since=X.since - X.since[0])
    with pytest.raises(TypeError, match=r"'job'.*'since'"):
        ImprovementRecourse(random_state=0).fit(coded, y)


@pytest.mark.parametrize(
    ("X", "y", "error", "match"),
    [
        (FRAME, np.ones(400), ValueError, "at least 2 rows of each"),
        (FRAME, np.arange(400), ValueError, "binary"),
        (FRAME, LABEL[:399], ValueError, "one label per row"),
        (FRAME, np.where(LABEL == 1, "good", "bad"), TypeError, "y must be numeric"),
        (FRAME, np.where(LABEL == 1, 1.0, np.nan), ValueError, "NaN"),
        (FRAME.assign(debt=FRAME.debt.where(FRAME.debt > 1)), LABEL, ValueError, "'debt'"),
        (FRAME.assign(debt=np.inf), LABEL, ValueError, "NaN or infinite"),
        (FRAME.to_numpy(float)[:, 0], LABEL, ValueError, "2 dimension"),
        (FRAME.to_numpy(float)[:, :0], LABEL, ValueError, "at least one column"),
        (FRAME.set_axis(["a", "b", "a", "c"], axis=1), LABEL, ValueError, "'a' more than once"),
        (np.array([["a"]] * 400), LABEL, TypeError, "numeric"),
    ],
)
def test_bad_tables(X: object, y: object, error: type, match: str) -> None:
    recourse = ImprovementRecourse(LogisticRegression(), random_state=0)
    with pytest.raises(error, match=match):
        recourse.fit(X, y)
    assert not hasattr(recourse, "bandit_")
    assert not hasattr(recourse, "history_")


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"method": "ucb"}, ValueError, "method"),
        ({"cost": "l2"}, ValueError, "cost"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"alpha": 0}, ValueError, "alpha"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"delta": 1}, ValueError, "delta"),
        ({"bonus": "root"}, ValueError, "bonus"),
        ({"sample_ratio": 0.9}, ValueError, "sample_ratio"),
        ({"gamma": 2.0}, ValueError, "gamma"),
        ({"refit_every": 0}, ValueError, "refit_every"),
        ({"n_estimators": 1.5}, TypeError, "n_estimators"),
        ({"max_candidates": 0}, ValueError, "max_candidates"),
        ({"candidate_fraction": 1.0}, ValueError, "candidate_fraction"),
        ({"candidate_fraction": 0.001}, ValueError, "candidate_fraction"),
        ({"outlier_limit": -1.0}, ValueError, "outlier_limit"),
        ({"acceptance": 0.5}, TypeError, "acceptance"),
        ({"immutable": ["agee"]}, ValueError, "'agee'"),
        ({"immutable": [4]}, ValueError, "immutable"),
        ({"immutable": "age"}, TypeError, "immutable"),
        ({"bounds": {"incom": (0, 1)}}, ValueError, "'incom'"),
        ({"bounds": {"income": (2, 1)}}, ValueError, "low <= high"),
        ({"bounds": {"income": 3}}, TypeError, "income"),
        ({"bounds": [1]}, TypeError, "bounds"),
        ({"bounds": {"income": (1e6, None)}}, ValueError, r"of 99 rows .* 0 of them within bounds"),
        ({"estimator": StandardScaler()}, TypeError, "estimator"),
        ({"random_state": "seed"}, TypeError, "random_state"),
    ],
)
def test_bad_parameters_leave_a_fitted_object_as_it_was(parameters: dict, error: type, match: str) -> None:
    recourse = fitted()
    recourse.recommend(REJECTED.iloc[0])
    before = state(recourse)
    recourse.set_params(**parameters)
    with pytest.raises(error, match=match):
        recourse.fit(FRAME[:300], LABEL[:300])
    assert state(recourse) == before


@pytest.mark.parametrize(
    ("x", "error", "match"),
    [
        ([1.0, 2.0], ValueError, "4 features"),
        (REJECTED[:2], ValueError, "frame of 2 rows"),
        ([20.0, np.nan, 22, 1], ValueError, "NaN"),
        (REJECTED.iloc[0].rename({"debt": "depth"}), ValueError, "features"),
        (REJECTED.iloc[0].astype(object).replace({REJECTED.age[0]: "young"}), TypeError, "'age'"),
        (["a", "b", "c", "d"], TypeError, "numeric"),
        ([60.0, 0.0, 22, 1], ValueError, "allow_favourable"),
    ],
)
def test_bad_persons_change_nothing(x: object, error: type, match: str) -> None:
    recourse = fitted()
    recourse.recommend(REJECTED.iloc[1])
    before = state(recourse)
    for call in (recourse.recommend, recourse.explain):
        with pytest.raises(error, match=match):
            call(x)
    assert state(recourse) == before


def test_favourable_persons_on_request() -> None:
    assert fitted(allow_favourable=True).recommend([60.0, 0.0, 22, 1]).candidate >= 0


def test_no_candidate_says_how_many_rows_were_looked_at() -> None:
    class Never(LogisticRegression):
        def predict(self, X: object) -> np.ndarray:
            return np.zeros(len(X), dtype=int)

    with pytest.raises(ValueError, match=r"of 132 rows kept from the classifier 0 are predicted favourable"):
        ImprovementRecourse(Never(), random_state=0).fit(FRAME, LABEL)


def test_constant_column_is_warned_of_and_costs_nothing() -> None:
    X = FRAME[:300].assign(country=7.0)
    with pytest.warns(UserWarning, match="country"):
        recourse = ImprovementRecourse(LogisticRegression(), random_state=0).fit(X, LABEL[:300])
    x = REJECTED.iloc[0].astype(float)
    here, abroad = (recourse.explain(pd.concat([x, pd.Series({"country": c})]), top=9) for c in (7.0, 9.0))
    assert np.isfinite(here.to_numpy()).all()
    np.testing.assert_allclose(here.cost, abroad.cost)


def test_unfitted_and_bad_calls() -> None:
    for call in (lambda r: r.recommend([1]), lambda r: r.report(0), lambda r: r.tick(), lambda r: r.candidates()):
        with pytest.raises(NotFittedError):
            call(ImprovementRecourse())
    for rounds in (0, -1, 1.5):
        with pytest.raises((ValueError, TypeError), match="rounds"):
            fitted().tick(rounds)
    with pytest.raises(ValueError, match="top"):
        fitted().explain(REJECTED.iloc[0], top=0)


def test_clone_and_seeds() -> None:
    recourse = clone(fitted(random_state=3))
    assert not hasattr(recourse, "bandit_")
    forest = ImprovementRecourse(RandomForestClassifier(5), random_state=1)
    one, two = (clone(forest).fit(FRAME, LABEL) for _ in range(2))
    assert (one.candidates_ == two.candidates_).all()
    assert one.estimator_.random_state is not None  # an unset seed is set, so that the result can be repeated
    other = ImprovementRecourse(RandomForestClassifier(5), random_state=2).fit(FRAME, LABEL)
    assert one.candidates_.shape != other.candidates_.shape or (one.candidates_ != other.candidates_).any()
