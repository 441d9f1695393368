"""The Rasch model: one ability per taker, one difficulty per item."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_integer, check_positive

from .calibration import composite_difficulty, fit_joint, fit_marginal
from .likelihood import Items, ability_posterior, mode
from .responses import Responses, item_positions, listed, read_responses

__all__ = ["RaschModel"]

Floats = NDArray[np.float64]


class RaschModel(BaseEstimator):
    """Abilities and difficulties from an incomplete matrix of right and wrong answers.

    Taker i answers item j right with probability ``sigmoid(ability_i - difficulty_j)``; abilities come from N(0, s^2).
    Both live on one scale (log odds), so takers that saw different items can be compared.

    Parameters
    ----------
    method : {"mml", "composite", "jml"}, default="mml"
        ``"mml"`` maximises the marginal likelihood, abilities integrated out, by EM with adaptive quadrature.
        ``"composite"`` is the closed form of the paper's code: every item is fitted to its share of right answers, as
        if its takers were a random sample of N(0, 1); very fast, *biased where better takers got harder items*.
        ``"jml"`` maximises over abilities and difficulties together, which spreads difficulties too wide; for
        comparison.
    n_quadrature : int, default=11
        Nodes per taker, at least 5.
    prior_var : float, default=9.0
        Variance of the normal penalty of difficulties around their mean (with ``"jml"`` also of abilities around 0). It
        keeps items that everybody has right, or wrong, finite.
    estimate_scale : bool, default=True
        Whether s is estimated (``"mml"``), or 1. With ``"composite"`` it is 1, with ``"jml"`` the spread of abilities.
    smoothing : float, default=0.5
        With ``"composite"``: answers added to both the right and the wrong ones of each item.
    discrimination : bool, default=False
        Give every item a slope of its own (two-parameter model, ``"mml"`` only), with a lognormal prior around 1 of
        log standard deviation 0.5.
    max_iter : int, default=500
        EM steps (or rounds of ``"jml"``) at most.
    tol : float, default=1e-5
        Stop when no difficulty (nor s) changes more than this in a step.
    accelerate : bool, default=True
        Whether to extrapolate the EM steps (SQUAREM); a leap that doesn't raise the objective is dropped.
    random_state : int or numpy.random.RandomState, optional
        Not used: nothing is random. There because every estimator has it.
    verbose : int, default=0
        1 prints the objective at every EM step.

    Attributes
    ----------
    difficulty_ : ndarray of shape (n_items,)
        Difficulties; larger is harder.
    discrimination_ : ndarray of shape (n_items,)
        Slopes; 1 without `discrimination`.
    ability_ : ndarray of shape (n_takers,)
        Posterior means of the abilities; with ``"jml"`` their joint estimates.
    ability_se_ : ndarray of shape (n_takers,)
        Posterior standard deviations, for known difficulties.
    scale_ : float
        Standard deviation s of the abilities.
    loglik_ : float
        Log marginal likelihood without the penalty; with ``"jml"`` the joint one at the estimates.
    n_iter_ : int
        EM steps made, dropped leaps included (1 for ``"composite"``).
    converged_ : bool
        Whether `tol` was reached.

    Warns
    -----
    UserWarning
        If items are constant (all right, or all wrong): the prior alone keeps them finite.
    ConvergenceWarning
        If `max_iter` steps did not suffice.

    See Also
    --------
    AmortizedIRT : Difficulties of items that nobody answered, from their content.
    AdaptiveTest : Few, well chosen items for a new taker.

    Notes
    -----
    The objective of ``"mml"`` is the log marginal likelihood minus ``sum_j (b_j - mean b)^2 / (2 prior_var)``; the
    common shift is fixed by a mean ability of 0.

    References
    ----------
    .. [1] Truong, Tu, Liang, Li and Koyejo, "Reliable and Efficient Amortized Model-based Evaluation", ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.evaluate import RaschModel
    >>> rng = np.random.default_rng(0)
    >>> ability, difficulty = rng.normal(size=200), np.linspace(-2, 2, 40)
    >>> Y = (rng.random((200, 40)) < 1 / (1 + np.exp(difficulty - ability[:, None]))).astype(float)
    >>> Y[:100, 20:] = np.nan                          # half of the takers saw the easy half only
    >>> model = RaschModel().fit(Y)
    >>> bool(np.corrcoef(model.difficulty_, difficulty)[0, 1] > 0.97)
    True
    >>> ability, se = model.score_ability([[1, 1, 0]], items=[0, 20, 39])
    >>> ability.shape
    (1,)
    """

    def __init__(
        self,
        method: Literal["mml", "composite", "jml"] = "mml",
        *,
        n_quadrature: int = 11,
        prior_var: float = 9.0,
        estimate_scale: bool = True,
        smoothing: float = 0.5,
        discrimination: bool = False,
        max_iter: int = 500,
        tol: float = 1e-5,
        accelerate: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.n_quadrature = n_quadrature
        self.prior_var = prior_var
        self.estimate_scale = estimate_scale
        self.smoothing = smoothing
        self.discrimination = discrimination
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, Y: Any) -> RaschModel:
        """Calibrate the items and estimate the abilities.

        Parameters
        ----------
        Y : array-like, DataFrame or sparse matrix of shape (n_takers, n_items)
            1 for right, 0 for wrong, NaN for missing. In a sparse matrix the stored entries, explicit zeros included,
            are the observed cells. The names of a DataFrame can be used as `items` later.

        Returns
        -------
        RaschModel
            The fitted model.

        Raises
        ------
        ValueError
            If a value is not 0, 1 or missing, a row or a column has no value, there are fewer than 2 takers or items,
            or a parameter is out of range.
        """
        self._check_parameters()
        responses = read_responses(Y)
        self._warn_of_constant_items(responses)
        if self.method == "mml":
            found = fit_marginal(
                responses,
                n_quadrature=self.n_quadrature,
                prior_var=self.prior_var,
                estimate_scale=self.estimate_scale,
                discrimination=self.discrimination,
                max_iter=self.max_iter,
                tol=self.tol,
                accelerate=self.accelerate,
                verbose=self.verbose,
            )
            items, scale, posterior = found.items, found.scale, found.posterior
            ability, se, loglik = posterior.mean, posterior.sd, float(posterior.loglik.sum())
            n_iter, converged = found.n_iter, found.converged
        elif self.method == "composite":
            share = (responses.right_per_item + self.smoothing) / (responses.per_item + 2.0 * self.smoothing)
            items, scale = Items(composite_difficulty(share)), 1.0
            posterior = ability_posterior(responses, items, 0.0, scale, self.n_quadrature)
            ability, se, loglik = posterior.mean, posterior.sd, float(posterior.loglik.sum())
            n_iter, converged = 1, True
        else:
            items, ability, se, n_iter, converged = fit_joint(
                responses, prior_var=self.prior_var, max_iter=self.max_iter, tol=self.tol
            )
            scale, loglik = float(ability.std()), _joint_loglik(responses, ability, items)
        if not converged:
            warnings.warn(
                f"RaschModel(method={self.method!r}) did not reach tol={self.tol} in {n_iter} steps; "
                "raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.n_takers_, self.n_items_ = responses.shape
        self.taker_names_, self.item_names_ = responses.taker_names, responses.item_names
        self.difficulty_ = items.difficulty
        self.discrimination_ = np.ones(self.n_items_) if items.slope is None else items.slope
        self.ability_, self.ability_se_ = ability, se
        self.scale_, self.loglik_ = scale, loglik
        self.n_iter_, self.converged_ = n_iter, converged
        self._fit = _item_fit(responses, ability, items)
        return self

    def predict_proba(self, items: Sequence[Any] | ArrayLike | None = None) -> Floats:
        """Return the probability of a right answer of every calibrated taker.

        Parameters
        ----------
        items : sequence of int or names, optional
            Items by position, or by name if `fit` saw a DataFrame; all by default.

        Returns
        -------
        ndarray of shape (n_takers, n_items)
            Probabilities at the estimated abilities, observed cells included.
        """
        check_is_fitted(self, "difficulty_")
        chosen = item_positions(items, self.n_items_, self.item_names_)
        logits = self.discrimination_[chosen] * (self.ability_[:, None] - self.difficulty_[chosen])
        return expit(logits, out=logits)

    def score_ability(
        self,
        Y_new: Any,
        items: Sequence[Any] | ArrayLike | None = None,
        estimator: Literal["eap", "map", "ml"] = "eap",
    ) -> tuple[Floats, Floats]:
        """Estimate abilities of new takers on calibrated items.

        Parameters
        ----------
        Y_new : array-like, DataFrame or sparse matrix of shape (n_new, n_items)
            Their answers, 0, 1 or missing. A row without answers gets the prior's mean and spread.
        items : sequence of int or names, optional
            Which item each column is; by default all calibrated ones in their order.
        estimator : {"eap", "map", "ml"}, default="eap"
            Posterior mean, posterior mode, or maximum likelihood. The prior is ``N(0, scale_^2)``.

        Returns
        -------
        ability : ndarray of shape (n_new,)
            Estimates. By maximum likelihood +inf for all right, -inf for all wrong.
        se : ndarray of shape (n_new,)
            Posterior standard deviation, ``1 / sqrt(information + 1 / scale_^2)`` at the mode, or
            ``1 / sqrt(information)``; infinite where the ability is.

        Raises
        ------
        ValueError
            If a value is not 0, 1 or missing, the number of columns is wrong, an item is unknown or comes twice, or
            `estimator` is ``"ml"`` and a row has no answer.

        Warns
        -----
        UserWarning
            If maximum likelihood gives an infinite ability.
        """
        check_is_fitted(self, "difficulty_")
        check_choice(estimator, "estimator", ("eap", "map", "ml"))
        chosen = item_positions(items, self.n_items_, self.item_names_)
        slope = self.discrimination_[chosen] if self.discrimination else None
        return score(
            Y_new, Items(self.difficulty_[chosen], slope), estimator, (0.0, self.scale_), self.n_quadrature, level=3
        )

    def fit_statistics(self) -> pd.DataFrame:
        """Return how well each item fits the model.

        Returns
        -------
        DataFrame of shape (n_items, 3)
            ``infit``, sum of (y - p)^2 over sum of p (1 - p); ``outfit``, mean of (y - p)^2 / (p (1 - p)); and
            ``n_responses``, all over the item's observed cells at `ability_`. Near 1 is good; far above 1, strong
            takers fail where weak ones succeed: look for a wrong key or an ambiguous question.
        """
        check_is_fitted(self, "difficulty_")
        names = np.arange(self.n_items_) if self.item_names_ is None else self.item_names_
        infit, outfit, count = self._fit
        return pd.DataFrame(
            {"infit": infit, "outfit": outfit, "n_responses": count.astype(np.int64)},
            index=pd.Index(names, name="item"),
        )

    def _check_parameters(self) -> None:
        check_choice(self.method, "method", ("mml", "composite", "jml"))
        check_integer(self.n_quadrature, "n_quadrature", minimum=5)
        check_positive(self.prior_var, "prior_var")
        check_positive(self.smoothing, "smoothing", zero_ok=True)
        check_integer(self.max_iter, "max_iter", minimum=1)
        check_positive(self.tol, "tol")
        if self.discrimination and self.method != "mml":
            raise ValueError(f"discrimination=True needs method='mml', got {self.method!r}")

    def _warn_of_constant_items(self, responses: Responses) -> None:
        right = responses.right_per_item
        constant = np.flatnonzero((right == 0) | (right == responses.per_item))
        if not len(constant):
            return
        named = listed(constant, responses.item_names)
        if self.method == "composite" and self.smoothing == 0:
            raise ValueError(
                f"smoothing=0 leaves {len(constant)} constant item(s) without a finite difficulty: {named}; "
                "use smoothing > 0 or drop them"
            )
        warnings.warn(
            f"{len(constant)} item(s) are all right or all wrong; only the prior keeps them finite: {named}",
            UserWarning,
            stacklevel=3,
        )


def score(
    Y_new: Any,
    items: Items,
    estimator: str,
    prior: tuple[float, float],
    n_quadrature: int,
    *,
    level: int,
) -> tuple[Floats, Floats]:
    """Return abilities and standard errors of takers on items whose parameters are known (section 3.2)."""
    responses = read_responses(Y_new, "Y_new", full=False)
    n_takers, n_items = responses.shape
    if n_items != len(items.difficulty):
        raise ValueError(f"Y_new must have one column per item, {len(items.difficulty)}; got {n_items}")
    mean, sd = prior
    if estimator == "eap":
        posterior = ability_posterior(responses, items, mean, sd, n_quadrature, tol=1e-8)
        return posterior.mean, posterior.sd
    start = np.full(n_takers, mean)
    if estimator == "map":
        ability, information = mode(responses, items, mean, sd**-2, start)
        return ability, information**-0.5
    right, count = responses.right_per_taker, responses.per_taker
    silent = np.flatnonzero(count == 0)
    if len(silent):
        raise ValueError(
            "maximum likelihood needs at least one answer per taker; row(s) of Y_new without: " + listed(silent, None)
        )
    extreme = (right == 0) | (right == count)
    ability = np.where(right == 0, -np.inf, np.inf)
    se = np.full(n_takers, np.inf)
    if extreme.any():
        warnings.warn(
            f"{int(extreme.sum())} taker(s) have all answers right or all wrong: their maximum-likelihood ability is "
            "infinite; estimator='map' or 'eap' stay finite",
            UserWarning,
            stacklevel=level,
        )
    if not extreme.all():
        rest = _select_takers(responses, ~extreme)
        found, information = mode(rest, items, 0.0, 0.0, start[~extreme])
        ability[~extreme], se[~extreme] = found, information**-0.5
    return ability, se


def _select_takers(responses: Responses, kept: NDArray[np.bool_]) -> Responses:
    cells = kept[responses.taker]
    starts = np.concatenate([[0], np.cumsum(responses.per_taker[kept])])
    return Responses((int(kept.sum()), responses.shape[1]), responses.item[cells], starts, responses.right[cells])


def _joint_loglik(responses: Responses, ability: Floats, items: Items) -> float:
    logits = ability[responses.taker] - items.difficulty[responses.item]
    return -float(np.logaddexp(0.0, np.where(responses.right, -logits, logits)).sum())


def _item_fit(responses: Responses, ability: Floats, items: Items) -> tuple[Floats, Floats, Floats]:
    """Return infit, outfit and the number of cells of each item."""
    infit, variance, outfit = np.zeros((3, responses.shape[1]))
    n_items = responses.shape[1]
    for low in range(0, responses.n_cells, 1 << 18):
        cells = slice(low, low + (1 << 18))
        item, right = responses.item[cells], responses.right[cells]
        logits = ability[responses.taker[cells]] - items.difficulty[item]
        if items.slope is not None:
            logits *= items.slope[item]
        p = expit(logits)
        infit += np.bincount(item, np.where(right, expit(-logits), p) ** 2, n_items)
        variance += np.bincount(item, p * expit(-logits), n_items)
        outfit += np.bincount(item, np.exp(np.where(right, -logits, logits)), n_items)  # (y - p)^2 / (p (1 - p))
    return infit / variance, outfit / responses.per_item, responses.per_item.astype(float)
