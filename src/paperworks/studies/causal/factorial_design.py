"""Which dosages of combined treatments teach most about their effects: equal halves, adapted ones, or other designs?

Each trial repeats an experiment: true coefficients, then one round or several of a number of units, whose treatments
come from the contender's dosages (or its list of combinations). Coefficients, noise and the uniform numbers behind the
treatments are the same for all contenders. What is measured is how well the units determine the coefficients:

- ``risk``: the expected squared error of the best linear estimate, given the units' treatments, for coefficients with
  the mean square of the true ones. It averages over noise and signs exactly, and is finite for every design;
- ``ols_risk``: the same for least squares, sigma^2 tr (Z'Z)^{-1}; infinite if some coefficient can't be estimated;
- ``to_bound``: ``ols_risk`` divided by the paper's bound for the half dosage, (2 K sigma^2 + 1) / n;
- ``squared_error``: the squared error that least squares makes on the drawn outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Figure, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Problem:
    """One kind of experiment."""

    p: int
    order: int
    """Order of the model that is fitted."""
    n: int
    """Units per round."""
    rounds: int = 1
    sigma: float = 1.0
    supply: float | None = None
    true_order: int | None = None
    """Order of the truth, if it is not that of the model."""
    words: str = ""
    """The regular fraction that fits, for pydoe."""


PROBLEMS = {
    "one-round-10": Problem(10, 2, 200),
    "one-round-20": Problem(20, 2, 1000),
    "one-round-30": Problem(30, 2, 1000),
    "many-rounds-5": Problem(5, 1, 16, rounds=10, sigma=5.0, words="a b c d abcd"),
    "many-rounds-10": Problem(10, 2, 75, rounds=5),
    "many-rounds-15": Problem(15, 2, 75, rounds=10),
    "supply-8": Problem(8, 2, 1000, supply=2.0),
    "supply-9": Problem(9, 2, 1000, supply=2.0),
    "supply-10": Problem(10, 2, 1000, supply=2.0),
    "fraction-8": Problem(8, 1, 64, words="a b c d e f abcd abef"),
    "wrong-order-2": Problem(5, 2, 300, true_order=5),
    "wrong-order-3": Problem(5, 3, 100, true_order=5),
    "wrong-order-4": Problem(5, 4, 200, true_order=5),
}
ONE_ROUND = ("one-round-10", "one-round-20", "one-round-30")
ROUNDS = ("many-rounds-5", "many-rounds-10", "many-rounds-15")
SUPPLY = ("supply-8", "supply-9", "supply-10")
WRONG_ORDER = ("wrong-order-2", "wrong-order-3", "wrong-order-4")

MAX_COLUMNS = 10
"""Columns of a table that become treatments."""
TABLE_UNITS = 300
"""Units of the one round on a table."""


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Return the metrics of a contender, averaged over the repetitions of one trial."""
    import numpy as np

    settings = STUDY.scales[scale].settings
    known = PROBLEMS.get(dataset)
    table = _from_table(dataset) if known is None else None
    problem = table[0] if table else known
    assert problem is not None
    if not _applies(contender, problem):
        return dict.fromkeys(NAMES, math.nan)
    found = []
    for repetition in range(settings["repetitions"].get(dataset, settings["repetitions"]["other"])):
        part = (dataset, seed, repetition)
        coef = table[1] if table else rng_for("truth", *part).uniform(-1.0, 1.0, _count(problem))
        spread = float(np.mean(coef**2)) if table else 1.0 / 3.0  # of U(-1, 1)
        found.append(_experiment(contender, problem, coef, spread, part, settings["n_starts"]))
    return {name: float(np.mean([each[name] for each in found])) for name in NAMES}


def _applies(contender: str, problem: Problem) -> bool:
    if contender.startswith("active"):
        return problem.rounds > 1
    if contender == "fracfact":
        return bool(problem.words)
    if contender == "one-at-a-time":
        return problem.order == 1
    if contender.startswith("off-"):
        return problem.rounds == 1 and (problem.supply is None or contender == "off-0.1")
    return True


def _count(problem: Problem) -> int:
    return sum(math.comb(problem.p, j) for j in range((problem.true_order or problem.order) + 1))


def _experiment(
    contender: str, problem: Problem, coef: np.ndarray, spread: float, part: tuple[str, int, int], n_starts: int
) -> dict[str, float]:
    import numpy as np

    from paperworks.causal import FactorialDesign

    p, order = problem.p, problem.order
    truth = FactorialDesign(p, problem.true_order or order)
    design = FactorialDesign(
        p,
        order,
        noise_std=problem.sigma,
        estimator="ols",
        objective="min_eig" if contender == "active-min-eig" else "a",
        n_starts=n_starts,
        random_state=seed_for("starts", *part),
    )
    for number, treatments in enumerate(_units(contender, problem, design, part)):
        noise = problem.sigma * rng_for("noise", *part, number).normal(size=len(treatments))
        design.update(treatments, truth.features(treatments) @ coef + noise)
    values = np.linalg.eigvalsh(design.gram_)
    singular = bool(values[0] <= 1e-10 * values[-1])
    ols_risk = math.inf if singular else problem.sigma**2 * float((1 / values).sum())
    if singular:  # the shortest of the least squares solutions
        design.estimator, design.ridge = "ridge", 1e-8
    fitted = design.fit().coef_
    result = {
        "risk": problem.sigma**2 * float((1 / (np.maximum(values, 0.0) + problem.sigma**2 / spread)).sum()),
        "ols_risk": ols_risk,
        "to_bound": ols_risk * design.n_units_ / (2 * design.n_terms_ * problem.sigma**2 + 1),
    }
    if problem.true_order is not None:  # they know nothing of what the model leaves out
        result = dict.fromkeys(result, math.nan)
    return {**result, "squared_error": float(((fitted - coef[: design.n_terms_]) ** 2).sum())}


def _units(contender: str, problem: Problem, design: Any, part: tuple[str, int, int]) -> Iterator[np.ndarray]:
    """Give the treatments of each round; the next round is asked for when the design has seen the last one."""
    import numpy as np

    for number in range(problem.rounds):
        if contender == "fracfact":
            from pydoe import fracfact

            yield (fracfact(problem.words) > 0).astype(int)
        elif contender == "one-at-a-time":
            yield np.vstack([np.zeros(problem.p, dtype=int), np.eye(problem.p, dtype=int)])[
                (np.arange(problem.n) + number * problem.n) % (problem.p + 1)
            ]
        else:
            dose = _dose(contender, problem, design, (*part, number))
            yield (rng_for("units", *part, number).random((problem.n, problem.p)) < dose).astype(int)


def _dose(contender: str, problem: Problem, design: Any, part: tuple[str | int, ...]) -> np.ndarray:
    import numpy as np

    p, supply = problem.p, problem.supply
    if contender == "passive":
        return design.passive(supply=supply)
    if contender.startswith("active"):
        return design.propose(problem.n)
    rng = rng_for("dose", *part)
    if contender == "random":
        if supply is None:
            return rng.random(p)
        while True:  # uniform on the dosages that use up the supply
            dose = supply * rng.dirichlet(np.ones(p))
            if dose.max() <= 1:
                return dose
    # A given greatest distance from the passive dosage, with the same sum under a limit on the sum.
    way = rng.uniform(-1.0, 1.0, p)
    if supply is None:
        way[rng.integers(p)] = rng.choice([-1.0, 1.0])
    else:
        way -= way.mean()
        way /= np.abs(way).max()
    return design.passive(supply=supply) + float(contender.removeprefix("off-")) * way


def _from_table(name: str) -> tuple[Problem, np.ndarray]:
    """Return an experiment whose truth is a model of order 2 fitted to a table.

    Columns become two-level treatments, above their mean or not; the outcome is the standardised target, and its
    residual spread is the noise.
    """
    import numpy as np

    from paperworks.causal import FactorialDesign
    from paperworks.datasets import DataError, load, tabular_encoder

    data = load(name)
    rows = rng_for("rows", name).permutation(len(data.X))[:5000]
    X = tabular_encoder(data.X).fit_transform(data.X.iloc[rows])
    y = data.y.iloc[rows].to_numpy(dtype=np.float64)
    levels = np.greater(X, X.mean(axis=0)).astype(int)
    levels = levels[:, np.ptp(levels, axis=0) > 0]
    if levels.shape[1] < 3 or np.ptp(y) == 0:
        raise DataError(f"{name}: at least 3 columns that vary and a target that varies are needed")
    y = (y - y.mean()) / y.std()
    link = np.abs((levels - levels.mean(axis=0)).T @ y) / levels.std(axis=0)
    levels = levels[:, np.sort(np.argsort(-link, kind="stable")[:MAX_COLUMNS])]
    p = levels.shape[1]
    design = FactorialDesign(p, 2, noise_std=None)
    if len(y) <= 2 * design.n_terms_:
        raise DataError(f"{name}: {p} columns need more than {2 * design.n_terms_} rows, got {len(y)}")
    design.update(levels, y).fit()
    # A target that the model fits exactly would leave an experiment without noise.
    return Problem(p, 2, TABLE_UNITS, sigma=max(design.noise_std_, 0.05)), design.coef_


NAMES = ("risk", "ols_risk", "to_bound", "squared_error")

STUDY = Study(
    slug="factorial-design",
    family="causal",
    paper=Paper(
        title="Probabilistic Factorial Experimental Design for Combinatorial Interventions",
        authors="Divya Shyamal, Jiaqi Zhang, Caroline Uhler",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2506.03363",
        code="https://github.com/uhlerlab/prob_fact_design",
    ),
    question="I can set how often each treatment is given. Which dosages teach me most about single and joint effects?",
    datasets=(*PROBLEMS, "diabetes"),
    contenders=(
        Contender("passive", role="method", source="section 4.1 (half dosage), 5.1 (supply / p)"),
        Contender("active", role="method", source="section 4.2, Eq. 7: tr (Sigma(d) + past)^{-1}"),
        Contender("active-min-eig", role="ablation", source="section 4.2: smallest eigenvalue instead"),
        Contender("off-0.1", role="ablation", source="section 6.1: dosages at distance 0.1 from the passive one"),
        Contender("off-0.2", role="ablation", source="section 6.1: at distance 0.2"),
        Contender("off-0.4", role="ablation", source="section 6.1: at distance 0.4"),
        Contender("random", role="peer", source="dosages drawn uniformly anew in each round"),
        Contender("fracfact", role="peer", source="pydoe.fracfact, a regular fraction", requires=("pydoe",)),
        Contender("one-at-a-time", role="peer", source="each treatment alone and none, in turns"),
    ),
    metrics=(
        Metric(
            "risk", better="lower", description="expected squared error of the best linear estimate, given the units"
        ),
        Metric("ols_risk", better="lower", description="expected squared error of least squares, given the units"),
        Metric("to_bound", better="lower", description="ols_risk over the bound (2 K sigma^2 + 1) / n"),
        Metric("squared_error", better="lower", description="squared error of least squares on the drawn outcomes"),
    ),
    claims=(
        Claim(
            "half dosage beats dosages at distance 0.2",
            metric="risk",
            subject="passive",
            against="off-0.2",
            kind="better",
            datasets=ONE_ROUND,
        ),
        Claim(
            "dosages at distance 0.2 beat those at distance 0.4",
            metric="risk",
            subject="off-0.2",
            against="off-0.4",
            kind="better",
            datasets=ONE_ROUND,
        ),
        Claim(
            "half dosage keeps the paper's bound, about twice the error of any design at all",
            metric="to_bound",
            subject="passive",
            against=1.0,
            kind="not_worse",
            datasets=(*ONE_ROUND, "fraction-8"),
        ),
        Claim(
            "passive dosages beat random ones",
            metric="squared_error",
            subject="passive",
            against="random",
            kind="better",
        ),
        Claim(
            "equal dosages beat others that use up a limited supply",
            metric="risk",
            subject="passive",
            against="off-0.1",
            kind="better",
            datasets=SUPPLY,
        ),
        Claim(
            "adapted dosages beat half dosage over rounds of 75 units, order 2",
            metric="risk",
            subject="active",
            against="passive",
            kind="better",
            datasets=("many-rounds-10", "many-rounds-15"),
        ),
        Claim(
            "adapted dosages beat half dosage over rounds of 16 units with much noise, order 1",
            metric="risk",
            subject="active",
            against="passive",
            kind="better",
            datasets=("many-rounds-5",),
        ),
        Claim(
            "adapted dosages have at most 0.9 times the error of random ones",
            metric="risk",
            subject="active",
            against="random",
            kind="ratio",
            margin=0.9,
            datasets=ROUNDS,
        ),
        Claim(
            "half dosage costs at most 1.25 times the error of a regular fraction",
            metric="risk",
            subject="passive",
            against="fracfact",
            kind="ratio",
            margin=1.25,
            datasets=("fraction-8",),
        ),
        Claim(
            "a regular fraction is better than half dosage in one round",
            metric="risk",
            subject="fracfact",
            against="passive",
            kind="better",
            datasets=("fraction-8",),
        ),
        Claim(
            "half dosage beats one treatment at a time",
            metric="risk",
            subject="passive",
            against="one-at-a-time",
            kind="better",
            datasets=("fraction-8", "many-rounds-5"),
        ),
        Claim(
            "half dosage beats distance 0.4 where the model's order is too low",
            metric="squared_error",
            subject="passive",
            against="off-0.4",
            kind="better",
            datasets=WRONG_ORDER,
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=2,
            datasets=("one-round-10", "many-rounds-5", "supply-8", "fraction-8", "wrong-order-3", "diabetes"),
            settings={"repetitions": {"other": 2}, "n_starts": 2},
        ),
        "quick": Scale(
            seeds=20,
            datasets=tuple(name for name in (*PROBLEMS, "diabetes") if name[-3:] not in ("-20", "-30", "-15")),
            settings={"repetitions": {"many-rounds-5": 5, "many-rounds-10": 1, "other": 10}, "n_starts": 2},
        ),
        "paper": Scale(
            seeds=50,
            settings={
                "repetitions": {
                    "many-rounds-5": 10,
                    "many-rounds-10": 2,
                    "many-rounds-15": 1,
                    "one-round-20": 10,
                    "one-round-30": 2,
                    "other": 20,
                },
                "n_starts": 6,
            },
        ),
    },
    trial=trial,
    figures=(
        Figure("squared_error", "fracfact", "fraction-8", 0.14, "section 6: 2^(8-2) fraction, n = 64, order 1"),
        Figure("squared_error", "passive", "fraction-8", 0.16, "section 6: half dosage, n = 64, order 1"),
    ),
    own_data=OwnData(kind="table", task="regression"),
    limits=(
        "No public data with dosages are at hand: truths are drawn as in the paper, or fitted to a table whose columns "
        "are cut in two.",
        "The paper's other figures are curves; only those of the comparison with a fraction are numbers.",
        "Contenders that a data set has no place for (rounds, a fraction) are left undefined there.",
        "Under random dosages some coefficients can't be estimated at all in some trials; their least squares risk is "
        "infinite, and claims use the risk of the best linear estimate, which is finite.",
        "A factor 1 + O(log n / n) can't be seen at one n: of half dosage only the bound is judged.",
    ),
    plots=(
        Plot(
            "curve",
            "squared_error",
            "Error where interactions of a higher order are there than the model has",
            against="order of the model (the truth has 5)",
            at={f"wrong-order-{order}": float(order) for order in (2, 3, 4)},
            contenders=("passive", "random", "off-0.2", "off-0.4"),
        ),
    ),
    keywords=(
        "which combination of drugs",
        "experiment with many factors",
        "combination of treatments",
        "gene knockouts",
        "A/B/n test with interactions",
        "design of experiments",
        "screen effects with few units",
        "dose of each treatment",
    ),
)
