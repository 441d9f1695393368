"""Maps from item features to difficulties, each fitted by penalised weighted least squares.

A Newton step on the likelihood of the difficulties is a weighted regression of working difficulties, so this one
operation serves both the joint fit (weights: information) and the two-stage fit (weights: 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve, svd
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, lsqr
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

__all__ = ["KernelPredictor", "LinearPredictor", "NetworkPredictor", "make_predictor"]

Floats = NDArray[np.float64]

_DENSE_OPERATIONS = 2e11
"""Above this cost of a singular value decomposition, the regression is solved by iteration instead."""
_LANDMARKS = 200
_HIDDEN = 64


class LinearPredictor:
    """``g(e) = w . e + c`` on standardised features, with a penalty on w alone."""

    def __init__(self, features: NDArray[Any]) -> None:
        self.scaler = StandardScaler().fit(features)
        self._set_design(self.scaler.transform(features))

    def _set_design(self, design: NDArray[Any]) -> None:
        n, width = design.shape
        self.basis: Floats | None = None
        if n * width * min(n, width) <= _DENSE_OPERATIONS:
            # Rotated to its singular directions: none is redundant, and there are at most n of them.
            left, size, right = svd(design, full_matrices=False)
            kept = size > max(n, width) * np.finfo(design.dtype).eps * max(size.max(initial=0.0), 1e-300)
            self.basis = right[kept]
            design = left[:, kept] * size[kept]
        self.design = design
        self.weights = np.zeros(design.shape[1])
        self.intercept = 0.0

    def update(self, target: Floats, weight: Floats, penalty: float) -> Floats:
        """Fit to `target` and return the predictions for the training rows."""
        total = weight.sum()
        mean_target = float(weight @ target / total)
        mean_design = weight @ self.design / total
        if self.basis is not None:
            normal = (self.design * weight[:, None]).T @ self.design - total * np.outer(mean_design, mean_design)
            normal.flat[:: len(normal) + 1] += penalty
            moments = self.design.T @ (weight * (target - mean_target))
            if len(normal):
                self.weights = solve(normal, moments, assume_a="pos" if penalty > 0 else "sym")
        else:
            root = np.sqrt(weight)
            operator = LinearOperator(
                self.design.shape,
                matvec=lambda w: root * (self.design @ w.ravel() - mean_design @ w.ravel()),
                rmatvec=lambda v: self.design.T @ (root * v.ravel()) - mean_design * (root @ v.ravel()),
                dtype=np.float64,
            )
            start = self.weights
            self.weights = lsqr(
                operator, root * (target - mean_target), damp=np.sqrt(penalty), x0=start, atol=1e-8, btol=1e-8
            )[0]
        self.intercept = float(mean_target - mean_design @ self.weights)
        return self.design @ self.weights + self.intercept

    def restart(self) -> None:
        """Forget the last fit; not needed here, since its minimum does not depend on the start."""

    def shift(self, amount: float) -> None:
        """Add to every prediction."""
        self.intercept += amount

    def forget_rows(self) -> None:
        """Drop the training rows, which predictions don't need."""
        self.design = self.design[:0]

    def predict(self, features: NDArray[Any]) -> Floats:
        """Return difficulties of shape (n_items,)."""
        return self._apply(self.scaler.transform(features))

    def _apply(self, design: NDArray[Any]) -> Floats:
        weights = self.weights if self.basis is None else self.basis.T @ self.weights
        return np.asarray(design @ weights + self.intercept, dtype=np.float64)


class KernelPredictor(LinearPredictor):
    """The linear map on a Nystroem sketch of the Gaussian kernel of the standardised features.

    The sketch is centred and scaled as a whole, to a mean variance of 1 per column: standardising each column would
    undo the kernel, whose smooth directions have the large variances.
    """

    def __init__(self, features: NDArray[Any], random_state: int) -> None:
        self.scaler = StandardScaler().fit(features)
        standard = self.scaler.transform(features)
        self.sketch = Nystroem(n_components=min(_LANDMARKS, len(features)), random_state=random_state).fit(standard)
        design = self.sketch.transform(standard)
        self.centre = design.mean(axis=0)
        spread = float(np.sqrt(design.var(axis=0).mean()))
        self.spread = spread if spread > 0 else 1.0
        self._set_design((design - self.centre) / self.spread)

    def predict(self, features: NDArray[Any]) -> Floats:
        """Return difficulties of shape (n_items,)."""
        design = self.sketch.transform(self.scaler.transform(features))
        return self._apply((design - self.centre) / self.spread)


class NetworkPredictor:
    """One hidden layer of ELU units on standardised features; L-BFGS from where the last fit ended."""

    def __init__(self, features: NDArray[Any], random_state: int, n_steps: int = 30) -> None:
        self.scaler = StandardScaler().fit(features)
        self.design = np.asarray(self.scaler.transform(features), dtype=np.float64)
        self.n_steps = n_steps
        width = self.design.shape[1]
        rng = np.random.default_rng(random_state)
        self.shapes = ((width, _HIDDEN), (_HIDDEN,), (_HIDDEN,))
        self.first_weights = np.concatenate(
            [rng.normal(size=width * _HIDDEN) / np.sqrt(width), np.zeros(_HIDDEN), rng.normal(size=_HIDDEN) * 0.1]
        )
        self.restart()

    def restart(self) -> None:
        """Go back to the first weights: a network that a strong penalty has emptied would stay empty."""
        self.flat, self.intercept = self.first_weights.copy(), 0.0

    def _parts(self, flat: Floats) -> list[Floats]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), self.shapes, strict=True)]

    def update(self, target: Floats, weight: Floats, penalty: float) -> Floats:
        """Fit to `target` and return the predictions for the training rows."""
        total = weight.sum()

        def loss(parameters: Floats) -> tuple[float, Floats]:
            flat, intercept = parameters[:-1], parameters[-1]
            first, bias, last = self._parts(flat)
            pre = self.design @ first + bias
            grown = np.exp(np.minimum(pre, 0.0))
            hidden = np.where(pre > 0, pre, grown - 1.0)
            error = hidden @ last + intercept - target
            pull = weight * error / total
            back = np.outer(pull, last) * np.where(pre > 0, 1.0, grown)
            gradient = np.concatenate([(self.design.T @ back).ravel(), back.sum(axis=0), hidden.T @ pull])
            gradient += penalty / total * flat
            value = 0.5 * float(pull @ error) + 0.5 * penalty / total * float(flat @ flat)
            return value, np.append(gradient, pull.sum())

        start = np.append(self.flat, self.intercept)
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": self.n_steps}).x
        self.flat, self.intercept = found[:-1], float(found[-1])
        return self._forward(self.design)

    def _forward(self, design: Floats) -> Floats:
        first, bias, last = self._parts(self.flat)
        pre = design @ first + bias
        return np.where(pre > 0, pre, np.expm1(np.minimum(pre, 0.0))) @ last + self.intercept

    def shift(self, amount: float) -> None:
        """Add to every prediction."""
        self.intercept += amount

    def forget_rows(self) -> None:
        """Drop the training rows, which predictions don't need."""
        self.design = self.design[:0]

    def predict(self, features: NDArray[Any]) -> Floats:
        """Return difficulties of shape (n_items,)."""
        return self._forward(np.asarray(self.scaler.transform(features), dtype=np.float64))


class ShiftedRegressor:
    """A fitted regressor of the user, moved by a constant."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor
        self.intercept = 0.0

    def shift(self, amount: float) -> None:
        """Add to every prediction."""
        self.intercept += amount

    def predict(self, features: NDArray[Any]) -> Floats:
        """Return difficulties of shape (n_items,)."""
        return np.asarray(self.regressor.predict(features), dtype=np.float64).reshape(-1) + self.intercept


def make_predictor(kind: str, features: NDArray[Any], random_state: int) -> LinearPredictor | NetworkPredictor:
    """Return an unfitted predictor for the training rows `features`."""
    if kind == "linear":
        return LinearPredictor(features)
    if kind == "rbf":
        return KernelPredictor(features, random_state)
    return NetworkPredictor(features, random_state)
