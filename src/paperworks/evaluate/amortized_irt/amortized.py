"""Difficulties from the content of the items."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive

from .calibration import composite_difficulty, difficulty_step, fit_marginal
from .likelihood import Items, Posterior, ability_posterior, best_prior, item_sums, predictive_loglik
from .predictors import LinearPredictor, NetworkPredictor, ShiftedRegressor, make_predictor
from .rasch import score
from .responses import Responses, read_responses

__all__ = ["AmortizedIRT"]

Floats = NDArray[np.float64]
Predictor = LinearPredictor | NetworkPredictor

ALPHAS = tuple(float(alpha) for alpha in 10.0 ** np.arange(2, -5, -1))
N_FOLDS = 5
_KINDS = ("linear", "rbf", "mlp")


class _Fit(NamedTuple):
    """State of the alternation between abilities and the map."""

    difficulty: Floats
    scale: float
    posterior: Posterior
    n_iter: int
    converged: bool


class AmortizedIRT(BaseEstimator):
    """A Rasch model whose difficulties are a function of what the items say, so that new items need no answers.

    Difficulty of item j is ``g(e_j)``, e_j its features (an embedding of its text, say); g is trained on the same
    likelihood that a calibration maximises.

    Parameters
    ----------
    predictor : {"linear", "rbf", "mlp"} or regressor, default="linear"
        Form of g on standardised features: linear; linear on a Nystroem sketch (200 landmarks) of a Gaussian kernel;
        one hidden layer of 64 ELU units. A scikit-learn regressor needs ``fit_mode="two_stage"``.
    fit_mode : {"joint", "two_stage"}, default="joint"
        ``"joint"`` trains g on the marginal likelihood. ``"two_stage"`` calibrates the items first, each for itself,
        and regresses the difficulties on the features.
    alpha : float or "cv", default="cv"
        Penalty: the objective is the mean log-likelihood per response (two-stage: half the mean squared error, with its
        sign turned) minus ``alpha / 2`` times the squared norm of the weights. ``"cv"`` takes the best of 1e-4, 1e-3,
        ..., 1e2 by 5-fold cross-validation over items. A regressor has its own penalty; `alpha` is not used then.
    residual : bool, default=True
        Let each item differ from g by N(0, tau^2): answered items get an estimate between g and their own answers, and
        predictions for new items come with the standard deviation tau.
    n_quadrature : int, default=11
        Nodes per taker, at least 5.
    max_iter : int, default=50
        Alternations between abilities and g at most.
    tol : float, default=1e-4
        Stop when no difficulty (nor s) changes more than this.
    random_state : int or numpy.random.RandomState, optional
        Source of the folds, the landmarks and the network's first weights.
    verbose : int, default=0
        1 prints the cross-validation and the alternations.

    Attributes
    ----------
    difficulty_ : ndarray of shape (n_items,)
        Difficulties of the answered items.
    ability_ : ndarray of shape (n_takers,)
        Posterior means of the abilities, mean 0.
    ability_se_ : ndarray of shape (n_takers,)
        Posterior standard deviations, for known difficulties.
    scale_ : float
        Standard deviation of the abilities.
    predictor_ : object
        The fitted map; ``predictor_.predict(item_features)`` gives difficulties.
    residual_std_ : float
        tau; 0.0 without `residual`.
    alpha_ : float
        The penalty used; NaN for a regressor.
    n_iter_ : int
        Alternations made (two-stage: EM steps of the calibration).
    n_features_in_ : int
        Number of features.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` alternations did not suffice.

    See Also
    --------
    RaschModel : Difficulties from answers alone.

    Notes
    -----
    Difficulties lie on the scale of g. Where g leaves much of a difficulty unexplained, that scale, and `scale_` with
    it, is a little narrower than that of a `RaschModel`, as in any logistic model with an omitted effect.

    References
    ----------
    .. [1] Truong, Tu, Liang, Li and Koyejo, "Reliable and Efficient Amortized Model-based Evaluation", ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.evaluate import AmortizedIRT
    >>> rng = np.random.default_rng(0)
    >>> content = rng.normal(size=(300, 4))
    >>> difficulty = content @ [1.0, -0.5, 0.0, 0.0]
    >>> ability = rng.normal(size=40)
    >>> Y = rng.random((40, 300)) < 1 / (1 + np.exp(difficulty - ability[:, None]))
    >>> model = AmortizedIRT(random_state=0).fit(Y[:, :200], content[:200])
    >>> predicted, std = model.predict_difficulty(content[200:], return_std=True)   # nobody's answers used
    >>> bool(np.corrcoef(predicted, difficulty[200:])[0, 1] > 0.97)
    True
    """

    def __init__(
        self,
        predictor: Any = "linear",
        *,
        fit_mode: Literal["joint", "two_stage"] = "joint",
        alpha: float | Literal["cv"] = "cv",
        residual: bool = True,
        n_quadrature: int = 11,
        max_iter: int = 50,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.predictor = predictor
        self.fit_mode = fit_mode
        self.alpha = alpha
        self.residual = residual
        self.n_quadrature = n_quadrature
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, Y: Any, item_features: ArrayLike) -> AmortizedIRT:
        """Train the map, and estimate abilities and difficulties.

        Parameters
        ----------
        Y : array-like, DataFrame or sparse matrix of shape (n_takers, n_items)
            1 for right, 0 for wrong, NaN for missing. In a sparse matrix the stored entries, explicit zeros included,
            are the observed cells.
        item_features : array-like of shape (n_items, n_features)
            One row per column of `Y`, finite.

        Returns
        -------
        AmortizedIRT
            The fitted model.

        Raises
        ------
        ValueError
            If a value of `Y` is not 0, 1 or missing, a row or a column has no value, the features are not finite or not
            as many as the items, or a parameter is out of range.
        """
        self._check_parameters()
        responses = read_responses(Y)
        features = self._check_features(item_features)
        if len(features) != responses.shape[1]:
            raise ValueError(
                f"item_features must have one row per item, {responses.shape[1]}; got shape {features.shape}"
            )
        rng = check_random_state(self.random_state)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=2)]
        fit = self._fit_joint if self.fit_mode == "joint" else self._fit_two_stage
        found, predictor, tau2 = fit(responses, features, *seeds)
        g, nodes = found.difficulty, found.posterior.nodes
        difficulty, posterior = g, found.posterior
        if self.residual and tau2 > 0:
            difficulty = difficulty_step(responses, nodes, posterior.weights, g, g, tau2, n_steps=30, tol=1e-8)
        if self.residual or self.fit_mode == "two_stage":
            posterior = self._posterior(responses, difficulty, found.scale, posterior.centre)
        shift = float(posterior.mean.mean())
        predictor.shift(-shift)
        self.difficulty_ = difficulty - shift
        self.ability_, self.ability_se_ = posterior.mean - shift, posterior.sd
        self.scale_ = found.scale
        self.predictor_ = predictor
        self.residual_std_ = float(np.sqrt(tau2)) if self.residual else 0.0
        self.n_iter_ = found.n_iter
        self.n_features_in_ = features.shape[1]
        if not found.converged:
            warnings.warn(
                f"AmortizedIRT did not reach tol={self.tol} in {found.n_iter} steps; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict_difficulty(self, item_features: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return difficulties of items by their content.

        Parameters
        ----------
        item_features : array-like of shape (n_items, n_features)
            Features of the items, answered or not.
        return_std : bool, default=False
            Whether to return the standard deviation too.

        Returns
        -------
        difficulty : ndarray of shape (n_items,)
            Predicted difficulties.
        std : ndarray of shape (n_items,)
            `residual_std_` for every item; only with `return_std`.
        """
        check_is_fitted(self, "predictor_")
        difficulty = self.predictor_.predict(self._check_features(item_features, self.n_features_in_))
        return (difficulty, np.full(len(difficulty), self.residual_std_)) if return_std else difficulty

    def predict_proba(self, item_features: ArrayLike | None = None) -> Floats:
        """Return the probability of a right answer of every taker of `fit`.

        Parameters
        ----------
        item_features : array-like of shape (n_items, n_features), optional
            Features of new items; by default the answered items with their estimated difficulties.

        Returns
        -------
        ndarray of shape (n_takers, n_items)
            Probabilities at the estimated abilities and difficulties.
        """
        logits = self._ability_column() - self._difficulty_of(item_features)
        return expit(logits, out=logits)

    def score_ability(self, Y_new: Any, item_features: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Estimate abilities of new takers by their posterior mean.

        Parameters
        ----------
        Y_new : array-like, DataFrame or sparse matrix of shape (n_new, n_items)
            Their answers, 0, 1 or missing.
        item_features : array-like of shape (n_items, n_features), optional
            Features of the items they saw; by default the items of `fit` with their estimated difficulties.

        Returns
        -------
        ability : ndarray of shape (n_new,)
            Posterior means under the prior ``N(0, scale_^2)``.
        se : ndarray of shape (n_new,)
            Posterior standard deviations, for known difficulties.
        """
        items = Items(self._difficulty_of(item_features))
        return score(Y_new, items, "eap", (0.0, self.scale_), self.n_quadrature, level=3)

    def _ability_column(self) -> Floats:
        check_is_fitted(self, "predictor_")
        return self.ability_[:, None]

    def _difficulty_of(self, item_features: ArrayLike | None) -> Floats:
        check_is_fitted(self, "predictor_")
        if item_features is None:
            return self.difficulty_
        return self.predictor_.predict(self._check_features(item_features, self.n_features_in_))

    def _check_parameters(self) -> None:
        check_choice(self.fit_mode, "fit_mode", ("joint", "two_stage"))
        if isinstance(self.predictor, str):
            check_choice(self.predictor, "predictor", _KINDS)
        elif not (hasattr(self.predictor, "fit") and hasattr(self.predictor, "predict")):
            raise TypeError(
                f"predictor must be one of {', '.join(map(repr, _KINDS))} or a regressor, got {self.predictor!r}"
            )
        elif self.fit_mode == "joint":
            raise ValueError(
                "a regressor can't be trained on the likelihood of the answers: use fit_mode='two_stage', "
                f"or one of {', '.join(map(repr, _KINDS))} as predictor"
            )
        if isinstance(self.alpha, str):
            check_choice(self.alpha, "alpha", ("cv",))
        else:
            check_positive(self.alpha, "alpha", zero_ok=True)
        check_integer(self.n_quadrature, "n_quadrature", minimum=5)
        check_integer(self.max_iter, "max_iter", minimum=1)
        check_positive(self.tol, "tol")

    @staticmethod
    def _check_features(item_features: ArrayLike, width: int | None = None) -> NDArray[Any]:
        values = item_features.to_numpy() if isinstance(item_features, pd.DataFrame) else item_features
        kept = getattr(values, "dtype", None) == np.float32  # embeddings are wide: no copy of twice the size
        features = check_finite_array(values, "item_features", ndim=2, dtype=np.float32 if kept else np.float64)
        if width is not None and features.shape[1] != width:
            raise ValueError(f"item_features must have {width} column(s), got shape {features.shape}")
        if features.shape[1] == 0:
            raise ValueError(f"item_features must have at least one column, got shape {features.shape}")
        return features

    def _posterior(self, responses: Responses, difficulty: Floats, scale: float, start: Floats) -> Posterior:
        return ability_posterior(responses, Items(difficulty), 0.0, scale, self.n_quadrature, start)

    def _alternate(
        self,
        responses: Responses,
        predictor: Predictor,
        alpha: float,
        start: _Fit | None = None,
        *,
        max_iter: int,
        tol: float,
    ) -> _Fit:
        """Alternate abilities given g and one Newton step of g given abilities (section 3.3, joint)."""
        penalty = alpha * responses.n_cells
        if start is None:
            predictor.restart()
            share = (responses.right_per_item + 0.5) / (responses.per_item + 1.0)
            weight = responses.per_item * share * (1.0 - share)
            g = predictor.update(composite_difficulty(share), weight, penalty)
            scale, centre = 1.0, np.zeros(responses.shape[0])
        else:
            g, scale, centre = start.difficulty, start.scale, start.posterior.centre
        converged, n_iter = False, 0
        while n_iter < max_iter and not converged:
            n_iter += 1
            posterior = self._posterior(responses, g, scale, centre)
            before, centre = scale, posterior.centre
            posterior, scale = best_prior(posterior, scale, True)
            shift = float((centre - posterior.centre).mean())
            centre, g = posterior.centre, g - shift
            predictor.shift(-shift)
            expected, information = item_sums(responses, posterior.nodes, posterior.weights, Items(g))[:2]
            # A Newton step as a weighted regression; more curvature where the step of an item alone would exceed 2.
            slope = expected - responses.right_per_item
            information = np.maximum(np.maximum(information, np.abs(slope) / 2.0), 1e-10)
            working = g + slope / information
            moved = predictor.update(working, information, penalty)
            change = max(float(np.abs(moved - g).max()), abs(scale - before))
            g, converged = moved, change < tol
            if self.verbose and max_iter == self.max_iter:
                print(f"alternation {n_iter}: largest change {change:.2g}")
        return _Fit(g, scale, self._posterior(responses, g, scale, centre), n_iter, converged)

    def _fit_joint(
        self, responses: Responses, features: NDArray[Any], fold_seed: int, seed: int
    ) -> tuple[_Fit, Predictor, float]:
        alphas = ALPHAS if self.alpha == "cv" else (float(self.alpha),)
        best, tau2 = 0, 0.0
        if len(alphas) > 1 or self.residual:
            scores = np.zeros(len(alphas))
            held_out: list[list[tuple[Responses, Posterior, Floats]]] = [[] for _ in alphas]
            for train in _folds(responses.shape[1], fold_seed):
                seen, unseen = responses.select_items(train), responses.select_items(~train)
                predictor = make_predictor(self.predictor, features[train], seed)
                found: _Fit | None = None
                for i, alpha in enumerate(alphas):
                    # From the largest penalty down, a convex fit from where the last one ended.
                    before = None if self.predictor == "mlp" else found
                    found = self._alternate(seen, predictor, alpha, before, max_iter=10, tol=max(self.tol, 1e-2))
                    nodes, weights = found.posterior.nodes, found.posterior.weights
                    g = predictor.predict(features[~train])
                    scores[i] += predictive_loglik(unseen, nodes, weights, Items(g)).sum()
                    held_out[i].append((unseen, found.posterior, g))
            best = int(np.argmax(scores))
            if self.verbose:
                for alpha, value in zip(alphas, scores / responses.n_cells, strict=True):
                    print(f"alpha {alpha:g}: held-out log-likelihood per response {value:.5f}")
            if self.residual:
                tau2 = _variance([_excess(part, at.nodes, at.weights, g) for part, at, g in held_out[best]])
        self.alpha_ = alphas[best]
        predictor = make_predictor(self.predictor, features, seed)
        found = self._alternate(responses, predictor, self.alpha_, max_iter=self.max_iter, tol=self.tol)
        predictor.forget_rows()
        return found, predictor, tau2

    def _fit_two_stage(
        self, responses: Responses, features: NDArray[Any], fold_seed: int, seed: int
    ) -> tuple[_Fit, Predictor | ShiftedRegressor, float]:
        calibrated = fit_marginal(
            responses,
            n_quadrature=self.n_quadrature,
            prior_var=9.0,
            estimate_scale=True,
            discrimination=False,
            max_iter=500,
            tol=self.tol,
            accelerate=True,
        )
        b, posterior = calibrated.items.difficulty, calibrated.posterior
        n, ones = len(b), np.ones(len(b))
        predictor: Predictor | ShiftedRegressor
        if isinstance(self.predictor, str):
            alphas = ALPHAS if self.alpha == "cv" else (float(self.alpha),)
            held_out = np.zeros((len(alphas), n))
            for train in _folds(n, fold_seed):
                predictor = make_predictor(self.predictor, features[train], seed)
                for i, alpha in enumerate(alphas):
                    predictor.restart()
                    predictor.update(b[train], ones[train], alpha * train.sum())
                    held_out[i, ~train] = predictor.predict(features[~train])
            best = int(np.argmin(((held_out - b) ** 2).mean(axis=1)))
            self.alpha_, out_of_fold = alphas[best], held_out[best]
            predictor = make_predictor(self.predictor, features, seed)
            g = predictor.update(b, ones, self.alpha_ * n)
            predictor.forget_rows()
        else:
            folds = KFold(min(N_FOLDS, n), shuffle=True, random_state=fold_seed)
            regressor = clone(self.predictor)
            if "random_state" in regressor.get_params() and regressor.get_params()["random_state"] is None:
                regressor.set_params(random_state=seed)
            out_of_fold = cross_val_predict(regressor, features, b, cv=folds).reshape(-1) if self.residual else b
            predictor = ShiftedRegressor(regressor.fit(features, b))
            self.alpha_, g = float("nan"), predictor.predict(features)
        tau2 = (
            _variance([_excess(responses, posterior.nodes, posterior.weights, out_of_fold)]) if self.residual else 0.0
        )
        found = _Fit(g, calibrated.scale, posterior, calibrated.n_iter, calibrated.converged)
        return found, predictor, tau2


def _folds(n_items: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Yield, for every fold, which items are trained on."""
    for train, _ in KFold(min(N_FOLDS, n_items), shuffle=True, random_state=seed).split(np.empty((n_items, 0))):
        kept = np.zeros(n_items, dtype=bool)
        kept[train] = True
        yield kept


def _excess(responses: Responses, nodes: Floats, weights: Floats, g: Floats) -> Floats:
    """Return (b - g)^2 - se^2 of the items that aren't constant, b their difficulty by their own answers alone."""
    varied = (responses.right_per_item > 0) & (responses.right_per_item < responses.per_item)
    if not varied.any():
        return np.empty(0)
    kept = responses.select_items(varied)
    share = kept.right_per_item / kept.per_item
    b = difficulty_step(kept, nodes, weights, composite_difficulty(share), 0.0, np.inf, n_steps=50, tol=1e-6)
    information = item_sums(kept, nodes, weights, Items(b)).information
    return (b - g[varied]) ** 2 - 1.0 / information


def _variance(excess: list[Floats]) -> float:
    values = np.concatenate(excess) if excess else np.empty(0)
    return max(0.0, float(values.mean())) if len(values) else 0.0
