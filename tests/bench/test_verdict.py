"""Verdicts: known answers, what failed trials do, invariances, and the error rates that are promised."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from paperworks.bench.study import SCALES, Claim, Contender, Metric, Paper, Scale, Study
from paperworks.bench.verdict import (
    ClaimVerdict,
    forest_table,
    holm,
    judge,
    mean_interval,
    paired_differences,
    pairwise_table,
    summary_table,
)

HIGHER = Metric("accuracy", "higher")
LOWER = Metric("loss", "lower")
NOISE = np.array([0.01, -0.02, 0.015, -0.005, 0.02, -0.01, 0.0, -0.01, 0.005, -0.005])


def study(*claims: Claim, metrics: tuple[Metric, ...] = (HIGHER, LOWER), contenders: str = "ours peer other") -> Study:
    return Study(
        slug="made-up",
        family="tests",
        paper=Paper("A title", "An Author", "A venue 2025", "https://example.org"),
        question="Is it better?",
        datasets=("b", "a"),
        contenders=tuple(Contender(n, "method" if n == "ours" else "peer", "here") for n in contenders.split()),
        metrics=metrics,
        claims=claims,
        scales={name: Scale(10) for name in SCALES},
        trial=lambda contender, dataset, seed, scale: {},
    )


def rows(contender: str, metric: str, values: Any, dataset: str = "a", first_seed: int = 0) -> pd.DataFrame:
    values = np.asarray(values, dtype=float)
    return pd.DataFrame(
        {
            "contender": contender,
            "dataset": dataset,
            "dataset_label": dataset.upper(),
            "seed": np.arange(first_seed, first_seed + len(values)),
            "status": "ok",
            "error": "",
            metric: values,
        }
    )


def frame(metric: str, dataset: str = "a", **values: Any) -> pd.DataFrame:
    return pd.concat([rows(name, metric, v, dataset) for name, v in values.items()], ignore_index=True)


def claim(kind: Any = "better", metric: str = "accuracy", against: str | float = "peer", **more: Any) -> Claim:
    return Claim("Ours is good", metric, "ours", against, kind, **more)


def judged(results: pd.DataFrame, wanted: Claim) -> ClaimVerdict:
    return judge(study(wanted), results).claims[0]


def fail(results: pd.DataFrame, contender: str, seeds: list[int]) -> pd.DataFrame:
    hit = (results["contender"] == contender) & results["seed"].isin(seeds)
    metrics = [name for name in ("accuracy", "loss") if name in results]
    results.loc[hit, metrics] = np.nan
    results.loc[hit, "status"] = "failed"
    results.loc[hit, "error"] = "ValueError: no"
    return results


# ---------------------------------------------------------------------------------------------- each kind and direction


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("kind", "margin", "advantage", "verdict"),
    [
        ("better", 0.0, 0.1, "holds"),
        ("better", 0.0, -0.1, "fails"),
        ("better", 0.0, 0.0, "inconclusive"),
        ("better", 0.2, 0.1, "fails"),
        ("better", 0.05, 0.1, "holds"),
        ("not_worse", 0.0, 0.1, "holds"),
        ("not_worse", 0.2, -0.1, "holds"),
        ("not_worse", 0.05, -0.1, "fails"),
        ("not_worse", 0.1, -0.1, "inconclusive"),
    ],
)
def test_differences_are_held_against_the_margin(
    sign: float, kind: str, margin: float, advantage: float, verdict: str
) -> None:
    metric = "accuracy" if sign > 0 else "loss"
    results = frame(metric, ours=0.5 + sign * (advantage + NOISE), peer=np.full(10, 0.5))
    found = judged(results, claim(kind, metric, margin=margin))
    assert found.verdict == verdict
    assert found.threshold == (margin if kind == "better" else -margin)
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(advantage, abs=1e-12)
    assert found.interval.low < advantage < found.interval.high
    assert (found.interval.n_pairs, found.interval.method) == (10, "bca")
    assert found.notes == ()


@pytest.mark.parametrize(
    ("metric", "ratio", "margin", "verdict"),
    [
        ("loss", 0.5, 0.6, "holds"),
        ("loss", 0.5, 0.4, "fails"),
        ("loss", 0.5, 0.5, "inconclusive"),
        ("accuracy", 2.0, 1.5, "holds"),
        ("accuracy", 2.0, 2.5, "fails"),
        ("accuracy", 0.9, 0.8, "holds"),
    ],
)
def test_ratios_are_geometric_means_of_subject_over_against(
    metric: str, ratio: float, margin: float, verdict: str
) -> None:
    peer = np.linspace(1, 5, 10)
    found = judged(frame(metric, ours=peer * ratio * np.exp(NOISE), peer=peer), claim("ratio", metric, margin=margin))
    assert found.verdict == verdict
    assert found.threshold == margin
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(ratio, rel=1e-12)
    assert found.interval.low < ratio < found.interval.high


def test_a_number_is_a_one_sample_comparison() -> None:
    results = rows("ours", "loss", 0.08 + NOISE)
    assert judged(results, claim("better", "loss", 0.1)).verdict == "holds"
    assert judged(results, claim("better", "loss", 0.07)).verdict == "fails"
    found = judged(results, claim("ratio", "loss", 0.16, margin=0.6))
    assert found.verdict == "holds"
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(math.exp(np.log((0.08 + NOISE) / 0.16).mean()))


@pytest.mark.parametrize(("kind", "verdict"), [("better", "fails"), ("not_worse", "holds"), ("ratio", "holds")])
def test_equality_with_the_threshold(kind: str, verdict: str) -> None:
    # 0.9 - 0.85 is 0.05 up to rounding only; the peer's values differ so that no other number is special.
    peer = np.linspace(0.6, 0.9, 8)
    if kind == "ratio":
        ours, margin = peer * 0.7, 0.7
    else:
        ours, margin = peer + (0.05 if kind == "better" else -0.05), 0.05
    found = judged(frame("accuracy", ours=ours, peer=peer), claim(kind, margin=margin))
    assert found.verdict == verdict


def test_equal_values_give_a_constant_interval() -> None:
    found = judged(frame("accuracy", ours=[0.75] * 6, peer=[0.5] * 6), claim("better", margin=0.2))
    assert found.interval is not None
    assert (found.interval.low, found.interval.high, found.interval.method) == (0.25, 0.25, "constant")
    assert found.verdict == "holds"


def test_five_pairs_decide_nothing() -> None:
    five = frame("accuracy", ours=0.9 + NOISE[:5], peer=0.1 + np.zeros(5))
    six = frame("accuracy", ours=0.9 + NOISE[:6], peer=0.1 + np.zeros(6))
    found = judged(five, claim())
    assert found.verdict == "inconclusive"
    assert found.interval is not None
    assert found.interval.n_pairs == 5
    assert found.interval.low > 0
    assert "Only 5 pairs" in found.notes[-1]
    assert judged(six, claim()).verdict == "holds"


def test_binary_metric_has_the_exact_interval() -> None:
    # 30 of 30: the lower bound of Clopper and Pearson is (alpha / 2) ** (1 / n)
    results = rows("ours", "accuracy", np.ones(30))
    found = judged(results, claim("better", against=0.9))
    assert found.interval is not None
    assert found.interval.method == "exact-binomial"
    assert found.interval.low == pytest.approx(0.025 ** (1 / 30) - 0.9)
    assert found.interval.high == pytest.approx(0.1)
    assert found.verdict == "inconclusive"
    assert judged(rows("ours", "accuracy", np.ones(60)), claim("better", against=0.9)).verdict == "holds"
    # the same as errors: 0 of 60
    found = judged(rows("ours", "loss", np.zeros(60)), claim("better", "loss", 0.1))
    assert found.verdict == "holds"
    assert found.interval is not None
    assert found.interval.low == pytest.approx(0.1 - (1 - 0.025 ** (1 / 60)))


def test_failed_trial_of_a_binary_metric_is_a_miss() -> None:
    results = fail(rows("ours", "accuracy", np.ones(60)), "ours", [0, 1])
    found = judged(results, claim("not_worse", against=0.9))
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(58 / 60 - 0.9)
    assert found.interval.low == pytest.approx(stats.beta.ppf(0.025, 58, 3) - 0.9)


def test_many_pairs_have_students_interval() -> None:
    x = np.random.default_rng(0).normal(0.1, 1, 1500)
    found = judged(frame("accuracy", ours=x, peer=np.zeros(1500)), claim())
    assert found.interval is not None
    assert found.interval.method == "student"
    low, high = stats.ttest_1samp(x, 0).confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


# ------------------------------------------------------------------------------------------------- failed, undefined


def test_failed_trials_of_the_subject_count_as_its_worst() -> None:
    ours, peer = 0.6 + NOISE, np.full(10, 0.5)
    results = fail(frame("accuracy", ours=ours, peer=peer), "ours", [3])
    found = judged(results, claim())
    effects = ours - peer
    effects[3] = 0.0  # min(worst of the others, threshold): the threshold
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(effects.mean())
    assert (found.n_imputed, found.interval.n_pairs) == (1, 10)
    assert found.notes == ("1 of 10 trials of ours failed; each counts as its worst result.",)
    # with a peer far ahead the worst defined effect is below the threshold
    results = fail(frame("accuracy", ours=ours, peer=peer + 0.3), "ours", [3])
    found = judged(results, claim())
    effects = ours - peer - 0.3
    effects[3] = np.delete(effects, 3).min()
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(effects.mean())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_undefined_counts_as_failed(value: float) -> None:
    ours = 0.4 + NOISE
    ours[3] = value
    results = frame("loss", ours=ours, peer=np.full(10, 0.5))
    found = judged(results, claim("better", "loss"))
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx((np.delete(0.1 - NOISE, 3).sum() + 0.0) / 10)
    assert found.notes == ("1 of 10 trials of ours has no finite value of loss; each counts as its worst result.",)


def test_no_claim_holds_on_many_failed_trials() -> None:
    n = 40
    good = frame("accuracy", ours=0.9 + np.tile(NOISE, 4), peer=np.full(n, 0.5))
    assert judged(fail(good.copy(), "ours", [0, 1, 2, 3]), claim()).verdict == "holds"
    found = judged(fail(good.copy(), "ours", [0, 1, 2, 3, 4]), claim())
    assert found.verdict == "inconclusive"
    assert found.interval is not None
    assert found.interval.low > 0
    assert "More than 10% of the trials" in found.notes[-1]


def test_failing_more_never_helps() -> None:
    results = frame("accuracy", ours=0.6 + NOISE, peer=np.full(10, 0.5))
    lows = []
    for n_failed in range(10):
        found = judged(fail(results.copy(), "ours", list(range(n_failed))), claim("not_worse", margin=0.01))
        assert found.interval is not None
        lows.append(found.interval.estimate)
    assert lows == sorted(lows, reverse=True)


def test_a_subject_that_always_fails_fails() -> None:
    results = fail(frame("accuracy", ours=np.ones(3), peer=np.zeros(3)), "ours", [0, 1, 2])
    found = judged(results, claim())
    assert (found.verdict, found.interval) == ("fails", None)
    assert "3 of 3 trials of ours failed" in found.notes[0]
    # where the other side failed as well, nothing can be said
    both = fail(results, "peer", [0, 1, 2])
    found = judged(both, claim())
    assert (found.verdict, found.interval) == ("inconclusive", None)
    # against a number, the number never fails
    assert judged(results, claim(against=0.5)).verdict == "fails"


def test_undefined_trials_of_the_other_side_are_left_out_and_said() -> None:
    peer = np.full(10, 0.5)
    peer[0], peer[1] = np.nan, -np.inf
    found = judged(fail(frame("accuracy", ours=0.6 + NOISE, peer=peer), "peer", [2]), claim())
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx((0.1 + NOISE[3:]).mean())
    assert found.interval.n_pairs == 7
    assert found.notes == ("3 pairs without a finite value of accuracy of peer left out.",)


def test_infinitely_good_is_left_out_and_said() -> None:
    ours = 0.6 + NOISE
    ours[0] = np.inf
    found = judged(frame("accuracy", ours=ours, peer=np.full(10, 0.5)), claim())
    assert found.interval is not None
    assert found.interval.n_pairs == 9
    assert "infinitely good" in found.notes[0]


def test_missing_pairs_are_left_out_and_said() -> None:
    results = pd.concat([rows("ours", "accuracy", 0.6 + NOISE), rows("peer", "accuracy", np.full(8, 0.5))])
    found = judged(results, claim())
    assert found.interval is not None
    assert found.interval.n_pairs == 8
    assert found.notes == ("2 pairs left out: only one of the two was run there.",)


@pytest.mark.parametrize("run", ["ours", "peer", "other"])
def test_not_run(run: str) -> None:
    found = judged(rows(run, "accuracy", 0.6 + NOISE), claim())
    assert (found.verdict, found.interval) == ("inconclusive", None)
    assert set(found.notes) == {f"{name} was not run." for name in ("ours", "peer") if name != run}


def test_no_rows_at_all() -> None:
    empty = rows("ours", "accuracy", [])
    assert judged(empty, claim()).verdict == "inconclusive"
    assert len(summary_table(study(claim()), empty)) == len(pairwise_table(study(claim()), empty)) == 0
    assert forest_table(study(claim()), empty)["estimate"].isna().all()


def test_metric_that_no_trial_has() -> None:
    results = frame("accuracy", ours=0.6 + NOISE, peer=np.full(10, 0.5))
    assert judged(results, claim("better", "loss")).interval is None


def test_ratio_of_nonpositive_values_is_inconclusive() -> None:
    peer = np.full(10, 0.5)
    for bad in (0.0, -1.0):
        ours = 0.1 + np.abs(NOISE)
        ours[4] = bad
        found = judged(frame("loss", ours=ours, peer=peer), claim("ratio", "loss", margin=0.9))
        assert (found.verdict, found.interval) == ("inconclusive", None)
        assert "needs positive values; 1 pair" in found.notes[-1]


def test_claim_speaks_of_its_datasets_only() -> None:
    results = pd.concat(
        [
            frame("accuracy", "a", ours=0.6 + NOISE, peer=np.full(10, 0.5)),
            frame("accuracy", "b", ours=0.3 + NOISE, peer=np.full(10, 0.5)),
            frame("accuracy", "file:/own.csv", ours=0.3 + NOISE, peer=np.full(10, 0.5)),
        ]
    )
    assert judged(results, claim(datasets=("a",))).verdict == "holds"
    assert judged(results, claim(datasets=("b",))).verdict == "fails"
    found = judged(results, claim())
    assert found.interval is not None
    assert found.interval.n_pairs == 30
    only_a = results[results["dataset"] == "a"]
    assert judged(only_a, claim(datasets=("a", "b"))).notes == ("Not in this run: b.",)


# ------------------------------------------------------------------------------------------------------------- study


def test_study_fails_with_one_claim_and_holds_with_all() -> None:
    results = frame("accuracy", ours=0.6 + NOISE, peer=np.full(10, 0.5), other=np.full(10, 0.7))
    good, bad = claim(), claim(against="other")
    unknown = claim(against=0.6)
    assert judge(study(good, good), results).verdict == "holds"
    assert judge(study(good, bad, unknown), results).verdict == "fails"
    found = judge(study(good, unknown), results)
    assert found.verdict == "inconclusive"
    assert found.counts == {"holds": 1, "fails": 0, "inconclusive": 1}
    nothing = judge(study(), results)
    assert (nothing.verdict, nothing.notes) == ("inconclusive", ("The study states no claim.",))


def test_json_has_no_bare_nan_or_infinity() -> None:
    results = frame("accuracy", ours=1e300 * np.exp(NOISE), peer=np.full(10, 1e-300))
    results["loss"] = np.nan
    found = judge(study(claim("ratio", margin=2.0), claim("better", "loss", 1.0)), results).to_json()
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    ratio, undefined = found["claims"]
    assert (ratio["verdict"], ratio["estimate"]) == ("holds", None)  # 1e600 is no float, yet more than twice as large
    assert "estimate is not finite." in ratio["notes"]
    assert (undefined["verdict"], undefined["estimate"], undefined["method"]) == ("fails", None, None)


def test_huge_values_are_judged_and_do_not_overflow() -> None:
    results = frame("accuracy", ours=1.5e308 * (1 + NOISE), peer=np.full(10, 1.4e308))
    found = judged(results, claim())
    assert found.verdict == "holds"
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(0.1e308)


def test_json_says_it_all() -> None:
    results = fail(frame("accuracy", ours=0.6 + NOISE, peer=np.full(10, 0.5)), "ours", [0])
    found = judge(study(claim(margin=0.01, datasets=("a",))), results).to_json()["claims"][0]
    assert {k: found[k] for k in ("statement", "metric", "subject", "against", "kind", "margin", "datasets")} == {
        "statement": "Ours is good",
        "metric": "accuracy",
        "subject": "ours",
        "against": "peer",
        "kind": "better",
        "margin": 0.01,
        "datasets": ["a"],
    }
    assert (found["n_pairs"], found["n_imputed"], found["threshold"], found["method"]) == (10, 1, 0.01, "bca")
    assert found["low"] < found["estimate"] < found["high"]
    assert len(found["notes"]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.drop(columns="status"), "missing: status"),
        (lambda r: pd.concat([r, r.iloc[:1]]), r"\('ours', 'a', .*0.*\) comes twice"),
    ],
)
def test_malformed_results_are_refused(change: Any, message: str) -> None:
    results = frame("accuracy", ours=0.6 + NOISE, peer=np.full(10, 0.5))
    with pytest.raises(ValueError, match=message):
        judge(study(claim()), change(results))
    with pytest.raises(ValueError, match="confidence"):
        judge(study(claim()), results, confidence=95)


# ------------------------------------------------------------------------------------------------------- invariances

effects = st.lists(st.floats(-10, 10), min_size=6, max_size=25)


@given(effects, st.sampled_from([HIGHER, LOWER]), st.sampled_from(["better", "ratio"]))
@settings(max_examples=25, deadline=None)
def test_swapping_subject_and_against_negates(values: list[float], metric: Metric, kind: Any) -> None:
    results = frame(metric.name, ours=np.exp(values), peer=np.linspace(0.5, 2, len(values)))
    one = paired_differences(results, metric, "ours", "peer", kind).effects(-math.inf)
    two = paired_differences(results, metric, "peer", "ours", kind).effects(-math.inf)
    assert one.tolist() == (-two).tolist()
    a, b = mean_interval(one), mean_interval(two)
    width = np.ptp(one)
    assert a.estimate == pytest.approx(-b.estimate, abs=1e-9)
    assert (a.low, a.high) == pytest.approx((-b.high, -b.low), abs=1e-9 + 0.02 * width)


@given(effects, st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=15, deadline=None)
def test_order_of_rows_changes_nothing(values: list[float], random: Any, with_failure: bool) -> None:
    results = frame("accuracy", ours=values, peer=np.zeros(len(values)))
    if with_failure:
        results = fail(results, "ours", [2])
    order = list(range(len(results)))
    random.shuffle(order)
    assert judge(study(claim()), results).to_json() == judge(study(claim()), results.iloc[order]).to_json()


@given(effects, st.floats(0.01, 100), st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_unit_of_the_metric_does_not_matter(values: list[float], scale: float, margin: float) -> None:
    x = np.round(values, 3)
    plain = judged(frame("loss", ours=x, peer=np.zeros(x.size)), claim("better", "loss", margin=margin))
    scaled = judged(
        frame("loss", ours=scale * x, peer=np.zeros(x.size)), claim("better", "loss", margin=scale * margin)
    )
    assert plain.interval is not None
    assert scaled.interval is not None
    assert scaled.interval.low == pytest.approx(scale * plain.interval.low, rel=1e-6, abs=scale * 1e-6)
    assert scaled.interval.high == pytest.approx(scale * plain.interval.high, rel=1e-6, abs=scale * 1e-6)
    if min(abs(plain.interval.low - margin), abs(plain.interval.high - margin)) > 1e-5:
        assert scaled.verdict == plain.verdict


@given(effects, st.floats(0.0, 5.0))
@settings(max_examples=20, deadline=None)
def test_better_and_its_reverse_never_both_hold(values: list[float], margin: float) -> None:
    results = frame("accuracy", ours=values, peer=np.zeros(len(values)))
    one = judged(results, claim("better", margin=margin))
    other = Claim("Peer is better", "accuracy", "peer", "ours", "better", margin)
    assert {one.verdict, judge(study(other), results).claims[0].verdict} != {"holds"}


# ----------------------------------------------------------------------------------------------------------- intervals


def test_interval_agrees_with_the_bootstrap_by_definition() -> None:
    # The percentile ends of an independent resampling, corrected for bias and acceleration.
    x = np.random.default_rng(3).exponential(size=30)
    found = mean_interval(x)
    assert found.method == "bca"
    means = np.random.default_rng(4).choice(x, (20_000, 30)).mean(axis=1)
    # Efron's formula by hand
    z0 = stats.norm.ppf((means < x.mean()).mean())
    jack = (x.sum() - x) / 29
    d = jack.mean() - jack
    acceleration = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    # at Hesterberg's levels, whose normal quantiles are sqrt(n / (n - 1)) times those of t
    z = z0 + math.sqrt(30 / 29) * stats.t.ppf([0.025, 0.975], 29)
    ends = np.quantile(means, stats.norm.cdf(z0 + z / (1 - acceleration * z)))
    assert (found.low, found.high) == pytest.approx(ends, abs=0.02)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, math.nan], [1.0, math.inf]])
def test_interval_refuses_what_has_no_mean(values: Any) -> None:
    with pytest.raises(ValueError, match="values must be"):
        mean_interval(values)


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_interval_covers_the_mean(draw: str) -> None:
    rng = np.random.default_rng(11)
    n, repeats = 40, 600
    sample = rng.normal(size=(repeats, n)) if draw == "normal" else rng.exponential(size=(repeats, n)) - 1.0
    found = [mean_interval(x) for x in sample]
    covered = np.mean([i.low <= 0.0 <= i.high for i in found])
    assert covered == pytest.approx(0.945, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 10, 40])
def test_false_claims_seldom_hold(n: int) -> None:
    rng = np.random.default_rng(n)
    repeats, wrong = 600, 0
    for _ in range(repeats):
        results = frame("accuracy", ours=rng.normal(size=n), peer=np.zeros(n))
        wrong += judged(results, claim()).verdict == "holds"
    assert wrong / repeats < 0.03 + 3 * math.sqrt(0.03 * 0.97 / repeats)
    assert wrong > 0


# -------------------------------------------------------------------------------------------------------------- tables


def test_holm_by_hand() -> None:
    # sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 -> running maximum
    assert holm([0.04, 0.01, 0.03, 0.005]).tolist() == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    corrected = holm([0.02, math.nan, 0.03])
    assert corrected[[0, 2]].tolist() == pytest.approx([0.04, 0.04])
    assert math.isnan(corrected[1])
    with pytest.raises(ValueError, match="p_values"):
        holm([0.5, 1.5])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(deadline=None)
def test_holm_lies_between_the_raw_and_bonferroni(p: list[float]) -> None:
    corrected = holm(p)
    assert (corrected >= np.array(p)).all()
    assert (corrected <= np.minimum(1, len(p) * np.array(p)) + 1e-15).all()
    assert (np.argsort(corrected, kind="stable") == np.argsort(np.array(corrected), kind="stable")).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()


def test_pairwise_table_is_the_exact_test_of_common_trials() -> None:
    rng = np.random.default_rng(5)
    ours, peer, other = rng.normal(0.4, 1, 12), rng.normal(size=12), rng.normal(size=12)
    peer[0] = np.nan
    results = frame("accuracy", ours=ours, peer=peer, other=other)
    table = pairwise_table(study(metrics=(HIGHER,)), results).set_index(["first", "second"])
    assert list(table.index) == [("ours", "peer"), ("ours", "other"), ("peer", "other")]
    row = table.loc[("ours", "peer")]
    assert (row["n_pairs"], row["n_left_out"]) == (11, 1)
    assert row["mean_difference"] == pytest.approx((ours - peer)[1:].mean())
    assert row["p"] == pytest.approx(stats.wilcoxon((ours - peer)[1:], method="exact").pvalue)
    assert table["p_holm"].tolist() == pytest.approx(holm(table["p"]).tolist())
    assert row["better"] == ("ours" if row["mean_difference"] > 0 else "peer")


def test_pairwise_table_with_ties_zeros_and_few_pairs() -> None:
    same = frame("loss", ours=np.arange(8), peer=np.arange(8), other=np.arange(8) + 1)
    table = pairwise_table(study(metrics=(LOWER,)), same).set_index(["first", "second"])
    assert table.loc[("ours", "peer"), "p"] == 1.0
    assert table.loc[("ours", "peer"), "better"] == ""
    assert table.loc[("ours", "other"), "p"] < 0.05
    assert table.loc[("ours", "other"), "better"] == "ours"
    few = pairwise_table(study(metrics=(LOWER,)), same[same["seed"] < 5])
    assert few[["p", "p_holm"]].isna().all(axis=None)


def test_summary_table_never_hides_an_undefined_trial() -> None:
    results = frame("loss", ours=0.2 + NOISE, peer=0.3 + NOISE, other=0.4 + NOISE)
    results.loc[(results["contender"] == "ours") & (results["seed"] == 0), "loss"] = np.inf
    results.loc[(results["contender"] == "ours") & (results["seed"] == 1), "loss"] = np.nan
    results = fail(results, "ours", [2])
    table = summary_table(study(metrics=(LOWER,)), results).set_index("contender")
    ours = table.loc["ours"]
    assert (ours["n"], ours["n_defined"], ours["n_undefined"], ours["n_failed"]) == (10, 7, 2, 1)
    assert ours["mean"] == pytest.approx((0.2 + NOISE[3:]).mean())
    assert ours["reason"] == "1 not a number, 1 infinite, 1 failed"
    assert not ours["complete"]
    assert table["best"].to_dict() == {"ours": False, "peer": True, "other": False}
    assert table.loc["peer", "low"] < 0.3 + NOISE.mean() < table.loc["peer", "high"]


def test_summary_table_follows_the_order_of_the_study_and_has_exact_intervals() -> None:
    results = pd.concat([frame("accuracy", d, peer=np.ones(20), ours=np.ones(20)) for d in ("file:x", "a", "b")])
    table = summary_table(study(metrics=(HIGHER,)), results)
    assert table["dataset"].drop_duplicates().tolist() == ["b", "a", "file:x"]
    assert table["contender"].tolist() == ["ours", "peer"] * 3
    assert table["method"].unique().tolist() == ["exact-binomial"]
    assert table["low"].to_numpy() == pytest.approx(0.025 ** (1 / 20))
    assert table["best"].all()


def test_summary_table_of_one_seed_and_of_nothing_defined() -> None:
    results = pd.concat([rows("ours", "loss", [0.5]), rows("peer", "loss", [np.nan])])
    table = summary_table(study(metrics=(LOWER,)), results).set_index("contender")
    assert table.loc["ours", "mean"] == 0.5
    assert math.isnan(table.loc["ours", "low"])
    assert math.isnan(table.loc["peer", "mean"])
    assert table.loc["peer", "reason"] == "1 not a number"
    assert not table["best"].any()


def test_forest_table_has_each_data_set_and_all_together() -> None:
    results = pd.concat(
        [
            frame("accuracy", "a", ours=0.6 + NOISE, peer=np.full(10, 0.5)),
            frame("accuracy", "b", ours=0.3 + NOISE, peer=np.full(10, 0.5)),
        ]
    )
    declared = study(claim(), claim("ratio", margin=0.9))
    table = forest_table(declared, results)
    assert table["dataset"].tolist() == ["b", "a", ""] * 2
    assert table["estimate"].tolist()[:3] == pytest.approx([-0.2, 0.1, -0.05])
    pooled = judge(declared, results)
    for position, row in table[table["dataset"] == ""].set_index("claim").iterrows():
        interval = pooled.claims[position].interval
        assert interval is not None
        assert (row["estimate"], row["low"], row["high"]) == (interval.estimate, interval.low, interval.high)
