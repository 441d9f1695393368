"""The classifier behind the verdicts, spoken to in the way in which it was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .inputs import Names
from .protocol import Floats


class Classifier:
    """A classifier with labels 0 and 1, fitted to a table or used as it is."""

    def __init__(self, model: Any, names: Names | None) -> None:
        self.frozen = isinstance(model, FrozenEstimator)
        if self.frozen:
            check_is_fitted(model)
        named = names is not None and all(isinstance(name, str) for name in names)
        if self.frozen:
            named = named and hasattr(model, "feature_names_in_")
        self.model = model
        self._names = list(names) if named and names is not None else None

    @classmethod
    def of(cls, estimator: Any, names: Names | None, seed: int) -> Classifier:
        """Return the classifier to fit for what a user gave, or the frozen one itself."""
        if isinstance(estimator, FrozenEstimator):
            return cls(estimator, names)
        if estimator is None:
            return cls(RandomForestClassifier(random_state=seed), names)
        if not hasattr(estimator, "fit") or not hasattr(estimator, "predict"):
            raise TypeError(f"estimator must be a classifier with fit and predict, got {estimator!r}")
        model = clone(estimator)
        unset = {
            key: seed
            for key, value in model.get_params().items()
            if value is None and (key == "random_state" or key.endswith("__random_state"))
        }
        return cls(model.set_params(**unset), names)

    def fit(self, table: Floats, labels: NDArray[np.int64]) -> Classifier:
        """Fit, unless the classifier is frozen."""
        if not self.frozen:
            self.model.fit(self._input(table), labels)
        return self

    def refitted(self, table: Floats, labels: NDArray[np.int64]) -> Classifier:
        """Return a classifier of the same kind fitted to other rows, also where this one is frozen."""
        fresh = Classifier(clone(self.model.estimator if self.frozen else self.model), None)
        fresh._names = self._names
        return fresh.fit(table, labels)

    def predict(self, table: Floats) -> NDArray[np.int64]:
        """Return predicted labels."""
        labels = np.asarray(self.model.predict(self._input(table)))
        if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
            raise ValueError(f"estimator must predict 0 or 1, got {np.unique(labels)[:5].tolist()}")
        return labels.astype(np.int64)

    def scores(self, table: Floats) -> Floats:
        """Return probabilities of label 1; predicted labels if the classifier gives none."""
        if not hasattr(self.model, "predict_proba"):
            return self.predict(table).astype(np.float64)
        column = list(self.model.classes_).index(1)
        return np.asarray(self.model.predict_proba(self._input(table))[:, column], dtype=np.float64)

    def _input(self, table: Floats) -> Any:
        return table if self._names is None else pd.DataFrame(table, columns=self._names)
