"""The class-imbalanced margin loss of IMMAX for PyTorch.

Every row of logits is divided by the confidence margin of its *true* class before an ordinary surrogate is taken; with
the logistic surrogate this is cross-entropy of ``logits / rho[target]``. The division is done in float32 at least and
the margins are kept in float64 whatever the module is cast to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from paperworks._checks import check_choice, check_finite_array, check_fraction, check_positive, extra

with extra("torch"):
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

from .margins import check_rho, rho_from_counts

__all__ = ["SURROGATES", "ImmaxLoss"]

SURROGATES = ("logistic", "sumexp", "hinge", "ramp")
Surrogate = Literal["logistic", "sumexp", "hinge", "ramp"]

_LARGE = 2**16  # below this many logits the plain formula is as fast


class _ScaledCrossEntropy(torch.autograd.Function):
    """Cross-entropy per row of ``logits * scale[:, None]``, with a cheaper backward pass.

    The gradient ``scale * (softmax - onehot)`` folds the scale into a factor that backward applies anyway. Double
    backward works: where a graph of the gradient is asked for, the softmax is taken again from the logits.
    """

    @staticmethod
    def forward(logits: Tensor, scale: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        log_prob = torch.log_softmax(logits * scale[:, None], 1)
        return -log_prob.gather(1, target[:, None])[:, 0], log_prob

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None, _: Any) -> tuple[Tensor | None, None, None]:
        if grad_loss is None:
            return None, None, None
        logits, scale, target, log_prob = ctx.saved_tensors
        factor = (scale * grad_loss)[:, None]
        if torch.is_grad_enabled():
            prob = torch.softmax(logits * scale[:, None], 1)
            return prob * factor - F.one_hot(target, logits.shape[1]) * factor, None, None
        grad = log_prob.exp().mul_(factor)
        return grad.scatter_add_(1, target[:, None], -factor), None, None


class ImmaxLoss(nn.Module):
    r"""Class-imbalanced margin loss: each row of logits is divided by the margin of its true class.

    With logits h and margins :math:`\rho` the surrogates are (sections 3.1 and 3.3 of the specification of IMMAX)

    - ``"logistic"``: :math:`\log(1 + \sum_{y' \ne y} e^{(h_{y'} - h_y)/\rho_y})`, cross-entropy of :math:`h/\rho_y`;
    - ``"sumexp"``: :math:`\sum_{y' \ne y} e^{(h_{y'} - h_y)/\rho_y}`;
    - ``"hinge"``: :math:`\max(0, 1 - u/\rho_y)` with the margin :math:`u = h_y - \max_{y' \ne y} h_{y'}`;
    - ``"ramp"``: the hinge cut at 1, the margin loss of the theory; not convex, meant for evaluation and bounds.

    Unlike vector scaling, which multiplies each logit by a factor of its own class, the whole row is divided by the
    factor of the row's true class. ``rho = 1`` is plain cross-entropy.

    Parameters
    ----------
    rho : array-like of float, shape (n_classes,)
        Confidence margins, positive, in the order of the class indices. Kept as a float64 buffer that no ``.to(dtype)``
        rounds, and cast to the dtype of the logits (float32 at least) where it is used.
    surrogate : {"logistic", "sumexp", "hinge", "ramp"}, default="logistic"
        The function of the scaled margin.
    reduction : {"mean", "sum", "none"}, default="mean"
        As in `torch.nn.functional.cross_entropy`: ``"mean"`` divides by the summed class weights of the targets.
    weight : array-like of float, shape (n_classes,), optional
        Weight of each class, non-negative.
    label_smoothing : float, default=0.0
        As in cross-entropy, in [0, 1]; only with the logistic surrogate and logits per class.

    Raises
    ------
    ValueError
        If `rho` isn't positive and finite, if `weight` has another length, if `surrogate` or `reduction` is unknown, or
        if `label_smoothing` comes with another surrogate than the logistic one.

    Notes
    -----
    NaN in the logits passes through to the loss, as in torch. Half-precision logits are lifted to float32 first and the
    loss comes back in float32, inside and outside of autocast. Targets out of range raise `ValueError` on the CPU; on
    other devices, and in compiled code, the check of the device applies (reading the target would stall the queue).

    References
    ----------
    C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the Scales: A Theoretical and Algorithmic Framework for Learning
    from Imbalanced Data", ICML 2025, PMLR 267:11255-11287.

    Examples
    --------
    >>> import torch
    >>> from paperworks.imbalanced import ImmaxLoss
    >>> loss = ImmaxLoss([1.0, 0.5])
    >>> logits = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> loss(logits, torch.tensor([1, 0])).item()  # (log(1 + e^-2) + log(1 + e)) / 2
    0.72009...
    >>> ImmaxLoss.from_counts([800, 100]).rho  # ratio 2 : 1, geometric mean 1
    tensor([1.4142, 0.7071], dtype=torch.float64)
    """

    rho: Tensor
    weight: Tensor | None

    def __init__(
        self,
        rho: Any,
        *,
        surrogate: Surrogate = "logistic",
        reduction: Literal["mean", "sum", "none"] = "mean",
        weight: Any = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        margins = check_rho(_to_numpy(rho))
        self.surrogate = check_choice(surrogate, "surrogate", SURROGATES)
        self.reduction = check_choice(reduction, "reduction", ("mean", "sum", "none"))
        self.label_smoothing = check_fraction(label_smoothing, "label_smoothing")
        if self.label_smoothing > 0 and surrogate != "logistic":
            raise ValueError(f"label_smoothing > 0 needs surrogate='logistic', got {surrogate!r}")
        self.register_buffer("rho", torch.tensor(margins, dtype=torch.float64))
        class_weight = None
        if weight is not None:
            values = check_finite_array(_to_numpy(weight), "weight", ndim=1)
            if len(values) != len(margins):
                raise ValueError(f"weight must have one entry per class: {len(values)} weights for {len(margins)} rho")
            if (values < 0).any():
                raise ValueError(f"weight must be non-negative, got a smallest value of {values.min()}")
            class_weight = torch.tensor(values, dtype=torch.float64)
        self.register_buffer("weight", class_weight)

    @classmethod
    def from_counts(cls, counts: Any, gamma: float = 1 / 3, scale: float = 1.0, **kwargs: Any) -> ImmaxLoss:
        """Build the loss with ``rho_k = scale * (m_k / geomean(m))**gamma``.

        Parameters
        ----------
        counts : array-like of float, shape (n_classes,)
            Number of training rows of each class, positive.
        gamma : float, default=1/3
            Exponent: 0 is cross-entropy, 1/3 the optimum of the separable case, -1/4 the direction of LDAM.
        scale : float, default=1.0
            Geometric mean of the margins, positive.
        **kwargs : Any
            Further arguments of `ImmaxLoss`.

        Returns
        -------
        ImmaxLoss
            The loss.
        """
        return cls(rho_from_counts(_to_numpy(counts), gamma, check_positive(scale, "scale")), **kwargs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ImmaxLoss:
        """Follow moves between devices, but never a cast: the buffers stay float64 (float32 where that's missing)."""
        kept, self._buffers = self._buffers, {}
        try:
            super()._apply(fn, recurse)
        finally:
            self._buffers = kept
        device = fn(torch.empty(0, device=self.rho.device)).device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        for name, buffer in kept.items():
            if buffer is None or (buffer.device == device and buffer.dtype == dtype):
                continue
            if buffer.is_meta:
                kept[name] = torch.empty_like(buffer, device=device, dtype=dtype)
            else:
                kept[name] = buffer.to(device=device, dtype=dtype)
        return self

    def extra_repr(self) -> str:
        """Return the settings that ``repr`` shows.

        Returns
        -------
        str
            Number of classes, surrogate and reduction.
        """
        return f"n_classes={len(self.rho)}, surrogate={self.surrogate!r}, reduction={self.reduction!r}"

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` against `target`.

        Parameters
        ----------
        input : Tensor, shape (B, n_classes), (B, n_classes, d1, ...) or, for two classes, (B,) or (B, 1)
            Logits; for the last two the score of class 1 against class 0.
        target : Tensor of integers, shape (B,) or (B, d1, ...)
            Class indices; for scores of shape (B, 1) either (B,) or (B, 1).

        Returns
        -------
        Tensor
            A scalar, or the shape of `target` with ``reduction="none"``; float32, or float64 for float64 logits.

        Raises
        ------
        TypeError
            If `target` isn't of an integer type or `input` isn't floating.
        ValueError
            If shapes don't fit each other or `rho`, or (CPU) a target is out of range.
        """
        scores, target, binary = self._checked(input, target)
        weight = None if self.weight is None else self.weight.to(device=scores.device, dtype=scores.dtype)
        inv_rho = (1.0 / self.rho).to(device=scores.device, dtype=scores.dtype)
        scale = inv_rho[target]
        if self.label_smoothing > 0:
            if binary:  # two logits (0, z) give the binary form
                scores = torch.stack((torch.zeros_like(scores), scores), 1)
            return F.cross_entropy(
                scores * scale.unsqueeze(1),
                target,
                weight=weight,
                reduction=self.reduction,
                label_smoothing=self.label_smoothing,
            )
        if binary:
            loss = self._of_margin(torch.where(target == 1, scores, -scores) * scale)
        else:
            loss = self._of_rows(scores, target, scale)
        if weight is not None:
            row_weight = weight[target]
            loss = loss * row_weight
            if self.reduction == "mean":
                return loss.sum() / row_weight.sum()
        if self.reduction == "none":
            return loss
        return loss.mean() if self.reduction == "mean" else loss.sum()

    def _checked(self, scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor, bool]:
        n_classes = len(self.rho)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise TypeError(f"input must be a floating point tensor, got {getattr(scores, 'dtype', type(scores))}")
        if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
            kind = getattr(target, "dtype", type(target))
            raise TypeError(f"target must hold class indices of an integer type, got {kind}")
        binary = scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1)
        if scores.ndim == 0:
            raise ValueError("input must have at least one dimension, got a scalar")
        if binary:
            if n_classes != 2:
                raise ValueError(f"input of shape {tuple(scores.shape)} is binary, but rho has {n_classes} entries")
            scores = scores.reshape(-1)
            if target.ndim == 2 and target.shape[1] == 1:
                target = target.reshape(-1)
        elif scores.shape[1] != n_classes:
            raise ValueError(f"input has {scores.shape[1]} classes in dimension 1, but rho has {n_classes} entries")
        expected = scores.shape if binary else scores.shape[:1] + scores.shape[2:]
        if target.shape != expected:
            raise ValueError(f"target must have shape {tuple(expected)}, got {tuple(target.shape)}")
        target = target.long()
        if target.device.type == "cpu" and not torch.compiler.is_compiling() and target.numel():
            low, high = (int(v) for v in torch.aminmax(target))
            if low < 0 or high >= n_classes:
                bad = low if low < 0 else high
                raise ValueError(f"target must lie in 0..{n_classes - 1}, got {bad}")
        if scores.dtype in (torch.float16, torch.bfloat16):
            scores = scores.float()
        return scores, target, binary

    def _of_rows(self, logits: Tensor, target: Tensor, scale: Tensor) -> Tensor:
        """Loss per target for logits with the classes in dimension 1."""
        if self.surrogate == "logistic":
            if logits.ndim == 2 and logits.numel() >= _LARGE and not torch.compiler.is_compiling():
                loss: Tensor = _ScaledCrossEntropy.apply(logits, scale, target)[0]
                return loss
            return F.cross_entropy(logits * scale.unsqueeze(1), target, reduction="none")
        index = target.unsqueeze(1)
        if self.surrogate == "sumexp":
            exponent = (logits - logits.gather(1, index)) * scale.unsqueeze(1)
            return exponent.exp().scatter(1, index, 0.0).sum(1)
        rival = logits.scatter(1, index, -math.inf).amax(1)
        return self._of_margin((logits.gather(1, index).squeeze(1) - rival) * scale)

    def _of_margin(self, margin: Tensor) -> Tensor:
        if self.surrogate == "logistic":
            return -F.logsigmoid(margin)
        if self.surrogate == "sumexp":
            return torch.exp(-margin)
        hinge = torch.clamp(1.0 - margin, min=0.0)
        return hinge if self.surrogate == "hinge" else torch.clamp(hinge, max=1.0)


def _to_numpy(values: Any) -> Any:
    return values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values
