"""Scores of prompts and their candidates, and the loss of each prompt at each cut-off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["INNERS", "Inner", "LossSteps", "check_lambdas", "loss_steps", "prompt_losses", "score_tables", "to_matrix"]

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Inner = str | Callable[[Floats], float]

INNERS = ("max", "mean", "first")


def to_matrix(scores: Any, name: str) -> Floats:
    """Return scores as a matrix of prompts x candidates; lists of vectors are padded with NaN."""
    if isinstance(scores, list | tuple) or (isinstance(scores, np.ndarray) and scores.dtype == object):
        try:
            rows = [np.asarray(row, dtype=np.float64) for row in scores]
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be numeric: {error}") from error
        if any(row.ndim != 1 for row in rows):
            raise ValueError(f"{name} must hold one vector of candidates for each prompt, got {scores!r:.80}")
        matrix = np.full((len(rows), max((row.size for row in rows), default=0)), np.nan)
        for i, row in enumerate(rows):
            matrix[i, : row.size] = row
    else:
        try:
            matrix = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be numeric, got {type(scores).__name__}: {error}") from error
        if matrix.ndim != 2:
            raise ValueError(
                f"{name} must have shape (n_prompts, n_candidates) or be a list of vectors, got shape {matrix.shape}"
            )
    if np.isinf(matrix).any():
        where = tuple(int(i) for i in np.argwhere(np.isinf(matrix))[0])
        raise ValueError(f"{name} must be finite (NaN for a missing candidate), got an infinite value at index {where}")
    return matrix


def long_columns(
    frame: pd.DataFrame, columns: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[Any], list[Floats], list[Any]]:
    """Return the row and column in the padded matrix of each line of a long frame, its values and the prompts."""
    missing = [name for name in ("prompt", *columns) if name not in frame.columns]
    if missing:
        raise ValueError(
            f"machine_scores as one frame must have the columns {', '.join(('prompt', *columns))}; "
            f"missing: {', '.join(missing)}"
        )
    codes, prompts = pd.factorize(frame["prompt"])
    if (codes < 0).any():
        raise ValueError(f"the column prompt has a missing value in line {int(np.flatnonzero(codes < 0)[0])}")
    place = frame.groupby(codes).cumcount().to_numpy()
    values = []
    for name in columns:
        try:
            values.append(frame[name].to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise TypeError(f"the column {name} must be numeric: {error}") from error
    return codes, place, values, list(prompts)


def score_tables(machine_scores: Any, human_scores: Any) -> tuple[Floats, Floats]:
    """Return machine and human scores as matrices of the same shape, NaN where there is no candidate."""
    names: list[Any] | None = None
    if human_scores is None:
        if not isinstance(machine_scores, pd.DataFrame):
            raise ValueError(
                "human_scores is needed, got None; only one frame with the columns prompt, machine, human goes without"
            )
        rows, columns, values, names = long_columns(machine_scores, ("machine", "human"))
        padded = []
        for column in values:
            matrix = np.full((len(names), int(columns.max(initial=-1)) + 1), np.nan)
            matrix[rows, columns] = column
            padded.append(to_matrix(matrix, "scores"))
        machine, human = padded
    else:
        machine, human = to_matrix(machine_scores, "machine_scores"), to_matrix(human_scores, "human_scores")
    if machine.shape != human.shape:
        raise ValueError(
            f"machine_scores and human_scores must have the same shape, got {machine.shape} and {human.shape}"
        )
    if machine.shape[0] == 0:
        raise ValueError("machine_scores must hold at least one prompt, got none")
    absent = np.isnan(machine)
    odd = absent != np.isnan(human)
    if odd.any():
        i, j = (int(k) for k in np.argwhere(odd)[0])
        which = "machine_scores" if absent[i, j] else "human_scores"
        raise ValueError(
            f"a candidate must have both scores or neither; prompt {names[i] if names else i}, candidate {j} "
            f"is NaN in {which} only"
        )
    empty = np.flatnonzero(absent.all(axis=1))
    if empty.size:
        raise ValueError(f"each prompt needs a candidate; prompt {names[empty[0]] if names else empty[0]} has none")
    return machine, human


def check_lambdas(lambdas: ArrayLike) -> Floats:
    """Return cut-offs as a non-empty vector without NaN, in the order given."""
    try:
        grid = np.asarray(lambdas, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"lambdas must be numeric: {error}") from error
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(f"lambdas must be a non-empty vector, got shape {grid.shape}")
    if np.isnan(grid).any():
        raise ValueError(f"lambdas must not hold NaN, got one at index {int(np.flatnonzero(np.isnan(grid))[0])}")
    return grid


@dataclass(frozen=True)
class LossSteps:
    """The loss of every prompt as a step function of the cut-off: 0 at first, then these changes in grid order."""

    n_prompts: int
    n_lambdas: int
    grid: Integers
    """Index of the cut-off from which on a change holds; nondecreasing."""
    prompt: Integers
    value: Floats

    def blocks(self, size: int) -> Iterator[tuple[int, Floats]]:
        """Yield (first cut-off, losses of shape (at most size, n_prompts)) along the grid.

        Only what changes between neighbouring cut-offs is touched. The memory is used again for the next block, and
        may be overwritten before.
        """
        edges = np.searchsorted(self.grid, np.arange(self.n_lambdas + 1))
        current = np.zeros(self.n_prompts)
        buffer = np.empty((min(size, self.n_lambdas), self.n_prompts))
        for start in range(0, self.n_lambdas, size):
            block = buffer[: self.n_lambdas - start]
            for row, k in zip(block, range(start, start + len(block)), strict=True):
                changed = slice(edges[k], edges[k + 1])
                current[self.prompt[changed]] = self.value[changed]
                row[:] = current
            yield start, block


def loss_steps(machine: Floats, human: Floats, lambdas: Floats, inner: Inner) -> LossSteps:
    """Return the losses of all prompts at increasing cut-offs, section 2 of the paper.

    Candidates are sorted by machine score, so that the kept ones are a prefix, and `inner` runs along the prefix.
    """
    n_lambdas = lambdas.size
    order = np.argsort(machine, axis=1)  # missing candidates come last; equal scores enter together, in any order
    scores = np.take_along_axis(machine, order, axis=1)
    losses = np.take_along_axis(human, order, axis=1)
    grid = np.searchsorted(lambdas, scores, side="left")
    grid[np.isnan(scores)] = n_lambdas
    # Candidates that enter at the same cut-off make one change, that of the last of them.
    last = np.empty(grid.shape, dtype=bool)
    last[:, -1] = True
    np.not_equal(grid[:, :-1], grid[:, 1:], out=last[:, :-1])
    last &= grid < n_lambdas
    if inner == "max":
        value = np.maximum.accumulate(losses, axis=1)[last]
    elif inner == "mean":
        value = (np.cumsum(losses, axis=1) / np.arange(1, losses.shape[1] + 1))[last]
    elif inner == "first":
        value = np.take_along_axis(human, np.minimum.accumulate(order, axis=1), axis=1)[last]
    elif callable(inner):
        value = np.array([_scalar(inner, human[i, np.sort(order[i, : j + 1])]) for i, j in np.argwhere(last)])
    else:
        raise ValueError(f"inner must be 'max', 'mean', 'first' or a function, got {inner!r}")
    prompt, at = np.nonzero(last)[0], grid[last]
    changes = np.ones(value.size, dtype=bool)
    changes[1:] = (prompt[1:] != prompt[:-1]) | (value[1:] != value[:-1])
    prompt, at, value = prompt[changes], at[changes], value[changes]
    # A stable sort of short integers is a radix sort.
    by_grid = np.argsort(at.astype(np.uint16) if n_lambdas < 2**16 else at, kind="stable")
    return LossSteps(len(machine), n_lambdas, at[by_grid], prompt[by_grid], value[by_grid])


def _scalar(inner: Callable[[Floats], float], kept: Floats) -> float:
    value = inner(kept)
    if np.ndim(value) != 0 or not np.isfinite(value):
        raise ValueError(f"inner must return one finite number, got {value!r} for the losses {kept!r}")
    return float(value)


def prompt_losses(machine: Any, human: Any, lambdas: ArrayLike, inner: Inner = "max") -> NDArray[np.float64]:
    """Return the loss of each prompt at each cut-off: that of the candidates with a machine score of at most lambda.

    Parameters
    ----------
    machine : array-like of shape (n_prompts, n_candidates) or list of vectors
        Machine scores; NaN marks a missing candidate.
    human : array-like of the same shape
        Human losses, NaN at the same places. None if `machine` is a DataFrame with the columns prompt, machine, human.
    lambdas : array-like of shape (n_lambdas,)
        Cut-offs in any order, infinities allowed.
    inner : {"max", "mean", "first"} or callable, default="max"
        What the kept losses of a prompt are turned into: the greatest, their mean, that of the candidate drawn first,
        or a function of the vector of kept losses in the order drawn.

    Returns
    -------
    ndarray of shape (n_prompts, n_lambdas)
        The losses, 0 where nothing is kept; column k belongs to ``lambdas[k]``. With "max" and losses >= 0 they never
        decrease in lambda.

    Raises
    ------
    ValueError
        If shapes differ, only one of the scores of a candidate is NaN, a prompt has no candidate, `lambdas` is empty or
        holds NaN, or `inner` is unknown or returns something else than a finite number.

    Examples
    --------
    >>> from paperworks.conformal import prompt_losses
    >>> prompt_losses([[0.1, 0.4], [0.2, 0.3]], [[0.0, 0.9], [0.5, 0.2]], [0.1, 0.2, 0.4])
    array([[0. , 0. , 0.9],
           [0. , 0.5, 0.5]])
    """
    machine_table, human_table = score_tables(machine, human)
    grid = check_lambdas(lambdas)
    order = np.argsort(grid, kind="stable")
    steps = loss_steps(machine_table, human_table, grid[order], inner)
    losses = np.empty((len(machine_table), grid.size))
    for _, block in steps.blocks(grid.size):
        losses[:, order] = block.T
    return losses
