"""
Rank a target domain from positives and unlabelled rows
=======================================================

In one group a positive has a large first column, in the other a small one. Training rows are mostly of the first group,
the rows to come mostly of the second. Weighting by the density ratio lets the few training rows of the second group
speak for the many to come.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from paperworks.imbalanced import ShiftAUCClassifier

rng = np.random.default_rng(0)


def rows(n, share):
    """Draw rows of which `share` are of the second group."""
    group, y = rng.random(n) < share, rng.random(n) < 0.3
    first = rng.normal(size=n) + 2 * y * np.where(group, 1, -1)
    return np.c_[first, 3.0 * group + rng.normal(size=n) / 3], y


# %%
# The share of the second group among the rows to come goes from that of the training rows to nearly all.

X, y = rows(1500, 0.1)
s = (y & (rng.random(1500) < 0.5)).astype(int)
shares = np.linspace(0.1, 0.9, 5)
ratios = {"weighted (ShiftAUCClassifier)": "kernel-logistic", "unweighted": lambda rows: np.ones(len(rows))}
scores = {name: [] for name in ratios}
for share in shares:
    X_new, y_new = rows(1500, share)
    for name, ratio in ratios.items():
        model = ShiftAUCClassifier(base="linear", mix=1.0, ratio=ratio, random_state=0).fit(X, s, X_new)
        scores[name].append(roc_auc_score(y_new, model.decision_function(X_new)))

figure, axis = plt.subplots(figsize=(7, 3.2))
for (name, values), style in zip(scores.items(), ("o-", "s--"), strict=True):
    axis.plot(shares, values, style, color="black", label=name)
axis.axhline(0.5, color="grey", linewidth=0.8)
axis.set(xlabel="share of the second group among the rows to come", ylabel="AUC there")
axis.legend()
figure.tight_layout()
