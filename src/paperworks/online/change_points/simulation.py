"""Many runs of the method, or of a rival, on Gaussian rewards."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_choice, check_integer, check_positive
from paperworks.online.change_points.bandit import check_rule
from paperworks.online.change_points.contenders import CONTENDERS, Runs
from paperworks.online.change_points.stopping import StoppingRule
from paperworks.online.change_points.theory import check_means

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["simulate"]

Floats = NDArray[np.float64]

BLOCK = 128  # rewards of a run that are drawn at a time


def simulate(
    means: ArrayLike,
    contender: str = "mcpi",
    *,
    n_changes: int = 1,
    sigma: float = 1.0,
    delta: float = 0.05,
    threshold: str = "mixture",
    n_runs: int = 100,
    max_samples: int = 1_000_000,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    """Simulate runs of the method, or of a rival, on normal rewards.

    Parameters
    ----------
    means : array-like of shape (n_arms,)
        True mean of each arm. Neighbours whose means differ, however little, are a change point.
    contender : str, default="mcpi"
        ``"mcpi"`` is `ChangePointBandit`, ``"mcpi-sqrt"`` the same with the paper's forced exploration. With the same
        stopping rule: ``"uniform"`` samples every arm in turn; ``"elimination"`` does so with the arms of the pairs
        that may still be among the largest jumps, which comes to the same; ``"oracle"`` knows where the largest jumps
        are, samples by `allocation` and only confirms them. ``"bisect"`` halves the range, for one change point where
        there is exactly one; a run that takes a wrong half never stops. ``"clustering"`` looks for n_changes + 1
        groups of arms with equal means, in any order.
    n_changes : int, default=1
        How many change points to find.
    sigma : float, default=1.0
        Standard deviation of a reward, known to the contender.
    delta : float, default=0.05
        Probability of error that is allowed, in (0, 1).
    threshold : {"mixture", "kk", "heuristic"}, default="mixture"
        As in `ChangePointBandit`.
    n_runs : int, default=100
        Number of runs.
    max_samples : int, default=1_000_000
        Samples after which a run is given up.
    random_state : int, Generator or None, default=None
        Seed. The noise of run r depends on the seed and r alone: the first runs of many are those of few, and all
        contenders meet the same noise.

    Returns
    -------
    DataFrame
        One row a run: ``tau`` (samples until it stopped), ``change_points`` (tuple of int), ``correct`` (these are true
        change points, `n_changes` or more) and ``converged`` (False if it was given up; ``change_points`` is then the
        best guess).

    Raises
    ------
    ValueError
        If an argument is out of range, or a contender does not apply: ``"oracle"`` needs `n_changes` jumps,
        ``"bisect"`` exactly one.
    TypeError
        If an argument has the wrong type.

    Warns
    -----
    UserWarning
        If a run is given up, or `threshold` is ``"heuristic"``.

    Notes
    -----
    All runs move together, one reward each, in whole-array operations; those that are done are dropped.

    Examples
    --------
    >>> from paperworks.online import simulate
    >>> means = [0, 0, 0, 1, 1, 1, 1, 1]
    >>> runs = simulate(means, n_runs=50, random_state=0)
    >>> uniform = simulate(means, "uniform", n_runs=50, random_state=0)
    >>> bool(runs.tau.mean() < uniform.tau.mean())
    True
    """
    import pandas as pd

    truth = check_means(means)
    check_choice(contender, "contender", CONTENDERS)
    n_changes = check_integer(n_changes, "n_changes", minimum=1, maximum=truth.size - 1)
    sigma = check_positive(sigma, "sigma")
    n_runs = check_integer(n_runs, "n_runs", minimum=1)
    max_samples = check_integer(max_samples, "max_samples")
    if max_samples < truth.size:
        raise ValueError(f"max_samples must be at least the number of arms, {truth.size}, got {max_samples}")
    jumps = np.flatnonzero(np.diff(truth))
    if contender == "oracle" and jumps.size < n_changes:
        raise ValueError(f"contender 'oracle' needs means with {n_changes} change point(s), got {jumps.size}")
    if contender == "bisect" and (n_changes, jumps.size) != (1, 1):
        raise ValueError(
            f"contender 'bisect' needs n_changes=1 and means with one change point, got {n_changes} and {jumps.size}"
        )
    delta = check_rule(threshold, delta)
    rule = StoppingRule(threshold, truth.size - 1, n_changes, delta, sigma)
    noise = _Noise(_generators(random_state, n_runs), sigma)
    tau, answers, converged = _play(CONTENDERS[contender](truth, n_runs, rule), noise, max_samples)
    true = set(jumps.tolist())
    correct = [len(found) >= n_changes and true.issuperset(found) for found in answers]
    if not converged.all():
        warnings.warn(
            f"{(~converged).sum()} of {n_runs} runs of {contender!r} with n_changes = {n_changes} were given up after "
            f"{max_samples:,} samples",
            UserWarning,
            stacklevel=2,
        )
    return pd.DataFrame({"tau": tau, "change_points": answers, "correct": correct, "converged": converged})


def _play(runs: Runs, noise: _Noise, max_samples: int) -> tuple[Any, list[tuple[int, ...]], Any]:
    """Let all runs go on until each has stopped; return when they did, with what, and which were not given up."""
    n_runs = runs.n_runs
    tau = np.full(n_runs, max_samples)
    answers: list[tuple[int, ...]] = [()] * n_runs
    converged = np.zeros(n_runs, dtype=bool)
    number = np.arange(n_runs)  # which run a row is
    while number.size and runs.n_samples < max_samples:
        arms = runs.select()
        runs.record(arms, runs.truth.take(arms) + noise.next())
        for row in np.flatnonzero(runs.stopped()).tolist():
            run = int(number[row])
            if not converged[run]:
                converged[run], tau[run] = True, runs.n_samples
                answers[run] = tuple(runs.answer(row).tolist())
        going = ~converged[number]
        # Dropping rows copies everything, so it waits until a tenth of them are done.
        if going.sum() < 0.9 * number.size:
            runs.keep(going)
            noise.keep(going)
            number = number[going]
    for row, run in enumerate(number.tolist()):
        if not converged[run]:
            answers[run] = tuple(runs.answer(row).tolist())
    return tau, answers, converged


class _Noise:
    """The noise of each run from a generator of its own, drawn in blocks when it is needed."""

    def __init__(self, generators: list[np.random.Generator], sigma: float) -> None:
        self.generators, self.sigma = generators, sigma
        self.block = np.empty((0, len(generators)))
        self.used = 0

    def next(self) -> Floats:
        """Return the next value of each run."""
        if self.used == len(self.block):
            drawn = [generator.standard_normal(BLOCK) for generator in self.generators]
            self.block, self.used = self.sigma * np.stack(drawn, axis=1), 0
        self.used += 1
        return self.block[self.used - 1]

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget all runs but those marked."""
        self.generators = [one for one, wanted in zip(self.generators, kept, strict=True) if wanted]
        self.block = self.block[:, kept]


def _generators(random_state: int | np.random.Generator | None, n_runs: int) -> list[np.random.Generator]:
    if isinstance(random_state, np.random.Generator):
        source = random_state
    else:
        if random_state is not None:
            check_integer(random_state, "random_state", minimum=0)
        source = np.random.default_rng(random_state)
    return [np.random.default_rng(seed) for seed in source.integers(2**63, size=n_runs).tolist()]
