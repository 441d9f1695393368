"""Calibration: closed forms, direct optimisation, recovery, symmetries and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import brentq, minimize
from scipy.special import expit, logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from paperworks.evaluate import RaschModel, response_matrix
from paperworks.evaluate.amortized_irt.calibration import composite_difficulty, fit_marginal
from paperworks.evaluate.amortized_irt.responses import read_responses

Floats = NDArray[np.float64]


def answers(
    n_takers: int, n_items: int, *, mean: float = 0.0, seed: int = 0, scale: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    ability = rng.normal(size=n_takers) * scale
    difficulty = rng.normal(size=n_items) + mean
    return ability, difficulty, (rng.random((n_takers, n_items)) < expit(ability[:, None] - difficulty)).astype(float)


def quiet(model: RaschModel, Y: object) -> RaschModel:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*all right or all wrong", category=UserWarning)
        return model.fit(Y)


def with_holes(Y: Floats, share: float, seed: int = 0) -> Floats:
    holes = Y.copy()
    holes[np.random.default_rng(seed).random(Y.shape) < share] = np.nan
    return holes


# Composite


def test_composite_difficulty_at_known_shares() -> None:
    shares = np.array([0.05, 0.2, 0.5, 0.73, 0.96])
    np.testing.assert_allclose(composite_difficulty(shares), [3.3715, 1.6497, 0.0, -1.1926, -3.6183], atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-4, 1 - 1e-4))
def test_composite_difficulty_gives_the_share_by_integration(share: float) -> None:
    b = composite_difficulty(np.array([share]))[0]
    assert quad(lambda t: expit(t - b) * norm.pdf(t), -12, 12, epsabs=1e-12)[0] == pytest.approx(share, abs=1e-6)


def test_composite_equals_the_sampled_loss_of_the_paper() -> None:
    # Mean over draws of the log-likelihood, minimised per item; its error is of the order 1/sqrt(draws).
    _, _, Y = answers(40, 6, seed=3)
    draws = np.random.default_rng(1).normal(size=20_000)
    share = Y.mean(axis=0)

    def optimum(y: float) -> float:
        return float(brentq(lambda b: expit(draws - b).mean() - y, -15, 15))

    model = quiet(RaschModel("composite", smoothing=0.0), Y)
    np.testing.assert_allclose(model.difficulty_, [optimum(y) for y in share], atol=0.04)
    loss = [
        -(y * np.log(expit(draws - b)) + (1 - y) * np.log(expit(b - draws))).mean()
        for y, b in zip(share, model.difficulty_, strict=True)
    ]
    for j, y in enumerate(share):
        for shift in (-0.2, 0.2):
            b = model.difficulty_[j] + shift
            assert loss[j] < -(y * np.log(expit(draws - b)) + (1 - y) * np.log(expit(b - draws))).mean()


def test_smoothing_moves_shares_towards_one_half() -> None:
    _, _, Y = answers(30, 5, seed=1)
    raw, smooth = (quiet(RaschModel("composite", smoothing=c), Y).difficulty_ for c in (0.0, 2.0))
    expected = composite_difficulty((Y.sum(axis=0) + 2.0) / (len(Y) + 4.0))
    np.testing.assert_allclose(smooth, expected, atol=1e-10)
    assert (np.abs(smooth) < np.abs(raw)).all()


# Marginal likelihood


def penalised(Y: Floats, b: Floats, s: float, prior_var: float) -> float:
    """The objective by brute force: 100 fixed nodes over eight standard deviations to each side."""
    grid = np.linspace(-8 * s, 8 * s, 100)
    weight = norm.logpdf(grid, scale=s) + np.log(grid[1] - grid[0])
    logits = grid[:, None] - b
    log_right, log_wrong = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    each = [
        logsumexp(weight + (np.where(np.isnan(y), 0.0, np.where(y == 1, log_right, log_wrong))).sum(axis=1)) for y in Y
    ]
    return float(np.sum(each) - ((b - b.mean()) ** 2).sum() / (2 * prior_var))


@pytest.mark.parametrize("accelerate", [True, False])
def test_mml_equals_direct_maximisation(accelerate: bool) -> None:
    Y = with_holes(answers(40, 8, seed=2)[2], 0.2)
    model = RaschModel(n_quadrature=21, tol=1e-8, accelerate=accelerate).fit(Y)
    direct = minimize(
        lambda p: -penalised(Y, p[:8], np.exp(p[8]), 9.0), np.zeros(9), method="BFGS", options={"gtol": 1e-5}
    ).x
    np.testing.assert_allclose(model.difficulty_, direct[:8], atol=1e-3)
    assert model.scale_ == pytest.approx(np.exp(direct[8]), abs=1e-3)
    unpenalised = penalised(Y, model.difficulty_, model.scale_, np.inf)
    assert model.loglik_ == pytest.approx(unpenalised, abs=1e-6)


def test_abilities_are_posterior_means_by_integration() -> None:
    Y = with_holes(answers(30, 10, seed=4)[2], 0.3)
    model = quiet(RaschModel(n_quadrature=31), Y)
    for i in range(5):
        seen = np.isfinite(Y[i])
        b, y = model.difficulty_[seen], Y[i, seen]

        def density(t: float, b: Floats = b, y: Floats = y) -> float:
            return float(np.prod(np.where(y == 1, expit(t - b), expit(b - t))) * norm.pdf(t, scale=model.scale_))

        total = quad(density, -12, 12)[0]
        mean = quad(lambda t: t * density(t), -12, 12)[0] / total
        square = quad(lambda t: t**2 * density(t), -12, 12)[0] / total
        assert model.ability_[i] == pytest.approx(mean, abs=1e-6)
        assert model.ability_se_[i] == pytest.approx(np.sqrt(square - mean**2), abs=1e-6)


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("discrimination", [False, True])
def test_the_objective_never_falls(accelerate: bool, discrimination: bool) -> None:
    responses = read_responses(with_holes(answers(50, 12, seed=5, scale=1.5)[2], 0.4))
    found = fit_marginal(
        responses,
        n_quadrature=21,
        prior_var=9.0,
        estimate_scale=True,
        discrimination=discrimination,
        max_iter=60,
        tol=1e-7,
        accelerate=accelerate,
    )
    assert len(found.objectives) > 3
    assert np.diff(found.objectives).min() > -1e-6
    assert found.objectives[-1] > found.objectives[0] + 0.1


def test_recovery_of_a_tall_table() -> None:
    ability, difficulty, Y = answers(1000, 50, seed=7)
    model = RaschModel().fit(Y)
    assert model.converged_
    assert np.corrcoef(model.difficulty_, difficulty)[0, 1] > 0.995
    assert np.polyfit(difficulty, model.difficulty_, 1)[0] == pytest.approx(1.0, abs=0.03)
    assert model.scale_ == pytest.approx(ability.std(), abs=0.05)


def test_a_wide_table_has_sharp_posteriors() -> None:
    ability, _, Y = answers(60, 600, mean=1.5)
    model = quiet(RaschModel(), Y)
    assert abs(model.ability_.mean()) < 1e-6
    assert model.scale_ == pytest.approx(ability.std(), abs=0.05)
    p = model.predict_proba()
    expected = 1 / np.sqrt((p * (1 - p)).sum(axis=1) + 1 / model.scale_**2)
    np.testing.assert_allclose(model.ability_se_, expected, rtol=0.03)
    assert len(np.unique(model.ability_.round(9))) == len(np.unique(Y.sum(axis=1)))


def test_missing_not_at_random_does_not_fool_the_marginal_likelihood() -> None:
    ability, difficulty, Y = answers(100, 800, seed=1)
    seen = np.random.default_rng(2).random(Y.shape) < 0.6 * expit(3 * ability[:, None] * difficulty)
    Y[~seen] = np.nan
    mml, composite = (quiet(RaschModel(m), Y) for m in ("mml", "composite"))
    average = np.nanmean(Y, axis=1)
    assert np.corrcoef(mml.ability_, ability)[0, 1] > 0.98
    assert np.corrcoef(average, ability)[0, 1] < 0.88
    assert np.corrcoef(mml.difficulty_, difficulty)[0, 1] > np.corrcoef(composite.difficulty_, difficulty)[0, 1] + 0.05


def test_joint_likelihood_is_stationary_and_too_wide() -> None:
    _, difficulty, Y = answers(300, 10, seed=3)
    model = quiet(RaschModel("jml", tol=1e-9), Y)
    p = model.predict_proba()
    b = model.difficulty_
    np.testing.assert_allclose(p.sum(axis=0) - Y.sum(axis=0), (b - b.mean()) / 9.0, atol=1e-4)
    np.testing.assert_allclose(Y.sum(axis=1) - p.sum(axis=1), model.ability_ / 9.0, atol=2e-3)
    assert np.polyfit(difficulty, b, 1)[0] > np.polyfit(difficulty, RaschModel().fit(Y).difficulty_, 1)[0] + 0.05


def test_discrimination_is_recovered() -> None:
    rng = np.random.default_rng(0)
    ability, difficulty = rng.normal(size=2000), rng.normal(size=30)
    slope = np.exp(0.4 * rng.normal(size=30))
    Y = (rng.random((2000, 30)) < expit(slope * (ability[:, None] - difficulty))).astype(float)
    model = RaschModel(discrimination=True).fit(Y)
    assert np.corrcoef(np.log(model.discrimination_), np.log(slope))[0, 1] > 0.95
    unit_free = np.log(model.discrimination_ * model.scale_) - np.log(slope * ability.std())
    assert abs(unit_free.mean()) < 0.05
    # The unit is the priors' choice: the sum of log slopes balances the spread of the difficulties.
    spread = ((model.difficulty_ - model.difficulty_.mean()) ** 2).sum() / 9.0
    assert np.log(model.discrimination_).sum() / 0.25 == pytest.approx(spread, rel=0.01)
    assert model.loglik_ > RaschModel().fit(Y).loglik_ + 100
    np.testing.assert_array_equal(RaschModel().fit(Y).discrimination_, 1.0)


def test_a_fixed_scale_stays() -> None:
    _, _, Y = answers(60, 12, scale=2.0)
    assert RaschModel(estimate_scale=False).fit(Y).scale_ == 1.0
    assert RaschModel().fit(Y).scale_ > 1.5


def test_a_scale_near_zero_is_found_quickly() -> None:
    # Answers that do not depend on the taker: the best scale is small, where plain EM would need hundreds of steps.
    Y = (np.random.default_rng(1).random((200, 12)) < 0.6).astype(float)
    model = RaschModel().fit(Y)
    assert model.n_iter_ < 20
    for scale in (0.5 * model.scale_, 1.5 * model.scale_):
        assert penalised(Y, model.difficulty_, scale, 9.0) < penalised(Y, model.difficulty_, model.scale_, 9.0)


# Symmetries and forms of input


@pytest.mark.parametrize("method", ["mml", "composite", "jml"])
def test_relabelling_permutes_and_swapping_answers_flips(method: str) -> None:
    Y = with_holes(answers(25, 15, seed=8)[2], 0.3)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(25), rng.permutation(15)
    first = quiet(RaschModel(method, tol=1e-9), Y)  # type: ignore[arg-type]
    moved = quiet(RaschModel(method, tol=1e-9), Y[np.ix_(rows, columns)])  # type: ignore[arg-type]
    flipped = quiet(RaschModel(method, tol=1e-9), 1 - Y)  # type: ignore[arg-type]
    np.testing.assert_allclose(moved.ability_, first.ability_[rows], atol=1e-6)
    np.testing.assert_allclose(moved.difficulty_, first.difficulty_[columns], atol=1e-6)
    np.testing.assert_allclose(flipped.ability_, -first.ability_, atol=1e-6)
    np.testing.assert_allclose(flipped.difficulty_, -first.difficulty_, atol=1e-6)


def test_all_forms_of_the_same_matrix_agree() -> None:
    Y = with_holes(answers(20, 10, seed=9)[2], 0.25)
    frame = pd.DataFrame(Y, index=[f"m{i}" for i in range(20)], columns=[f"q{j}" for j in range(10)])
    row, column = np.nonzero(np.isfinite(Y))
    stored = sparse.coo_array((Y[row, column], (row, column)), shape=Y.shape)
    first = quiet(RaschModel(), Y)
    for other in (frame, frame.astype("Int64"), stored, stored.tocsr(), sparse.csc_matrix(stored), Y.tolist()):
        np.testing.assert_allclose(quiet(RaschModel(), other).difficulty_, first.difficulty_, atol=1e-9)
    named = quiet(RaschModel(), frame)
    np.testing.assert_array_equal(named.predict_proba(["q3", "q0"]), first.predict_proba([3, 0]))
    assert named.fit_statistics().index.tolist() == frame.columns.tolist()
    boolean = answers(20, 10, seed=9)[2] == 1
    np.testing.assert_allclose(
        quiet(RaschModel(), boolean).difficulty_, quiet(RaschModel(), boolean.astype(float)).difficulty_
    )


def test_takers_with_very_many_items_are_summed_in_pieces() -> None:
    # 9,000 items per taker span three pieces of cells, 30 short takers share one.
    ability, _, Y = answers(8, 9000, seed=1)
    long = quiet(RaschModel("composite"), Y)
    expected = np.array([_eap(y, long.difficulty_) for y in Y])
    np.testing.assert_allclose(long.ability_, expected, atol=1e-6)
    assert np.corrcoef(long.ability_, ability)[0, 1] > 0.99


def _eap(y: Floats, b: Floats) -> float:
    grid = np.linspace(-4, 4, 1001)
    logs = (y * grid[:, None]).sum(axis=1) - np.logaddexp(0, grid[:, None] - b).sum(axis=1) - grid**2 / 2
    weights = np.exp(logs - logs.max())
    return float((weights @ grid) / weights.sum())


def test_fit_statistics_are_their_formulas_and_find_a_wrong_key() -> None:
    Y = answers(300, 12, seed=4)[2]
    Y[:, 5] = 1 - Y[:, 5]
    Y = with_holes(Y, 0.1)
    model = RaschModel().fit(Y)
    p, seen = model.predict_proba(), np.isfinite(Y)
    square = np.where(seen, (np.nan_to_num(Y) - p) ** 2, 0.0)
    variance = np.where(seen, p * (1 - p), 0.0)
    table = model.fit_statistics()
    np.testing.assert_allclose(table["infit"], square.sum(axis=0) / variance.sum(axis=0))
    np.testing.assert_allclose(
        table["outfit"], np.where(seen, square / (p * (1 - p)), 0.0).sum(axis=0) / seen.sum(axis=0)
    )
    np.testing.assert_array_equal(table["n_responses"], seen.sum(axis=0))
    assert table["outfit"].idxmax() == 5
    assert table["outfit"][5] > 1.15
    assert table["outfit"].drop(5).max() < 1.0


# Scoring


def test_scores_of_a_perfect_taker() -> None:
    rng = np.random.default_rng(1)
    model = RaschModel().fit((rng.random((200, 12)) < 0.6).astype(float))
    rows = np.vstack([np.ones(12), np.zeros(12), [1, 0] * 6])
    for estimator in ("eap", "map"):
        ability, se = model.score_ability(rows, estimator=estimator)  # type: ignore[arg-type]
        assert np.isfinite(ability).all()
        assert np.isfinite(se).all()
        assert (se > 0).all()
        assert ability[0] > ability[2] > ability[1]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ability, se = model.score_ability(rows, estimator="ml")
    assert [w.category for w in seen] == [UserWarning]
    np.testing.assert_array_equal(ability[:2], [np.inf, -np.inf])
    np.testing.assert_array_equal(se[:2], [np.inf, np.inf])
    assert np.isfinite([ability[2], se[2]]).all()


def test_modes_are_stationary() -> None:
    _, _, Y = answers(100, 20, seed=6)
    model = quiet(RaschModel(), Y)
    new = with_holes(answers(30, 20, seed=10)[2], 0.3)
    seen = np.isfinite(new)
    ability, se = model.score_ability(new, estimator="map")
    p = expit(ability[:, None] - model.difficulty_)
    np.testing.assert_allclose(
        np.where(seen, np.nan_to_num(new) - p, 0.0).sum(axis=1), ability / model.scale_**2, atol=1e-7
    )
    information = np.where(seen, p * (1 - p), 0.0).sum(axis=1)
    np.testing.assert_allclose(se, (information + model.scale_**-2) ** -0.5, rtol=1e-6)
    mixed = (np.nanmean(new, axis=1) > 0) & (np.nanmean(new, axis=1) < 1)
    ability, se = model.score_ability(new[mixed], estimator="ml")
    p = expit(ability[:, None] - model.difficulty_)
    np.testing.assert_allclose(np.where(seen[mixed], np.nan_to_num(new[mixed]) - p, 0.0).sum(axis=1), 0.0, atol=1e-7)


def test_maximum_likelihood_crosses_a_gap_in_the_bank() -> None:
    # Half of the items far below, half far above: the likelihood is flat in between, where Newton steps run wild.
    model = RaschModel().fit(answers(50, 6)[2])
    model.difficulty_ = np.array([-15.0, -14.0, -13.0, 13.0, 14.0, 15.0])
    ability, se = model.score_ability([[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]], estimator="ml")
    root = brentq(lambda t: expit(t - model.difficulty_).sum() - 2, -15, -12)
    np.testing.assert_allclose(ability, [0.0, root], atol=1e-6)
    assert np.isfinite(se).all()


def test_no_response_gives_the_prior() -> None:
    model = RaschModel().fit(answers(60, 10)[2])
    empty = np.full((1, 10), np.nan)
    for estimator in ("eap", "map"):
        ability, se = model.score_ability(empty, estimator=estimator)  # type: ignore[arg-type]
        assert ability[0] == pytest.approx(0.0, abs=1e-12)
        assert se[0] == pytest.approx(model.scale_, rel=1e-9)
    with pytest.raises(ValueError, match="at least one answer per taker"):
        model.score_ability(empty, estimator="ml")


def test_scoring_does_not_depend_on_the_other_takers() -> None:
    model = RaschModel().fit(answers(60, 10)[2])
    new = answers(20, 10, seed=3)[2]
    together, _ = model.score_ability(new)
    alone = np.concatenate([model.score_ability(row[None])[0] for row in new])
    np.testing.assert_allclose(together, alone, atol=1e-8)


def test_scores_on_chosen_items() -> None:
    model = RaschModel().fit(answers(60, 10)[2])
    new = answers(5, 10, seed=3)[2]
    holes = np.full((5, 10), np.nan)
    holes[:, [7, 2]] = new[:, [7, 2]]
    np.testing.assert_allclose(
        model.score_ability(new[:, [7, 2]], items=[7, 2])[0], model.score_ability(holes)[0], atol=1e-9
    )


# Bad input


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 1], [2, 1]], r"0, 1 or missing, got 2 in row 1, column 0"),
        ([[0.5, 1], [0, 1]], "binarise"),
        ([[np.inf, 1], [0, 1]], "0, 1 or missing"),
        ([[0, 1], [np.nan, np.nan]], "taker.*without any response: 1"),
        ([[0, np.nan], [1, np.nan]], "item.*without any response: 1"),
        ([[0, 1]], "at least 2 takers and 2 items"),
        ([0, 1, 1], "2 dimensions"),
    ],
)
def test_bad_matrices_are_named(Y: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RaschModel().fit(Y)


def test_a_missing_row_is_named_by_the_frame() -> None:
    frame = pd.DataFrame([[1, 0], [np.nan, np.nan]], index=["gpt", "llama"], columns=["a", "b"])
    with pytest.raises(ValueError, match="llama"):
        RaschModel().fit(frame)
    with pytest.raises(TypeError, match="0, 1 and NaN"):
        RaschModel().fit([["right", "wrong"], ["wrong", "right"]])


def test_a_cell_stored_twice_is_refused() -> None:
    doubled = sparse.coo_array(([1.0, 0.0, 1.0, 0.0, 1.0], ([0, 0, 1, 1, 0], [0, 1, 0, 1, 0])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"cell \(0, 0\) twice"):
        RaschModel().fit(doubled)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_quadrature": 4}, "n_quadrature"),
        ({"method": "ml"}, "method"),
        ({"prior_var": 0.0}, "prior_var"),
        ({"smoothing": -1.0}, "smoothing"),
        ({"max_iter": 0}, "max_iter"),
        ({"method": "jml", "discrimination": True}, "discrimination"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RaschModel(**parameters).fit(answers(10, 4)[2])  # type: ignore[arg-type]


def test_constant_items_stay_finite_and_are_announced() -> None:
    Y = answers(40, 8)[2]
    Y[:, 2], Y[:, 5] = 1.0, 0.0
    for method in ("mml", "composite", "jml"):
        with pytest.warns(UserWarning, match=r"2 item\(s\).*: 2, 5"):
            model = RaschModel(method).fit(Y)  # type: ignore[arg-type]
        assert np.isfinite(model.difficulty_).all()
        assert model.difficulty_.argmin() == 2
        assert model.difficulty_.argmax() == 5
    with pytest.raises(ValueError, match="smoothing=0 leaves 2"):
        RaschModel("composite", smoothing=0.0).fit(Y)


def test_a_weak_prior_lets_constant_items_go_far_but_not_away() -> None:
    Y = answers(40, 8)[2]
    Y[:, 2] = 1.0
    model = quiet(RaschModel(prior_var=1e9), Y)
    assert -40 < model.difficulty_[2] < -10
    assert np.isfinite(model.loglik_)


def test_too_few_steps_are_announced() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RaschModel(max_iter=1, tol=1e-12).fit(answers(40, 8)[2])
    assert not model.converged_


@pytest.mark.parametrize(
    ("items", "message"), [([0, 99], "99"), ([1, 1], "twice"), ([-1, 0], "-1"), (["q", 0], "q"), ([True, 0], "True")]
)
def test_bad_items_are_named(items: list[object], message: str) -> None:
    model = RaschModel().fit(answers(30, 6)[2])
    with pytest.raises(ValueError, match=message):
        model.predict_proba(items)
    with pytest.raises(ValueError, match=message):
        model.score_ability([[1, 0]], items=items)


def test_wrong_number_of_columns() -> None:
    model = RaschModel().fit(answers(30, 6)[2])
    with pytest.raises(ValueError, match="one column per item, 6; got 5"):
        model.score_ability(np.ones((2, 5)))


# Long tables


def test_response_matrix_follows_its_rules() -> None:
    rows = [(f"m{i}", f"q{j}", float((i + j) % 2)) for i in range(4) for j in range(4)]
    rows += [("m0", "q0", 1.0)]  # a second score, dropped
    rows += [("m0", "rare", 1.0), ("seldom", "q0", 1.0), ("m1", "same", np.nan)]
    rows += [(f"m{i}", "easy", 1.0) for i in range(4)]  # constant
    long = pd.DataFrame(rows, columns=["model", "question", "score"])
    long.loc[(long.model == "m1") & (long.question == "q0"), "score"] = 0.5
    table = response_matrix(long, "model", "question", "score", min_takers=3, min_items=3)
    assert table.index.tolist() == ["m0", "m1", "m2", "m3"]
    assert table.columns.tolist() == ["q0", "q1", "q2", "q3"]
    assert table.loc["m0", "q0"] == 0.0
    assert table.loc["m1", "q0"] == 1.0


def test_response_matrix_removes_until_nothing_is_too_rare() -> None:
    # Without "a", item y has one taker; without y, taker "b" has one item; nothing is left then.
    long = pd.DataFrame(
        [("a", "x", 1), ("a", "y", 0), ("b", "y", 1), ("b", "z", 0), ("c", "z", 1), ("c", "w", 0)],
        columns=["t", "i", "s"],
    )
    with pytest.raises(ValueError, match="nothing is left"):
        response_matrix(long, "t", "i", "s", min_takers=2, min_items=2)
    with pytest.raises(ValueError, match="score must name a column"):
        response_matrix(long, "t", "i", "points")
    with pytest.raises(ValueError, match=r"0, 0.5 or 1, got 0.7"):
        response_matrix(long.assign(s=0.7), "t", "i", "s")


@pytest.mark.slow
def test_a_benchmark_of_benchmarks_fits_in_memory() -> None:
    import resource

    rng = np.random.default_rng(0)
    n_takers, n_items = 183, 78_712
    ability, difficulty = 1.2 * rng.normal(size=n_takers), 1.5 * rng.normal(size=n_items)
    row, column = np.nonzero(rng.random((n_takers, n_items)) < 0.4)
    right = rng.random(len(row)) < expit(ability[row] - difficulty[column])
    Y = sparse.csr_array((right.astype(float), (row, column)), shape=(n_takers, n_items))
    model = quiet(RaschModel(), Y)
    assert np.corrcoef(model.ability_, ability)[0, 1] > 0.999
    assert np.corrcoef(model.difficulty_, difficulty)[0, 1] > 0.97
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4e6  # kilobytes
