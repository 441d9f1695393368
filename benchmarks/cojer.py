"""CoJER against the loop of the paper's published algorithm, and single-model intervals against MAPIE and crepes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import Case
from paperworks.conformal import CoJER, cojer_threshold
from paperworks.conformal.cojer.aggregation import prediction_hulls, strictly_above

Floats = NDArray[np.float64]


def loop_intervals(models: list[Any], X: Floats, residuals: Floats, grid: Floats, alpha_hat: float) -> Floats:
    """Find intervals as the published algorithm does: point by point, model by model, label by label of a grid."""
    n = residuals.shape[1]
    intervals = np.full((len(X), 2), np.nan)
    for j in range(len(X)):
        accepted = []
        for y in grid:
            p = []
            for model, r in zip(models, residuals, strict=True):
                score = abs(y - model.predict(X[j : j + 1])[0])
                p.append((1 + np.sum(r >= score)) / (n + 1))
            if len(p) / np.sum(1 / np.array(p)) > alpha_hat:
                accepted.append(y)
        if accepted:
            intervals[j] = accepted[0], accepted[-1]
    return intervals


def loop_template(n: int, m: int, delta: float, n_null: int, rng: np.random.Generator) -> Floats:
    """Learn a template with one Dirichlet draw after the other, and test the candidates by bisection."""

    def p_values() -> Floats:
        draws = []
        for _ in range(n_null):
            weights = rng.dirichlet(np.ones(n + 1))
            draws.append(np.sort(rng.choice(np.arange(1, n + 2) / (n + 1), size=m, p=weights)))
        return np.array(draws)

    candidates, fresh = np.sort(p_values(), axis=0), p_values()
    low, high = -1, n_null
    while high - low > 1:
        b = (low + high) // 2
        violated = np.mean([np.any(row[: m // 2] < candidates[b, : m // 2]) for row in fresh])
        low, high = (b, high) if violated <= delta else (low, b)
    return candidates[max(low, 0)]


def aggregated_case() -> Case:
    """Five models, on a size that the loop gets through."""
    from sklearn.datasets import make_friedman1
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.tree import DecisionTreeRegressor

    n, m = 200, 100
    X, y = make_friedman1(600 + m, noise=1.0, random_state=0)
    models = [
        LinearRegression(),
        Ridge(100.0),
        *(DecisionTreeRegressor(max_depth=d, random_state=0) for d in (3, 5, 7)),
    ]
    for model in models:
        model.fit(X[:400], y[:400])
    named = [(str(q), model) for q, model in enumerate(models)]
    cojer = CoJER(named, prefit=True, band="exact").fit(X[400 : 400 + n], y[400 : 400 + n])
    cojer.predict_interval(X[600:])
    grid = np.linspace(y[:600].min(), y[:600].max(), 50)
    return Case(
        f"aggregated intervals, 5 models, n={n}, m={m}",
        ours=lambda: cojer.predict_interval(X[600:]),
        peer=lambda: loop_intervals(models, X[600:], cojer.residuals_, grid, cojer.alpha_hat_),
        peer_name="the published loop",
        note="exact ends against a grid of 50 labels; both predict",
    )


def target_size_case() -> Case:
    """The size of the specification, predictions made beforehand; the peer is the best grid search of NumPy."""
    rng = np.random.default_rng(0)
    n, m, M = 1000, 500, 5
    residuals = np.sort(np.abs(rng.normal(size=(M, n))), axis=1)
    predictions = rng.normal(size=(m, 1)) + 0.3 * rng.normal(size=(m, M))
    grid = np.linspace(-6, 6, 100)
    t = cojer_threshold(n, m, 0.1, 0.1, band="exact")

    def on_grid() -> Floats:
        inverse = np.zeros((m, grid.size))
        for q in range(M):
            distance = np.abs(grid - predictions[:, q, None])
            inverse += 1 / (n + 1 - np.searchsorted(residuals[q], distance))
        inside = M / inverse > t
        return np.column_stack([grid[inside.argmax(axis=1)], grid[grid.size - 1 - inside[:, ::-1].argmax(axis=1)]])

    return Case(
        f"aggregated sets alone, {M} models, n={n}, m={m}",
        ours=lambda: prediction_hulls(predictions, residuals, "harmonic", strictly_above(t)),
        peer=on_grid,
        peer_name="vectorised grid of 100 labels",
        note="exact ends against ends off by up to 0.12",
    )


def single_model_cases() -> list[Case]:
    """Calibrate and predict 10,000 points with a linear model that is fitted beforehand."""
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    n = m = 10_000
    X = rng.normal(size=(n + m, 5))
    y = X.sum(axis=1) + rng.normal(size=n + m)
    model = LinearRegression().fit(X[:n], y[:n])

    def ours(band: str) -> Callable[[], Any]:
        return lambda: CoJER(model, prefit=True, band=band, random_state=0).fit(X[:n], y[:n]).predict_interval(X[n:])

    peers: list[tuple[str, Callable[[], Any]]] = []
    try:
        from mapie.regression import SplitConformalRegressor
    except ModuleNotFoundError:
        pass
    else:
        peers.append(
            (
                "mapie",
                lambda: (
                    SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
                    .conformalize(X[:n], y[:n])
                    .predict_interval(X[n:])
                ),
            )
        )
    try:
        from crepes import WrapRegressor
    except ModuleNotFoundError:
        pass
    else:

        def crepes() -> Any:
            wrapped = WrapRegressor(model)
            wrapped.calibrate(X[:n], y[:n])
            return wrapped.predict_int(X[n:], confidence=0.9)

        peers.append(("crepes", crepes))
    return [
        Case(f"single model, band={band!r}, n=m={n:,}", ours(band), peer, name, "calibrate and predict")
        for name, peer in peers
        for band in ("scp", "exact")
    ]


def template_case() -> Case:
    """The learned template of the default band."""
    n, m, n_null = 1000, 500, 1000
    return Case(
        f"learned template, n={n}, m={m}, {n_null} draws",
        ours=lambda: cojer_threshold(n, m, 0.1, 0.1, n_null=n_null, random_state=0),
        peer=lambda: loop_template(n, m, 0.1, n_null, np.random.default_rng(0)),
        peer_name="one Dirichlet draw after the other",
    )


def cases() -> list[Case]:
    """Return the comparisons, set up."""
    return [aggregated_case(), target_size_case(), *single_model_cases(), template_case()]
