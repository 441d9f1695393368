"""How the common battery exercises CoJER."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from paperworks.conformal import CoJER
from tests.battery import Example


def _make(seed: int) -> CoJER:
    models = [("linear", LinearRegression()), ("knn", KNeighborsRegressor(3))]
    return CoJER(models, alpha=0.2, delta=0.2, random_state=seed)


def _use(cojer: CoJER, dtype: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(360, 3)).astype(dtype)
    y = (X @ np.array([1.0, -2.0, 0.5], dtype=dtype) + rng.normal(size=360)).astype(dtype)
    return cojer.fit(X[:300], y[:300]).predict_interval(X[300:])


EXAMPLES = {"CoJER": Example(make=_make, use=_use)}
