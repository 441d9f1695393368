"""The Pareto set of several targets within an exponential family, in closed form, and preferred points on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive

from .exponential import Floats
from .hypervolume import area_of_curve, volume_of_points
from .members import Front, Member, Solution
from .simplex import check_weights, lattice, maximise, quadratic_step
from .targets import make_family, read_targets

__all__ = ["ParetoFamily"]


class ParetoFamily(BaseEstimator):
    r"""All members of an exponential family that can't be closer to one target without being farther from another.

    With divergences :math:`f_i(p) = KL(p \| p_i)` (reverse) the Pareto set is the set of mixtures of the targets'
    natural parameters, with :math:`f_i(p) = KL(p_i \| p)` (forward) that of their expectation parameters:
    each choice of weights on the simplex gives one Pareto point, in closed form, and there are no others.

    Parameters
    ----------
    family : str, ExponentialFamily or tuple of these, default="gaussian"
        One of ``"gaussian"``, ``"gaussian_known_cov"``, ``"categorical"``, ``"bernoulli"``, ``"poisson"``,
        ``"exponential"``, ``"gamma"``, ``"beta"``, ``"dirichlet"``, ``"lognormal"``, ``"wishart"``, ``"vonmises"``, a
        family of your own, or a tuple of families for independent blocks that share the weights.
    divergence : {"reverse", "forward"}, default="reverse"
        Reverse prefers what all targets agree on, forward covers every target.
    covariance : {"full", "diag", "spherical"}, default="full"
        Shape of the covariances of ``"gaussian"`` and ``"lognormal"``.
    reg : float, default=0.0
        Added to the diagonal of the targets' covariances (variances), in their unit; Gaussian families only.
    tol : float, default=1e-10
        Relative tolerance of iterations: optimality gap of min-max points, moments of families without closed form.
    max_iter : int, default=50
        Greatest number of Newton steps of each.

    Attributes
    ----------
    targets_ : list of Member
        The targets.
    natural_ : ndarray of float64, shape (n_targets, p)
        Their natural parameters.
    expectation_ : ndarray of float64, shape (n_targets, p)
        Their expectation parameters.
    n_targets_ : int
        Number of targets, m.
    family_ : Family
        The family, with its options.
    classes_ : ndarray
        Labels of the targets in their order; only after ``fit(X, y)``.

    Notes
    -----
    Parameters of a target, in this order (sizes: d dimensions, k cells):

    - gaussian, lognormal (of log x): mean (d,) and covariance (d, d), variances (d,) or one variance;
      gaussian_known_cov: mean and covariance, the same in all targets;
    - categorical: probabilities (k,); bernoulli: probability; poisson, exponential: rate; gamma: shape, rate;
    - beta: a, b; dirichlet: alpha (k,); wishart: degrees of freedom, scale (d, d);
    - vonmises: direction (unit vector or, on the circle, an angle in radians) and concentration; your own: theta (p,).

    Reverse mixtures are optimal among all densities, whatever the family. Forward ones are the projections of the
    plain mixture of the targets onto the family; outside the family that mixture would be better still.

    References
    ----------
    X. Zhang, P. Li, Y. Yu, Y. Zhang, H. Zhao, Q. Zhang, "Multiobjective Distribution Matching", ICML 2025,
    PMLR 267:75413-75426. The closed forms are classical information geometry; the paper's full text could not be read.

    Examples
    --------
    >>> from paperworks.optim import ParetoFamily
    >>> targets = [([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]), ([2.0, 0.0], [[1.0, 0.0], [0.0, 4.0]])]
    >>> pareto = ParetoFamily("gaussian").fit(targets)
    >>> pareto.solve([0.5, 0.5]).cov.round(3)
    array([[1. , 0. ],
           [0. , 1.6]])
    >>> centre = pareto.minimax()  # smallest worst divergence
    >>> centre.objectives.round(4)
    array([0.6125, 0.6125])
    """

    def __init__(
        self,
        family: Any = "gaussian",
        *,
        divergence: str = "reverse",
        covariance: str = "full",
        reg: float = 0.0,
        tol: float = 1e-10,
        max_iter: int = 50,
    ) -> None:
        self.family = family
        self.divergence = divergence
        self.covariance = covariance
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, targets: Any, y: ArrayLike | None = None) -> ParetoFamily:
        """Take the targets, or estimate them by maximum likelihood.

        Parameters
        ----------
        targets : sequence of tuple, Member or array-like; with `y` one array-like
            A tuple holds a target's parameters (see Notes), an array its sample: (n_i, d), (n_i,) for families of
            single numbers or cells, (n_i, d, d) for Wishart. With `y`, the rows of all samples.
        y : array-like of shape (n_rows,), optional
            Label of each row; each label's rows are one target, in the order of the sorted labels.

        Returns
        -------
        ParetoFamily
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or option is out of range; there are fewer than two targets; their dimensions differ; a
            covariance isn't symmetric positive definite; a sample is too small, or outside the support; supports
            differ under the reverse divergence.
        TypeError
            If targets are neither tuples nor arrays, or the family is no family.
        """
        check_choice(self.divergence, "divergence", ("reverse", "forward"))
        reg = check_positive(self.reg, "reg", zero_ok=True)
        check_positive(self.tol, "tol")
        check_integer(self.max_iter, "max_iter", minimum=1)
        family = make_family(self.family, self.covariance, float(self.tol), self.max_iter)
        if reg > 0 and not family.matrix:
            raise ValueError(f"reg applies to Gaussian families only; family={self.family!r} needs reg=0, got {reg!r}")
        given, names, classes = read_targets(targets, y)

        sampled = [i for i, target in enumerate(given) if not isinstance(target, tuple)]
        if sampled:
            found = family.estimate([given[i] for i in sampled], [names[i] for i in sampled])
            for i, params in zip(sampled, found, strict=True):
                given[i] = params
        checked = [family.check(target, name, reg) for target, name in zip(given, names, strict=True)]
        for params, name in zip(checked, names, strict=True):
            shapes = [[part.shape for part in each] for each in (params, checked[0])]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"targets must have the same dimensions: parameters of {name} have shapes {shapes[0]}, those of "
                    f"{names[0]} {shapes[1]}"
                )
        stack = tuple(np.stack(parts).astype(np.float64) for parts in zip(*checked, strict=True))
        family.check_targets(stack, self.divergence, names)

        self._prepared = family.prepare(stack)
        batch = Member(family, stack, True)
        self.family_ = family
        self.targets_ = [batch[i] for i in range(len(checked))]
        self.natural_ = batch.natural
        self.expectation_ = batch.expectation
        self.n_targets_ = len(checked)
        self._targets = stack
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_
        return self

    def solve(self, weights: ArrayLike) -> Member:
        """Return the Pareto point of given weights, the minimiser of the weighted sum of divergences.

        Parameters
        ----------
        weights : array-like of shape (m,) or (n, m)
            Weights of the targets, not negative, of sum 1 (within 1e-8). Equal weights give the barycentre.

        Returns
        -------
        Member
            The member, or the batch of n members.

        Raises
        ------
        ValueError
            If the weights are negative, don't sum to 1, or have the wrong length.
        """
        check_is_fitted(self)
        found = check_weights(weights, self.n_targets_)
        rows = np.atleast_2d(found)
        return self._member(self.family_.solve(self._prepared, rows, self.divergence), rows, found.ndim == 2)

    def _member(self, inner: Any, weights: Floats, batched: bool) -> Member:
        params = tuple(np.array(part) for part in self.family_.outer(self._prepared, inner))
        row, target = np.nonzero(weights == 1.0)  # these are the targets, to the last digit
        for part, own in zip(params, self._targets, strict=True):
            part[row] = own[target]
        return Member(self.family_, params, batched)

    def front(self, n: int = 101, weights: ArrayLike | None = None) -> Front:
        """Return points of the Pareto front.

        Parameters
        ----------
        n : int, default=101
            Number of points. Two targets: equal steps of the weights; three: the finest triangular lattice with at
            most n points; more: the targets, the centre and fixed draws of uniform weights.
        weights : array-like of shape (n, m), optional
            Weights to take instead.

        Returns
        -------
        Front
            Weights (n, m), members (a batch) and objectives (n, m) in nats.

        Raises
        ------
        ValueError
            If `n` is below m (m + 1 for more than three targets), or the weights aren't on the simplex.
        """
        check_is_fitted(self)
        m = self.n_targets_
        if weights is None:
            rows = lattice(check_integer(n, "n", minimum=m if m <= 3 else m + 1), m)
        else:
            rows = np.atleast_2d(check_weights(weights, m))
        inner = self.family_.solve(self._prepared, rows, self.divergence)
        objectives = self._exact(self.family_.objectives(self._prepared, inner, self.divergence), rows)
        return Front(rows, self._member(inner, rows, True), objectives)

    def _exact(self, objectives: Floats, weights: Floats) -> Floats:
        return np.where(weights == 1.0, 0.0, objectives)

    def objectives(self, member: Any) -> Floats:
        """Compute the divergences of any member from the targets.

        Parameters
        ----------
        member : Member or tuple
            A member (or batch) of the family, or the parameters of one.

        Returns
        -------
        ndarray of float64, shape (m,) or (n, m)
            Divergences in nats; infinite where supports forbid it.

        Raises
        ------
        ValueError
            If the member is of another family or dimension, or its parameters are invalid.
        TypeError
            If it is neither a Member nor a tuple.
        """
        found = self._as_member(member)
        inner = self.family_.inner(self._prepared, found._stack)
        values = self.family_.objectives(self._prepared, inner, self.divergence)
        return values if found.batched else values[0]

    def _as_member(self, member: Any) -> Member:
        check_is_fitted(self)
        if isinstance(member, tuple):
            params = tuple(part[None] for part in self.family_.check(member, "member"))
            member = Member(self.family_, params, False)
        if not isinstance(member, Member):
            raise TypeError(f"member must be a Member or a tuple of parameters, got {type(member).__name__}")
        same = type(member.family) is type(self.family_) and len(member._stack) == len(self._targets)
        if not same or any(a.shape[1:] != b.shape[1:] for a, b in zip(member._stack, self._targets, strict=True)):
            raise ValueError(f"member must be of the family and dimension of the targets, got {member!r}")
        return member

    def minimax(self, scale: ArrayLike | None = None, offset: ArrayLike | None = None) -> Solution:
        """Minimise the greatest of the divergences f_i / scale_i + offset_i.

        Parameters
        ----------
        scale : array-like of shape (m,), optional
            Positive units of the divergences; 1 if not given.
        offset : array-like of shape (m,), optional
            What is added; 0 if not given. Under the forward divergence, the targets' entropies make it the worst
            cross-entropy, that is the worst expected negative log likelihood.

        Returns
        -------
        Solution
            Weights, member, objectives (the f_i, in nats), converged.

        Raises
        ------
        ValueError
            If a scale isn't positive, or a length is wrong.
        """
        check_is_fitted(self)
        m = self.n_targets_
        scale = np.ones(m) if scale is None else _of_length(scale, "scale", m, positive=True)
        offset = np.zeros(m) if offset is None else _of_length(offset, "offset", m)
        return self._worst(scale, offset, np.arange(m))

    def _worst(self, scale: Floats, offset: Floats, active: Any) -> Solution:
        """Maximise the dual M g(mu / M) + lambda . offset, mu = lambda / scale, M = sum(mu), over the simplex."""
        scale, offset = scale[active], offset[active]

        def oracle(dual: Floats) -> tuple[float, Floats, Floats]:
            pull = dual / scale
            total = pull.sum()
            weights = np.zeros(self.n_targets_)
            weights[active] = pull / total
            f, gram = self._slopes(weights)
            gradient = f[active] / scale + offset
            used = dual > 0
            curvature = gram[np.ix_(active, active)] / (total * np.outer(scale, scale))
            return float(dual[used] @ gradient[used]), gradient, curvature

        start = np.full(len(active), 1 / len(active))
        best = maximise(oracle, start, simplex=True, tol=self.tol, max_iter=self.max_iter)
        weights = np.zeros(self.n_targets_)
        weights[active] = best.x / scale / (best.x / scale).sum()
        return self._solution(weights, best.converged)

    def _slopes(self, weights: Floats) -> tuple[Floats, Floats]:
        """Objectives of the point and the Gram matrix, which is minus the Hessian of g."""
        inner = self.family_.solve(self._prepared, weights[None], self.divergence)
        f = self.family_.objectives(self._prepared, inner, self.divergence)[0]
        return f, self.family_.gram(self._prepared, inner, self.divergence)[0]

    def _solution(self, weights: Floats, converged: bool) -> Solution:
        weights = weights / weights.sum()
        found = self.front(weights=weights)
        return Solution(weights, Member(self.family_, found.members._stack, False), found.objectives[0], converged)

    def ray(self, direction: ArrayLike) -> Solution:
        """Return the Pareto point whose divergences have given proportions, as far as the front reaches.

        Parameters
        ----------
        direction : array-like of shape (m,)
            Positive proportions of the divergences.

        Returns
        -------
        Solution
            Weights, member, objectives, converged; objectives / direction are equal where weights are positive and
            smaller elsewhere.

        Raises
        ------
        ValueError
            If a direction isn't positive, or its length is wrong.
        """
        check_is_fitted(self)
        return self.minimax(scale=_of_length(direction, "direction", self.n_targets_, positive=True))

    def epsilon(self, minimise: int, bounds: ArrayLike) -> Solution:
        """Minimise one divergence while the others stay within bounds.

        Parameters
        ----------
        minimise : int
            Index j of the target.
        bounds : array-like of shape (m,)
            Positive greatest values of the other divergences, in nats; entry j is ignored.

        Returns
        -------
        Solution
            Weights, member, objectives, converged.

        Raises
        ------
        ValueError
            If `minimise` is no index, a bound isn't positive, or no member keeps the bounds; the message says by which
            factor they must grow.
        TypeError
            If `minimise` is no integer.
        """
        check_is_fitted(self)
        m = self.n_targets_
        j = check_integer(minimise, "minimise", minimum=0, maximum=m - 1)
        limits = np.asarray(bounds, dtype=np.float64).copy()
        if limits.shape == (m,):
            limits[j] = 1.0
        limits = _of_length(limits, "bounds", m, positive=True)
        others = np.delete(np.arange(m), j)
        closest = self._worst(limits, np.zeros(m), others)
        factor = float((closest.objectives / limits)[others].max())
        if factor > 1 + 1e-9:
            raise ValueError(
                f"bounds can't all be kept: {limits[others]} for targets {others} must grow by a factor of at least "
                f"{factor:.6g}"
            )
        if factor > 1 - 1e-9:
            return closest  # a single member keeps the bounds

        def oracle(dual: Floats) -> tuple[float, Floats, Floats]:
            total = 1 + dual.sum()
            f, gram = self._slopes(np.insert(dual, j, 1.0) / total)
            gradient = f[others] - limits[others]
            used = dual > 0
            return float(f[j] + dual[used] @ gradient[used]), gradient, gram[np.ix_(others, others)] / total

        best = maximise(oracle, np.ones(m - 1), simplex=False, tol=self.tol, max_iter=self.max_iter)
        return self._solution(np.insert(best.x, j, 1.0), best.converged)

    def weights_of(self, member: Any, return_residual: bool = False) -> Any:
        """Return the weights whose Pareto point is nearest to a member in its own Fisher metric.

        Parameters
        ----------
        member : Member or tuple
            A member of the family, not a batch.
        return_residual : bool, default=False
            Whether to return the distance too.

        Returns
        -------
        weights : ndarray of float64, shape (m,)
            Weights; not unique if the targets are affinely dependent.
        residual : float
            Fisher length of what is left; beyond rounding (about 1e-7) the member isn't on the Pareto set. The nearest
            point needn't dominate it: see `dominating`. Only with `return_residual`.

        Raises
        ------
        ValueError
            If the member is a batch, or of another family or dimension.
        """
        found = self._single(member)
        inner = self.family_.inner(self._prepared, found._stack)
        gram = self.family_.gram(self._prepared, inner, self.divergence)[0]
        start = np.full(self.n_targets_, 1 / self.n_targets_)
        weights = quadratic_step(start, -gram @ start, gram, True)
        weights = weights / weights.sum()
        residual = float(np.sqrt(max(weights @ gram @ weights, 0.0)))
        return (weights, residual) if return_residual else weights

    def _single(self, member: Any) -> Member:
        found = self._as_member(member)
        if found.batched:
            raise ValueError(f"member must be a single one, got a batch of {len(found)}: index it first")
        return found

    def dominating(self, member: Any) -> Solution:
        """Return the Pareto point that improves all divergences of a member by as much as possible at once.

        Parameters
        ----------
        member : Member or tuple
            A member of the family, not a batch.

        Returns
        -------
        Solution
            Weights, member, objectives, converged. All objectives are at most those of the given member; the greatest
            difference ``max(objectives - pareto.objectives(member))`` is 0 exactly on the Pareto set.

        Raises
        ------
        ValueError
            If the member is a batch, or of another family or dimension.
        """
        own = self.objectives(self._single(member))
        finite = np.flatnonzero(np.isfinite(own))
        if finite.size == 0:  # every member at a finite distance is better
            finite, own = np.arange(self.n_targets_), np.zeros(self.n_targets_)
        return self._worst(np.ones(self.n_targets_), -own, finite)

    def is_optimal(self, member: Any, tol: float = 1e-6) -> bool:
        """Tell whether no member is closer to every target.

        Parameters
        ----------
        member : Member or tuple
            A member of the family, not a batch.
        tol : float, default=1e-6
            Improvement of all divergences, in nats, that is put down to rounding.

        Returns
        -------
        bool
            Whether all divergences can be reduced together by `tol` at most.

        Raises
        ------
        ValueError
            If the member is a batch, or of another family or dimension, or `tol` is negative.
        """
        check_positive(tol, "tol", zero_ok=True)
        own = self.objectives(self._single(member))
        if not np.isfinite(own).all():
            return False
        return bool((self.dominating(member).objectives - own).max() >= -tol)

    def hypervolume(self, reference: ArrayLike) -> float:
        """Volume of the objective vectors between the front and a reference point.

        Parameters
        ----------
        reference : array-like of shape (m,)
            Point that the front dominates, in nats.

        Returns
        -------
        float
            The volume, in nats to the power m. Two targets: quadrature of the closed form to about 1e-10. More: that of
            a finite front (about 500 points, 200 for four targets or more), a little below the exact one.

        Raises
        ------
        ValueError
            If no point of the front dominates the reference, or its length is wrong.
        """
        check_is_fitted(self)
        m = self.n_targets_
        point = _of_length(reference, "reference", m, positive=True)
        nearest = self.ray(point).objectives
        if (nearest >= point).any():
            raise ValueError(f"reference must be dominated by the front, got {point}, beyond {nearest}")
        if m == 2:
            return area_of_curve(lambda t: self.front(weights=np.column_stack([1 - t, t])).objectives, point)
        return volume_of_points(self.front(500 if m == 3 else 200).objectives, point)


def _of_length(value: ArrayLike, name: str, m: int, *, positive: bool = False) -> Floats:
    found = check_finite_array(value, name)
    if found.shape != (m,):
        raise ValueError(f"{name} must have shape ({m},), one for each target, got {found.shape}")
    if positive and found.min() <= 0:
        raise ValueError(f"{name} must be > 0, got {found.min():.6g}")
    return found
