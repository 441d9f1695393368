"""What a method gives the common battery: how to make one of its objects and how to use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Example"]


@dataclass(frozen=True)
class Example:
    """How the battery exercises one public class.

    Each method has a file ``tests/<family>/examples_<method>.py`` with ``EXAMPLES``, a mapping from the name of each of
    its public classes to an `Example`.
    """

    make: Callable[[int], Any]
    """``make(seed)`` returns a new object; estimators come unfitted."""
    use: Callable[[Any, str], NDArray[np.float64]]
    """``use(object, dtype)`` runs it on fixed data of ``"float32"`` or ``"float64"`` (fitting it first if it is an
    estimator) and returns the numbers that come out."""
    tolerance: float = 1e-3
    """Greatest relative difference between the float32 and the float64 numbers."""
    expected_failed_checks: Mapping[str, str] = field(default_factory=dict)
    """Checks of scikit-learn's battery that do not apply, each with the reason."""
