"""Density ratio of target to training inputs, by telling the domains apart or by least squares.

The paper's own estimator of the weights is not known here; the quality of the ratio decides the result, so the default
is a flexible classifier of the domain whose settings are chosen by cross-validation.

Reference for least squares: M. Yamada, T. Suzuki, T. Kanamori, H. Hachiya, M. Sugiyama, "Relative density-ratio
estimation for robust distribution comparison", Neural Computation 25, 2013.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, check_random_state

from paperworks._checks import check_choice, check_fraction

__all__ = ["RATIOS", "DensityRatio", "check_relative", "density_ratio", "fit_ratio", "one_scale"]

Floats = NDArray[np.float64]

RATIOS = ("kernel-logistic", "logistic", "ulsif")
_WIDTHS = (0.25, 0.5, 1.0, 2.0)  # kernel widths gamma, in units of 1 / (summed variance of the columns)
_STRENGTHS = (0.1, 1.0, 10.0)
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
_COMPONENTS = 200
_CENTRES = 100
_CHOICE_ROWS = 5000
_FOLDS = 3
_FLOOR = 1e-3


class DensityRatio:
    """A fitted density ratio: call it with rows, get their weights.

    Parameters
    ----------
    weigh : callable
        ``weigh(X)`` returns the plain ratio (for least squares, the relative one).
    relative : float
        Share of the target in the denominator, applied by this object.
    n_features : int
        Width of the rows.
    """

    def __init__(self, weigh: Callable[[Any], Floats], relative: float, n_features: int) -> None:
        self.weigh = weigh
        self.relative = relative
        self.n_features = n_features

    def __call__(self, X: Any) -> Floats:
        """Return one weight per row of `X`, float64."""
        X = check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")
        if X.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} features, got {X.shape[1]}")
        return flattened(self.weigh(X), self.relative)


class _Fold(NamedTuple):
    train: NDArray[np.int64]
    test: NDArray[np.int64]


class _Domain:
    """Logistic classification of the domain on a feature map; the ratio is the odds over the odds of the samples."""

    def __init__(self, X: Any, is_target: NDArray[np.int64], setting: tuple[float, float], linear: bool, seed: int):
        gamma, strength = setting
        self.map: Any = None
        if not linear:
            n_components = min(_COMPONENTS, X.shape[0])
            self.map = Nystroem(kernel="rbf", gamma=gamma, n_components=n_components, random_state=seed).fit(X)
        self.centre: Any = 0.0
        self.scale = 1.0
        if linear:
            self.centre, self.scale = one_scale([X])
        self.model = _logistic(strength, linear).fit(self._mapped(X), is_target)
        self.log_odds = float(np.log(is_target.sum() / (len(is_target) - is_target.sum())))

    def _mapped(self, X: Any) -> Any:
        if self.map is not None:
            return self.map.transform(X)
        return X / self.scale if sp.issparse(X) else (X - self.centre) / self.scale

    def __call__(self, X: Any) -> Floats:
        logits = self.model.decision_function(self._mapped(X)) - self.log_odds
        weights: Floats = np.exp(np.minimum(logits, 300.0))
        return weights


class _LeastSquares:
    """Relative uLSIF: the minimiser of theta'H theta/2 - h'theta + ridge |theta|^2/2 on kernels at target rows."""

    def __init__(
        self, source: Any, target: Any, setting: tuple[float, float], relative: float, rng: np.random.RandomState
    ) -> None:
        self.gamma, ridge = setting
        rows = rng.permutation(target.shape[0])[:_CENTRES]
        self.centres = target[rows]
        H, h = self.moments(source, target, relative)
        self.theta = np.linalg.solve(H + ridge * np.eye(len(h)), h)

    def moments(self, source: Any, target: Any, relative: float) -> tuple[Floats, Floats]:
        K_target, K_source = self._kernel(target), self._kernel(source)
        H = (1.0 - relative) * (K_source.T @ K_source) / len(K_source)
        if relative > 0:
            H += relative * (K_target.T @ K_target) / len(K_target)
        return H, K_target.mean(axis=0)

    def _kernel(self, X: Any) -> Floats:
        kernel: Floats = rbf_kernel(X, self.centres, gamma=self.gamma)
        return kernel

    def held_out(self, source: Any, target: Any, relative: float) -> float:
        H, h = self.moments(source, target, relative)
        return float(0.5 * self.theta @ H @ self.theta - h @ self.theta)

    def __call__(self, X: Any) -> Floats:
        return np.maximum(self._kernel(X) @ self.theta, _FLOOR)


def density_ratio(
    X_source: Any, X_target: Any, *, method: str = "kernel-logistic", relative: float = 0.0, random_state: Any = None
) -> Callable[[Any], Floats]:
    r"""Estimate the density ratio of two samples of inputs.

    Parameters
    ----------
    X_source : array-like or sparse matrix, shape (n_source, n_features)
        Rows of the domain in the denominator, where training rows come from; at least 3.
    X_target : array-like or sparse matrix, shape (n_target, n_features)
        Rows of the domain in the numerator; at least 3.
    method : {"kernel-logistic", "logistic", "ulsif"}, default="kernel-logistic"
        Logistic regression of the domain on a Nystroem map of a Gaussian kernel (200 components) or on the columns as
        they are, or relative least squares with 100 kernels. Kernel widths and penalties are chosen on 3 folds of at
        most 5,000 rows.
    relative : float, default=0.0
        In [0, 1): the ratio ``w / (relative * w + 1 - relative)`` of the target to a mixture, below ``1 / relative``.
    random_state : int, RandomState instance or None, default=None
        Source of folds, landmarks and centres.

    Returns
    -------
    callable
        ``ratio(X)`` gives a float64 array of shape (n_rows,), non-negative; it can be pickled.

    Raises
    ------
    ValueError
        If the samples differ in width, are empty, hold NaN, or all their columns are constant; if `method` or
        `relative` is out of range.

    References
    ----------
    M. Yamada et al., "Relative density-ratio estimation for robust distribution comparison", Neural Computation 25,
    2013, equations of section 2 (for ``"ulsif"``).

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.imbalanced import density_ratio
    >>> rng = np.random.default_rng(0)
    >>> ratio = density_ratio(rng.normal(0, 1, (400, 1)), rng.normal(1, 1, (400, 1)), random_state=0)
    >>> low, high = ratio(np.array([[-1.0], [2.0]]))  # the truth is exp(-1.5) = 0.22 and exp(1.5) = 4.5
    >>> bool(low < 0.5), bool(2.5 < high < 8)
    (True, True)
    """
    check_choice(method, "method", RATIOS)
    relative = check_relative(relative)
    X_source = check_array(X_source, accept_sparse="csr", dtype=np.float64, input_name="X_source")
    X_target = check_array(X_target, accept_sparse="csr", dtype=np.float64, input_name="X_target")
    if X_source.shape[1] != X_target.shape[1]:
        raise ValueError(
            f"X_target must have as many features as X_source, {X_source.shape[1]}, got {X_target.shape[1]}"
        )
    return fit_ratio(X_source, X_target, method, relative, check_random_state(random_state), out_of_fold=False)[0]


def check_relative(relative: Any) -> float:
    """Return `relative` if it lies in [0, 1)."""
    if check_fraction(relative, "relative") >= 1.0:
        raise ValueError(f"relative must lie in [0, 1), got {relative!r}")
    return float(relative)


def flattened(weights: Floats, relative: float) -> Floats:
    """Return ``w / (relative w + 1 - relative)``."""
    return weights if relative == 0 else weights / (relative * weights + 1.0 - relative)


def one_scale(samples: list[Any]) -> tuple[Any, float]:
    """Return the pooled mean of the columns (0 for sparse rows) and the root of their mean variance.

    One number for all columns: unit variances would blow up columns that hardly vary.
    """
    if sp.issparse(samples[0]):
        pooled = sp.vstack(samples, format="csr")
        mean = np.asarray(pooled.mean(axis=0)).ravel()
        variances = np.maximum(np.asarray(pooled.multiply(pooled).mean(axis=0)).ravel() - mean**2, 0.0)
        centre: Any = 0.0
    else:
        pooled = np.concatenate(samples)
        centre, variances = pooled.mean(axis=0), pooled.var(axis=0)
        variances[np.ptp(pooled, axis=0) == 0] = 0.0
    scale = float(np.sqrt(variances.mean()))
    if not scale > 0:
        raise ValueError("all columns of X are constant: the samples cannot be told apart")
    return centre, scale


def fit_ratio(
    source: Any, target: Any, method: str, relative: float, rng: np.random.RandomState, *, out_of_fold: bool
) -> tuple[DensityRatio, Floats, float]:
    """Fit on all rows; with `out_of_fold` also weigh each source row, and rank the domains, by fits without it.

    Returns the ratio, the weights of the source rows and the held-out AUC of telling the domains apart (the two are
    empty and NaN without `out_of_fold`).
    """
    n_source, n_target = source.shape[0], target.shape[0]
    for n, name in ((n_source, "source"), (n_target, "target")):
        if n < _FOLDS:
            raise ValueError(f"the density ratio needs at least {_FOLDS} {name} rows, got {n} (n_samples={n})")
    X = sp.vstack((source, target), format="csr") if sp.issparse(source) else np.concatenate((source, target))
    is_target = np.repeat([0, 1], [n_source, n_target])
    seed = int(rng.randint(np.iinfo(np.int32).max))
    folds = [_Fold(*f) for f in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(is_target, is_target)]
    setting = _choose(X, is_target, method, relative, seed)

    def fit(rows: NDArray[np.int64]) -> Callable[[Any], Floats]:
        if method == "ulsif":
            part, own = X[rows], is_target[rows] == 1
            return _LeastSquares(part[~own], part[own], setting, relative, np.random.RandomState(seed))
        return _Domain(X[rows], is_target[rows], setting, method == "logistic", seed)

    inner_relative = 0.0 if method == "ulsif" else relative
    ratio = DensityRatio(fit(np.arange(len(is_target))), inner_relative, X.shape[1])
    if not out_of_fold:
        return ratio, np.empty(0), float("nan")
    weights = np.empty(len(is_target))
    for train, test in folds:
        weights[test] = fit(train)(X[test])
    domain_auc = float(roc_auc_score(is_target, weights))
    return ratio, flattened(weights[:n_source], inner_relative), domain_auc


def _choose(X: Any, is_target: NDArray[np.int64], method: str, relative: float, seed: int) -> tuple[float, float]:
    """Choose kernel width and penalty by held-out log loss, or by the held-out quadratic loss of least squares."""
    total_variance = one_scale([X])[1] ** 2 * X.shape[1]
    widths = [0.0] if method == "logistic" else [width / total_variance for width in _WIDTHS]
    rng = np.random.RandomState(seed)
    if len(is_target) > _CHOICE_ROWS:
        share = _CHOICE_ROWS / len(is_target)
        rows = np.concatenate(
            [
                rng.permutation(np.flatnonzero(is_target == k))[: max(_FOLDS, round(share * np.sum(is_target == k)))]
                for k in (0, 1)
            ]
        )
        X, is_target = X[rows], is_target[rows]
    folds = [_Fold(*f) for f in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(is_target, is_target)]
    losses: dict[tuple[float, float], float] = {}
    for width in widths:
        for train, test in folds:
            if method == "ulsif":
                found = _least_squares_losses(X, is_target, train, test, width, relative, seed)
            else:
                found = _log_losses(X, is_target, train, test, width, method == "logistic", seed)
            for knob, value in found.items():
                losses[width, knob] = losses.get((width, knob), 0.0) + value
    return min(losses, key=lambda setting: losses[setting])


def _log_losses(
    X: Any, y: NDArray[np.int64], train: Any, test: Any, gamma: float, linear: bool, seed: int
) -> dict[float, float]:
    """One feature map for all penalties, each fit starting from the one before."""
    first = _Domain(X[train], y[train], (gamma, _STRENGTHS[0]), linear, seed)
    mapped, held_out = first._mapped(X[train]), first._mapped(X[test])
    model = first.model.set_params(warm_start=True)
    sign = np.where(y[test] == 1, 1.0, -1.0)
    losses = {}
    for strength in _STRENGTHS:
        model.set_params(C=strength)
        if strength != _STRENGTHS[0]:
            model.fit(mapped, y[train])
        losses[strength] = float(np.logaddexp(0.0, -sign * model.decision_function(held_out)).mean())
    return losses


def _least_squares_losses(
    X: Any, y: NDArray[np.int64], train: Any, test: Any, gamma: float, relative: float, seed: int
) -> dict[float, float]:
    part, own, out, out_own = X[train], y[train] == 1, X[test], y[test] == 1
    losses = {}
    for ridge in _RIDGES:
        model = _LeastSquares(part[~own], part[own], (gamma, ridge), relative, np.random.RandomState(seed))
        losses[ridge] = model.held_out(out[~out_own], out[out_own], relative)
    return losses


class _Quiet(LogisticRegression):
    """Logistic regression that keeps quiet about its last digits."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().fit(X, y, sample_weight)


def _logistic(strength: float, linear: bool) -> LogisticRegression:
    """Newton steps on the dense map of few components; L-BFGS on columns, which may be many and sparse."""
    return _Quiet(C=strength, solver="lbfgs" if linear else "newton-cholesky", max_iter=300)
