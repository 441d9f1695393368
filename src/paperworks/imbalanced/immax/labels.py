"""Labels and sample weights in the plain types that the solvers take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from paperworks._checks import check_finite_array

__all__ = ["plain_labels", "plain_weights"]


def plain_labels(y: Any) -> Any:
    """Return labels as a NumPy array of a plain type, whatever pandas type they come in.

    Parameters
    ----------
    y : array-like, shape (n_samples,)
        Labels; nullable, boolean, categorical and string columns are unpacked.

    Returns
    -------
    ndarray
        The labels; None and anything not one-dimensional is handed on untouched.

    Raises
    ------
    ValueError
        If labels are missing (None, NaN, ``pd.NA``); says how many.
    TypeError
        If the labels mix kinds, such as text and numbers, that can't be sorted.
    """
    if y is None or sp.issparse(y):
        return y
    extension = isinstance(getattr(y, "dtype", None), pd.api.extensions.ExtensionDtype)
    values = np.asarray(y, dtype=object if extension or isinstance(y, list | tuple) else None)
    if values.ndim != 1 or values.dtype.kind not in "Of":
        return y if values.ndim != 1 else values
    missing = pd.isna(values)
    if missing.any():
        raise ValueError(f"y has {int(missing.sum())} missing label(s) among {len(values)} (NaN, None or pd.NA)")
    if values.dtype.kind == "f":
        return values
    kind = pd.api.types.infer_dtype(values, skipna=False)
    if kind in ("integer", "boolean", "floating"):
        return values.astype({"integer": np.int64, "boolean": np.bool_, "floating": np.float64}[kind])
    if kind.startswith("mixed"):
        raise TypeError(f"y mixes kinds of labels ({kind}); give all labels one type, for instance y.astype(str)")
    return values if not isinstance(y, list | tuple) else np.asarray(y)


def plain_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64]:
    """Return sample weights as a float64 vector; None means ones.

    Parameters
    ----------
    sample_weight : array-like of float, shape (n_samples,), float or None
        Weights; a number is the weight of every row.
    n_samples : int
        Number of rows.

    Returns
    -------
    ndarray of float64, shape (n_samples,)
        The weights.

    Raises
    ------
    ValueError
        If the shape is wrong, a weight is negative, NaN or infinite, or all are zero.
    """
    if sample_weight is None:
        return np.ones(n_samples)
    weight = check_finite_array(sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = np.full(n_samples, float(weight))
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}")
    if (weight < 0).any():
        raise ValueError(f"sample_weight must be non-negative, got a smallest value of {weight.min()}")
    if not weight.any():
        raise ValueError("sample_weight must have a positive entry, got zeros only")
    return weight
