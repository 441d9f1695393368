"""The few validations that several methods share.

Each raises `ValueError` or `TypeError` that names the argument, what came and what was expected.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "check_choice",
    "check_finite_array",
    "check_fraction",
    "check_integer",
    "check_positive",
    "check_probability_open",
    "extra",
]


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import optional packages inside this context; if one is missing, say which extra brings it.

    Parameters
    ----------
    name : str
        Name of the extra in `pyproject.toml`, for instance ``"torch"``.

    Raises
    ------
    ImportError
        If an import in the context fails; the message holds the exact install command.

    Examples
    --------
    >>> from paperworks._checks import extra
    >>> with extra("torch"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    ImportError: this part of paperworks needs 'no_such_package'; install it with: pip install "paperworks[torch]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("paperworks"):
            raise
        raise ImportError(
            f"this part of paperworks needs '{error.name}'; install it with: pip install \"paperworks[{name}]\"",
            name=error.name,
        ) from error


def _check_real(value: Any, name: str, expected: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {expected}, got {value!r} of type {type(value).__name__}")
    return float(value)


def check_probability_open(value: Any, name: str) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    number = _check_real(value, name, "a number in (0, 1)")
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return number


def check_fraction(value: Any, name: str) -> float:
    """Return `value` as a float if it lies in [0, 1]."""
    number = _check_real(value, name, "a number in [0, 1]")
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {value!r}")
    return number


def check_positive(value: Any, name: str, *, zero_ok: bool = False) -> float:
    """Return `value` as a finite float above 0 (or at least 0 with `zero_ok`)."""
    expected = "a finite number >= 0" if zero_ok else "a finite number > 0"
    number = _check_real(value, name, expected)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_ok):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return number


def check_integer(value: Any, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return `value` as an int within the bounds; booleans and floats are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    number = int(value)
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {number}")
    return number


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")
    return value


def check_finite_array(value: Any, name: str, *, ndim: int | None = None, dtype: Any = np.float64) -> NDArray[Any]:
    """Return `value` as a numeric array without NaN or infinity, of `ndim` dimensions if given."""
    try:
        array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric, got {type(value).__name__}: {error}") from error
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} holds {int(bad.sum())} value(s) that are NaN or infinite, the first at index {where}")
    return array
