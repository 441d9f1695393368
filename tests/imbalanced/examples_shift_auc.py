"""How the common battery makes and uses the classifier of the shifted AUC."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from paperworks.imbalanced import ShiftAUCClassifier
from tests.battery import Example


class OwnTarget(ShiftAUCClassifier):
    """Takes two classes of any kind and its own rows as target, so that scikit-learn's checks can fit it."""

    def fit(self, X: Any, y: Any, X_target: Any = None) -> OwnTarget:
        if X_target is not None:
            super().fit(X, y, X_target)
            return self
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = np.asarray(y)
        classes = np.unique(labels)
        check_classification_targets(labels)
        if len(classes) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is multiclass: {y!r}")
        super().fit(X, np.where(labels == classes[-1:], 1, 0), X)
        self.classes_ = classes
        return self


def use(model: ShiftAUCClassifier, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    s = np.repeat([1, 0], [40, 120])
    X = rng.normal(size=(160, 3)) + np.outer(s, [1.0, 0.5, 0.0])
    target = rng.normal(size=(100, 3)) + [0.3, 0.0, 0.4]
    model.fit(X.astype(dtype), s, target.astype(dtype))
    return model.decision_function(target.astype(dtype))


EXAMPLES = {
    "ShiftAUCClassifier": Example(
        make=lambda seed: OwnTarget(base="linear", alpha=0.01, random_state=seed),
        use=use,
    ),
}
