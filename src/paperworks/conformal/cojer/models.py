"""The models behind the intervals: what counts as one, the default five, and what they predict."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d

__all__ = ["as_target", "check_prefitted", "default_models", "fit_one", "named_models", "predict_all", "with_shape"]

Floats = NDArray[np.float64]


def named_models(estimators: Any) -> list[tuple[str, Any]]:
    """Return the estimators with their names, after a check of what they are."""
    if isinstance(estimators, list | tuple):
        if not estimators:
            raise ValueError("estimators must hold at least one (name, estimator) pair, got an empty list")
        for item in estimators:
            if not (isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)):
                raise TypeError(f"estimators must be an estimator or a list of (name, estimator) pairs, got {item!r}")
        named = [(name, model) for name, model in estimators]
    else:
        named = [(type(estimators).__name__, estimators)]
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        raise ValueError(f"names of estimators must be unique, got {names}")
    for name, model in named:
        if inspect.isclass(model) or not callable(getattr(model, "predict", None)):
            raise TypeError(f"estimator {name!r} must be an instance with a predict method, got {model!r}")
    return named


def default_models(rng: np.random.RandomState) -> list[tuple[str, Any]]:
    seeds = rng.randint(2**31, size=3)
    return [
        ("forest", RandomForestRegressor(random_state=seeds[0])),
        ("lasso", make_pipeline(StandardScaler(), LassoCV(random_state=seeds[1]))),
        ("mlp", make_pipeline(StandardScaler(), MLPRegressor(random_state=seeds[2]))),
        ("svr", make_pipeline(StandardScaler(), SVR())),
        ("knn", make_pipeline(StandardScaler(), KNeighborsRegressor())),
    ]


def check_prefitted(model: Any, name: str) -> None:
    """Raise NotFittedError for an unfitted scikit-learn model; other models are taken at their word."""
    if hasattr(model, "fit") and isinstance(model, BaseEstimator):
        check_is_fitted(model, msg=f"prefit=True, but estimator {name!r} (%(name)s) is not fitted")


def fit_one(model: Any, X: Any, y: Floats) -> Any:
    return model.fit(X, y)


def predict_all(models: list[Any], names: list[str], X: Any) -> Floats:
    m = _num_samples(X)
    columns = np.empty((m, len(models)))
    for column, name, model in zip(columns.T, names, models, strict=True):
        f = np.asarray(model.predict(X), dtype=np.float64)
        if f.shape not in ((m,), (m, 1)):
            raise ValueError(f"estimator {name!r} must predict one number per row, shape ({m},); got shape {f.shape}")
        if not np.isfinite(f).all():
            raise ValueError(f"estimator {name!r} predicted {int((~np.isfinite(f)).sum())} NaN or infinite value(s)")
        column[:] = f.ravel()
    return columns


def with_shape(X: Any) -> Any:
    """Return X itself if it is an array or a table, otherwise as an array; a sparse X in a format that has rows."""
    if issparse(X):
        return X.tocsr()
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 and getattr(getattr(X, "dtype", None), "kind", "O") in "biufc":
        raise ValueError(
            f"X must have two dimensions, got shape {X.shape}. Reshape your data with X.reshape(-1, 1) if it has a "
            "single feature or X.reshape(1, -1) if it is a single sample"
        )
    return X


def as_target(y: Any, name: str) -> Floats:
    """Return a target as a vector of finite floats; one column of shape (n, 1) is flattened with a warning."""
    if getattr(getattr(y, "dtype", None), "kind", None) == "c":
        raise ValueError(f"{name} must be numeric and real. Complex data not supported")
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "USMm" or (y.dtype.kind == "O" and any(isinstance(value, str) for value in y)):
        raise ValueError(f"{name} must be numeric, got dtype {y.dtype}")
    try:
        y = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got dtype {y.dtype}: {error}") from error
    assert_all_finite(y, input_name=name)
    return y
