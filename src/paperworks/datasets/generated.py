"""Regression problems whose truth is known: Friedman's three functions with fixed noise and a fixed seed.

The legacy Mersenne Twister stream behind them is frozen by NumPy, so every machine gets the same values.
"""

from __future__ import annotations

from typing import Literal

from paperworks.datasets.record import Dataset, Table

__all__ = ["DATASETS", "friedman"]

_N_ROWS = 2000
_NOISE = {1: 1.0, 2: 125.0, 3: 0.1}
_N_FEATURES = {1: 10, 2: 4, 3: 4}
_FORMULA = {
    1: "10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5, the other five columns are noise",
    2: "sqrt(x1^2 + (x2 x3 - 1/(x2 x4))^2)",
    3: "arctan((x2 x3 - 1/(x2 x4)) / x1)",
}


def friedman(number: Literal[1, 2, 3]) -> Table:
    """Generate one of Friedman's regression problems, 2000 rows, always the same.

    Parameters
    ----------
    number : {1, 2, 3}
        Which of the three functions; the standard deviation of the noise is 1, 125 and 0.1.

    Returns
    -------
    Table
        Features ``x1, x2, ...`` (10 for the first function, 4 for the others) and the target ``y``.

    References
    ----------
    J. H. Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19(1), 1991, section 4.3.

    Examples
    --------
    >>> from paperworks.datasets.generated import friedman
    >>> friedman(1).X.shape
    (2000, 10)
    """
    import pandas as pd
    from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

    make = {1: make_friedman1, 2: make_friedman2, 3: make_friedman3}[number]
    X, y = make(n_samples=_N_ROWS, noise=_NOISE[number], random_state=0)
    columns = [f"x{i + 1}" for i in range(X.shape[1])]
    return Table(pd.DataFrame(X, columns=columns), pd.Series(y, name="y"), "y")


def _record(number: Literal[1, 2, 3]) -> Dataset:
    return Dataset(
        name=f"friedman{number}",
        kind="table",
        task="regression",
        shape=(_N_ROWS, _N_FEATURES[number]),
        licence="generated, no rights",
        source="J. H. Friedman, Multivariate adaptive regression splines, Annals of Statistics 19(1), 1991",
        loader=lambda: friedman(number),
        description=f"{_FORMULA[number]}; noise of standard deviation {_NOISE[number]:g}",
    )


DATASETS = (_record(1), _record(2), _record(3))
