"""An experiment in rounds: propose dosages, draw the units' treatments, take in their outcomes, estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive
from paperworks.causal.factorial_design import criteria, dosages, estimates, inputs, terms

__all__ = ["FactorialDesign"]

Floats = NDArray[np.float64]

_MAX_TERMS = 20_000  # beyond it the (K, K) matrices don't fit into ordinary memory
_CHUNK = 2**22  # entries of the design matrix held at a time


class _Round(NamedTuple):
    n_units: int
    noise_std: float | None
    rate: tuple[float, ...]
    """Part of the units that got each treatment."""


class FactorialDesign:
    """Dosages and effects of combined treatments, in one round or several.

    A unit gets treatment i with probability d_i, the dosage, independently of the others. With the treatments coded
    x_i = +1 (given) and -1, the outcome is a polynomial of order k: y = sum over sets S of at most k treatments of
    beta_S prod_{i in S} x_i, plus Gaussian noise. Without knowing anything, all dosages 1/2 are best (`passive`); after
    a round, `propose` gives the dosages that best complement the units seen so far.

    Parameters
    ----------
    n_treatments : int
        Number of treatments, p.
    order : int, default=2
        Largest number of treatments that interact, k; from 1 to p.
    estimator : {"ridge", "ols", "truncated"}, default="ridge"
        Ridge regression; least squares; or least squares that returns zero when its expected squared error
        sigma^2 tr (Z'Z)^{-1} exceeds ``coef_bound^2`` (section 4.1 of the paper).
    ridge : float or "paper", optional
        The ridge penalty lambda on Z'Z. Default: sigma^2 K / coef_bound^2, for K coefficients; without `coef_bound`,
        the penalty with the greatest marginal likelihood. "paper": sigma^2 tr(Z'Z) / (coef_bound^2 smallest eigenvalue
        of Z'Z), the paper's appendix; where that is singular, the default.
    noise_std : float or None, default=1.0
        Standard deviation of the noise, sigma, in the unit of the outcome. None: estimated from the residuals of
        least squares once there are more units than coefficients.
    coef_bound : float, optional
        Bound B on the Euclidean norm of the coefficients, in the unit of the outcome.
    objective : {"a", "min_eig"}, default="a"
        What `propose` optimises: the expected squared error, or the smallest eigenvalue of the information.
    solver : {"auto", "lbfgs", "slsqp"}, default="auto"
        Optimiser of `propose`; "auto" takes "slsqp" under a supply limit and "lbfgs" otherwise.
    n_starts : int, default=6
        Starts of the optimiser: the passive dosage, the rates of the last round, and random ones.
    random_state : int, numpy.random.Generator or None, default=None
        Source of the random starts and of `assign`.
    verbose : int, default=0
        Above 0, `propose` prints a line per start.

    Attributes
    ----------
    terms_ : list of tuple of int
        The sets S, by size, then lexicographically; the empty set first.
    n_terms_ : int
        Their number, K.
    rounds_ : list of (n_units, noise_std, rate)
        What was taken in by `update`; the units themselves are not kept.
    n_units_ : int
        Number of units taken in.
    gram_ : ndarray of shape (K, K)
        Sum of Z'Z over the rounds, each times (noise_std / the round's noise_std)^2.
    coef_ : ndarray of shape (K,)
        Estimated beta, after `fit`.
    coef_std_ : ndarray of shape (K,)
        Their standard deviations: of the sampling error for "ols" and "truncated" (NaN if truncated), of the posterior
        under the ridge prior for "ridge".
    lambda_ : float
        The penalty used; 0 without ridge.
    noise_std_ : float
        The noise used.
    truncated_ : bool
        Whether "truncated" returned zero.

    References
    ----------
    D. Shyamal, J. Zhang, C. Uhler, "Probabilistic Factorial Experimental Design for Combinatorial Interventions",
    ICML 2025, arXiv:2506.03363: Eq. 1 (dosages), Eq. 5 (information), Theorem 4.2 (one round), Eq. 7 (rounds),
    section 5 (constraints). The closed form of `criterion` and the gradient of `acquisition` are not from the paper.

    Examples
    --------
    Two rounds of 40 units on four treatments, of which the first and the second help each other.

    >>> import numpy as np
    >>> from paperworks.causal import FactorialDesign
    >>> rng = np.random.default_rng(0)
    >>> design = FactorialDesign(4, order=2, noise_std=0.5, random_state=0)
    >>> for _ in range(2):
    ...     dose = design.propose(40)
    ...     given = design.assign(dose, 40)
    ...     outcome = 3.0 * given[:, 0] * given[:, 1] + rng.normal(scale=0.5, size=40)
    ...     design = design.update(given, outcome)
    >>> table = design.fit().effects()
    >>> table.loc[table["effect"].abs().idxmax(), "term"]
    (0, 1)
    """

    def __init__(
        self,
        n_treatments: int,
        order: int = 2,
        *,
        estimator: Literal["ridge", "ols", "truncated"] = "ridge",
        ridge: float | Literal["paper"] | None = None,
        noise_std: float | None = 1.0,
        coef_bound: float | None = None,
        objective: Literal["a", "min_eig"] = "a",
        solver: Literal["auto", "lbfgs", "slsqp"] = "auto",
        n_starts: int = 6,
        random_state: int | np.random.Generator | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_treatments = check_integer(n_treatments, "n_treatments", minimum=1)
        self.order = check_integer(order, "order", minimum=1, maximum=self.n_treatments)
        self.estimator = check_choice(estimator, "estimator", ("ridge", "ols", "truncated"))
        self.noise_std = None if noise_std is None else check_positive(noise_std, "noise_std")
        self.coef_bound = None if coef_bound is None else check_positive(coef_bound, "coef_bound")
        if isinstance(ridge, str):
            self.ridge: float | str | None = check_choice(ridge, "ridge", ("paper",))
        else:
            self.ridge = None if ridge is None else check_positive(ridge, "ridge")
        if self.coef_bound is None and (estimator == "truncated" or ridge == "paper"):
            raise ValueError(f"estimator={estimator!r} with ridge={ridge!r} needs coef_bound, got None")
        self.objective = check_choice(objective, "objective", ("a", "min_eig"))
        self.solver = check_choice(solver, "solver", ("auto", "lbfgs", "slsqp"))
        self.n_starts = check_integer(n_starts, "n_starts", minimum=1)
        self.verbose = check_integer(verbose, "verbose", minimum=0)
        if isinstance(random_state, np.random.Generator):
            self._entropy = int(random_state.integers(2**63))
        else:
            if random_state is not None:
                check_integer(random_state, "random_state", minimum=0)
            self._entropy = int(np.random.SeedSequence(random_state).entropy)  # type: ignore[arg-type]
        self._rng = np.random.default_rng([self._entropy, 0])
        self.n_terms_ = terms.count_terms(self.n_treatments, self.order)
        self.rounds_: list[_Round] = []
        self._names: list[Any] | None = None
        self._gram: Floats | None = None
        self._moments: Floats | None = None
        self._square = 0.0

    # What a dosage is worth

    @property
    def terms_(self) -> list[tuple[int, ...]]:
        """The sets of treatments that have a coefficient, the empty one first."""
        if self.n_terms_ > 100 * _MAX_TERMS:
            raise ValueError(f"{self.n_terms_:,} terms are too many to list; `criterion` and `passive` need no list")
        sizes = range(self.order + 1)
        return [tuple(row) for s in sizes for row in terms.sets_of_size(self.n_treatments, s).tolist()]

    @property
    def n_units_(self) -> int:
        """Number of units taken in so far."""
        return sum(each.n_units for each in self.rounds_)

    @property
    def gram_(self) -> Floats:
        """Noise-scaled Gram matrix of the units taken in, shape (K, K)."""
        self._need_matrices()
        return np.zeros((self.n_terms_, self.n_terms_)) if self._gram is None else self._gram

    def features(self, treatments: ArrayLike) -> Floats:
        """Return the design matrix.

        Parameters
        ----------
        treatments : array-like of shape (n, p)
            Treatments of each unit, 0/1 or bool; the columns of a DataFrame name them.

        Returns
        -------
        ndarray of shape (n, K)
            The products over each set in `terms_` of the treatments coded -1 and +1.

        Raises
        ------
        ValueError
            If `treatments` has another shape or values other than 0 and 1.
        """
        return terms.monomials(self._coded(treatments), self.order).astype(np.float64)

    def information(self, dose: ArrayLike) -> Floats:
        """Return the expected Gram matrix of one unit, Sigma(d) of Eq. 5.

        Parameters
        ----------
        dose : array-like of shape (p,)
            Probability of each treatment.

        Returns
        -------
        ndarray of shape (K, K)
            Products of 2 d_i - 1 over the symmetric differences of pairs of terms.

        Raises
        ------
        ValueError
            If `dose` has another shape or values outside [0, 1], or K exceeds 20,000.
        """
        checked = inputs.dosage(dose, self.n_treatments)
        self._need_matrices()
        return criteria.information(checked, self.order)

    def criterion(self, dose: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return tr Sigma(d)^{-1}; sigma^2 / n times it is about the squared error of n units in one round.

        It costs O(p k) without weights, and no matrix is formed.

        Parameters
        ----------
        dose : array-like of shape (p,)
            Probability of each treatment.
        weights : array-like of shape (K,), optional
            What the squared error of each coefficient counts; default 1.

        Returns
        -------
        float
            The criterion; K at dosage 1/2, infinite where a dosage is 0 or 1.

        Raises
        ------
        ValueError
            If `dose` or `weights` have another shape, or values outside [0, 1], or negative.
        """
        checked = inputs.dosage(dose, self.n_treatments)
        if weights is None:
            return criteria.closed_form(checked, self.order)[0]
        return criteria.weighted_form(checked, self.order, inputs.term_weights(weights, self.n_terms_))[0]

    def acquisition(
        self, dose: ArrayLike, n_units: int, *, noise_std: float | None = None, return_gradient: bool = False
    ) -> float | tuple[float, Floats]:
        """Return what `propose` minimises, Eq. 7: tr (Sigma(d) + gram / n)^{-1}.

        Parameters
        ----------
        dose : array-like of shape (p,)
            Dosage of the next round.
        n_units : int
            Number of units of the next round, n.
        noise_std : float, optional
            Noise of the next round; default that of the constructor. Sigma(d) is scaled by the squared ratio.
        return_gradient : bool, default=False
            Also return the gradient with respect to `dose`.

        Returns
        -------
        float or (float, ndarray of shape (p,))
            The value; for the objective "min_eig" minus the smallest eigenvalue of the matrix.

        Raises
        ------
        ValueError
            If an argument is out of its range, or K exceeds 20,000.
        """
        value, gradient = self._acquisition(n_units, noise_std, self.objective)(inputs.dosage(dose, self.n_treatments))
        return (value, gradient) if return_gradient else value

    def expected_error(self, dose: ArrayLike, n_units: int) -> float:
        """Return the approximate expected squared error of all coefficients after a further round.

        Parameters
        ----------
        dose : array-like of shape (p,)
            Dosage of the round.
        n_units : int
            Its number of units, n.

        Returns
        -------
        float
            That of least squares on all rounds, sigma^2 tr (n Sigma(d) + gram)^{-1}; for a first round
            sigma^2 `criterion(dose)` / n. For few units it is too small, by the spread of Z'Z around its mean.

        Raises
        ------
        ValueError
            If an argument is out of its range, or the noise is neither given nor can be estimated.
        """
        checked = inputs.dosage(dose, self.n_treatments)
        n = check_integer(n_units, "n_units", minimum=1)
        sigma = self._sigma()
        if self._gram is None:
            return sigma**2 * criteria.closed_form(checked, self.order)[0] / n
        return sigma**2 * self._acquisition(n, None, "a")(checked)[0] / n

    # Which dosage to use

    def passive(
        self,
        *,
        supply: float | None = None,
        max_treatments: int | None = None,
        upper: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Floats:
        """Return the best dosage of a single round.

        Parameters
        ----------
        supply : float, optional
            Greatest expected number of treatments per unit, the sum of the dosages.
        max_treatments : int, optional
            Greatest number of treatments used at all; the others get dosage 0, and only the sums of coefficients that
            coincide on the chosen ones can be estimated.
        upper : float or array-like of shape (p,), optional
            Greatest dosage of each treatment, in (0, 1].
        weights : array-like of shape (K,), optional
            What each coefficient counts, as in `criterion`. With `max_treatments`, those treatments are chosen whose
            terms weigh most (the first ones of equal weight).

        Returns
        -------
        ndarray of shape (p,)
            1/2 everywhere if nothing is scarce, `supply` / p under a limit on the sum alone.

        Raises
        ------
        ValueError
            If a limit is not positive, `supply` and `max_treatments` are both given, or `weights` are negative or of
            another length.
        """
        p = self.n_treatments
        limit, cap = inputs.limit(supply), inputs.greatest(upper, self.n_treatments)
        weight = None if weights is None else inputs.term_weights(weights, self.n_terms_)
        if max_treatments is None:
            dose = dosages.level(cap, limit)
            if weight is None or not weight.any() or limit is None or np.minimum(cap, 0.5).sum() <= limit:
                return dose
            return dosages.descend(
                lambda d: _logarithm(*criteria.weighted_form(d, self.order, weight)),
                [dose],
                upper=cap,
                supply=limit,
                solver="slsqp",
                report=self._report,
            )
        if supply is not None:
            raise ValueError(f"give supply or max_treatments, not both; got {supply!r} and {max_treatments!r}")
        n_used = check_integer(max_treatments, "max_treatments", minimum=1)
        value = np.zeros(p) if weight is None else criteria.weight_per_treatment(p, self.order, weight)
        used = np.argsort(-value, kind="stable")[:n_used]
        dose = np.zeros(p)
        dose[used] = np.minimum(cap, 0.5)[used]
        return dose

    def propose(
        self,
        n_units: int,
        *,
        supply: float | None = None,
        upper: ArrayLike | None = None,
        noise_std: float | None = None,
    ) -> Floats:
        """Return the dosage of the next round that best complements the units taken in.

        Parameters
        ----------
        n_units : int
            Number of units of the next round.
        supply : float, optional
            Greatest sum of the dosages.
        upper : float or array-like of shape (p,), optional
            Greatest dosage of each treatment, in (0, 1].
        noise_std : float, optional
            Noise of the next round; default that of the constructor.

        Returns
        -------
        ndarray of shape (p,)
            The dosage; before any `update` the passive one. It is never worse than the passive one.

        Raises
        ------
        ValueError
            If an argument is out of its range, K exceeds 20,000, or the solver "lbfgs" meets a supply limit.
        """
        n = check_integer(n_units, "n_units", minimum=1)
        limit, cap = inputs.limit(supply), inputs.greatest(upper, self.n_treatments)
        if limit is not None and self.solver == "lbfgs":
            raise ValueError("solver='lbfgs' can't keep a supply limit; use 'auto' or 'slsqp'")
        passive = dosages.level(cap, limit)
        acquisition = self._acquisition(n, noise_std, self.objective)
        if self._gram is None:
            return passive
        rng = np.random.default_rng([self._entropy, 1 + len(self.rounds_)])
        starts = [passive, np.minimum(np.array(self.rounds_[-1].rate), cap)]
        starts += [cap * rng.random(self.n_treatments) for _ in range(self.n_starts - 2)]
        if limit is not None:
            starts = [start * min(1.0, limit / start.sum()) if start.any() else start for start in starts]
        solver: Literal["lbfgs", "slsqp"] = "slsqp" if self.solver == "slsqp" or limit is not None else "lbfgs"
        logarithm = self.objective == "a"
        return dosages.descend(
            (lambda d: _logarithm(*acquisition(d))) if logarithm else acquisition,
            starts[: self.n_starts],
            upper=cap,
            supply=limit,
            solver=solver,
            report=self._report,
            polish=100 if logarithm else 25,  # at the kinks of the smallest eigenvalue line searches go on for long
        )

    def emulate(self, combinations: ArrayLike, weights: ArrayLike) -> Floats:
        """Return the dosage whose law of combinations is closest to a given one.

        Parameters
        ----------
        combinations : array-like of shape (m, p)
            Combinations of treatments, 0/1 or bool.
        weights : array-like of shape (m,)
            Their probabilities, up to a factor.

        Returns
        -------
        ndarray of shape (p,)
            The marginal probabilities of the treatments, which minimise the Kullback-Leibler divergence of the product
            law from the given one; see `emulation_gap`.

        Raises
        ------
        ValueError
            If `combinations` are not 0/1, or `weights` negative, all zero or of another length.
        """
        coded, q = inputs.law(combinations, weights, self.n_treatments, self._names)
        return np.clip(q @ (coded > 0), 0.0, 1.0)

    def emulation_gap(self, combinations: ArrayLike, weights: ArrayLike) -> float:
        """Return how far the dosage of `emulate` stays from the given law of combinations.

        Parameters
        ----------
        combinations : array-like of shape (m, p)
            Combinations of treatments, 0/1 or bool; equal ones are added up.
        weights : array-like of shape (m,)
            Their probabilities, up to a factor.

        Returns
        -------
        float
            Kullback-Leibler divergence in nats: the entropies of the single treatments minus that of the combinations.
            Zero if the treatments are independent.

        Raises
        ------
        ValueError
            As in `emulate`.
        """
        coded, q = inputs.law(combinations, weights, self.n_treatments, self._names)
        _, group = np.unique(coded, axis=0, return_inverse=True)
        joint = np.bincount(group.ravel(), weights=q).astype(np.float64)
        dose = np.clip(q @ (coded > 0), 0.0, 1.0)
        return max(_entropy(dose) + _entropy(1.0 - dose) - _entropy(joint), 0.0)

    def assign(self, dose: ArrayLike, n_units: int) -> NDArray[np.int64]:
        """Draw the treatments of new units.

        Parameters
        ----------
        dose : array-like of shape (p,)
            Probability of each treatment.
        n_units : int
            Number of units.

        Returns
        -------
        ndarray of shape (n_units, p)
            1 where a unit gets a treatment, else 0. Each call goes on in the random stream of the design.

        Raises
        ------
        ValueError
            If `dose` has another shape or values outside [0, 1], or `n_units` is below 1.
        """
        checked = inputs.dosage(dose, self.n_treatments)
        n = check_integer(n_units, "n_units", minimum=1)
        return (self._rng.random((n, self.n_treatments)) < checked).astype(np.int64)

    # What was learnt

    def update(self, treatments: ArrayLike, y: ArrayLike, *, noise_std: float | None = None) -> FactorialDesign:
        """Take in a round of units.

        Parameters
        ----------
        treatments : array-like of shape (n, p)
            Treatments that the units got, 0/1 or bool. The columns of a first DataFrame name the treatments; those of
            later ones are put in the same order.
        y : array-like of shape (n,)
            Outcomes.
        noise_std : float, optional
            Noise of this round, if it differs from that of the constructor, which must be given then.

        Returns
        -------
        FactorialDesign
            The design itself; call `fit` to estimate anew.

        Raises
        ------
        ValueError
            If shapes or columns don't fit, treatments are not 0/1, `y` is not finite, or K exceeds 20,000.
        """
        self._need_matrices()
        coded = self._coded(treatments)
        outcome = check_finite_array(y, "y", ndim=1)
        if outcome.size != len(coded):
            raise ValueError(f"y must have one value per unit, got {outcome.size} for {len(coded)} rows of treatments")
        scale = self._noise_scale(noise_std)
        if self._gram is None or self._moments is None:
            self._gram = np.zeros((self.n_terms_, self.n_terms_))
            self._moments = np.zeros(self.n_terms_)
        step = max(1, _CHUNK // self.n_terms_)
        for first in range(0, len(coded), step):
            Z = terms.monomials(coded[first : first + step], self.order).astype(np.float64)
            self._gram += scale * (Z.T @ Z)
            self._moments += scale * (Z.T @ outcome[first : first + step])
        self._square += scale * float(outcome @ outcome)
        if self._names is None and isinstance(treatments, pd.DataFrame):
            self._names = list(treatments.columns)
        std = None if noise_std is None else float(noise_std)
        self.rounds_.append(_Round(len(coded), std, tuple((coded > 0).mean(axis=0).tolist())))
        return self

    def fit(self) -> FactorialDesign:
        """Estimate the coefficients from all rounds.

        Returns
        -------
        FactorialDesign
            The design itself, with `coef_`, `coef_std_`, `lambda_`, `noise_std_` and `truncated_`.

        Raises
        ------
        ValueError
            If the noise is to be estimated and there are no more units than coefficients, or if ridge has nothing to
            take its penalty from: no units, no `ridge` and no `coef_bound`.
        numpy.linalg.LinAlgError
            If least squares meets a singular Gram matrix.
        """
        self._need_matrices()
        data = self._data()
        parts = estimates.spectrum(data.gram)
        sigma = self._sigma(parts)
        K, penalty, truncated = self.n_terms_, 0.0, False
        if self.estimator == "ridge":
            penalty = self._penalty(data, parts, sigma)
        elif self.estimator == "truncated":
            bound = self.coef_bound or 0.0
            truncated = parts.rank < K or bool((1.0 / parts.values).sum() > bound**2 / sigma**2)
        if not truncated and penalty == 0.0 and parts.rank < K:
            raise np.linalg.LinAlgError(
                f"the Gram matrix of {data.n_units} units has rank {parts.rank}, least squares needs {K}; "
                "take in more units or use estimator='ridge'"
            )
        self.truncated_, self.lambda_, self.noise_std_ = truncated, penalty, sigma
        if truncated:
            self.coef_, self._root = np.zeros(K), np.full((K, 1), np.nan)
        else:
            self.coef_, self._root = estimates.solve(data, parts, penalty)
        self.coef_std_ = sigma * np.sqrt((self._root**2).sum(axis=1))
        return self

    def predict(self, treatments: ArrayLike) -> Floats:
        """Return the expected outcome of units.

        Parameters
        ----------
        treatments : array-like of shape (n, p)
            Treatments of each unit, 0/1 or bool.

        Returns
        -------
        ndarray of shape (n,)
            Expected outcomes.

        Raises
        ------
        ValueError
            If `fit` was not called, or `treatments` has another shape or values other than 0 and 1.
        """
        self._need_fit()
        coded = self._coded(treatments)
        step = max(1, _CHUNK // self.n_terms_)
        parts = [
            terms.monomials(coded[first : first + step], self.order) @ self.coef_
            for first in range(0, len(coded), step)
        ]
        return np.concatenate(parts)

    def effects_from_coef(self, coef: ArrayLike) -> Floats:
        """Return the effects on the 0/1 scale that belong to coefficients of the -1/+1 coding.

        Parameters
        ----------
        coef : array-like of shape (K,)
            Coefficients beta, in the order of `terms_`.

        Returns
        -------
        ndarray of shape (K,)
            The a_T of y = sum over T of a_T prod_{i in T} 1{treatment i given}: the outcome without treatments, then
            what each treatment adds alone, then what each pair adds to that, and so on.

        Raises
        ------
        ValueError
            If `coef` has another length or is not finite.
        """
        beta = check_finite_array(coef, "coef", ndim=1)
        if beta.size != self.n_terms_:
            raise ValueError(f"coef must have {self.n_terms_} values, got {beta.size}")
        return np.asarray(terms.effect_matrix(self.n_treatments, self.order) @ beta)

    def effects(self) -> pd.DataFrame:
        """Return a table of all terms.

        Returns
        -------
        pandas.DataFrame
            One row per term: `term` (a tuple of treatment names, or of their positions), `coef` (-1/+1 coding),
            `effect` (0/1 scale, see `effects_from_coef`) and `stderr`, the standard deviation of `effect`.

        Raises
        ------
        ValueError
            If `fit` was not called.
        """
        self._need_fit()
        names = list(range(self.n_treatments)) if self._names is None else self._names
        matrix = terms.effect_matrix(self.n_treatments, self.order)
        return pd.DataFrame(
            {
                "term": [tuple(names[i] for i in term) for term in self.terms_],
                "coef": self.coef_,
                "effect": matrix @ self.coef_,
                "stderr": self.noise_std_ * np.sqrt(((matrix @ self._root) ** 2).sum(axis=1)),
            }
        )

    # Between sessions

    def state(self) -> dict[str, Any]:
        """Return all that `from_state` needs to go on later.

        Returns
        -------
        dict
            Plain numbers, texts and lists, fit for JSON if the names of the treatments are.
        """
        return {
            "n_treatments": self.n_treatments,
            "order": self.order,
            "estimator": self.estimator,
            "ridge": self.ridge,
            "noise_std": self.noise_std,
            "coef_bound": self.coef_bound,
            "objective": self.objective,
            "solver": self.solver,
            "n_starts": self.n_starts,
            "verbose": self.verbose,
            "entropy": self._entropy,
            "stream": self._rng.bit_generator.state,
            "names": self._names,
            "rounds": [[each.n_units, each.noise_std, list(each.rate)] for each in self.rounds_],
            "gram": None if self._gram is None else self._gram.tolist(),
            "moments": None if self._moments is None else self._moments.tolist(),
            "square": self._square,
            "fitted": hasattr(self, "coef_"),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FactorialDesign:
        """Return a design in the state that `state` returned.

        Parameters
        ----------
        state : mapping
            What `state` returned, possibly through JSON.

        Returns
        -------
        FactorialDesign
            A design that goes on exactly as the first would have.

        Raises
        ------
        ValueError
            If an entry is missing or out of its range.
        """
        given = dict(state)
        try:
            entropy, stream, rounds = given.pop("entropy"), given.pop("stream"), given.pop("rounds")
            names, gram, moments = given.pop("names"), given.pop("gram"), given.pop("moments")
            square, fitted = given.pop("square"), given.pop("fitted")
            design = cls(**given)
        except (KeyError, TypeError) as error:
            raise ValueError(f"state is not one of a FactorialDesign: {error}") from error
        design._entropy = int(entropy)
        design._rng = np.random.default_rng(0)
        design._rng.bit_generator.state = stream
        design._names = names
        design.rounds_ = [_Round(n, std, tuple(rate)) for n, std, rate in rounds]
        if gram is not None:
            design._gram = check_finite_array(gram, "state['gram']", ndim=2)
            design._moments = check_finite_array(moments, "state['moments']", ndim=1)
            if design._gram.shape != (design.n_terms_,) * 2 or design._moments.shape != (design.n_terms_,):
                raise ValueError(f"state['gram'] must be of {design.n_terms_} terms, got shape {design._gram.shape}")
        design._square = float(square)
        return design.fit() if fitted else design

    # Checks and parts

    def _report(self, line: str) -> None:
        if self.verbose:
            print(line)

    def _need_matrices(self) -> None:
        if self.n_terms_ > _MAX_TERMS:
            raise ValueError(
                f"K = {self.n_terms_:,} terms (n_treatments={self.n_treatments}, order={self.order}) exceed "
                f"{_MAX_TERMS:,}, the most that matrices are formed for; `criterion` and `passive` work at any size"
            )

    def _need_fit(self) -> None:
        if not hasattr(self, "coef_"):
            raise ValueError("this design has no coefficients yet; call fit() first")

    def _coded(self, treatments: Any) -> NDArray[np.int8]:
        return inputs.coded(treatments, self.n_treatments, self._names)

    def _noise_scale(self, noise_std: float | None) -> float:
        if noise_std is None:
            return 1.0
        if self.noise_std is None:
            raise ValueError("noise_std of a round is relative to that of the constructor, which is None")
        return (self.noise_std / check_positive(noise_std, "noise_std")) ** 2

    def _acquisition(self, n_units: int, noise_std: float | None, objective: Any) -> criteria.Acquisition:
        self._need_matrices()
        n = check_integer(n_units, "n_units", minimum=1)
        return criteria.Acquisition(self.order, self.gram_ / n, self._noise_scale(noise_std), objective)

    def _data(self) -> estimates.Data:
        moments = np.zeros(self.n_terms_) if self._moments is None else self._moments
        return estimates.Data(self.gram_, moments, self._square, self.n_units_)

    def _sigma(self, parts: estimates.Spectrum | None = None) -> float:
        if self.noise_std is not None:
            return self.noise_std
        if self.n_units_ <= self.n_terms_:
            raise ValueError(
                f"noise_std=None needs more units than coefficients ({self.n_terms_}) to estimate the noise, "
                f"got {self.n_units_}; give noise_std"
            )
        data = self._data()
        return estimates.residual_std(data, parts or estimates.spectrum(data.gram))

    def _penalty(self, data: estimates.Data, parts: estimates.Spectrum, sigma: float) -> float:
        if self.ridge is not None and not isinstance(self.ridge, str):
            return self.ridge
        if self.coef_bound is not None:
            if self.ridge == "paper" and parts.rank == self.n_terms_:
                return sigma**2 * float(np.trace(data.gram)) / (self.coef_bound**2 * float(parts.values[0]))
            return sigma**2 * self.n_terms_ / self.coef_bound**2
        if data.n_units == 0:
            raise ValueError("there are no units yet to take the ridge penalty from; give ridge or coef_bound")
        return estimates.likeliest_ridge(data, parts, sigma) if sigma > 0 else 0.0


def _logarithm(value: float, gradient: Floats) -> tuple[float, Floats]:
    return math.log(value), gradient / value


def _entropy(q: Floats) -> float:
    kept = q[q > 0]
    return -float(kept @ np.log(kept))
