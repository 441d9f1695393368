"""Sums over pairs as PyTorch operations: the same sums, differentiable in the scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import extra

from .pairs import blocks, pair_sum

with extra("torch"):
    import torch
    from torch.autograd.function import once_differentiable

__all__ = ["tensor_pair_sum"]


class _PairSum(torch.autograd.Function):
    """Only the scores travel to NumPy and only their gradients are kept, never the pairs."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, v: Any, w: Any, loss: str, chunk: int | None) -> Any:
        s, t = (x.detach().to("cpu", torch.float64).numpy() for x in (a, b))
        found = pair_sum(loss, s, t, v, w, chunk=chunk)
        ctx.gradients = tuple(torch.from_numpy(g).to(x) for g, x in ((found.by_a, a), (found.by_b, b)))
        return a.new_tensor(found.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Any) -> Any:
        by_a, by_b = ctx.gradients
        return upstream * by_a, upstream * by_b, None, None, None, None


def tensor_pair_sum(
    loss: str | Callable[[Any], Any],
    a: Any,
    b: Any,
    v: NDArray[np.float64],
    w: NDArray[np.float64],
    *,
    chunk: int | None = None,
) -> Any:
    """Return ``sum_ij v_i w_j l(a_i - b_j)`` as a 0-d tensor; a callable loss is differentiated by autograd."""
    if isinstance(loss, str):
        return _PairSum.apply(a, b, v, w, loss, chunk)
    p, q = torch.from_numpy(v).to(a), torch.from_numpy(w).to(a)
    total = a.new_zeros(())
    for rows in blocks(len(a), len(b), chunk):
        values = loss(a[rows, None] - b)
        if not isinstance(values, torch.Tensor) or values.shape != (len(p[rows]), len(b)):
            raise ValueError(f"loss must return a tensor of the shape of its input, got {values!r}")
        total = total + p[rows] @ (values @ q)
    return total
