"""The interaction test of every subset of a table's columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.stats import false_discovery_control

from paperworks._checks import check_choice, check_integer
from paperworks.causal.interaction_tests.hypotheses import (
    EVALUATE,
    INTERACTIONS,
    check_splits,
    combine,
    lower_median,
    upper_tail,
)
from paperworks.causal.interaction_tests.samples import (
    Kernel,
    check_both_halves,
    generator,
    gram_blocks,
    prepare,
    split_rows,
)
from paperworks.causal.interaction_tests.statistics import MAX_STREITBERG, centred, joint, lancaster, streitberg

__all__ = ["interaction_scan"]

_KEPT_BYTES = 2**30
"""The matrices of all variables are kept for all subsets if they take no more than this."""


def interaction_scan(
    X: Any,
    order: int = 3,
    *,
    interaction: str = "streitberg",
    correction: str | None = "holm",
    n_jobs: int | None = None,
    verbose: int = 0,
    kernel: Kernel | Sequence[Kernel] = "rbf",
    bandwidth: str | float | Sequence[str | float] = "median",
    split: str | ArrayLike = "random",
    n_splits: int = 1,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    reference: str = "normal",
    device: Any = None,
) -> pd.DataFrame:
    """Test every subset of `order` variables for an interaction that splits into no independent groups.

    All subsets share one split of the rows and one cross-Gram matrix per variable, so that a subset of three costs a
    few elementwise products.

    Parameters
    ----------
    X : array-like of shape (n, d), DataFrame, or list of d arrays of shape (n,) or (n, p_i)
        The variables: columns of a table, or arrays of equal length with n >= 16 rows, drawn independently of each
        other. Torch tensors are taken too.
    order : int, default=3
        Size of the subsets, at least 2 and at most d. Subsets of two are tested for independence.
    interaction : {"streitberg", "lancaster"}, default="streitberg"
        Interaction tested from order 3 on, see `factorisation_test`; Streitberg's up to order 5.
    correction : {"holm", "bonferroni", "bh", "by"} or None, default="holm"
        Adjustment of the p-values for their number: Holm's or Bonferroni's for the chance of any false finding, the
        rules of Benjamini and Hochberg (``"bh"``) or Benjamini and Yekutieli (``"by"``, under any dependence) for the
        share of false findings.
    n_jobs : int, optional
        Number of threads, as in joblib; default is one.
    verbose : int, default=0
        With 1 or more, a progress bar is shown.
    kernel : {"rbf", "laplace", "linear", "delta"}, callable, or a list with one per variable, default="rbf"
        Kernel of each variable, see `cross_gram`; ``"delta"`` is for categories of any type.
    bandwidth : "median", float, or a list with one per variable, default="median"
        Length scale of the ``rbf`` and ``laplace`` kernels, in the unit of the variable; by default the median of its
        non-zero distances.
    split : {"random", "halves"} or boolean mask of shape (n,), default="random"
        How the two samples are chosen. ``"halves"`` takes the rows in order and mistakes a drift for dependence.
    n_splits : int, default=1
        Number of random splits; the p-values of a subset are combined into twice the median.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random splits.
    reference : {"normal", "t"}, default="normal"
        Law of the statistic under the null: its limit, or Student's with n1 - 1 degrees of freedom.
    device : torch device, optional
        If given, for instance ``"cuda"``, all matrices are computed there by torch in float64.

    Returns
    -------
    DataFrame
        One row per subset in lexicographic order, with the columns ``variables`` (a tuple of column names of a
        DataFrame, else of numbers), ``statistic``, ``pvalue`` and ``pvalue_adjusted``.

    Raises
    ------
    TypeError
        If a variable is not numeric under a numeric kernel, or `X` is sparse.
    ValueError
        If `order` does not fit the variables or the interaction, or for the reasons given at `factorisation_test`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from paperworks.causal import interaction_scan
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame(rng.normal(size=(300, 4)), columns=["a", "b", "c", "d"])
    >>> data["d"] = np.sign(data["a"] * data["b"]) * abs(data["d"])
    >>> found = interaction_scan(data, order=3, random_state=0)
    >>> found.loc[found["pvalue_adjusted"] < 0.05, "variables"].tolist()
    [('a', 'b', 'd')]
    """
    n_splits = check_splits(split, n_splits, reference)
    check_choice(interaction, "interaction", INTERACTIONS)
    if correction is not None:
        check_choice(correction, "correction", ("holm", "bonferroni", "bh", "by"))
    variables = prepare(X, kernel, bandwidth)
    d = len(variables)
    if d < 2:
        raise ValueError(f"X must hold at least 2 variables, got {d}")
    order = check_integer(order, "order", minimum=2, maximum=d)
    if order > MAX_STREITBERG and interaction == "streitberg":
        raise ValueError(f"order must be at most {MAX_STREITBERG} for Streitberg's interaction, got {order}")
    subsets = list(itertools.combinations(range(d), order))
    rng = generator(random_state)
    statistics = np.empty((n_splits, len(subsets)))
    pvalues = np.empty_like(statistics)
    for row in range(n_splits):
        rows1, rows2 = split_rows(split, len(variables[0].values), rng)
        check_both_halves(variables, rows1, rows2)
        evaluate = _evaluator(variables, rows1, rows2, order, interaction, device)
        statistics[row] = _run(evaluate, subsets, n_jobs, verbose, f"split {row + 1} of {n_splits}")
        pvalues[row] = [upper_tail(z, len(rows1), reference) for z in statistics[row]]
    names = list(X.columns) if isinstance(X, pd.DataFrame) else list(range(d))
    combined = np.array([combine(list(column)) for column in pvalues.T])
    shown = [column[lower_median(list(p))] for column, p in zip(statistics.T, pvalues.T, strict=True)]
    return pd.DataFrame(
        {
            "variables": [tuple(names[i] for i in subset) for subset in subsets],
            "statistic": shown,
            "pvalue": combined,
            "pvalue_adjusted": _adjust(combined, correction),
        }
    )


def _evaluator(
    variables: Sequence[Any],
    rows1: NDArray[np.intp],
    rows2: NDArray[np.intp],
    order: int,
    interaction: str,
    device: Any,
) -> Callable[[tuple[int, ...]], float]:
    kind = "joint" if order == 2 else interaction
    if len(variables) * len(rows1) * len(rows2) * 8 <= _KEPT_BYTES:
        (kept,) = centred(gram_blocks(variables, rows1, rows2, width=len(rows2), device=device))()

        def from_kept(subset: tuple[int, ...]) -> float:
            grams = [kept[i] for i in subset]
            if kind == "streitberg":
                return streitberg(grams).statistic
            # For two variables the joint statistic is the same on centred matrices.
            return (joint if kind == "joint" else lancaster)(lambda: [grams]).statistic

        return from_kept

    def from_data(subset: tuple[int, ...]) -> float:
        chosen = [variables[i] for i in subset]
        width = len(rows2) if kind == "streitberg" else None
        return EVALUATE[kind](gram_blocks(chosen, rows1, rows2, width=width, device=device)).statistic

    return from_data


def _run(
    evaluate: Callable[[tuple[int, ...]], float],
    subsets: list[tuple[int, ...]],
    n_jobs: int | None,
    verbose: int,
    description: str,
) -> list[float]:
    # Threads share the matrices, and NumPy lets go of the interpreter where the time goes.
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    found = parallel(delayed(evaluate)(subset) for subset in subsets)
    if verbose:
        from rich.progress import track

        found = track(found, description=description, total=len(subsets))
    return list(found)


def _adjust(pvalues: NDArray[np.float64], correction: str | None) -> NDArray[np.float64]:
    m = len(pvalues)
    if correction is None:
        return pvalues.copy()
    if correction == "bonferroni":
        return np.minimum(pvalues * m, 1.0)
    if correction == "holm":
        ranked = np.argsort(pvalues, kind="stable")
        adjusted = np.empty(m)
        adjusted[ranked] = np.minimum(np.maximum.accumulate(pvalues[ranked] * np.arange(m, 0, -1)), 1.0)
        return adjusted
    controlled: NDArray[np.float64] = false_discovery_control(pvalues, method=correction)
    return controlled
