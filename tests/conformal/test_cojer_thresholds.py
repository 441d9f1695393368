"""The law of the conformal ranks and the thresholds that follow from it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from paperworks.conformal import cojer_threshold, dkw_deviation, joint_error_rate, sample_conformal_ranks
from paperworks.conformal.cojer.aggregation import aggregate, independent_ranks
from paperworks.conformal.cojer.thresholds import beta_template, learned_template, ordered_ranks, smallest_n_cal


def enumerated_ranks(n: int, m: int) -> np.ndarray:
    """Ordered ranks of all (n+m choose m) equally likely placements of the test points."""
    positions = np.array(list(itertools.combinations(range(1, n + m + 1), m)))
    return positions - np.arange(m)


def misses(n: int, m: int, t: int) -> stats.rv_discrete:
    """Law of #{R_j <= t}."""
    return stats.betabinom(m, t, n + 1 - t)


class TestRanks:
    def test_shape_range_and_order(self):
        ranks = sample_conformal_ranks(7, 5, 300, random_state=3)
        assert ranks.shape == (300, 5)
        assert ranks.dtype == np.int64
        assert ranks.min() >= 1
        assert ranks.max() <= 8
        assert (np.diff(ranks, axis=1) >= 0).all()

    def test_all_placements_are_equally_likely(self):
        n, m, size = 4, 3, 35_000
        drawn, counts = np.unique(sample_conformal_ranks(n, m, size, random_state=0), axis=0, return_counts=True)
        np.testing.assert_array_equal(drawn, np.unique(enumerated_ranks(n, m), axis=0))
        assert stats.chisquare(counts).pvalue > 1e-4

    def test_agrees_with_ranks_of_scores(self):
        # The definition: R_j = 1 + #{calibration scores >= test score}.
        rng = np.random.default_rng(1)
        n, m, size = 20, 8, 20_000
        cal, test = rng.random((size, n)), rng.random((size, m))
        by_scores = np.sort(1 + (cal[:, None, :] >= test[:, :, None]).sum(axis=2), axis=1)
        drawn = sample_conformal_ranks(n, m, size, random_state=2)
        np.testing.assert_allclose(by_scores.mean(axis=0), drawn.mean(axis=0), atol=0.15)
        np.testing.assert_allclose(by_scores.var(axis=0), drawn.var(axis=0), rtol=0.08)

    @pytest.mark.parametrize("t", [1, 5, 15])
    def test_number_of_misses_is_beta_binomial(self, t):
        n, m, size = 20, 10, 20_000
        counts = np.bincount((sample_conformal_ranks(n, m, size, random_state=4) <= t).sum(axis=1), minlength=m + 1)
        np.testing.assert_allclose(counts / size, misses(n, m, t).pmf(np.arange(m + 1)), atol=0.015)

    def test_seeded(self):
        a = sample_conformal_ranks(30, 10, 4, random_state=5)
        np.testing.assert_array_equal(a, sample_conformal_ranks(30, 10, 4, random_state=5))
        np.testing.assert_array_equal(a, sample_conformal_ranks(30, 10, 4, random_state=np.random.default_rng(5)))
        assert (a != sample_conformal_ranks(30, 10, 4, random_state=6)).any()
        legacy = [sample_conformal_ranks(30, 10, 4, random_state=np.random.RandomState(7)) for _ in range(2)]
        np.testing.assert_array_equal(*legacy)

    @pytest.mark.parametrize("bad", [{"n_cal": 0}, {"n_test": 0}, {"size": 0}])
    def test_bad_sizes(self, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sample_conformal_ranks(**{"n_cal": 5, "n_test": 5, "size": 5, **bad})


class TestJointErrorRate:
    @pytest.mark.parametrize(
        ("n", "m", "template", "rate"),
        [(6, 4, [1, 2, 3, 4], 3 / 14), (9, 4, [2, 4], 0.471328671), (10, 5, [3] * 5, 4 / 7)],
    )
    def test_known_values(self, n, m, template, rate):
        assert joint_error_rate(template, n, m) == pytest.approx(rate, abs=5e-10)

    @settings(deadline=None, max_examples=60)
    @given(data=st.data())
    def test_enumeration(self, data):
        n, m = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
        K = data.draw(st.integers(1, m))
        T = np.sort(data.draw(st.lists(st.integers(1, n + 1), min_size=K, max_size=K)))
        expected = (enumerated_ranks(n, m)[:, :K] < T).any(axis=1).mean()
        assert joint_error_rate(T, n, m) == pytest.approx(expected, abs=1e-12)

    @settings(deadline=None, max_examples=30)
    @given(n=st.integers(2, 800), m=st.integers(2, 800), where=st.floats(0, 1), level=st.floats(0.01, 0.99))
    def test_one_step_template_is_a_beta_binomial_tail(self, n, m, where, level):
        # A template that only binds at k: JER = P(R_(k) <= t) = P(BetaBinomial(m, t, n+1-t) >= k).
        k, t = 1 + int(where * (m - 1)), max(1, min(n, int(level * n)))
        template = np.r_[np.ones(k - 1, dtype=int), t + 1]
        assert joint_error_rate(template, n, m) == pytest.approx(misses(n, m, t).sf(k - 1), abs=1e-8)

    def test_large_agrees_with_simulation(self):
        n = m = 4000
        K = m // 2
        T = np.maximum(1, np.floor(0.93 * np.arange(1, K + 1) * n / m - 25)).astype(int)
        violated = (ordered_ranks(n, m, K, 3000, np.random.default_rng(0)) < T).any(axis=1).mean()
        assert 0.02 < violated < 0.98
        assert joint_error_rate(T, n, m) == pytest.approx(violated, abs=0.03)

    def test_extremes(self):
        assert joint_error_rate([1, 1, 1], 10, 3) == 0.0
        assert joint_error_rate([11, 11, 11], 10, 3) == pytest.approx(1 - 1 / math.comb(13, 3))

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ([3, 2], "nondecreasing"),
            ([0, 1], "1..n_cal"),
            ([1, 12], "1..n_cal"),
            ([1.0, 2.0], "integers"),
            ([[1, 2]], "vector"),
            ([], "vector"),
            ([1] * 6, "n_test = 5"),
        ],
    )
    def test_bad_template(self, template, message):
        with pytest.raises(ValueError, match=message):
            joint_error_rate(template, 10, 5)


class TestOneLevel:
    @pytest.mark.parametrize(
        ("n", "m", "alpha", "delta", "t"),
        [
            (99, 1, 0.1, 0.1, 10),
            (200, 100, 0.1, 0.2, 15),
            (1000, 500, 0.1, 0.2, 88),
            (1000, 100, 0.1, 0.1, 69),
            (442, 500, 0.1, 0.1, 34),
            (442, 100, 0.1, 0.1, 30),
            (98, 100, 0.1, 0.1, 5),
        ],
    )
    def test_exact_known_values(self, n, m, alpha, delta, t):
        assert cojer_threshold(n, m, alpha, delta, band="exact") == t

    @settings(deadline=None, max_examples=60)
    @given(
        n=st.integers(2, 300),
        m=st.integers(1, 300),
        alpha=st.floats(0.02, 0.9),
        delta=st.floats(0.01, 0.9),
    )
    def test_exact_is_the_largest_that_keeps_the_promise(self, n, m, alpha, delta):
        t = cojer_threshold(n, m, alpha, delta, band="exact")
        k = math.floor(alpha * m + 1e-9)
        if t > 0:
            assert misses(n, m, t).sf(k) <= delta * (1 + 1e-8)
        if t < n:
            assert misses(n, m, t + 1).sf(k) > delta * (1 - 1e-8)

    @pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
    @pytest.mark.parametrize("n", [9, 57, 400])
    def test_one_test_point_is_split_conformal(self, n, alpha):
        assert cojer_threshold(n, 1, alpha, alpha, band="exact") == cojer_threshold(n, 1, alpha, 0.5, band="scp")

    def test_many_test_points_is_the_beta_quantile(self):
        n, alpha, delta = 500, 0.1, 0.1
        t = np.arange(1, n + 1)
        limit = t[stats.beta(t, n + 1 - t).sf(alpha) <= delta].max()
        assert cojer_threshold(n, 2_000_000, alpha, delta, band="exact") == pytest.approx(limit, abs=1)

    @pytest.mark.parametrize(("n", "m", "deviation"), [(1000, 500, 0.0666847105), (200, 100, 0.1491115451)])
    def test_dkw_known_values(self, n, m, deviation):
        assert dkw_deviation(n, m, 0.2) == pytest.approx(deviation, abs=5e-11)

    def test_dkw_thresholds(self):
        assert cojer_threshold(1000, 500, 0.1, 0.2, band="dkw") == 33
        assert cojer_threshold(442, 500, 0.1, 0.1, band="dkw") == 4
        assert cojer_threshold(442, 100, 0.1, 0.1, band="dkw") == 0

    def test_dkw_solves_its_equation(self):
        lam = dkw_deviation(300, 700, 0.15, n_iter=200)
        tau = 300 * 700 / 1000
        bound = (1 + lam * math.sqrt(2 * math.pi) * 2 * tau / math.sqrt(1000)) * math.exp(-2 * tau * lam**2)
        assert bound == pytest.approx(0.15, rel=1e-10)
        assert dkw_deviation(300, 700, 0.15) >= lam - 1e-12

    @pytest.mark.parametrize(("n", "alpha", "t"), [(9, 0.1, 1), (8, 0.1, 0), (29, 0.1, 3), (9, 0.7, 7), (5, 0.1, 0)])
    def test_scp_floor_is_guarded(self, n, alpha, t):
        assert cojer_threshold(n, 1, alpha, 0.1, band="scp") == t

    def test_level_floor_is_guarded(self):
        # 0.7 * 10 = 6.999... and 0.1 * 30 = 3.0000000000000004 in double precision.
        for alpha, m, k in ((0.7, 10, 7), (0.1, 30, 3)):
            t = cojer_threshold(400, m, alpha, 0.1, band="exact")
            assert misses(400, m, t).sf(k) <= 0.1 < misses(400, m, t + 1).sf(k)


class TestBands:
    @pytest.mark.parametrize(
        ("n", "m", "delta", "k_max", "t"),
        [(1000, 500, 0.2, None, 70), (1000, 500, 0.2, 500, 67), (442, 500, 0.1, None, 26), (442, 100, 0.1, None, 19)],
    )
    def test_learned_near_known_values(self, n, m, delta, k_max, t):
        found = [cojer_threshold(n, m, 0.1, delta, k_max=k_max, random_state=s) for s in range(5)]
        assert np.mean(found) == pytest.approx(t, abs=3)

    def test_learned_template_has_the_wanted_rate(self):
        rng = np.random.default_rng(0)
        n, m, K, delta = 200, 60, 30, 0.1
        T = learned_template(lambda size: ordered_ranks(n, m, K, size, rng), n, m, K, delta, 20_000)
        assert joint_error_rate(T, n, m) == pytest.approx(delta, abs=0.01)

    def test_learned_index_is_the_largest_that_controls(self):
        # Against all candidates one by one, and against the pivotal index of every fresh draw.
        n, m, K, delta, B = 30, 12, 6, 0.2, 400
        blocks = [ordered_ranks(n, m, K, B, np.random.default_rng(s)) for s in (0, 1)]
        candidates, fresh = np.sort(blocks[0], axis=0), blocks[1]
        pivots = (candidates[None] <= fresh[:, None]).sum(axis=1).min(axis=1)
        controlled = [b for b in range(B) if np.mean(pivots <= b) <= delta]
        replay = iter(blocks)
        T = learned_template(lambda size: next(replay), n, m, K, delta, B)
        np.testing.assert_array_equal(T, candidates[max(controlled)])

    def test_simes_line_when_no_candidate_controls(self):
        n, m, K = 30, 12, 6
        high = np.full((5, K), n + 1, dtype=np.int32)
        fresh = ordered_ranks(n, m, K, 5, np.random.default_rng(0))
        replay = iter([high, fresh])
        T = learned_template(lambda size: next(replay), n, m, K, 0.2, 5)
        assert (np.diff(T) >= 0).all()
        assert T.min() >= 1
        assert (fresh < T).any(axis=1).mean() <= 0.2
        k = np.arange(1, K + 1)
        slope = np.sort((fresh * m / ((n + 1) * k)).min(axis=1))[0]
        np.testing.assert_array_equal(T, np.maximum(1, np.ceil(slope * k / m * (n + 1) - 1e-9)))

    @pytest.mark.parametrize("n_null", [1, 2, 3])
    def test_hardly_any_draws(self, n_null):
        assert 0 <= cojer_threshold(50, 20, 0.1, 0.1, n_null=n_null, random_state=0) <= 50

    @pytest.mark.parametrize(("n", "m", "delta"), [(60, 25, 0.1), (70, 40, 0.2), (25, 40, 0.05), (40, 1, 0.3)])
    def test_beta_template_is_the_largest_of_its_shape(self, n, m, delta):
        K = max(1, m // 2)
        T = beta_template(n, m, K, delta)
        assert joint_error_rate(T, n, m) <= delta * (1 + 1e-8)
        # All templates of this shape, from a table of P(R_(k) <= t).
        table = np.array([[misses(n, m, t).sf(k - 1) for t in range(1, n + 1)] for k in range(1, K + 1)])
        levels = np.unique(table)
        shapes = np.unique(1 + (table[None] <= levels[:, None, None] * (1 + 1e-9)).sum(axis=2), axis=0)
        assert (shapes == T).all(axis=1).any() or (T == 1).all()
        larger = shapes[(shapes >= T).all(axis=1) & (shapes > T).any(axis=1)]
        assert all(joint_error_rate(shape, n, m) > delta for shape in larger[np.argsort(larger.sum(axis=1))][:3])

    def test_beta_known_value_and_determinism(self):
        assert cojer_threshold(1000, 500, 0.1, 0.2, template="beta") == 71
        assert cojer_threshold(1000, 500, 0.1, 0.2, template="beta", random_state=9) == 71

    @settings(deadline=None, max_examples=12)
    @given(
        n=st.integers(20, 300),
        m=st.integers(2, 150),
        alpha=st.floats(0.05, 0.6),
        deltas=st.tuples(st.floats(0.02, 0.5), st.floats(0.02, 0.5)),
    )
    def test_monotone_in_delta_and_never_above_exact(self, n, m, alpha, deltas):
        small, large = sorted(deltas)
        for kwargs in ({"band": "exact"}, {"band": "dkw"}, {"template": "beta"}, {"random_state": 0}):
            assert cojer_threshold(n, m, alpha, small, **kwargs) <= cojer_threshold(n, m, alpha, large, **kwargs)
        exact = cojer_threshold(n, m, alpha, small, band="exact")
        assert cojer_threshold(n, m, alpha, small, template="beta") <= exact
        assert cojer_threshold(n, m, alpha, small, band="dkw") <= exact

    def test_learned_not_above_exact_where_monte_carlo_is_small(self):
        for n, m in ((200, 100), (400, 60), (1000, 500)):
            assert cojer_threshold(n, m, 0.1, 0.1, random_state=0) < cojer_threshold(n, m, 0.1, 0.1, band="exact")

    def test_simulation(self):
        # Uniform scores: the share of batches with FCP > alpha.
        rng = np.random.default_rng(0)
        n, m, alpha, delta, runs = 200, 100, 0.1, 0.2, 2000
        cal, test = np.sort(rng.random((runs, n)), axis=1), rng.random((runs, m))
        ranks = np.stack([1 + n - np.searchsorted(c, s, side="left") for c, s in zip(cal, test, strict=True)])
        share = {
            band: np.mean(
                (ranks <= cojer_threshold(n, m, alpha, delta, band=band, random_state=0)).mean(axis=1) > alpha
            )
            for band in ("exact", "jer", "scp")
        }
        assert 0.12 <= share["exact"] <= 0.23
        assert share["jer"] <= share["exact"]
        assert share["scp"] > 0.3

    def test_longer_band_for_a_large_level(self):
        # alpha = 0.8 needs T_81 although half the batch is 50.
        for template in ("learned", "beta"):
            t = cojer_threshold(300, 100, 0.8, 0.1, template=template, random_state=0)
            assert 150 < t <= cojer_threshold(300, 100, 0.8, 0.1, band="exact") + 2
        assert cojer_threshold(300, 100, 0.1, 0.1, template="beta", k_max=1) == cojer_threshold(
            300, 100, 0.1, 0.1, template="beta", k_max=11
        )

    def test_alpha_next_to_one(self):
        assert 0 <= cojer_threshold(50, 10, 1 - 1e-12, 0.1, band="exact") <= 50
        assert 0 <= cojer_threshold(50, 10, 1 - 1e-12, 0.1, template="beta") <= 50

    @pytest.mark.parametrize(
        ("kwargs", "name"),
        [
            ({"alpha": 0.0}, "alpha"),
            ({"alpha": 1.0}, "alpha"),
            ({"alpha": float("nan")}, "alpha"),
            ({"delta": 1.5}, "delta"),
            ({"n_cal": 0}, "n_cal"),
            ({"n_test": 0}, "n_test"),
            ({"band": "simes"}, "band"),
            ({"template": "simes"}, "template"),
            ({"k_max": 0}, "k_max"),
            ({"k_max": 101}, "k_max"),
            ({"n_null": 0}, "n_null"),
        ],
    )
    def test_bad_arguments(self, kwargs, name):
        with pytest.raises(ValueError, match=name):
            cojer_threshold(**{"n_cal": 50, "n_test": 100, "alpha": 0.1, "delta": 0.1, **kwargs})

    @pytest.mark.parametrize("kwargs", [{"n_cal": 5.5}, {"n_test": True}, {"alpha": "0.1"}])
    def test_wrong_types(self, kwargs):
        with pytest.raises(TypeError, match=next(iter(kwargs))):
            cojer_threshold(**{"n_cal": 50, "n_test": 100, "alpha": 0.1, "delta": 0.1, **kwargs})


def test_independent_ranks_of_one_model_are_ranks():
    n, m = 20, 10
    a = independent_ranks(n, m, m, 5000, 1, "harmonic", np.random.default_rng(0))
    b = ordered_ranks(n, m, m, 5000, np.random.default_rng(1))
    np.testing.assert_allclose(a.mean(axis=0), b.mean(axis=0), atol=0.3)


def test_independent_ranks_against_the_definition():
    # One test point: its ranks under independent models are independent and uniform on 1..n+1.
    n, M, size = 9, 2, 10_000
    drawn = independent_ranks(n, 1, 1, size, M, "harmonic", np.random.default_rng(0))[:, 0]
    pairs = np.array(list(itertools.product(range(1, n + 2), repeat=M)))
    law = np.bincount(np.ceil(aggregate(pairs, "harmonic") - 1e-9).astype(int), minlength=n + 2) / len(pairs)
    np.testing.assert_allclose(np.bincount(drawn, minlength=n + 2) / size, law, atol=0.02)


def test_smallest_n_cal():
    for alpha, n in ((0.1, 9), (0.05, 19), (0.3, 3)):
        assert smallest_n_cal(lambda size, a=alpha: cojer_threshold(size, 1, a, 0.1, band="scp"), 2) == n
    assert smallest_n_cal(lambda size: cojer_threshold(size, 100, 0.1, 0.1, band="dkw"), 2) is None
