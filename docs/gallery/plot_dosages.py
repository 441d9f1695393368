"""
Dosages that teach most
=======================

Four interventions may be combined. `FactorialDesign` says with which probability to give each, round by round, so that
single and joint effects are learned from few units.
"""

import matplotlib.pyplot as plt
import numpy as np

from paperworks.causal import FactorialDesign

rng = np.random.default_rng(0)


def respond(given):
    """Answer of each unit: two single effects and one joint effect."""
    return (
        1.0 * given[:, 0] - 0.5 * given[:, 2] + 0.8 * given[:, 1] * given[:, 3] + rng.normal(scale=0.5, size=len(given))
    )


# %%
# Two rounds of 150 units.

design = FactorialDesign(4, order=2, noise_std=0.5, random_state=0)
for _ in range(2):
    dosage = design.propose(150)
    given = design.assign(dosage, 150)
    design = design.update(given, respond(given))
table = design.fit().effects()

figure, axis = plt.subplots(figsize=(7, 3.6))
axis.barh(table["term"].astype(str), table["effect"], color="lightgrey", edgecolor="black")
axis.axvline(0, color="black", linewidth=0.8)
axis.set(xlabel="estimated effect")
figure.tight_layout()
