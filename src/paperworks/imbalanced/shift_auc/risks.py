"""The two estimators of the target's AUC risk from positives and unlabelled rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_finite_array, check_integer, check_probability_open

from .pairs import LOSSES, SYMMETRIC, blocks, pair_sum

__all__ = ["auc_risk_positive", "auc_risk_pu", "check_weights", "is_symmetric", "weighted_risk"]

Floats = NDArray[np.float64]


def auc_risk_pu(
    score_pos: Any,
    score_unl: Any,
    weight_pos: Any = None,
    weight_unl: Any = None,
    *,
    loss: str | Callable[[Any], Any] = "sigmoid",
    normalise: bool = True,
    prior: float | None = None,
    chunk: int | None = None,
) -> Any:
    r"""AUC risk from weighted positives and weighted unlabelled rows of the training domain.

    Estimates :math:`Q_1 = E_P E_U[w(x) w(x') \ell(f(x) - f(x'))] / E_P[w]` with w the density ratio of target to
    training inputs: the risk of ranking a positive of the target below a random row of the target.

    Parameters
    ----------
    score_pos : ndarray or torch.Tensor, shape (n_pos,)
        Scores of the labelled positives.
    score_unl : ndarray or torch.Tensor, shape (n_unl,)
        Scores of the unlabelled training rows.
    weight_pos : array-like of float, shape (n_pos,), optional
        Density ratio at the positives; None means 1. Not differentiated.
    weight_unl : array-like of float, shape (n_unl,), optional
        Density ratio at the unlabelled rows; None means 1. Not differentiated.
    loss : {"sigmoid", "logistic", "squared", "hinge", "ramp", "zero_one"} or callable, default="sigmoid"
        Loss of a margin z: ``1/(1+e^z)``, ``log(1+e^-z)``, ``(1-z)^2/2``, ``max(0, 1-z)``, ``(1-z)/2`` clipped to
        [0, 1], ``1{z<0} + 1{z=0}/2``, or an elementwise function of an array (a tensor, for tensors).
    normalise : bool, default=True
        Divide by the sum of the weights of all pairs; otherwise by their number.
    prior : float, optional
        Share of positives in the target: returns the AUC risk ``(Q - prior/2) / (1 - prior)`` itself. Needs a loss with
        ``l(z) + l(-z) = 1``.
    chunk : int, optional
        Sum pairs one by one, this many positives at once. None takes the fastest way, which agrees to rounding and
        never holds more than 131,072 pairs.

    Returns
    -------
    float or torch.Tensor
        The risk; for tensors a 0-d tensor, differentiable in both scores.

    Raises
    ------
    ValueError
        If scores are empty or not finite, weights are negative, NaN or all zero, the loss is unknown, or `prior` is not
        in (0, 1) or comes with a loss that isn't symmetric.
    TypeError
        If one sample of scores is a tensor and the other isn't.

    References
    ----------
    A. Kumagai et al., "Positive-unlabeled AUC Maximization under Covariate Shift", ICML 2025, PMLR 267; the
    importance-weighted estimator, written in the notation of this module.

    Examples
    --------
    >>> from paperworks.imbalanced import auc_risk_pu
    >>> round(auc_risk_pu([2.0, 1.0], [0.0, 1.0, -1.0], loss="zero_one"), 4)
    0.0833
    >>> auc_risk_pu([0.0, 3.0], [0.0, 3.0])  # a sample against itself
    0.5
    """
    return _risk(score_pos, score_unl, weight_pos, weight_unl, "unl", loss, normalise, prior, chunk)


def auc_risk_positive(
    score_pos: Any,
    score_target: Any,
    weight_pos: Any = None,
    *,
    loss: str | Callable[[Any], Any] = "sigmoid",
    normalise: bool = True,
    prior: float | None = None,
    chunk: int | None = None,
) -> Any:
    r"""AUC risk from weighted positives and unlabelled rows of the target domain.

    Estimates :math:`Q_2 = E_P E_T[w(x) \ell(f(x) - f(x'))] / E_P[w]`, the same number as `auc_risk_pu` does, with
    weights on the positives only.

    Parameters
    ----------
    score_pos : ndarray or torch.Tensor, shape (n_pos,)
        Scores of the labelled positives.
    score_target : ndarray or torch.Tensor, shape (n_target,)
        Scores of the unlabelled target rows.
    weight_pos : array-like of float, shape (n_pos,), optional
        Density ratio at the positives; None means 1. Not differentiated.
    loss : {"sigmoid", "logistic", "squared", "hinge", "ramp", "zero_one"} or callable, default="sigmoid"
        Loss of a margin, as in `auc_risk_pu`.
    normalise : bool, default=True
        Divide by the sum of the weights of all pairs; otherwise by their number.
    prior : float, optional
        Share of positives in the target; see `auc_risk_pu`.
    chunk : int, optional
        Sum pairs one by one, this many positives at once; see `auc_risk_pu`.

    Returns
    -------
    float or torch.Tensor
        The risk; for tensors a 0-d tensor, differentiable in both scores.

    Raises
    ------
    ValueError
        If scores are empty or not finite, weights are negative, NaN or all zero, the loss is unknown, or `prior` is not
        in (0, 1) or comes with a loss that isn't symmetric.
    TypeError
        If one sample of scores is a tensor and the other isn't.

    References
    ----------
    A. Kumagai et al., "Positive-unlabeled AUC Maximization under Covariate Shift", ICML 2025, PMLR 267.

    Examples
    --------
    >>> from paperworks.imbalanced import auc_risk_positive
    >>> auc_risk_positive([2.0, 0.0], [1.0, -1.0], weight_pos=[1.0, 3.0], loss="zero_one")
    0.375
    """
    return _risk(score_pos, score_target, weight_pos, None, "target", loss, normalise, prior, chunk)


def _risk(
    a: Any, b: Any, v: Any, w: Any, name: str, loss: Any, normalise: bool, prior: float | None, chunk: int | None
) -> Any:
    if not callable(loss):
        check_choice(loss, "loss", LOSSES)
    if prior is not None:
        check_probability_open(prior, "prior")
    if chunk is not None:
        check_integer(chunk, "chunk", minimum=1)
    tensors = [_is_tensor(a), _is_tensor(b)]
    if any(tensors) and not all(tensors):
        raise TypeError(f"score_pos and score_{name} must both be tensors or both be arrays")
    if prior is not None and not is_symmetric(loss, tensor=tensors[0]):
        raise ValueError(f"prior needs a loss with l(z) + l(-z) = 1 ({', '.join(SYMMETRIC)}), got loss={loss!r}")
    if tensors[0]:
        for scores, label in ((a, "score_pos"), (b, f"score_{name}")):
            if scores.ndim != 1 or not scores.is_floating_point():
                raise ValueError(f"{label} must be a 1-d tensor of floats, got {scores.dtype} {tuple(scores.shape)}")
            if not bool(scores.detach().isfinite().all()):
                raise ValueError(f"{label} holds values that are NaN or infinite")
    else:
        a = check_finite_array(a, "score_pos", ndim=1)
        b = check_finite_array(b, f"score_{name}", ndim=1)
    for scores, label in ((a, "score_pos"), (b, f"score_{name}")):
        if len(scores) == 0:
            raise ValueError(f"{label} must hold at least one score, got none")
    v = check_weights(v, "weight_pos", len(a))
    w = check_weights(w, f"weight_{name}", len(b))
    if normalise:
        v, w = v / v.sum(), w / w.sum()
    else:
        v, w = v / len(v), w / len(w)
    risk = weighted_risk(a, b, v, w, loss, chunk=chunk)
    return risk if prior is None else (risk - 0.5 * prior) / (1.0 - prior)


def weighted_risk(a: Any, b: Any, v: Floats, w: Floats, loss: Any, *, chunk: int | None = None) -> Any:
    """Return ``sum_ij v_i w_j l(a_i - b_j)`` of arrays or tensors, with weights as they are."""
    if _is_tensor(a):
        from .tensors import tensor_pair_sum

        return tensor_pair_sum(loss, a, b, v, w, chunk=chunk)
    if not callable(loss):
        return pair_sum(loss, a, b, v, w, chunk=chunk).value
    total = 0.0
    for rows in blocks(len(a), len(b), chunk):
        z = a[rows, None] - b
        values = check_finite_array(loss(z), "the result of loss")
        if values.shape != z.shape:
            raise ValueError(f"loss must return an array of the shape of its input {z.shape}, got {values.shape}")
        total += float(v[rows] @ (values @ w))
    return total


def is_symmetric(loss: Any, *, tensor: bool = False) -> bool:
    """Tell whether ``l(z) + l(-z) = 1``; a callable is tried on a few margins."""
    if not callable(loss):
        return loss in SYMMETRIC
    z: Any = np.array([[0.0, 0.3, 1.0, 2.5, 8.0]])
    if tensor:
        z = sys.modules["torch"].from_numpy(z)
    return bool(np.allclose(np.asarray(loss(z) + loss(-z)), 1.0))


def check_weights(weight: Any, name: str, n: int) -> Floats:
    """Return weights as an array of length n; None means ones."""
    if weight is None:
        return np.ones(n)
    if _is_tensor(weight):
        weight = weight.detach().to("cpu").double().numpy()
    array = check_finite_array(weight, name, ndim=1)
    if len(array) != n:
        raise ValueError(f"{name} must have {n} entries, got {len(array)}")
    if (array < 0).any():
        raise ValueError(f"{name} must not be negative, got {array.min()!r}")
    if not array.any():
        raise ValueError(f"{name} must not be all zero")
    return array


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
