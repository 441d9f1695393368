"""
Test a model with fewer questions
=================================

With calibrated questions, an adaptive test asks what tells most about the ability it has estimated so far. It is as
sure after a few dozen questions as a random choice is after many more.
"""

import matplotlib.pyplot as plt
import numpy as np

from paperworks.evaluate import AdaptiveTest

rng = np.random.default_rng(0)
difficulty = rng.normal(scale=2.0, size=400)
ability = 1.0
answers = rng.random(400) < 1 / (1 + np.exp(difficulty - ability))

# %%
# The same answers, asked in two orders.

adaptive = AdaptiveTest(difficulty, max_items=120).run(lambda item: answers[item])
random = AdaptiveTest(difficulty, max_items=120, selection="random", random_state=0)
random.run(lambda item: answers[item])

figure, axis = plt.subplots(figsize=(7, 3.2))
for test, style, name in ((adaptive, "-", "adaptive"), (random, "--", "random")):
    axis.plot(np.arange(1, len(test.history_) + 1), test.history_["se"], style, color="black", label=name)
axis.set(xlabel="questions asked", ylabel="standard error of the ability", yscale="log")
axis.legend()
figure.tight_layout()
