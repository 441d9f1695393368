"""
How many intervals of a batch miss
==================================

A conformal interval at level 90 % misses one point in ten *on average over many batches*. In the batch at hand it may
miss a fifth. `CoJER` makes the intervals a little longer, so that at most 10 % miss with a probability of 90 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor

from paperworks.conformal import CoJER, false_coverage_proportion

# %%
# Forty batches of 100 points, each with its own 200 training rows. Both methods calibrate on half of them.

shares = {"split conformal": [], "CoJER": []}
for seed in range(40):
    X, y = make_friedman1(300, noise=1.0, random_state=seed)
    model = HistGradientBoostingRegressor(max_iter=40, random_state=seed)
    plain = model.fit(X[:100], y[:100])
    length = np.sort(np.abs(y[100:200] - plain.predict(X[100:200])))[90]  # the 91st of 100: level 0.9
    misses = np.abs(y[200:] - plain.predict(X[200:])) > length
    shares["split conformal"].append(misses.mean())
    careful = CoJER(model, alpha=0.1, delta=0.1, random_state=seed).fit(X[:100], y[:100], X[100:200], y[100:200])
    shares["CoJER"].append(false_coverage_proportion(careful.predict_interval(X[200:]), y[200:]))

# %%
# The promise is about each batch: left of the dashed line.

figure, axis = plt.subplots(figsize=(7, 3.2))
bins = np.arange(0, 0.27, 0.02) - 0.01
for (name, values), hatch in zip(shares.items(), ("//", ""), strict=True):
    axis.hist(values, bins=bins, alpha=0.6, label=name, hatch=hatch, edgecolor="black")
axis.axvline(0.1, color="black", linestyle="--", label="promised: at most 10 %")
axis.set(xlabel="share of the batch outside its interval", ylabel="batches")
axis.legend()
figure.tight_layout()
