"""
A margin per class
==================

`ImmaxClassifier` gives each class its own confidence margin and chooses the family of margins on held-out rows. The
plot shows what one exponent does to the recall of each class of a long-tailed digits set.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.preprocessing import StandardScaler

from paperworks.imbalanced import ImmaxClassifier

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X)
order = rng.permutation(len(y))
test, pool = order[:600], order[600:]
counts = np.geomspace(100, 5, 10).astype(int)
train = np.concatenate([pool[y[pool] == k][: counts[k]] for k in range(10)])

# %%
# With exponent γ the margin of a class with m rows is m^γ, up to a factor that all share.

figure, axis = plt.subplots(figsize=(7, 3.2))
for gamma, style in ((-0.25, "v:"), (0.0, "o-"), (0.5, "^--")):
    rho = counts**gamma / np.exp(np.mean(gamma * np.log(counts)))
    model = ImmaxClassifier(rho=rho, alpha=1e-3).fit(X[train], y[train])
    recall = recall_score(y[test], model.predict(X[test]), average=None)
    axis.plot(counts, recall, style, color="black", label=f"γ = {gamma:g}")
axis.set(xscale="log", xlabel="training rows of the class", ylabel="recall")
axis.invert_xaxis()
axis.legend()
figure.tight_layout()
