"""Study of amortised item response theory: abilities and difficulties from a fraction of the answers.

A bank is a complete table of who answers what right. For labelled data the takers are small classifiers, each trained
on few rows and columns, and the items are rows that none of them saw: their content is what a reader sees (features and
class). Each trial hides most of the bank in three ways. A fifth of the items is *new*: content methods get no answer to
them, calibrations half of the answers. Two thirds of the takers miss a fifth of the other items, at random. The last
third answers a subset only, half of them of the easiest items, half of the hardest (in the simulation every taker gets
items according to ability). Adaptive tests are replayed from the recorded answers of further takers, with difficulties
calibrated on all answers of the first ones.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Figure, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

RELIABILITY = 0.95
N_ERROR_ITEMS = 50
_CONTENT: dict[str, dict[str, Any]] = {
    "amortized": {"predictor": "linear"},
    "amortized-rbf": {"predictor": "rbf"},
    "amortized-two-stage": {"predictor": "linear", "fit_mode": "two_stage"},
}
_ADAPTIVE = ("adaptive", "random-items", "catsim")
HELM_SCENARIOS = (
    "synthetic_reasoning",
    "wikifact",
    "legalbench",
    "thai_exam",
    "babi_qa",
    "bbq",
    "legal_support",
    "lsat_qa",
    "entity_data_imputation",
    "imdb",
    "commonsense",
)


class Bank(NamedTuple):
    """Answers of all takers to all items, and what is known besides."""

    Y: Floats
    """Shape (n_takers, n_items); NaN where nothing was recorded."""
    content: Floats
    """Shape (n_items, n_features)."""
    ability: Floats
    """What abilities are held against: the truth, or the share of right answers on the full bank."""
    Y_tested: Floats
    """Answers of the takers of adaptive tests, shape (n_tested, n_items)."""
    ability_tested: Floats | None = None
    """Their true abilities in a simulation."""

    @property
    def simulated(self) -> bool:
        """Whether the truth is known."""
        return self.ability_tested is not None


class Holes(NamedTuple):
    """Which cells a trial may use."""

    seen: Mask
    """Cells for all contenders, items that are not new."""
    extra: Mask
    """Cells of new items that calibrations get on top."""
    test: Mask
    """Held-out cells of items that are not new."""
    new: Mask
    """Held-out cells of new items."""
    subset: Mask
    """Takers that answered a chosen subset of the items."""


def train_takers(X: Floats, y: NDArray[np.int64], n_takers: int, rng: np.random.Generator) -> list[Any]:
    """Return fitted classifiers, each with the columns it reads: trees, nearest neighbours, Bayes, logistic models."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    takers = []
    n, width = X.shape
    for i in range(n_takers):
        rows = rng.choice(n, size=rng.integers(min(12, n // 2), min(400, n) + 1), replace=False)
        while len(np.unique(y[rows])) < 2:
            rows = rng.choice(n, size=len(rows), replace=False)
        columns = rng.choice(width, size=rng.integers(min(10, max(1, width // 3)), min(60, width) + 1), replace=False)
        kind: Any = (
            DecisionTreeClassifier(random_state=i),
            KNeighborsClassifier(1),
            GaussianNB(var_smoothing=1e-3),
            LogisticRegression(max_iter=50),
        )[i % 4]
        takers.append((kind.fit(X[np.ix_(rows, columns)], y[rows]), columns))
    return takers


@lru_cache(maxsize=4)
def load_bank(dataset: str, seed: int, scale: str) -> Bank:
    """Return the bank of one data set and seed; the same in every process."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler

    from paperworks.datasets import DataError, load, tabular_encoder

    settings = STUDY.scales[scale].settings
    own = dataset.startswith("file:")
    rng = rng_for("amortized-irt", "bank", "own file" if own else dataset, seed)
    if dataset == "synthetic":
        return simulate(settings["n_synthetic"], settings["n_tested"], settings["max_items"], rng)
    if dataset.startswith("helm/"):
        return load_helm(dataset.removeprefix("helm/"), settings["n_tested"], rng)
    table = load(dataset)
    y = np.unique(table.y.astype(str).to_numpy(), return_inverse=True)[1]
    if len(y) < 120 or y.max() == 0:
        raise DataError(f"the study needs at least 120 rows and 2 classes, got {len(y)} and {y.max() + 1}")
    order = rng.permutation(len(y))[:4000]
    n_items = min(settings["max_items"], len(order) // 2)
    items, pool = order[:n_items], order[n_items:]
    encoder = tabular_encoder(table.X).fit(table.X.iloc[pool])
    scaler = StandardScaler().fit(encoder.transform(table.X.iloc[pool]))
    X_pool, X_items = (scaler.transform(encoder.transform(table.X.iloc[rows])) for rows in (pool, items))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # takers need not be good
        n_takers = settings["n_takers"] + settings["n_tested"]
        takers = train_takers(X_pool, y[pool], n_takers, rng)
    Y = np.array([model.predict(X_items[:, columns]) == y[items] for model, columns in takers], dtype=np.float64)
    Y, tested = np.split(Y, [settings["n_takers"]])
    classes = np.eye(y.max() + 1)[y[items]]
    return Bank(Y, np.hstack([X_items, classes[:, :50]]), Y.mean(axis=1), tested)


def simulate(n_takers: int, n_tested: int, n_items: int, rng: np.random.Generator) -> Bank:
    """Return answers by the Rasch model: abilities N(0, 1), difficulties N(1.5, 2), 70 % of them in the content."""
    import numpy as np

    content = rng.normal(size=(n_items, 10))
    direction = rng.normal(size=10)
    explained = content @ (direction / np.linalg.norm(direction))
    difficulty = 1.5 + np.sqrt(2.0) * (np.sqrt(0.7) * explained + np.sqrt(0.3) * rng.normal(size=n_items))
    ability = rng.normal(size=n_takers + n_tested)
    right = rng.random((len(ability), n_items)) < 1.0 / (1.0 + np.exp(difficulty - ability[:, None]))
    Y, tested = np.split(right.astype(np.float64), [n_takers])
    return Bank(Y, content, ability[:n_takers], tested, ability[n_takers:])


def _helm_folder() -> Any:
    from pathlib import Path

    from platformdirs import user_cache_dir

    return Path(user_cache_dir("paperworks")) / "helm-responses"


def prepare_helm(model: str, batch_size: int = 8, scenarios: tuple[str, ...] | None = None) -> str:
    """Download the paper's HELM responses, embed the questions and write both where the study looks for them.

    Needs the network, `huggingface_hub`, and a machine that can run `model`, any `transformers` model (the paper's has
    8 billion parameters). Returns the folder.
    """
    import pandas as pd
    from huggingface_hub import HfApi, hf_hub_download

    from paperworks.evaluate import embed_texts

    columns = ["request.model", "input.text", "scenario", "dicho_score"]
    files = [
        name for name in HfApi().list_repo_files("stair-lab/reeval", repo_type="dataset") if name[-8:] == ".parquet"
    ]
    long = pd.concat(
        pd.read_parquet(hf_hub_download("stair-lab/reeval", name, repo_type="dataset"), columns=columns)
        for name in sorted(files)
    )
    return write_helm(long, lambda texts: embed_texts(texts, model, batch_size=batch_size), scenarios)


def write_helm(
    long: pd.DataFrame,
    embed: Callable[[list[str]], Any],
    scenarios: tuple[str, ...] | None = None,
    *,
    min_partners: int = 30,
) -> str:
    """Write one response matrix and one table of embeddings per scenario."""
    import pandas as pd

    from paperworks.evaluate import response_matrix

    folder = _helm_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in long.groupby("scenario", observed=True):
        if scenarios is not None and name not in scenarios:
            continue
        try:
            matrix = response_matrix(rows, "request.model", "input.text", "dicho_score", min_partners, min_partners)
        except ValueError:  # no block with enough answers
            continue
        embedded = pd.DataFrame(embed([str(text) for text in matrix.columns]))
        embedded.columns = embedded.columns.astype(str)
        matrix.columns = [str(i) for i in range(matrix.shape[1])]
        matrix.to_parquet(folder / f"{name}-responses.parquet")
        embedded.to_parquet(folder / f"{name}-embeddings.parquet")
    return str(folder)


def load_helm(scenario: str, n_tested: int, rng: np.random.Generator) -> Bank:
    """Read what `prepare_helm` wrote and set some takers apart for the adaptive tests."""
    import numpy as np
    import pandas as pd

    from paperworks.datasets import DataError

    folder = _helm_folder()
    places = [folder / f"{scenario}-{part}.parquet" for part in ("responses", "embeddings")]
    for place in places:
        if not place.is_file():
            raise DataError(
                f"{place} does not exist; make it on a machine with a GPU with: python -c "
                '"from paperworks.studies.evaluate.amortized_irt import prepare_helm as p; p(MODEL)"'
            )
    Y, content = (pd.read_parquet(place).to_numpy(dtype=np.float64) for place in places)
    order = rng.permutation(len(Y))
    n_tested = min(n_tested, len(Y) // 3)
    tested, others = Y[order[:n_tested]], Y[order[n_tested:]]
    asked = np.isfinite(others).any(axis=0)
    return Bank(others[:, asked], content[asked], np.nanmean(others[:, asked], axis=1), tested[:, asked])


def make_holes(bank: Bank, dataset: str, seed: int) -> Holes:
    """Choose what is hidden; the same for all contenders."""
    import numpy as np

    rng = rng_for("amortized-irt", "holes", "own file" if dataset.startswith("file:") else dataset, seed)
    recorded = np.isfinite(bank.Y)
    n_takers, n_items = bank.Y.shape
    new_items = np.zeros(n_items, dtype=bool)
    new_items[rng.permutation(n_items)[: n_items // 5]] = True
    subset = np.zeros(n_takers, dtype=bool)
    subset[2 * n_takers // 3 :] = True
    old = np.flatnonzero(~new_items)
    keep = rng.random(bank.Y.shape) < 0.8
    seen = recorded & keep & ~new_items
    if bank.simulated:
        # Everybody gets items by ability: missing, and not at random.
        difficulty = -np.nanmean(bank.Y, axis=0)
        rank = difficulty.argsort().argsort() / n_items - 0.5
        seen = (
            recorded
            & ~new_items
            & (rng.random(bank.Y.shape) < 0.6 / (1.0 + np.exp(-8.0 * bank.ability[:, None] * rank)))
        )
        test = recorded & ~seen & ~new_items
        subset[:] = True
    else:
        test = seen.copy()
        test[:] = recorded & ~keep & ~new_items & ~subset[:, None]
        order = old[np.nanmean(bank.Y[~subset][:, old], axis=0).argsort(kind="stable")]
        size = min(50, len(old) // 4)
        ends = (order[-2 * size :], order[: 2 * size])  # easiest, hardest
        for place, taker in enumerate(np.flatnonzero(subset)):
            seen[taker] = False
            seen[taker, rng.choice(ends[place % 2], size=size, replace=False)] = True
        seen &= recorded
    half = rng.random(bank.Y.shape) < 0.5
    full = np.ones(n_takers, dtype=bool) if bank.simulated else ~subset
    of_new = recorded & new_items & full[:, None]
    # Every taker and item keeps an answer, as a calibration needs.
    for item in old[~seen[:, old].any(axis=0)]:
        seen[np.flatnonzero(recorded[:, item])[0], item] = True
    for taker in np.flatnonzero(~seen.any(axis=1)):
        seen[taker, old[recorded[taker, old]][0]] = True
    extra = of_new & half
    for item in np.flatnonzero(new_items & ~extra.any(axis=0) & of_new.any(axis=0)):
        extra[np.flatnonzero(of_new[:, item])[0], item] = True
    return Holes(seen, extra, test & ~seen, of_new & ~extra, subset)


def calibrate(
    contender: str, bank: Bank, holes: Holes, seed: int, settings: Mapping[str, Any]
) -> tuple[Floats, Floats]:
    """Return predictions for all cells, and abilities."""
    import numpy as np

    from paperworks.evaluate import AmortizedIRT, RaschModel

    old = ~holes.extra.any(axis=0) & holes.seen.any(axis=0)
    if contender in _CONTENT:
        model = AmortizedIRT(**_CONTENT[contender], random_state=seed)
        model.fit(np.where(holes.seen, bank.Y, np.nan)[:, old], bank.content[old])
        proba = np.empty(bank.Y.shape)
        proba[:, old] = model.predict_proba()
        proba[:, ~old] = model.predict_proba(bank.content[~old])
        return proba, model.ability_
    known = holes.seen | holes.extra
    Y = np.where(known, bank.Y, np.nan)
    items = known.any(axis=0)
    proba = np.full(bank.Y.shape, 0.5)
    if contender in ("rasch-mml", "rasch-composite", "rasch-jml"):
        method: Any = contender.removeprefix("rasch-")
        rasch = RaschModel(method).fit(Y[:, items])
        proba[:, items] = rasch.predict_proba()
        return proba, rasch.ability_
    if contender.endswith("-mean"):
        per_taker = np.nanmean(np.where(holes.seen, bank.Y, np.nan), axis=1)
        if contender == "taker-mean":
            proba[:] = per_taker[:, None]
        elif contender == "item-mean":
            proba[:, items] = np.nanmean(Y[:, items], axis=0)
        return proba, per_taker
    if contender == "girth":
        from girth import ability_eap, rasch_mml, tag_missing_data

        tagged = tag_missing_data(np.where(known, bank.Y, -1).astype(int)[:, items].T, [0, 1])
        difficulty = rasch_mml(tagged)["Difficulty"]
        ability = ability_eap(tagged, difficulty, 1.0)
    elif contender == "py-irt":
        difficulty, ability = fit_py_irt(Y[:, items], settings["py_irt_epochs"], seed)
    else:
        raise ValueError(f"unknown contender {contender!r}")
    proba[:, items] = 1.0 / (1.0 + np.exp(difficulty - ability[:, None]))
    return proba, ability


def fit_py_irt(Y: Floats, epochs: int, seed: int) -> tuple[Floats, Floats]:
    """Return difficulties and abilities by py-irt's variational one-parameter model with hierarchical priors."""
    import numpy as np
    import torch
    from ordered_set import OrderedSet
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    taker, item = np.nonzero(np.isfinite(Y))
    names = [[str(i) for i in range(n)] for n in Y.shape]
    numbers = [{name: i for i, name in enumerate(each)} for each in names]
    data = Dataset(
        subject_ids=OrderedSet(names[0]),
        item_ids=OrderedSet(names[1]),
        subject_id_to_ix=numbers[0],
        item_id_to_ix=numbers[1],
        ix_to_subject_id=dict(enumerate(names[0])),
        ix_to_item_id=dict(enumerate(names[1])),
        observation_subjects=taker.tolist(),
        observation_items=item.tolist(),
        observations=Y[taker, item].tolist(),
        training_example=[True] * len(taker),
    )
    config = IrtConfig(model_type="1pl", priors="hierarchical", epochs=epochs)
    with (
        torch.random.fork_rng(devices=[]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        torch.manual_seed(seed)
        trainer = IrtModelTrainer(config=config, data_path=None, dataset=data, verbose=False)
        trainer.train()
    found = trainer.best_params
    return np.asarray(found["diff"], dtype=np.float64), np.asarray(found["ability"], dtype=np.float64)


def replay(contender: str, bank: Bank, seed: int, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Test takers that the calibration did not see, from their recorded answers.

    Returns
    -------
    tuple of (float, float)
        Items until the empirical reliability is 0.95 (infinite if the bank or the limit ends first), and the root mean
        squared error of the abilities after 50 items.
    """
    import numpy as np

    from paperworks.evaluate import AdaptiveTest, RaschModel, empirical_reliability

    rasch = RaschModel().fit(bank.Y)
    Y = bank.Y_tested
    if bank.ability_tested is not None:
        truth = bank.ability_tested - bank.ability.mean()  # calibrated abilities have mean 0
    else:
        truth = rasch.score_ability(Y, estimator="map")[0]
    if contender == "catsim":
        from catsim.item_bank import ItemBank
        from catsim.selection import MaxInfoSelector

        select = MaxInfoSelector().select
    tests, banks, places = [], [], []
    for i, row in enumerate(Y):
        items = np.flatnonzero(np.isfinite(row))
        places.append(items)
        tests.append(
            AdaptiveTest(
                rasch.difficulty_[items],
                prior=(0.0, rasch.scale_),
                selection="random" if contender == "random-items" else "fisher",
                random_state=seed_for("amortized-irt", "order", seed, i),
            )
        )
        if contender == "catsim":
            zero, one = np.zeros(len(items)), np.ones(len(items))
            with contextlib.redirect_stdout(io.StringIO()):  # prints empty lines
                banks.append(ItemBank(np.column_stack([one, rasch.difficulty_[items], zero, one])))
    asked: list[list[int]] = [[] for _ in tests]
    needed, error = float("inf"), float("nan")
    for step in range(1, min(settings["max_asked"], min(len(items) for items in places)) + 1):
        for i, test in enumerate(tests):
            if contender == "catsim":
                chosen = select(item_bank=banks[i], administered_items=asked[i], est_theta=test.theta_)
                item = int(chosen if chosen is not None else test.next_item())
                asked[i].append(item)
            else:
                item = test.next_item()
            test.update(item, bool(Y[i, places[i][item]]))
        theta = np.array([test.theta_ for test in tests])
        if step == N_ERROR_ITEMS:
            error = float(np.sqrt(((theta - truth) ** 2).mean()))
        if needed == np.inf and empirical_reliability(theta, [test.se_ for test in tests]) >= RELIABILITY:
            needed = float(step)
        if np.isfinite(needed) and step >= N_ERROR_ITEMS:
            break
    return needed, error


def _auc(Y: Floats, proba: Floats, cells: Mask) -> float:
    from sklearn.metrics import roc_auc_score

    right = Y[cells]
    if right.size == 0 or right.min() == right.max():
        return float("nan")
    return float(roc_auc_score(right, proba[cells]))


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Run one contender on one bank.

    Parameters
    ----------
    contender : str
        Name of a contender of the study.
    dataset : str
        Name of a data set of the study, or the reference of an own table.
    seed : int
        Number of the bank and of its holes.
    scale : str
        ``"smoke"``, ``"quick"`` or ``"paper"``.

    Returns
    -------
    dict of str to float
        The metrics; NaN where one does not apply to the contender.
    """
    from scipy.stats import spearmanr

    settings = STUDY.scales[scale].settings
    bank = load_bank(dataset, seed, scale)
    metrics = dict.fromkeys((metric.name for metric in STUDY.metrics), float("nan"))
    with warnings.catch_warnings():
        # Constant items are in every bank; peers speak of versions.
        warnings.simplefilter("ignore")
        if contender in _ADAPTIVE:
            if bank.Y.shape[1] >= settings["min_bank"]:
                metrics["items_to_reliability"], metrics["ability_rmse"] = replay(contender, bank, seed, settings)
            return metrics
        holes = make_holes(bank, dataset, seed)
        fit_seed = seed_for("amortized-irt", "fit", seed) % 2**31
        proba, ability = calibrate(contender, bank, holes, fit_seed, settings)
    metrics["auc_cells"] = _auc(bank.Y, proba, holes.test)
    metrics["auc_new_items"] = _auc(bank.Y, proba, holes.new)
    metrics["ability_correlation"] = float(spearmanr(ability[holes.subset], bank.ability[holes.subset])[0])
    return metrics


_ENTRANTS = (
    Contender("rasch-mml", "method", "RaschModel: marginal likelihood, EM with adaptive quadrature"),
    Contender("amortized", "method", "AmortizedIRT: linear map of the content, joint fit, residuals"),
    Contender("adaptive", "method", "AdaptiveTest: greatest Fisher information"),
    Contender("amortized-rbf", "ablation", "AmortizedIRT with a Gaussian kernel"),
    Contender("amortized-two-stage", "ablation", "AmortizedIRT: calibration first, then ridge regression"),
    Contender("rasch-composite", "ablation", "RaschModel: the composite likelihood of the paper's code"),
    Contender("rasch-jml", "ablation", "RaschModel: joint likelihood"),
    Contender("taker-mean", "peer", "share of right answers of each taker"),
    Contender("item-mean", "peer", "share of right answers of each item"),
    Contender("overall-mean", "peer", "share of right answers"),
    Contender(
        "girth",
        "peer",
        "girth: rasch_mml (in effect the composite likelihood), missing answers tagged; ability_eap",
        requires=("girth",),
    ),
    Contender("py-irt", "peer", "py-irt: 1pl, hierarchical priors, variational", requires=("py-irt",)),
    Contender("random-items", "peer", "the same test with items in random order"),
    Contender("catsim", "peer", "catsim: MaxInfoSelector, abilities by AdaptiveTest", requires=("catsim",)),
)

STUDY = Study(
    slug="amortized-irt",
    family="evaluate",
    paper=Paper(
        title="Reliable and Efficient Amortized Model-based Evaluation",
        authors="Sang Truong, Yuheng Tu, Percy Liang, Bo Li, Sanmi Koyejo",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2503.13335",
        code="https://github.com/aims-foundations/reeval",
    ),
    question=(
        "My models answered different parts of a benchmark, and each answer costs money. How do I rank them, with how "
        "few questions, and what about questions nobody has answered yet?"
    ),
    datasets=("digits", "breast-cancer", "wine", "synthetic", *(f"helm/{name}" for name in HELM_SCENARIOS)),
    contenders=_ENTRANTS,
    metrics=(
        Metric("auc_cells", "higher", description="area under the ROC curve on held-out answers"),
        Metric("auc_new_items", "higher", description="the same on items that content methods saw no answer to"),
        Metric(
            "ability_correlation",
            "higher",
            description="rank correlation of abilities from different subsets of items with those on the full bank",
        ),
        Metric("items_to_reliability", "lower", "items", f"items until the reliability is {RELIABILITY}"),
        Metric("ability_rmse", "lower", "logits", f"error of the abilities after {N_ERROR_ITEMS} items"),
    ),
    claims=(
        Claim(
            "abilities from different subsets of items are more reliable than the average score",
            metric="ability_correlation",
            subject="rasch-mml",
            against="taker-mean",
            kind="better",
        ),
        Claim(
            "difficulties from content predict answers to new items almost as well as a calibration with answers does: "
            "at most 0.05 less area under the curve",
            metric="auc_new_items",
            subject="amortized",
            against="rasch-mml",
            kind="not_worse",
            margin=0.05,
        ),
        Claim(
            "difficulties from content predict answers to new items better than the takers' averages",
            metric="auc_new_items",
            subject="amortized",
            against="taker-mean",
            kind="better",
        ),
        Claim(
            "an adaptive test reaches a reliability of 0.95 with at most 60 % of the items of a random one",
            metric="items_to_reliability",
            subject="adaptive",
            against="random-items",
            kind="ratio",
            margin=0.6,
            datasets=("digits", "synthetic"),
        ),
        Claim(
            "a calibrated model predicts held-out answers better than item averages",
            metric="auc_cells",
            subject="rasch-mml",
            against="item-mean",
            kind="better",
        ),
        Claim(
            "held-out answers are predicted as well as by girth, to 0.01",
            metric="auc_cells",
            subject="rasch-mml",
            against="girth",
            kind="not_worse",
            margin=0.01,
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=2,
            datasets=("wine", "synthetic"),
            contenders=tuple(c.name for c in _ENTRANTS if c.name != "py-irt"),
            settings={
                "n_takers": 12,
                "n_synthetic": 12,
                "max_items": 80,
                "n_tested": 4,
                "max_asked": 60,
                "min_bank": 60,
                "py_irt_epochs": 20,
            },
        ),
        "quick": Scale(
            seeds=6,
            datasets=("digits", "breast-cancer", "wine", "synthetic"),
            contenders=tuple(c.name for c in _ENTRANTS if c.name not in ("py-irt", "catsim")),
            settings={
                "n_takers": 60,
                "n_synthetic": 60,
                "max_items": 600,
                "n_tested": 40,
                "max_asked": 300,
                "min_bank": 300,
                "py_irt_epochs": 300,
            },
        ),
        "paper": Scale(
            seeds=20,
            settings={
                "n_takers": 183,
                "n_synthetic": 200,
                "max_items": 1000,
                "n_tested": 60,
                "max_asked": 400,
                "min_bank": 300,
                "py_irt_epochs": 2000,
            },
        ),
    },
    trial=trial,
    figures=tuple(
        Figure("auc_cells", "rasch-mml", f"helm/{name}", value, "code output: test AUC per scenario")
        for name, value in (
            ("synthetic_reasoning", 0.87),
            ("wikifact", 0.88),
            ("legalbench", 0.84),
            ("thai_exam", 0.83),
            ("babi_qa", 0.83),
            ("bbq", 0.68),
            ("legal_support", 0.67),
            ("lsat_qa", 0.62),
        )
    )
    + tuple(
        Figure("auc_new_items", "amortized", f"helm/{name}", value, "code output: held-out items")
        for name, value in (("entity_data_imputation", 0.92), ("imdb", 0.85), ("commonsense", 0.80))
    ),
    own_data=OwnData("table", "classification"),
    limits=(
        "Takers of the labelled data are small classifiers, not language models; the paper's HELM responses run at "
        "paper scale, after prepare_helm has fetched and embedded them.",
        "New items cost the content methods no answer at all; calibrations got half of the answers to them. That cost "
        "is a count, not a claim to test.",
        "On one complete set of items, averages and abilities rank takers alike: only subsets of different difficulty "
        "separate them, so random halves are not compared.",
        "Adaptive tests run on banks of at least 300 items only: smaller ones (wine, breast-cancer) end before a "
        "reliability of 0.95.",
        "The content of the labelled banks is raw columns and the class. On those a linear map is a poor stand-in for "
        "one on a language model's embedding; amortized-rbf shows what a more flexible map makes of them.",
        "Difficulties of the adaptive tests are calibrated on other takers. catsim chooses the same items by "
        "design; abilities are estimated alike for all three.",
        "py-irt (slow) runs at paper scale, catsim (same items as adaptive) also at smoke; at quick they are left out. "
        "Asked for at quick, py-irt runs 300 epochs instead of its 2,000.",
    ),
    plots=(Plot("spread", "items_to_reliability", "Questions asked until the ability is known well enough"),),
    keywords=(
        "evaluate a language model with fewer benchmark questions",
        "leaderboard with missing answers",
        "item response theory",
        "difficulty of questions",
        "adaptive testing",
        "compare models cheaply",
        "Rasch model",
    ),
)
