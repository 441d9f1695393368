"""Does the cut-off keep the tail risk, and does the L-statistic bound cost less than confidence bands?

A population of prompts with scored candidates is known completely, so the true risk, the draws per prompt and the
abstentions at each cut-off are known exactly. A trial draws calibration prompts from it with replacement, again and
again, and looks up what the cut-off chosen on them does to the whole population.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Floats = np.ndarray[Any, np.dtype[np.float64]]

N_CANDIDATES = 40
DELTA = 0.05
SCORERS = ("weak", "standard", "strong")

# Risk and level; alpha lies in the middle of the range of each risk, so it differs between the simulation and the rest.
_TARGETS: dict[str, dict[str, Any]] = {
    "cvar": {"risk": "cvar", "beta": 0.75},
    "mean": {"risk": "mean"},
    "var": {"risk": "var", "beta": 0.9},
}
_ALPHAS = {
    "simulated": {"cvar": 0.35, "mean": 0.15, "var": 0.35},
    "others": {"cvar": 0.5, "mean": 0.25, "var": 0.5},
}

# contender: (risk, bound, scorer)
_ENTRANTS = {
    "cdrc-l": ("cvar", "L", "standard"),
    "cdrc-l-weak-scorer": ("cvar", "L", "weak"),
    "cdrc-l-strong-scorer": ("cvar", "L", "strong"),
    "no-margin": ("cvar", "none", "standard"),
    "cdrc-dkw": ("cvar", "DKW", "standard"),
    "cdrc-bj": ("cvar", "BJ", "standard"),
    "mean-l": ("mean", "L", "standard"),
    "mean-mapie": ("mean", "mapie", "standard"),
    "quantile-exact": ("var", "exact", "standard"),
    "quantile-bootstrap": ("var", "bootstrap", "standard"),
}


class Population(NamedTuple):
    """All prompts of a data set: human losses and, for each scorer, machine scores; both (n_prompts, n_candidates)."""

    human: Floats
    machine: Mapping[str, Floats]


class Truth(NamedTuple):
    """What each cut-off of a grid does to the whole population; the first entry stands for rejecting everything."""

    lambdas: Floats
    risk: Floats
    draws: Floats
    abstain: Floats


def simulate(n_prompts: int, rng: np.random.Generator) -> Population:
    """Draw prompts of varying hardness whose machine scores follow the human losses more or less closely."""
    import numpy as np
    from scipy.special import expit, logit

    hardness = rng.beta(0.5, 3.0, size=(n_prompts, 1))
    human = rng.beta(0.5 + 4.0 * hardness, 3.0, size=(n_prompts, N_CANDIDATES))
    noise = rng.normal(0.0, 1.5, size=human.shape)
    signal = logit(np.clip(human, 0.01, 0.99))
    machine = {
        scorer: expit(rho * signal + np.sqrt(1.0 - rho**2) * noise)
        for scorer, rho in zip(SCORERS, (0.3, 0.6, 0.9), strict=True)
    }
    return Population(human, machine)


def from_labels(
    X: Floats, y: np.ndarray[Any, Any], n_scorer: int, n_human: int, rng: np.random.Generator
) -> Population:
    """Make prompts of labelled rows: a small model proposes labels and scores them, a large one stands for the human.

    A candidate is a label drawn from the square root of the small model's probabilities. Its machine score is 1 - its
    probability under the scorer, its human loss 1 - its probability under a forest fitted to other rows. The weak
    scorer saw a quarter of the small model's rows, the strong one all rows of both models.
    """
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    order = rng.permutation(len(y))
    # One row of each class comes first, so that the small model knows all classes.
    _, firsts = np.unique(y[order], return_index=True)
    order = np.concatenate([order[firsts], np.delete(order, firsts)])
    n_scorer = max(n_scorer, firsts.size)
    small, large = order[:n_scorer], order[n_scorer : n_scorer + n_human]
    pool = order[n_scorer + n_human :]
    classes = np.unique(y)

    def probabilities(model: Any, rows: Any) -> Floats:
        model.fit(X[rows], y[rows])
        table = np.zeros((len(pool), classes.size))
        table[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X[pool])
        return table

    trained_on = {
        "weak": small[: max(n_scorer // 4, firsts.size)],
        "standard": small,
        "strong": order[: n_scorer + n_human],
    }
    scored = {
        scorer: probabilities(LogisticRegression(C=0.3, max_iter=1000), rows) for scorer, rows in trained_on.items()
    }
    forest = RandomForestClassifier(200, random_state=int(rng.integers(2**31)), n_jobs=1)
    judged = probabilities(forest, large)

    wide = np.cumsum(np.sqrt(scored["standard"]), axis=1)
    rows = np.arange(len(pool))[:, None]  # row i occupies [i, i + 1), so that one search serves all rows
    uniform = rng.random((len(pool), N_CANDIDATES))
    places = np.searchsorted((wide / wide[:, -1:] + rows).ravel(), uniform + rows, side="right")
    labels = np.minimum(places - rows * classes.size, classes.size - 1)
    return Population(
        1.0 - np.take_along_axis(judged, labels, axis=1),
        {scorer: 1.0 - np.take_along_axis(table, labels, axis=1) for scorer, table in scored.items()},
    )


def score_candidates(
    prompts: Sequence[str],
    generate: Callable[[str, int], Sequence[str]],
    human: Callable[[list[str]], Sequence[float]],
    machine: Callable[[list[str]], Sequence[float]],
    n_candidates: int = N_CANDIDATES,
) -> pd.DataFrame:
    """Draw candidates of each prompt and score them: a long frame with the columns prompt, machine and human."""
    import pandas as pd

    parts = []
    for number, prompt in enumerate(prompts):
        texts = list(generate(prompt, n_candidates))
        parts.append(pd.DataFrame({"prompt": number, "machine": machine(texts), "human": human(texts)}))
    return pd.concat(parts, ignore_index=True)


def prepare_toxicity(model: str, n_prompts: int, human: str = "original", machine: str = "original-small") -> str:
    """Score a language model's continuations of RealToxicityPrompts and write them where the study looks for them.

    Needs the network, a machine that can run `model` (any `transformers` text-generation model), and the package
    detoxify, of which `human` and `machine` name two models. Returns the path of the file.
    """
    import pandas as pd
    from detoxify import Detoxify
    from huggingface_hub import hf_hub_download
    from transformers import pipeline

    source = hf_hub_download("allenai/real-toxicity-prompts", "prompts.jsonl", repo_type="dataset")
    lines = pd.read_json(source, lines=True)["prompt"].sample(n_prompts, random_state=0)
    writer = pipeline("text-generation", model=model, device_map="auto")

    def generate(prompt: str, count: int) -> list[str]:
        drawn = writer(prompt, do_sample=True, num_return_sequences=count, max_new_tokens=40, return_full_text=False)
        return [str(one["generated_text"]) for one in drawn]

    judges = {name: Detoxify(name) for name in {human, machine}}
    frame = score_candidates(
        [line["text"] for line in lines],
        generate,
        lambda texts: judges[human].predict(texts)["toxicity"],
        lambda texts: judges[machine].predict(texts)["toxicity"],
    )
    place = _toxicity_file()
    place.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(place, index=False)
    return str(place)


def _toxicity_file() -> Any:
    from pathlib import Path

    from platformdirs import user_data_dir

    return Path(user_data_dir("paperworks")) / "toxicity-scores.parquet"


def _toxicity() -> Population:
    import pandas as pd

    from paperworks.datasets import DataError

    place = _toxicity_file()
    if not place.is_file():
        raise DataError(
            f"{place} does not exist; make it on a machine with a GPU with: "
            'python -c "from paperworks.studies.conformal.risk_control import prepare_toxicity as p; p(MODEL, 20000)"'
        )
    frame = pd.read_parquet(place)
    place_in_prompt = frame.groupby("prompt").cumcount()
    tables = {
        name: frame.pivot_table(index="prompt", columns=place_in_prompt, values=name).to_numpy()
        for name in ("machine", "human")
    }
    rng = rng_for("toxicity-scorers")
    # Less and more aligned scorers: the machine score mixed with its shuffled self, or with the human one.
    shuffled = rng.permuted(tables["machine"], axis=0)
    return Population(
        tables["human"],
        {
            "weak": 0.5 * (tables["machine"] + shuffled),
            "standard": tables["machine"],
            "strong": 0.5 * (tables["machine"] + tables["human"]),
        },
    )


@lru_cache(maxsize=8)
def population(dataset: str, n_prompts: int) -> Population:
    """Return the prompts of a data set, the same in every process; `n_prompts` is the size of the simulation."""
    import numpy as np

    rng = rng_for("population", dataset)
    if dataset == "simulated":
        return simulate(n_prompts, rng)
    if dataset == "toxicity":
        return _toxicity()
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from paperworks.datasets import DataError, load, tabular_encoder

    table = load(dataset)
    y = np.unique(table.y.astype(str).to_numpy(), return_inverse=True)[1]
    if dataset == "digits":
        return from_labels(table.X.to_numpy(dtype=np.float64) / 16.0, y, 100, 400, rng)
    if len(y) < 200 or y.max() == 0:
        raise DataError(
            f"the study needs at least 200 rows and 2 classes, got {len(y)} rows and {y.max() + 1} class(es)"
        )
    rows = rng.permutation(len(y))[:6000]
    X, y = table.X.iloc[rows], y[rows]
    n_scorer, n_human = min(100, len(y) // 10), min(400, 3 * len(y) // 10)
    encode = make_pipeline(tabular_encoder(table.X), StandardScaler()).fit(X.iloc[: n_scorer + n_human])
    return from_labels(encode.transform(X), y, n_scorer, n_human, rng)


@lru_cache(maxsize=64)
def truth(dataset: str, n_prompts: int, scorer: str, target: str, n_lambdas: int) -> Truth:
    """Return what each of `n_lambdas` quantiles of the machine scores, taken as a cut-off, does to the population.

    The quantiles are dense at the low end, where a few candidates of many are kept.
    """
    import numpy as np

    from paperworks.conformal import distortion_risk, prompt_losses

    human, machine = population(dataset, n_prompts).human, population(dataset, n_prompts).machine[scorer]
    levels = (np.arange(1, n_lambdas + 1) / n_lambdas) ** 2
    lambdas = np.unique(np.quantile(machine, levels, method="inverted_cdf"))
    losses = prompt_losses(machine, human, lambdas)
    risk = [distortion_risk(column, **_TARGETS[target]) for column in losses.T]
    lowest = np.minimum.accumulate(machine, axis=1)  # a prompt needs draw j + 1 if its first j are all above lambda
    draws = 1.0 + _share_above(lowest[:, :-1], lambdas) * (machine.shape[1] - 1)
    return Truth(
        lambdas,
        np.array([0.0, *risk]),
        np.array([machine.shape[1], *draws]),
        np.array([1.0, *_share_above(lowest[:, -1], lambdas)]),
    )


def _share_above(scores: Floats, lambdas: Floats) -> Floats:
    import numpy as np

    return 1.0 - np.searchsorted(np.sort(scores.ravel()), lambdas, side="right") / scores.size


def choose(machine: Floats, human: Floats, lambdas: Floats, target: str, alpha: float, bound: str, seed: int) -> int:
    """Return how many of the cut-offs pass one after the other, walking up from the smallest."""
    import warnings

    import numpy as np

    from paperworks.conformal import DistortionRiskControl, prompt_losses

    if bound == "mapie":
        from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

        means = prompt_losses(machine, human, lambdas).mean(axis=0)
        passes = compute_hoeffding_bentkus_p_value(means, len(machine), alpha)[:, 0] <= DELTA
    else:
        control = DistortionRiskControl(
            **_TARGETS[target],
            alpha=alpha,
            delta=DELTA,
            method="DKW" if bound == "none" else bound,
            lambdas=lambdas,
            n_bootstrap=200,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # small samples and empty cut-offs are what is studied
            control.fit(machine, human)
        passes = (control.risk_curve_ if bound == "none" else control.ucb_curve_) <= alpha
    return int(np.argmin(passes)) if not passes.all() else passes.size


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Calibrate again and again on prompts drawn from the population and average what the cut-offs do to it."""
    import numpy as np

    settings = STUDY.scales[scale].settings
    target, bound, scorer = _ENTRANTS[contender]
    alpha = _ALPHAS.get(dataset, _ALPHAS["others"])[target]
    prompts = population(dataset, settings["n_population"])
    known = truth(dataset, settings["n_population"], scorer, target, settings["n_lambdas"])
    rng = rng_for("calibration", dataset, seed)
    chosen = []
    for repeat in range(settings["n_calibrations"]):
        rows = rng.integers(len(prompts.human), size=settings["n_prompts"])
        machine, human = prompts.machine[scorer][rows], prompts.human[rows]
        chosen.append(choose(machine, human, known.lambdas, target, alpha, bound, seed_for("resamples", seed, repeat)))
    risk = known.risk[chosen]
    return {
        "coverage": float(np.mean(risk <= alpha + 1e-12)),
        "gap": float(np.abs(alpha - risk).mean()),
        "draws": float(known.draws[chosen].mean()),
        "abstain_rate": float(known.abstain[chosen].mean()),
    }


STUDY = Study(
    slug="risk-control",
    family="conformal",
    paper=Paper(
        title="Conformal Tail Risk Control for Large Language Model Alignment",
        authors="Catherine Yu-Chi Chen, Jingyan Shen, Zhun Deng, Lihua Lei",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2502.20285",
        code="https://github.com/jy-evangeline/DRC",
    ),
    question=(
        "My generator sits behind a cheap automatic scorer. Where do I cut, so that what people see on the worst "
        "quarter of prompts stays acceptable, without throwing too much away?"
    ),
    datasets=("simulated", "digits", "toxicity"),
    contenders=(
        Contender("cdrc-l", role="method", source="CDRC-L: the L-statistic bound for the mean of the worst quarter"),
        Contender("cdrc-l-weak-scorer", role="ablation", source="CDRC-L with a scorer that agrees less with people"),
        Contender("cdrc-l-strong-scorer", role="ablation", source="CDRC-L with a scorer that agrees more with people"),
        Contender("no-margin", role="ablation", source="largest cut-off whose empirical risk is at most alpha"),
        Contender("cdrc-dkw", role="peer", source="CDRC-DKW: band of Dvoretzky, Kiefer and Wolfowitz"),
        Contender("cdrc-bj", role="peer", source="CDRC-BJ: band of Berk and Jones, as in quantile risk control"),
        Contender("mean-l", role="method", source="CDRC-L for the mean"),
        Contender(
            "mean-mapie",
            role="peer",
            source="mapie.risk_control: Hoeffding-Bentkus p-values for the mean, fixed sequence",
            requires=("mapie",),
        ),
        Contender("quantile-exact", role="method", source="order-statistic bound for the 0.9 quantile"),
        Contender("quantile-bootstrap", role="ablation", source="bootstrap bound for the 0.9 quantile"),
    ),
    metrics=(
        Metric("coverage", better="higher", description="share of calibrations after which the true risk is <= alpha"),
        Metric("gap", better="lower", description="mean distance of the true risk from alpha"),
        Metric("draws", better="lower", description="mean candidates drawn per prompt up to the first kept one"),
        Metric("abstain_rate", better="lower", description="share of prompts of which no candidate is kept"),
    ),
    claims=(
        Claim(
            "the tail risk is at most alpha after 95 % of calibrations, up to 3 points",
            metric="coverage",
            subject="cdrc-l",
            against=1.0 - DELTA,
            kind="not_worse",
            margin=0.03,
        ),
        Claim(
            "the risk comes closer to alpha than with the DKW band",
            metric="gap",
            subject="cdrc-l",
            against="cdrc-dkw",
            kind="better",
        ),
        Claim(
            "the risk comes closer to alpha than with the Berk-Jones band",
            metric="gap",
            subject="cdrc-l",
            against="cdrc-bj",
            kind="better",
        ),
        Claim(
            "fewer draws than with the DKW band", metric="draws", subject="cdrc-l", against="cdrc-dkw", kind="better"
        ),
        Claim(
            "fewer draws than with the Berk-Jones band",
            metric="draws",
            subject="cdrc-l",
            against="cdrc-bj",
            kind="better",
        ),
        Claim(
            "fewer draws than with a scorer that agrees less with people",
            metric="draws",
            subject="cdrc-l",
            against="cdrc-l-weak-scorer",
            kind="better",
        ),
        Claim(
            "fewer draws with a scorer that agrees more with people",
            metric="draws",
            subject="cdrc-l-strong-scorer",
            against="cdrc-l",
            kind="better",
        ),
        Claim(
            "for the mean, fewer draws than with Hoeffding-Bentkus p-values",
            metric="draws",
            subject="mean-l",
            against="mean-mapie",
            kind="better",
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=2,
            datasets=("simulated", "digits"),
            settings={"n_population": 2000, "n_prompts": 100, "n_calibrations": 2, "n_lambdas": 50},
        ),
        "quick": Scale(
            seeds=30,
            datasets=("simulated", "digits"),
            settings={"n_population": 20_000, "n_prompts": 500, "n_calibrations": 12, "n_lambdas": 250},
        ),
        "paper": Scale(
            seeds=100,
            settings={"n_population": 20_000, "n_prompts": 6000, "n_calibrations": 10, "n_lambdas": 1000},
        ),
    },
    trial=trial,
    own_data=OwnData("table", "classification"),
    limits=(
        "Calibration prompts are drawn with replacement from a finite population, so that the true risk is known "
        "exactly; prompts that shift after calibration are not studied.",
        "An abstention counts as loss 0, as in the paper: read the risk together with the abstentions.",
        "The bound is asymptotic: with 200 prompts and beta = 0.9 it covers about 91 % instead of 95 %.",
        "The paper's biased scorer, fine-tuned on a small share of the data, is not published; at paper scale the "
        "toxicity scores come from two models of detoxify, and the weak and strong scorers are mixtures: with shuffled "
        "machine scores, and with the human ones.",
        "On digits and on your own table (at most 6000 rows, drawn at random), a small classifier plays generator "
        "and scorer, a forest plays the people.",
    ),
    plots=(
        Plot(
            "tradeoff", "coverage", "Keeping the promise, and what it costs in draws", against="draws", reference=0.95
        ),
    ),
    keywords=(
        "toxic answers of a chatbot",
        "worst cases of a language model",
        "tail risk",
        "value at risk, CVaR",
        "choose a threshold with a guarantee",
        "filter generated text",
        "human ratings are expensive",
    ),
)
