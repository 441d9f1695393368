"""Adaptive tests: ask next what says most about this taker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive

from .likelihood import gauss_hermite

__all__ = ["AdaptiveTest", "empirical_reliability"]

Floats = NDArray[np.float64]

_NODES = 11
_UNCERTAINTY_NODES = 5
_BLOCK = 32_768
"""Numbers that are compared at once, so that they stay in the processor's cache."""
_REACH = 1.0
"""An infinite ability is taken as this far outside the bank when the next item is chosen."""


def empirical_reliability(theta: ArrayLike, se: ArrayLike) -> float:
    """Return the share of the variance of estimated abilities that is not error.

    ``Var(theta) / (Var(theta) + mean(se^2))``, Var with divisor n - 1.

    Parameters
    ----------
    theta : array-like of shape (n_takers,)
        Estimated abilities of at least 2 takers, finite.
    se : array-like of shape (n_takers,)
        Their standard errors, finite and not negative.

    Returns
    -------
    float
        A number in [0, 1]; 0 where the abilities and the errors are all 0.

    Raises
    ------
    ValueError
        If the arrays are not finite, differ in length or have fewer than 2 values, or a standard error is negative.

    Examples
    --------
    >>> from paperworks.evaluate import empirical_reliability
    >>> empirical_reliability([-1.0, 0.0, 1.0], [0.5, 0.5, 0.5])
    0.8
    """
    abilities, errors = check_finite_array(theta, "theta", ndim=1), check_finite_array(se, "se", ndim=1)
    if len(abilities) < 2 or len(abilities) != len(errors):
        raise ValueError(
            f"theta and se must have the same length, at least 2; got {len(abilities)} and {len(errors)} value(s)"
        )
    if (errors < 0).any():
        raise ValueError(f"se must not be negative, got {errors.min()}")
    return _reliability(abilities, errors)


def _reliability(theta: Floats, se: Floats) -> float:
    variance, error = float(theta.var(ddof=1)), float((se**2).mean())
    return variance / (variance + error) if variance > 0 else 0.0


class AdaptiveTest:
    """A test that asks the item of greatest information at the current ability, and stops when it knows enough.

    Parameters
    ----------
    difficulty : array-like of shape (n_items,)
        Difficulties of the bank, from `RaschModel` or `AmortizedIRT`.
    prior : tuple of (float, float), default=(0.0, 1.0)
        Mean and standard deviation of abilities; take ``(0.0, model.scale_)``.
    estimator : {"map", "eap", "ml"}, default="map"
        Posterior mode, posterior mean or maximum likelihood. The last is infinite until answers differ.
    selection : {"fisher", "random"}, default="fisher"
        Greatest Fisher information p (1 - p), ties to the lowest index; or items at random, for comparison.
    max_items : int, optional
        Stop after that many items.
    target_se : float, optional
        Stop when the standard error is this small. For reliability r in a population of standard deviation s that is
        ``s * sqrt(1 - r)``.
    exposure : int, default=1
        Choose at random among the that many best items, so that not everybody gets the same ones.
    difficulty_std : float or array-like of shape (n_items,), optional
        Standard deviations of the difficulties (``predict_difficulty(..., return_std=True)``): the information is
        averaged over N(difficulty, std^2), which favours items that are well known.
    random_state : int or numpy.random.RandomState, optional
        Source of choices by `exposure` and ``"random"``.

    Attributes
    ----------
    theta_ : float
        Ability by the answers so far.
    se_ : float
        Its standard error.
    done : bool
        Whether the test is over: `max_items` or `target_se` reached, or no item left.
    history_ : DataFrame
        One row per answer: item, response, and theta and se after it.

    Raises
    ------
    ValueError
        If difficulties or their standard deviations are not finite, or a parameter is out of range.

    See Also
    --------
    RaschModel : Calibrates a bank.

    Notes
    -----
    Any item may be reported with `update`, not just the proposed one: a test can begin with answers one has.

    References
    ----------
    .. [1] Truong, Tu, Liang, Li and Koyejo, "Reliable and Efficient Amortized Model-based Evaluation", ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.evaluate import AdaptiveTest
    >>> difficulty = np.linspace(-3, 3, 61)
    >>> test = AdaptiveTest(difficulty, max_items=20)
    >>> test.run(lambda item: difficulty[item] < 1.0).history_["item"].head(5).tolist()
    [30, 34, 37, 40, 38]
    >>> round(test.theta_, 1)
    0.9
    """

    def __init__(
        self,
        difficulty: ArrayLike,
        *,
        prior: tuple[float, float] = (0.0, 1.0),
        estimator: Literal["map", "eap", "ml"] = "map",
        selection: Literal["fisher", "random"] = "fisher",
        max_items: int | None = None,
        target_se: float | None = None,
        exposure: int = 1,
        difficulty_std: float | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.difficulty, self.difficulty_std = _check_bank(difficulty, difficulty_std)
        self.prior = _check_prior(prior)
        _check_rules(estimator, selection, exposure)
        self.estimator, self.selection, self.exposure = estimator, selection, exposure
        self.max_items = None if max_items is None else check_integer(max_items, "max_items", minimum=1)
        self.target_se = None if target_se is None else check_positive(target_se, "target_se")
        self.random_state = random_state
        self._selector = _Selector(self.difficulty, self.difficulty_std, selection, exposure)
        self._rng = check_random_state(random_state)
        self._asked = np.zeros(len(self.difficulty), dtype=bool)
        self._items: list[int] = []
        self._responses: list[int] = []
        self._path: list[tuple[float, float]] = []
        self._proposed: int | None = None
        self.theta_, self.se_ = self.prior if estimator != "ml" else (self.prior[0], float("inf"))

    @property
    def done(self) -> bool:
        """Whether the test is over."""
        n = len(self._items)
        return (
            n == len(self.difficulty)
            or (self.max_items is not None and n >= self.max_items)
            or (self.target_se is not None and self.se_ <= self.target_se)
        )

    @property
    def history_(self) -> pd.DataFrame:
        """One row per answer: item, response, theta, se."""
        theta, se = np.array(self._path, dtype=np.float64).reshape(-1, 2).T
        return pd.DataFrame(
            {
                "item": np.array(self._items, dtype=np.int64),
                "response": np.array(self._responses, dtype=np.int64),
                "theta": theta,
                "se": se,
            }
        )

    def next_item(self) -> int:
        """Propose the next item.

        Returns
        -------
        int
            Its index; the same until an answer is reported.

        Raises
        ------
        RuntimeError
            If the test is over.
        """
        if self.done:
            reason = (
                f"all {len(self.difficulty)} items were asked"
                if len(self._items) == len(self.difficulty)
                else f"max_items={self.max_items} or target_se={self.target_se} is reached"
            )
            raise RuntimeError(f"the test is over: {reason}")
        if self._proposed is None:
            self._proposed = int(self._selector.choose(np.array([self.theta_]), self._asked[None], self._rng)[0])
        return self._proposed

    def update(self, item: int, response: int | bool) -> None:
        """Report an answer and estimate the ability anew.

        Parameters
        ----------
        item : int
            Index of the item in the bank.
        response : int or bool
            1 for right, 0 for wrong.

        Raises
        ------
        ValueError
            If the item is unknown or was answered before, or the response is not 0 or 1; nothing changes then.
        """
        n = len(self.difficulty)
        whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not whole or not 0 <= item < n:
            raise ValueError(f"item must be an index of the bank, 0 to {n - 1}; got {item!r}")
        item = int(item)
        if self._asked[item]:
            raise ValueError(f"item {item} was answered before")
        if not np.isscalar(response) or response not in (0, 1):
            raise ValueError(f"response must be 0 or 1, got {response!r}")
        self._asked[item] = True
        self._items.append(item)
        self._responses.append(int(bool(response)))
        self._proposed = None
        start = self.theta_ if np.isfinite(self.theta_) else self.prior[0]
        theta, se = _estimate(
            self.difficulty[self._items][None],
            np.array([float(sum(self._responses))]),
            self.prior,
            self.estimator,
            np.array([start]),
        )
        self.theta_, self.se_ = float(theta[0]), float(se[0])
        self._path.append((self.theta_, self.se_))

    def run(self, answer: Callable[[int], int | bool]) -> AdaptiveTest:
        """Ask until the test is over.

        Parameters
        ----------
        answer : callable
            ``answer(item)`` puts the item to the taker, for instance a language model and a grader, and returns 1 or 0.

        Returns
        -------
        AdaptiveTest
            The test itself.
        """
        while not self.done:
            item = self.next_item()
            self.update(item, answer(item))
        return self

    @staticmethod
    def simulate(
        difficulty: ArrayLike,
        abilities: ArrayLike,
        *,
        n_items: int,
        selection: Literal["fisher", "random"] = "fisher",
        prior: tuple[float, float] = (0.0, 1.0),
        estimator: Literal["map", "eap", "ml"] = "map",
        exposure: int = 1,
        difficulty_std: float | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> dict[str, Floats]:
        """Give the test to many takers of known ability at once, whose answers follow the model.

        Parameters
        ----------
        difficulty : array-like of shape (n_bank,)
            Difficulties of the bank.
        abilities : array-like of shape (n_takers,)
            True abilities, of at least 2 takers.
        n_items : int
            Items that each taker gets, at most the bank.
        selection : {"fisher", "random"}, default="fisher"
            How items are chosen.
        prior : tuple of (float, float), default=(0.0, 1.0)
            Mean and standard deviation of the prior.
        estimator : {"map", "eap", "ml"}, default="map"
            How abilities are estimated.
        exposure : int, default=1
            Choose at random among that many best items.
        difficulty_std : float or array-like of shape (n_bank,), optional
            Uncertainty of the difficulties: the true ones are drawn from N(difficulty, std^2), once for all takers.
        random_state : int or numpy.random.RandomState, optional
            Source of answers, choices and true difficulties.

        Returns
        -------
        dict of str to ndarray
            ``theta`` and ``se`` of shape (n_items, n_takers), the estimates after each item; ``reliability`` (see
            `empirical_reliability`) and ``rmse`` against `abilities`, of shape (n_items,). While an ability is
            infinite, the reliability is 0 and the error infinite.

        Raises
        ------
        ValueError
            If an array is not finite, or a parameter is out of range.
        """
        bank, std = _check_bank(difficulty, difficulty_std)
        truth = check_finite_array(abilities, "abilities", ndim=1)
        if len(truth) < 2:
            raise ValueError(f"abilities must have at least 2 values, got {len(truth)}")
        check_integer(n_items, "n_items", minimum=1, maximum=len(bank))
        prior = _check_prior(prior)
        _check_rules(estimator, selection, exposure)
        rng = check_random_state(random_state)
        actual = bank if std is None else bank + std * rng.standard_normal(len(bank))
        n_takers = len(truth)
        takers = np.arange(n_takers)
        asked = np.zeros((n_takers, len(bank)), dtype=bool)
        given, right = np.zeros((n_takers, n_items)), np.zeros(n_takers)
        theta, se = np.empty((n_items, n_takers)), np.empty((n_items, n_takers))
        now = np.full(n_takers, prior[0])
        selector = _Selector(bank, std, selection, exposure)
        for step in range(n_items):
            item = selector.choose(now, asked, rng)
            asked[takers, item] = True
            given[:, step] = bank[item]
            right += rng.random_sample(n_takers) < expit(truth - actual[item])
            start = np.where(np.isfinite(now), now, prior[0])
            now, se[step] = _estimate(given[:, : step + 1], right, prior, estimator, start)
            theta[step] = now
        finite = np.atleast_1d(np.isfinite(theta).all(axis=1))
        return {
            "theta": theta,
            "se": se,
            "reliability": np.array(
                [_reliability(t, s) if ok else 0.0 for t, s, ok in zip(theta, se, finite, strict=True)]
            ),
            "rmse": np.sqrt(((theta - truth) ** 2).mean(axis=1)),
        }


def _check_bank(difficulty: ArrayLike, std: float | ArrayLike | None) -> tuple[Floats, Floats | None]:
    bank = check_finite_array(difficulty, "difficulty", ndim=1)
    if len(bank) == 0:
        raise ValueError("difficulty must hold at least one item, got none")
    if std is None:
        return bank, None
    spread = check_finite_array(std, "difficulty_std")
    if spread.ndim == 0:
        spread = np.full(len(bank), float(spread))
    if spread.shape != bank.shape or (spread < 0).any():
        raise ValueError(
            f"difficulty_std must be a number or an array of {len(bank)} numbers, none negative; got {std!r}"
        )
    return bank, spread


def _check_prior(prior: Any) -> tuple[float, float]:
    try:
        mean, sd = prior
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior must be a pair of mean and standard deviation, got {prior!r}") from error
    return float(check_finite_array(mean, "prior mean", ndim=0)), check_positive(sd, "prior standard deviation")


def _check_rules(estimator: str, selection: str, exposure: int) -> None:
    check_choice(estimator, "estimator", ("map", "eap", "ml"))
    check_choice(selection, "selection", ("fisher", "random"))
    check_integer(exposure, "exposure", minimum=1)


class _Selector:
    """Chooses unasked items of one bank."""

    def __init__(self, bank: Floats, std: Floats | None, selection: str, exposure: int) -> None:
        self.bank, self.selection, self.exposure = bank, selection, exposure
        self.easiness: Floats | None = None
        if std is not None and np.ptp(std) > 0:
            x, self.weights = gauss_hermite(_UNCERTAINTY_NODES)
            self.easiness = np.exp(np.clip(-(bank + std * x[:, None]), -300.0, 300.0))

    def choose(self, theta: Floats, asked: NDArray[np.bool_], rng: np.random.RandomState) -> NDArray[np.int64]:
        """Return one item for each taker; `asked` has shape (n_takers, n_items)."""
        if self.selection == "random":
            return np.where(asked, -1.0, rng.random_sample(asked.shape)).argmax(axis=1)
        if not np.isfinite(theta).all():
            theta = np.clip(theta, self.bank.min() - _REACH, self.bank.max() + _REACH)
        chosen = np.empty(len(theta), dtype=np.int64)
        rows = max(1, _BLOCK // len(self.bank))
        for low in range(0, len(theta), rows):
            block = slice(low, low + rows)
            loss = self._loss(theta[block])
            np.copyto(loss, np.inf, where=asked[block])
            k = min(self.exposure, int((~asked[block]).sum(axis=1).min())) if self.exposure > 1 else 1
            if k == 1:
                chosen[block] = loss.argmin(axis=1)
            else:
                best = np.argpartition(loss, k - 1, axis=1)[:, :k]
                chosen[block] = np.take_along_axis(best, rng.randint(k, size=(len(loss), 1)), axis=1)[:, 0]
        return chosen

    def _loss(self, theta: Floats) -> Floats:
        if self.easiness is None:
            # The information falls with the distance, also when it is averaged over one law of errors for all items.
            loss = self.bank - theta[:, None]
            return np.abs(loss, out=loss)
        odds = np.exp(np.clip(theta, -300.0, 300.0))[:, None]
        loss = np.zeros((len(theta), len(self.bank)))
        for easiness, weight in zip(self.easiness, self.weights, strict=True):
            ratio = odds * easiness
            down = 1.0 + ratio
            ratio /= down
            ratio /= down
            ratio *= weight
            loss -= ratio
        return loss


def _estimate(
    given: Floats, right: Floats, prior: tuple[float, float], estimator: str, start: Floats
) -> tuple[Floats, Floats]:
    """Return abilities and standard errors of takers that all had the same number of items, (n_takers, n_given)."""
    mean, sd = prior
    n_given = given.shape[1]
    if estimator == "ml":
        extreme = (right == 0) | (right == n_given)
        theta = np.where(right == 0, -np.inf, np.inf)
        se = np.full(len(theta), np.inf)
        rest = ~extreme
        if rest.any():
            theta[rest], information = _newton(given[rest], right[rest], 0.0, 0.0, start[rest])
            se[rest] = information**-0.5
        return theta, se
    centre, information = _newton(given, right, mean, sd**-2, start)
    spread = information**-0.5
    if estimator == "map":
        return centre, spread
    x, w = gauss_hermite(_NODES)
    nodes = centre[:, None] + spread[:, None] * x
    logs = nodes * right[:, None] + np.log(w) + x**2 / 2.0 - 0.5 * ((nodes - mean) / sd) ** 2
    for q in range(_NODES):
        logs[:, q] -= np.logaddexp(0.0, nodes[:, q, None] - given).sum(axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    theta = (weights * nodes).sum(axis=1)
    return theta, np.sqrt((weights * (nodes - theta[:, None]) ** 2).sum(axis=1))


def _newton(given: Floats, right: Floats, mean: float, precision: float, start: Floats) -> tuple[Floats, Floats]:
    """Return posterior modes and their information; Newton steps cut to 1, kept inside the bracket found so far."""
    theta = start
    low = high = None
    for _ in range(100):
        p = expit(theta[:, None] - given)
        expected = p.sum(axis=1)
        information = np.maximum(expected - np.einsum("ij,ij->i", p, p) + precision, 1e-300)
        slope = right - expected - precision * (theta - mean)
        step = np.minimum(np.maximum(slope / information, -1.0), 1.0)
        rising = slope > 0
        low = np.where(rising, theta, -np.inf if low is None else low)
        high = np.where(rising, np.inf if high is None else high, theta)
        moved = theta + step
        outside = (moved < low) | (moved > high)
        if outside.any():
            moved[outside] = (low[outside] + high[outside]) / 2.0
        done = (np.abs(step) * np.sqrt(information)).max() < 1e-7
        theta = moved
        if done:
            break
    p = expit(theta[:, None] - given)
    return theta, (p * (1.0 - p)).sum(axis=1) + precision
