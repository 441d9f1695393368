"""IMMAX: confidence margins per class for imbalanced data.

Each class has its own margin; the scores of a row are divided by the margin of its true class before an ordinary
surrogate is taken. The paper (C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the Scales: A Theoretical and
Algorithmic Framework for Learning from Imbalanced Data", ICML 2025, PMLR 267:11255-11287) bounds the ordinary 0/1 error
by the class-imbalanced margin loss and a class-sensitive complexity. Use it where the test rows are as imbalanced as
the training rows and the 0/1 error counts; where errors on rare classes cost more, weights or adjusted logits answer
that question directly.
"""

from .classifier import ImmaxClassifier
from .loss import ImmaxLoss
from .margins import class_margin_loss, class_sensitive_rademacher, optimal_margins

__all__ = [
    "ImmaxClassifier",
    "ImmaxLoss",
    "class_margin_loss",
    "class_sensitive_rademacher",
    "optimal_margins",
]
