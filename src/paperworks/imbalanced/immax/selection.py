"""The choice of margins and penalty on held-out rows: folds that lose no class, scores, and the temperature."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from paperworks._checks import check_integer

from .margins import geomean

__all__ = ["Candidate", "choose", "fit_temperature", "held_out_log_loss", "make_folds", "make_scorer", "rank"]

Floats = NDArray[np.float64]
_COORDINATE_STEPS = (0.75, 1.25)
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Candidate:
    """One combination of margins and penalty.

    Parameters
    ----------
    rho : ndarray of float64, shape (n_classes,)
        Margins.
    alpha : float
        Penalty.
    gamma : float, optional
        Exponent that the margins come from.
    """

    rho: Floats
    alpha: float
    gamma: float | None = None


def make_folds(
    cv: Any, X: Any, y: NDArray[np.int64], kept: NDArray[np.int64], names: Any, seed: Callable[[], int]
) -> list[Fold]:
    """Return (train, test) index pairs where every class has a row in every training part.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        An int means shuffled stratified folds; the others split the rows as they were passed to ``fit``.
    X : array-like, shape (n_samples, n_features)
        All rows.
    y : ndarray of int, shape (n_samples,)
        Class indices of all rows; -1 where the row has weight 0.
    kept : ndarray of int, shape (n_kept,)
        Rows with positive weight; the folds are in terms of these.
    names : sequence
        Name of each class, for the warning.
    seed : callable
        Returns the seed of the shuffle, called for an int only.

    Returns
    -------
    list of (ndarray of int, ndarray of int)
        Positions in `kept`.

    Raises
    ------
    ValueError
        If `cv` is below 2, or a fold holds out no row.

    Warns
    -----
    UserWarning
        Names the classes that would be missing from a training part, with their counts; a row of each stays there.
    """
    labels = y[kept]
    counts = np.bincount(labels)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        folds, held_back = _stratified(labels, counts, check_integer(cv, "cv", minimum=2), seed())
    else:
        position = np.full(len(y), -1)
        position[kept] = np.arange(len(kept))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            try:
                splits = list(check_cv(cv, y, classifier=True).split(X, y))
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"cv must be an int, a splitter or a list of (train, test) splits: {error}"
                ) from error
        folds, held_back = [], set()
        for split in splits:
            train, test = (position[np.arange(len(y))[part]] for part in split)
            folds.append((train[train >= 0], test[test >= 0]))
    whole = []
    for number, (train, test) in enumerate(folds):
        for k in np.setdiff1d(np.flatnonzero(counts), labels[train]):
            first = np.flatnonzero(labels == k)[0]
            train, test = np.append(train, first), test[test != first]
            held_back.add(int(k))
        if len(test) == 0:
            raise ValueError(
                f"cv={cv!r}: split {number} holds out no row; "
                "use fewer folds, or fixed margins and alpha, which need none"
            )
        whole.append((train, test))
    if not whole:
        raise ValueError(f"cv must hold at least one split, got {cv!r}")
    if held_back:
        listed = ", ".join(f"{_name(names[k])} (count {counts[k]})" for k in sorted(held_back))
        warnings.warn(
            f"too few rows to hold out from every class: {listed}; a row of each stays in the training part of every "
            "fold, so the choice of the margins sees little or nothing of its errors",
            UserWarning,
            stacklevel=4,
        )
    return whole


def _name(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def _stratified(
    labels: NDArray[np.int64], counts: NDArray[np.int64], n_splits: int, seed: int
) -> tuple[list[Fold], set[int]]:
    """Deal the shuffled rows of class after class to the folds in turn; classes with one row are dealt to none."""
    single = {int(k) for k in np.flatnonzero(counts == 1)}
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    order = order[counts[labels[order]] > 1]
    everything = np.arange(len(labels))
    folds = []
    for k in range(n_splits):
        test = np.sort(order[k::n_splits])
        folds.append((np.setdiff1d(everything, test), test))
    return folds, single


def make_scorer(scoring: Any) -> Callable[..., float]:
    """Return ``score(h, y, weight, fitted, X, labels)`` for a metric.

    Parameters
    ----------
    scoring : str or callable
        "accuracy" and "balanced_accuracy" are computed from the scores; any other scorer of scikit-learn, by name or
        as ``scorer(estimator, X, y)``, gets a fitted estimator.

    Returns
    -------
    callable
        The score, higher is better.

    Raises
    ------
    ValueError
        If the name is unknown, or later if a score isn't finite.
    TypeError
        If `scoring` is neither a name nor callable.
    """
    if scoring in ("accuracy", "balanced_accuracy"):
        balanced = scoring == "balanced_accuracy"

        def from_scores(h: Floats, y: Any, weight: Floats, *_: Any) -> float:
            predicted = (h > 0).astype(np.int64) if h.ndim == 1 else h.argmax(axis=1)
            hit = weight * (predicted == y)
            if not balanced:
                return float(hit.sum() / weight.sum())
            total = np.bincount(y, weights=weight)
            recall = np.bincount(y, weights=hit)[total > 0] / total[total > 0]
            return float(recall.mean())

        return from_scores
    if not isinstance(scoring, str) and not callable(scoring):
        raise TypeError(f"scoring must be the name of a metric or a function, got {scoring!r}")
    try:
        scorer = get_scorer(scoring)
    except (ValueError, KeyError) as error:
        raise ValueError(f"scoring is unknown: {scoring!r}; see sklearn.metrics.get_scorer_names()") from error

    def from_estimator(h: Floats, y: Any, weight: Floats, fitted: Any, X: Any, labels: Any) -> float:
        even = bool((weight == weight[0]).all())
        score = float(scorer(fitted, X, labels) if even else scorer(fitted, X, labels, sample_weight=weight))
        if not np.isfinite(score):
            raise ValueError(f"scoring={scoring!r} gave {score} on a fold; use a metric that is defined on every fold")
        return score

    return from_estimator


def held_out_log_loss(h: Floats, y: Any, weight: Floats) -> float:
    """Return the weighted mean log loss of softmax(h), or of sigmoid(h) for one score per row.

    Parameters
    ----------
    h : ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
        Scores.
    y : ndarray of int, shape (n_samples,)
        Class indices.
    weight : ndarray of float64, shape (n_samples,)
        Weights.

    Returns
    -------
    float
        The log loss.
    """
    if h.ndim == 1:
        loss = np.logaddexp(0.0, np.where(y == 1, -h, h))
    else:
        loss = logsumexp(h, axis=1) - h[np.arange(len(y)), y]
    return float(weight @ loss / weight.sum())


def rank(scores: Floats, log_losses: Floats) -> NDArray[np.int64]:
    """Return ranks from 1 by higher mean score, ties by lower mean log loss.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_candidates,)
        Mean scores.
    log_losses : ndarray of float64, shape (n_candidates,)
        Mean held-out log losses.

    Returns
    -------
    ndarray of int, shape (n_candidates,)
        Ranks, all different.
    """
    order = np.lexsort((log_losses, -np.round(scores, 12)))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def fit_temperature(h: Floats, y: Any, weight: Floats) -> float:
    """Return the temperature T in [0.05, 20] that minimises the log loss of softmax(h / T).

    Parameters
    ----------
    h : ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
        Held-out scores.
    y : ndarray of int, shape (n_samples,)
        Class indices.
    weight : ndarray of float64, shape (n_samples,)
        Weights.

    Returns
    -------
    float
        The temperature.
    """
    logits = np.column_stack((np.zeros_like(h), h)) if h.ndim == 1 else h
    logits = logits - logits.max(axis=1, keepdims=True)
    own = logits[np.arange(len(y)), y]

    def slope(beta: float) -> float:  # of the convex log loss in beta = 1/T
        prob = np.exp(beta * logits)
        prob /= prob.sum(axis=1, keepdims=True)
        return float(weight @ ((prob * logits).sum(axis=1) - own))

    low, high = 1 / 20.0, 20.0
    if slope(low) >= 0:
        return 1.0 / low
    if slope(high) <= 0:
        return 1.0 / high
    return 1.0 / float(scipy.optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-14))


def choose(
    estimator: Any, X: Any, y: Any, weight: Floats, folds: list[Fold], candidates: list[Candidate], score: Any
) -> tuple[Candidate, dict[str, Any], float]:
    """Pick the best candidate on held-out rows.

    Parameters
    ----------
    estimator : ImmaxClassifier
        Knows the scorers and the settings.
    X : ndarray or csr matrix, shape (n_samples, n_features)
        Rows.
    y : ndarray of int, shape (n_samples,)
        Class indices.
    weight : ndarray of float64, shape (n_samples,)
        Positive weights.
    folds : list of (ndarray of int, ndarray of int)
        Training and held-out rows.
    candidates : list of Candidate
        What to choose among, neighbours alike: each fit starts from the one before.
    score : callable
        From `make_scorer`.

    Returns
    -------
    Candidate
        The best; with ``rho="coordinate"`` after one pass of changes per class.
    dict
        The table `cv_results_`.
    float
        Temperature fitted on the held-out scores.
    """
    parallel = Parallel(n_jobs=estimator.n_jobs, verbose=10 * estimator.verbose)

    def evaluate(some: list[Candidate]) -> tuple[Floats, Floats]:
        rows = parallel(delayed(_run_fold)(estimator, X, y, weight, fold, some, score) for fold in folds)
        table = np.asarray(rows)  # (n_folds, n_candidates, 2)
        return table[:, :, 0], table[:, :, 1]

    scores, log_losses = evaluate(candidates)
    ranks = rank(scores.mean(axis=0), log_losses.mean(axis=0))
    best = int(ranks.argmin())
    results: dict[str, Any] = {
        "params": [{"alpha": c.alpha, **({} if c.gamma is None else {"gamma": c.gamma})} for c in candidates],
        "alpha": np.array([c.alpha for c in candidates]),
        "rho": np.array([c.rho for c in candidates]),
        **{f"split{k}_test_score": row for k, row in enumerate(scores)},
        "mean_test_score": scores.mean(axis=0),
        "std_test_score": scores.std(axis=0),
        "mean_test_log_loss": log_losses.mean(axis=0),
        "rank_test_score": ranks,
    }
    if candidates[0].gamma is not None:
        results["gamma"] = np.array([c.gamma for c in candidates])
    chosen = candidates[best]
    if isinstance(estimator.rho, str) and estimator.rho == "coordinate":
        standing = (round(scores[:, best].mean(), 12), -log_losses[:, best].mean())
        for k in range(len(estimator.classes_)):
            tried = []
            for step in _COORDINATE_STEPS:
                rho = chosen.rho.copy()
                rho[k] *= step
                tried.append(Candidate(rho / geomean(rho), chosen.alpha, chosen.gamma))
            scores, log_losses = evaluate(tried)
            for j, candidate in enumerate(tried):
                reached = (round(scores[:, j].mean(), 12), -log_losses[:, j].mean())
                if reached > standing:
                    standing, chosen = reached, candidate
    parts = parallel(delayed(_held_out_scores)(estimator, X, y, weight, fold, chosen) for fold in folds)
    held_out = np.concatenate([test for _, test in folds])
    temperature = fit_temperature(np.concatenate(parts) / geomean(chosen.rho), y[held_out], weight[held_out])
    return chosen, results, temperature


def _run_fold(
    estimator: Any, X: Any, y: Any, weight: Floats, fold: Fold, candidates: list[Candidate], score: Any
) -> list[tuple[float, float]]:
    """Score and log loss of each candidate on one fold, each fit started from the one before."""
    train, test = fold
    feature_map, fitter = estimator._prepare(X[train], y[train], weight[train])
    held_out = X[test] if feature_map is None else feature_map.transform(X[test])
    model, out = None, []
    for candidate in candidates:
        model = fitter.fit(candidate.rho, candidate.alpha, surrogate=estimator.surrogate, start=model, loose=True)
        h = model.scores(held_out)
        fitted = copy.copy(estimator)
        fitted.temperature_ = 1.0
        fitted.__dict__.pop("feature_names_in_", None)  # the fold's rows carry no names
        fitted._hold(feature_map, model, candidate.rho)
        value = score(h, y[test], weight[test], fitted, X[test], estimator.classes_[y[test]])
        out.append((value, held_out_log_loss(h / geomean(candidate.rho), y[test], weight[test])))
    return out


def _held_out_scores(estimator: Any, X: Any, y: Any, weight: Floats, fold: Fold, candidate: Candidate) -> Floats:
    train, test = fold
    feature_map, fitter = estimator._prepare(X[train], y[train], weight[train])
    model = fitter.fit(candidate.rho, candidate.alpha, surrogate=estimator.surrogate, loose=fitter.large)
    h: Floats = model.scores(X[test] if feature_map is None else feature_map.transform(X[test]))
    return h
