"""Which classifier ranks a shifted target domain best, when only some positives and no negatives are labelled?

A trial draws labelled positives and unlabelled rows of a training domain and unlabelled rows of a target domain, from
disjoint parts of a table, fits one contender, and measures the AUC on labelled target rows that no contender saw. Where
groups make the shift, the training rows come from the main group with probability .9 and the target rows with .1; where
a table is resampled, rows are drawn with probability proportional to the logistic function of minus (training) or plus
(target) twice their first principal component. All contenders of a trial share one estimated density ratio.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Rows = Callable[[str, int, float], tuple[Floats, Floats, Ints]]

SHARE_TRAIN, SHARE_TARGET = 0.9, 0.1  # of the main group
TILT = 2.0
ALPHAS = (1e-3, 1e-2, 1e-1)  # penalties that the AUC contenders choose among, each by its own held-out risk


class Problem(NamedTuple):
    """One draw: what contenders see, what they are tested on, and the true ratio where it is known."""

    pos: Floats
    unl: Floats
    target: Floats
    X_test: Floats
    y_test: Ints
    target_labels: Ints
    """Labels of `target`, for the contender that is allowed to see them."""
    true_pos: Floats
    true_unl: Floats


# Data


def grouped(
    X: Floats, y: Ints, group: Ints, rows: Ints, n: int, share: float, prior: float | None, rng: np.random.Generator
) -> Ints:
    """Draw n of `rows` with replacement: the main group with probability `share`, positives with `prior` in each group.

    With ``prior=None`` only positives are drawn.
    """
    import numpy as np

    main = rng.random(n) < share
    positive = np.ones(n, dtype=bool) if prior is None else rng.random(n) < prior
    found = np.empty(n, dtype=np.int64)
    for g in (0, 1):
        for label in (0, 1):
            asked = (main == bool(g)) & (positive == bool(label))
            pool = rows[(group[rows] == g) & (y[rows] == label)]
            found[asked] = rng.choice(pool, asked.sum())
    return found


def images(name: str) -> tuple[Floats, Ints, Ints]:
    """Digits: odd ones are positive, 0 to 4 the main group; the label depends on the image only."""
    import numpy as np

    from paperworks.datasets import load

    table = load(name)
    X, digit = table.X.to_numpy(dtype=np.float64), table.y.to_numpy().astype(np.int64)
    return X, digit % 2, (digit < 5).astype(np.int64)


def image_problem(name: str, seed: int, shift: bool, settings: Mapping[str, Any]) -> Problem:
    """Draw from three disjoint parts of the images: 40 % for training, 30 % for the target, 30 % for the test."""
    import numpy as np

    X, y, group = images(name)
    rng = rng_for("images", name, seed)
    order = rng.permutation(len(y))
    train, target, test = np.split(order, [int(0.4 * len(y)), int(0.7 * len(y))])
    n, prior = settings["n_unlabelled"], settings["prior"]
    share = SHARE_TARGET if shift else SHARE_TRAIN
    pos = grouped(X, y, group, train, settings["n_positive"], SHARE_TRAIN, None, rng)
    unl = grouped(X, y, group, train, n, SHARE_TRAIN, prior, rng)
    tgt = grouped(X, y, group, target, n, share, prior, rng)
    tst = grouped(X, y, group, test, settings["n_test"], share, prior, rng)
    ratio = np.where(group == 1, share / SHARE_TRAIN, (1 - share) / (1 - SHARE_TRAIN))
    return Problem(X[pos], X[unl], X[tgt], X[tst], y[tst], y[tgt], ratio[pos], ratio[unl])


def gaussian_rows(n: int, share: float, prior: float, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Two groups, told apart by the third column, in which positives lie in opposite directions."""
    import numpy as np

    main, y = rng.random(n) < share, (rng.random(n) < prior).astype(np.int64)
    sign = np.where(main, -1.0, 1.0) * y
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.6 * sign
    X[:, 1] -= 0.8 * sign
    X[:, 2] = np.where(main, 3.0, -3.0) + 0.3 * X[:, 2]
    return X, y


def gaussian_problem(seed: int, settings: Mapping[str, Any]) -> Problem:
    """Draw all samples from the generator; the ratio depends on the group alone, up to a sliver."""
    import numpy as np

    rng = rng_for("gaussian", seed)
    n = settings["n_unlabelled"]
    pos, _ = gaussian_rows(settings["n_positive"], SHARE_TRAIN, 1.0, rng)
    unl, _ = gaussian_rows(n, SHARE_TRAIN, 0.3, rng)
    target, labels = gaussian_rows(n, SHARE_TARGET, 0.3, rng)
    X_test, y_test = gaussian_rows(settings["n_test"], SHARE_TARGET, 0.3, rng)
    true = [
        np.where(x[:, 2] > 0, SHARE_TARGET / SHARE_TRAIN, (1 - SHARE_TARGET) / (1 - SHARE_TRAIN)) for x in (pos, unl)
    ]
    return Problem(pos, unl, target, X_test, y_test, labels, *true)


def table_problem(dataset: str, seed: int, settings: Mapping[str, Any]) -> Problem:
    """Resample a table along its first principal component; the rarest class is positive."""
    import numpy as np
    from scipy.special import expit

    from paperworks.datasets import load, tabular_encoder

    table = load(dataset.removesuffix("-tilted"))
    rng = rng_for("table", dataset, seed)
    labels, y = np.unique(np.asarray(table.y.astype(str), dtype=object), return_inverse=True)
    if len(labels) < 2:
        raise ValueError(f"the target column must hold at least 2 classes, got {len(labels)}")
    y = (y == np.bincount(y).argmin()).astype(np.int64)
    parts: list[list[Ints]] = [[], [], []]
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == label))[: settings["max_rows"]]
        if len(rows) < 6:
            raise ValueError(f"the study needs at least 6 rows of each class, got {len(rows)}")
        for part, some in zip(parts, np.split(rows, [2 * len(rows) // 5, 7 * len(rows) // 10]), strict=True):
            part.append(some)
    train, target, test = (np.concatenate(part) for part in parts)
    encoder = tabular_encoder(table.X).fit(table.X.iloc[train])
    X = [np.asarray(encoder.transform(table.X.iloc[rows]), dtype=np.float64) for rows in (train, target, test)]
    centre, scale = X[0].mean(axis=0), X[0].std(axis=0)
    scale[scale == 0] = 1.0
    X = [(x - centre) / scale for x in X]
    axis = np.linalg.svd(X[0], full_matrices=False)[2][0]
    axis *= np.sign(axis[np.abs(axis).argmax()])
    spread = float((X[0] @ axis).std())
    tilts = [TILT * (x @ axis) / spread for x in X]
    n = settings["n_unlabelled"]

    def draw(k: int, among: Any, sign: float, n_rows: int) -> Ints:
        weight = expit(sign * tilts[k][among])
        found: Ints = rng.choice(among, n_rows, p=weight / weight.sum())
        return found

    everything = [np.arange(len(rows)) for rows in (train, target, test)]
    pos = draw(0, np.flatnonzero(y[train] == 1), -1.0, settings["n_positive"])
    unl = draw(0, everything[0], -1.0, n)
    tgt = draw(1, everything[1], 1.0, n)
    tst = draw(2, everything[2], 1.0, settings["n_test"])
    true = np.exp(tilts[0])  # expit(t) / expit(-t), up to a constant that no contender depends on
    y_test = y[test][tst]
    return Problem(X[0][pos], X[0][unl], X[1][tgt], X[2][tst], y_test, y[target][tgt], true[pos], true[unl])


@lru_cache(maxsize=4)
def problem_of(dataset: str, seed: int, scale: str) -> Problem:
    """Return the draw of one data set and seed, the same for all contenders."""
    settings = STUDY.scales[scale].settings
    if dataset == "gaussian-groups":
        return gaussian_problem(seed, settings)
    if dataset in ("digits-groups", "digits-no-shift"):
        return image_problem("digits", seed, dataset == "digits-groups", settings)
    if dataset == "mnist-groups":
        return image_problem("mnist-5000", seed, True, settings)
    return table_problem(dataset, seed, settings)


@lru_cache(maxsize=4)
def weights_of(dataset: str, seed: int, scale: str) -> tuple[Floats, Floats]:
    """Return the estimated ratio at positives and unlabelled rows, capped as the classifier does by default."""
    import numpy as np
    from sklearn.utils import check_random_state

    from paperworks.imbalanced.shift_auc.ratio import fit_ratio

    problem = problem_of(dataset, seed, scale)
    rng = check_random_state(seed_for("ratio", dataset, seed))
    ratio, unl, _ = fit_ratio(problem.unl, problem.target, "kernel-logistic", 0.0, rng, out_of_fold=True)
    pos = ratio(problem.pos)
    cap = np.quantile(np.concatenate((pos, unl)), 0.995)
    return np.minimum(pos, cap), np.minimum(unl, cap)


# Contenders

# name: (mix, weights)
_SHIFTED: dict[str, tuple[Any, str]] = {
    "shift-auc": (0.5, "estimated"),
    "shift-auc-cv": ("cv", "estimated"),
    "mix-1": (1.0, "estimated"),
    "mix-0": (0.0, "estimated"),
    "true-weights": (0.5, "true"),
    "unweighted-pu": (1.0, "none"),
    "unweighted-target": (0.0, "none"),
}


def _shifted(problem: Problem, mix: Any, weights: tuple[Floats, Floats] | None, seed: int) -> Floats:
    import numpy as np

    from paperworks.imbalanced import ShiftAUCClassifier

    X = np.concatenate((problem.pos, problem.unl))
    s = np.repeat([1, 0], [len(problem.pos), len(problem.unl)])
    w_pos, w_unl = weights or (np.ones(len(problem.pos)), np.ones(len(problem.unl)))

    def ratio(rows: Floats) -> Floats:
        return w_pos if np.array_equal(rows, problem.pos) else w_unl

    alpha = ALPHAS[1] if mix == "cv" else _penalty(problem, mix, w_pos, w_unl, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # few effective positives are the study's subject
        model = ShiftAUCClassifier(base="linear", mix=mix, alpha=alpha, ratio=ratio, random_state=seed)
        return model.fit(X, s, problem.target).decision_function(problem.X_test)


def _penalty(problem: Problem, mix: float, w_pos: Floats, w_unl: Floats, seed: int) -> float:
    """Choose the penalty by the contender's own risk on held-out rows."""
    from paperworks.imbalanced.shift_auc.linear import Samples, fit_linear, folds, held_out_risk
    from paperworks.imbalanced.shift_auc.ratio import one_scale

    centre, unit = one_scale([problem.unl, problem.target])
    pos, unl, target = ((x - centre) / unit for x in (problem.pos, problem.unl, problem.target))
    risks = dict.fromkeys(ALPHAS, 0.0)
    for train, test in folds(Samples(pos, unl, target, w_pos, w_unl), seed):
        for alpha in ALPHAS:
            theta, _ = fit_linear(train, mix=mix, alpha=alpha, loss="sigmoid")
            risks[alpha] += held_out_risk(theta, test, mix)
    return min(ALPHAS, key=lambda alpha: risks[alpha])


def _logistic(X: Floats, y: Ints, weight: Floats | None, X_test: Floats, seed: int) -> Floats:
    """Logistic regression, its penalty chosen among 5 by AUC on 3 folds, columns on one scale as for the classifier."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    weight = np.ones(len(y)) if weight is None else weight
    centre, unit = X.mean(axis=0), float(np.sqrt(X.var(axis=0).mean()))
    X, X_test = (X - centre) / unit, (X_test - centre) / unit
    penalties = np.geomspace(1e-3, 10, 5)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    held_out = np.zeros(len(penalties))
    model = LogisticRegression(max_iter=500, tol=1e-3, warm_start=True)
    for train, test in folds.split(X, y):
        for k, penalty in enumerate(penalties):
            model.set_params(C=penalty).fit(X[train], y[train], sample_weight=weight[train])
            held_out[k] += roc_auc_score(y[test], model.decision_function(X[test]), sample_weight=weight[test])
    model = LogisticRegression(C=float(penalties[held_out.argmax()]), max_iter=500)
    scores: Floats = model.fit(X, y, sample_weight=weight).decision_function(X_test)
    return scores


def _elkan_noto(problem: Problem, seed: int) -> Floats:
    """The classifier of pulearn, with the settings of its documentation around a logistic regression."""
    import numpy as np
    from pulearn import ElkanotoPuClassifier
    from sklearn.linear_model import LogisticRegression

    X = np.concatenate((problem.pos, problem.unl))
    s = np.repeat([1, -1], [len(problem.pos), len(problem.unl)])
    centre, unit = X.mean(axis=0), float(np.sqrt(X.var(axis=0).mean()))
    model = ElkanotoPuClassifier(
        LogisticRegression(max_iter=500, random_state=seed), hold_out_ratio=0.2, random_state=seed
    )
    model.fit((X - centre) / unit, s)
    prob = np.asarray(model.predict_proba((problem.X_test - centre) / unit))
    scores: Floats = prob[:, 1] if prob.ndim == 2 else prob
    return scores


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Fit one contender and return its AUC on the target."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    problem = problem_of(dataset, seed, scale)
    fit_seed = seed_for("fit", dataset, seed)
    X = np.concatenate((problem.pos, problem.unl))
    s = np.repeat([1, 0], [len(problem.pos), len(problem.unl)])
    effective = float("nan")
    if contender in _SHIFTED:
        mix, kind = _SHIFTED[contender]
        weights = {
            "estimated": lambda: weights_of(dataset, seed, scale),
            "true": lambda: (problem.true_pos, problem.true_unl),
            "none": lambda: None,
        }[kind]()
        scores = _shifted(problem, mix, weights, fit_seed)
        if weights is not None:
            effective = float(weights[0].sum() ** 2 / (weights[0] ** 2).sum())
    elif contender == "logistic-regression":
        scores = _logistic(X, s, None, problem.X_test, fit_seed)
    elif contender == "weighted-logistic-regression":
        weight = np.concatenate(weights_of(dataset, seed, scale))
        scores = _logistic(X, s, weight / weight.mean(), problem.X_test, fit_seed)
    elif contender == "elkan-noto":
        scores = _elkan_noto(problem, fit_seed)
    else:
        scores = _logistic(problem.target, problem.target_labels, None, problem.X_test, fit_seed)
    return {"auc": float(roc_auc_score(problem.y_test, scores)), "effective-positives": effective}


STUDY = Study(
    slug="shift-auc",
    family="imbalanced",
    paper=Paper(
        title="Positive-unlabeled AUC Maximization under Covariate Shift",
        authors="Atsutoshi Kumagai, Tomoharu Iwata, Hiroshi Takahashi, Taishi Nishiyama, Kazuki Adachi, "
        "Yasuhiro Fujiwara",
        venue="ICML 2025, PMLR 267",
        url="https://openreview.net/forum?id=HQEPgICjBS",
    ),
    question="My model will meet inputs from another distribution, and I have some positives and unlabelled rows only. "
    "What ranks best there?",
    datasets=(
        "digits-groups",
        "gaussian-groups",
        "digits-no-shift",
        "breast-cancer-tilted",
        "wine-tilted",
        "mnist-groups",
    ),
    contenders=(
        Contender("shift-auc", role="method", source="both estimators with mix 1/2, linear scorer"),
        Contender("shift-auc-cv", role="method", source="mix and penalty chosen on held-out rows"),
        Contender("mix-1", role="ablation", source="weighted positives against weighted unlabelled rows only"),
        Contender("mix-0", role="ablation", source="weighted positives against target rows only"),
        Contender("true-weights", role="ablation", source="mix 1/2 with the true density ratio"),
        Contender(
            "unweighted-pu",
            role="peer",
            source="AUC of positives against unlabelled rows (Sakai, Niu, Sugiyama, Machine Learning 107, 2018)",
        ),
        Contender("unweighted-target", role="ablation", source="unweighted positives against target rows"),
        Contender(
            "logistic-regression", role="peer", source="scikit-learn LogisticRegression, labelled against unlabelled"
        ),
        Contender(
            "weighted-logistic-regression", role="peer", source="the same with importance weights, pointwise risk"
        ),
        Contender(
            "elkan-noto", role="peer", source="pulearn ElkanotoPuClassifier(LogisticRegression)", requires=("pulearn",)
        ),
        Contender("supervised-target", role="peer", source="LogisticRegression on target labels: an upper bound"),
    ),
    metrics=(
        Metric("auc", better="higher", description="AUC on labelled rows of the target domain"),
        Metric("effective-positives", better="higher", description="(sum w)^2 / sum w^2 of the positives"),
    ),
    claims=(
        Claim(
            "under shift, AUC at least 0.05 above unweighted positive-unlabelled AUC on grouped digits",
            metric="auc",
            subject="shift-auc",
            against="unweighted-pu",
            kind="better",
            margin=0.05,
            datasets=("digits-groups",),
        ),
        Claim(
            "under shift, AUC at least 0.1 above unweighted positive-unlabelled AUC on Gaussian groups",
            metric="auc",
            subject="shift-auc",
            against="unweighted-pu",
            kind="better",
            margin=0.1,
            datasets=("gaussian-groups",),
        ),
        Claim(
            "under shift, higher AUC than importance-weighted logistic regression on grouped digits",
            metric="auc",
            subject="shift-auc",
            against="weighted-logistic-regression",
            kind="better",
            datasets=("digits-groups",),
        ),
        Claim(
            "the mixture is no worse than the first estimator alone, within 0.01",
            metric="auc",
            subject="shift-auc",
            against="mix-1",
            kind="not_worse",
            margin=0.01,
            datasets=("digits-groups",),
        ),
        Claim(
            "the mixture is no worse than the second estimator alone, within 0.01",
            metric="auc",
            subject="shift-auc",
            against="mix-0",
            kind="not_worse",
            margin=0.01,
            datasets=("digits-groups",),
        ),
        Claim(
            "without shift, no worse than unweighted positive-unlabelled AUC, within 0.01",
            metric="auc",
            subject="shift-auc",
            against="unweighted-pu",
            kind="not_worse",
            margin=0.01,
            datasets=("digits-no-shift",),
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=1,
            datasets=("gaussian-groups",),
            settings={"n_positive": 60, "n_unlabelled": 150, "n_test": 500, "prior": 0.2, "max_rows": 1000},
        ),
        "quick": Scale(
            seeds=8,
            datasets=("digits-groups", "gaussian-groups", "digits-no-shift"),
            settings={"n_positive": 150, "n_unlabelled": 600, "n_test": 1500, "prior": 0.2, "max_rows": 2000},
        ),
        "paper": Scale(
            seeds=20,
            settings={"n_positive": 150, "n_unlabelled": 600, "n_test": 1500, "prior": 0.1, "max_rows": 5000},
        ),
    },
    trial=trial,
    own_data=OwnData(kind="table", task="classification"),
    limits=(
        "The paper's estimator of the weights, its networks and its choice of the mixture are not known here; the "
        "density ratio is a logistic regression on a kernel map, the scorer is linear.",
        "Its image data sets (Fashion-MNIST, SVHN, CIFAR-10) are not part of the study; MNIST is in small.",
        "In a user's table the rarest class is positive, and the shift is made by resampling along the first principal "
        "component; rows are drawn with replacement.",
        "On Gaussian groups unweighted training ranks backwards by construction: read them apart from the digits.",
    ),
    plots=(Plot("spread", "auc", "AUC on the target rows of grouped digits", datasets=("digits-groups",)),),
    keywords=(
        "covariate shift",
        "test customers differ from the labelled ones",
        "another hospital, region or season",
        "domain adaptation for ranking",
        "only positives are labelled",
        "positive-unlabelled learning",
        "importance weighting",
    ),
)
