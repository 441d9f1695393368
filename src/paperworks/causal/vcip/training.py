"""Training on windows of the records: a random length of history at each step, the best validation loss kept."""

from __future__ import annotations

import copy
import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import extra

with extra("torch"):
    import torch
    from torch import Tensor

from .networks import Window
from .records import Records, Scaling

__all__ = ["Fitted", "Sequences", "find_device", "train"]

CLIP = 5.0
CHECK_EVERY = 20
VALIDATION_LENGTHS = 4


def find_device(device: Any) -> torch.device:
    """Return a device on which tensors can be made."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device must be 'auto' or a device of this machine, got {device!r}: {error}") from error
    return found


class Sequences(NamedTuple):
    """Records as tensors, with the windows that can be cut from them."""

    inputs: Tensor
    outcomes: Tensor
    seen: Tensor
    actions: Tensor
    known: Tensor
    usable: NDArray[np.bool_]
    """(n, T + 1): whether a history may end there, with `horizon` known actions and a seen outcome after it."""
    horizon: int

    @classmethod
    def of(cls, records: Records, scaling: Scaling, horizon: int, shortest: int, device: Any) -> Sequences:
        """Standardise records and find their windows."""
        n, steps = records.seen.shape
        usable = np.zeros((n, steps), dtype=bool)
        unknown = np.zeros((n, steps), dtype=np.int64)
        unknown[:, 1:] = (~records.known).cumsum(axis=1)
        ends = np.arange(shortest, steps - horizon)
        usable[:, ends] = (
            records.seen[:, ends] & records.seen[:, ends + horizon] & (unknown[:, ends + horizon] == unknown[:, ends])
        )

        def tensor(array: Any) -> Tensor:
            kind = torch.bool if array.dtype == bool else torch.float32
            return torch.as_tensor(array, dtype=kind, device=device)

        return cls(
            tensor(scaling.inputs(records)),
            tensor(scaling.outcomes(records.outcomes)),
            tensor(records.seen),
            tensor(records.actions),
            tensor(records.known),
            usable,
            horizon,
        )

    def window(self, rows: Any, h: int) -> Window:
        """Cut the windows whose history ends at step `h`."""
        i, end = torch.as_tensor(rows, device=self.inputs.device), h + self.horizon
        return Window(
            self.inputs[i, : h + 1],
            self.outcomes[i, : end + 1],
            self.seen[i, : end + 1],
            self.actions[i, :end],
            self.known[i, :end],
        )


class Fitted(NamedTuple):
    """What training leaves: losses at each step, validation losses as (step, loss), and the step that was kept."""

    losses: list[float]
    validation: list[tuple[int, float]]
    kept: int


def _validation_windows(sequences: Sequences) -> list[Window]:
    lengths = np.flatnonzero(sequences.usable.any(axis=0))
    chosen = np.unique(lengths[np.linspace(0, len(lengths) - 1, VALIDATION_LENGTHS).round().astype(int)])
    return [sequences.window(np.flatnonzero(sequences.usable[:, h]), int(h)) for h in chosen]


def _validation_loss(network: Any, windows: list[Window]) -> float:
    with torch.no_grad():
        sizes = [len(window.inputs) for window in windows]
        losses = [float(network.loss(window, None)) for window in windows]
    return float(np.average(losses, weights=sizes))


def train(
    network: Any,
    sequences: Sequences,
    validation: Sequences | None,
    *,
    batch_size: int,
    lr: float,
    weight_decay: float,
    max_steps: int,
    rng: Any,
    verbose: int,
) -> Fitted:
    """Train in place with Adam and a cosine schedule.

    Raises
    ------
    FloatingPointError
        If the loss stops being finite.
    """
    generator = torch.Generator(device=sequences.inputs.device).manual_seed(int(rng.randint(2**31 - 1)))
    optimiser = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    windows = [] if validation is None else _validation_windows(validation)
    counts = sequences.usable.sum(axis=0)
    share = counts / counts.sum()  # each window is as likely as any other
    losses: list[float] = []
    checks: list[tuple[int, float]] = []
    best, kept, weights = math.inf, max_steps, None
    network.train()
    for step in range(1, max_steps + 1):
        h = int(rng.choice(len(share), p=share))
        rows = np.flatnonzero(sequences.usable[:, h])
        if len(rows) > batch_size:
            rows = rng.choice(rows, size=batch_size, replace=False)
        for group in optimiser.param_groups:
            group["lr"] = lr * 0.5 * (1.0 + math.cos(math.pi * (step - 1) / max_steps))
        loss = network.loss(sequences.window(rows, h), generator)
        if not bool(torch.isfinite(loss)):
            raise FloatingPointError(f"the loss is {float(loss)} at step {step}; lower lr, got {lr!r}")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimiser.step()
        losses.append(float(loss.detach()))
        if windows and (step % CHECK_EVERY == 0 or step == max_steps):
            checks.append((step, _validation_loss(network, windows)))
            if checks[-1][1] < best:
                best, kept, weights = checks[-1][1], step, copy.deepcopy(network.state_dict())
        if verbose and (step % 100 == 0 or step == max_steps):
            note = f", validation {checks[-1][1]:.4f}" if checks else ""
            print(f"step {step}/{max_steps}: loss {losses[-1]:.4f}{note}", file=sys.stderr)
    if weights is not None:
        network.load_state_dict(weights)
    network.eval()
    return Fitted(losses, checks, kept)
