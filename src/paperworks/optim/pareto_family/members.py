"""Members of a family, and what solves return."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from paperworks._checks import check_integer

from .exponential import Family, Floats, Params, take

__all__ = ["Front", "Member", "Solution"]


class Member:
    """A member of an exponential family, or a batch of members.

    `ParetoFamily` makes them; a batch has a leading axis of length n in all parameters, and ``member[i]``, ``len`` and
    iteration work on it.

    Parameters
    ----------
    family : Family
        The family.
    params : tuple of ndarray
        Parameters, stacked along a first axis.
    batched : bool
        Whether the first axis is shown; without it there is one member.

    Attributes
    ----------
    family : Family
        The family.
    batched : bool
        Whether this is a batch.

    Examples
    --------
    >>> from paperworks.optim import ParetoFamily
    >>> pareto = ParetoFamily().fit([(0.0, 1.0), (2.0, 4.0)])
    >>> middle = pareto.solve([0.5, 0.5])
    >>> middle.mean, middle.cov
    (array([0.4]), array([[1.6]]))
    >>> middle.sample(3, random_state=0).shape
    (3, 1)
    """

    def __init__(self, family: Family, params: Params, batched: bool) -> None:
        self.family = family
        self.batched = batched
        self._stack = params

    def __len__(self) -> int:
        if not self.batched:
            raise TypeError("a single member has no length")
        return len(self._stack[0])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Member:
        if not self.batched:
            raise TypeError("a single member can't be indexed")
        found = take(self._stack, index)
        if isinstance(index, int | np.integer):
            return Member(self.family, tuple(part[None] for part in found), False)
        return Member(self.family, found, True)

    def __repr__(self) -> str:
        if self.batched:
            return f"<{len(self)} members of {self.family.name!r}>"
        shown = ", ".join(
            f"{label}={np.array2string(part, precision=4, threshold=20)}"
            for label, part in zip(self.family.labels, self.params, strict=True)
        )
        return f"<member of {self.family.name!r}: {shown}>"

    def _shown(self, stacked: Any) -> Any:
        return stacked if self.batched else stacked[0]

    @property
    def params(self) -> Params:
        """Parameters of the member, or stacks of them."""
        return self._stack if self.batched else take(self._stack, 0)

    @property
    def mean(self) -> Floats:
        """Mean of x; AttributeError where the family has none here."""
        found: Floats = self._shown(self.family.mean(self._stack))
        return found

    @property
    def cov(self) -> Floats:
        """Covariance matrix of x; AttributeError where the family has none here."""
        found: Floats = self._shown(self.family.cov(self._stack))
        return found

    @property
    def natural(self) -> Floats:
        """Natural coordinates theta, shape (p,) or (n, p)."""
        found: Floats = self._shown(self.family.natural(self._stack))
        return found

    @property
    def expectation(self) -> Floats:
        """Expectation coordinates eta = E T(x), shape (p,) or (n, p)."""
        found: Floats = self._shown(self.family.expectation(self._stack))
        return found

    def entropy(self) -> Any:
        """Entropy in nats.

        Returns
        -------
        float or ndarray of float64, shape (n,)
            Differential entropy, or that of the probabilities for discrete families.
        """
        found = self._shown(self.family.entropy(self._stack))
        return found if self.batched else float(found)

    def sample(self, n: int, random_state: int | np.random.RandomState | np.random.Generator | None = None) -> Any:
        """Draw from the member.

        Parameters
        ----------
        n : int
            Number of draws (of each member of a batch), at least 1.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray, shape (n, d), or (n,) for families of single numbers
            The draws; a batch has one more axis in front. Products of families give a tuple of arrays.

        Raises
        ------
        ValueError
            If `n` is below 1.
        TypeError
            If `n` is no integer, or the family can't be sampled.
        """
        check_integer(n, "n", minimum=1)
        if isinstance(random_state, np.random.Generator):
            rng = random_state
        else:
            rng = np.random.default_rng(check_random_state(random_state).randint(2**32, dtype=np.uint32))
        drawn = [self.family.draw(take(self._stack, i), n, rng) for i in range(len(self._stack[0]))]
        if not self.batched:
            return drawn[0]
        if isinstance(drawn[0], tuple):
            return tuple(np.stack(parts) for parts in zip(*drawn, strict=True))
        return np.stack(drawn)

    def logpdf(self, x: ArrayLike) -> Floats:
        """Log density (log probability for discrete families) of rows.

        Parameters
        ----------
        x : array-like of shape (n_rows, d), or (n_rows,) for families of single numbers
            Rows; for products of families a tuple with one array for each block.

        Returns
        -------
        ndarray of float64, shape (n_rows,), or (n, n_rows) for a batch
            Values in nats, -inf outside the support; for a family of your own with respect to its base measure.

        Raises
        ------
        ValueError
            If `x` has the wrong shape or holds NaN.
        """
        if isinstance(x, tuple):
            rows: Any = tuple(_checked(part) for part in x)
        else:
            rows = _checked(x)
        found: Floats = self._shown(self.family.log_density(self._stack, rows))
        return found

    def to_scipy(self) -> Any:
        """Return the member as a frozen distribution of `scipy.stats`.

        Returns
        -------
        scipy.stats frozen distribution
            The same distribution.

        Raises
        ------
        ValueError
            For a batch.
        TypeError
            If scipy has no such distribution.
        """
        return self.family.to_scipy(self._one("to_scipy"))

    def to_torch(self) -> Any:
        """Return the member as a distribution of `torch.distributions`, in float64.

        Returns
        -------
        torch.distributions.Distribution
            The same distribution.

        Raises
        ------
        ValueError
            For a batch.
        TypeError
            If torch has no such distribution.
        ImportError
            If torch isn't installed.
        """
        return self.family.to_torch(tuple(np.array(part) for part in self._one("to_torch")))

    def _one(self, method: str) -> Params:
        if self.batched:
            raise ValueError(f"{method} takes one member, this is a batch of {len(self)}: index it first")
        return self.params


def _checked(x: Any) -> NDArray[np.float64]:
    rows = np.asarray(x, dtype=np.float64)
    if np.isnan(rows).any():
        raise ValueError("x holds NaN")
    return rows


class Front(NamedTuple):
    """Points of a Pareto front.

    Parameters
    ----------
    weights : ndarray of float64, shape (n, m)
        Weights of the targets.
    members : Member
        The batch of n members.
    objectives : ndarray of float64, shape (n, m)
        Divergences from the targets, in nats.

    Examples
    --------
    >>> from paperworks.optim import ParetoFamily
    >>> front = ParetoFamily().fit([(0.0, 1.0), (2.0, 1.0)]).front(3)
    >>> front.objectives
    array([[0. , 2. ],
           [0.5, 0.5],
           [2. , 0. ]])
    """

    weights: Floats
    members: Member
    objectives: Floats


class Solution(NamedTuple):
    """One preferred point of the Pareto set.

    Parameters
    ----------
    weights : ndarray of float64, shape (m,)
        Weights of the targets.
    member : Member
        The member.
    objectives : ndarray of float64, shape (m,)
        Divergences from the targets, in nats.
    converged : bool
        Whether the optimality gap is below the tolerance.

    Examples
    --------
    >>> from paperworks.optim import ParetoFamily
    >>> solution = ParetoFamily().fit([(0.0, 1.0), (2.0, 1.0)]).minimax()
    >>> solution.weights.round(6), solution.objectives.round(6)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    weights: Floats
    member: Member
    objectives: Floats
    converged: bool
