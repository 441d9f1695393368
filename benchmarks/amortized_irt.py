"""Calibration beside girth and py-irt, choice of items beside catsim, sums beside the tensors of the paper's code."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks import Case
from paperworks.evaluate import AdaptiveTest, RaschModel
from paperworks.evaluate.amortized_irt.calibration import composite_difficulty

Floats = NDArray[np.float64]


def answers(n_takers: int, n_items: int, seed: int = 0) -> Floats:
    """Return a complete matrix of answers by the Rasch model."""
    rng = np.random.default_rng(seed)
    difficulty, ability = rng.normal(size=n_items), rng.normal(size=n_takers)
    return (rng.random((n_takers, n_items)) < expit(ability[:, None] - difficulty)).astype(float)


def quiet(fit: Callable[[], Any]) -> Callable[[], Any]:
    """Return the call without its warnings and prints."""

    def run() -> Any:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            return fit()

    return run


def girth_cases() -> list[Case]:
    """Complete and incomplete matrices.

    girth's `rasch_mml` solves one equation per item: it equals the composite likelihood, to 4e-5. The marginal
    likelihood does more: it uses what each taker answered, estimates the scale, and gives abilities.
    """
    from girth import rasch_mml, tag_missing_data

    Y = answers(100, 800)
    holes = np.where(np.random.default_rng(1).random(Y.shape) < 0.3, np.nan, Y)
    tagged = tag_missing_data(np.nan_to_num(holes, nan=-1).astype(int).T, [0, 1])
    model, complete = RaschModel(), Y.T.astype(int)
    tall = answers(2000, 40)
    tall_share, tall_complete = tall.mean(axis=0), tall.T.astype(int)
    return [
        Case(
            "difficulties alone, 2000 takers x 40 items",
            lambda: composite_difficulty(tall_share),
            quiet(lambda: rasch_mml(tall_complete)),
            "girth.rasch_mml",
            "the same estimates",
        ),
        Case(
            "marginal likelihood, 100 takers x 800 items",
            quiet(lambda: model.fit(Y)),
            quiet(lambda: rasch_mml(complete)),
            "girth.rasch_mml",
            "girth solves the composite likelihood, without abilities",
        ),
        Case(
            "the same with 30 % missing",
            quiet(lambda: model.fit(holes)),
            quiet(lambda: rasch_mml(tagged)),
            "girth.rasch_mml",
            "girth solves the composite likelihood, without abilities",
        ),
        Case(
            "marginal likelihood, 2000 takers x 40 items",
            quiet(lambda: model.fit(tall)),
            quiet(lambda: rasch_mml(tall_complete)),
            "girth.rasch_mml",
            "girth solves the composite likelihood, without abilities",
        ),
    ]


def py_irt_case() -> Case:
    """The default number of epochs would take minutes; a tenth of it is timed."""
    from paperworks.studies.evaluate.amortized_irt import fit_py_irt

    Y, model = answers(60, 100), RaschModel()
    return Case(
        "60 takers x 100 items",
        quiet(lambda: model.fit(Y)),
        quiet(lambda: fit_py_irt(Y, 200, 0)),
        "py-irt 1pl",
        "py-irt with 200 of its 2,000 epochs",
    )


def catsim_case() -> Case:
    """One taker, 50 items of a bank of 1000; abilities are estimated by AdaptiveTest in both."""
    from catsim.item_bank import ItemBank
    from catsim.selection import MaxInfoSelector

    bank = np.random.default_rng(0).normal(size=1000)
    right = np.random.default_rng(1).random(1000) < expit(0.5 - bank)

    def ours() -> None:
        AdaptiveTest(bank, max_items=50).run(lambda item: bool(right[item]))

    def peer() -> None:
        items = ItemBank(np.column_stack([np.ones(1000), bank, np.zeros(1000), np.ones(1000)]))
        select, test, asked = MaxInfoSelector().select, AdaptiveTest(bank), []
        for _ in range(50):
            item = int(select(item_bank=items, administered_items=asked, est_theta=test.theta_))
            asked.append(item)
            test.update(item, bool(right[item]))

    return Case("adaptive test, 50 of 1000 items", ours, quiet(peer), "catsim.MaxInfoSelector")


def composite_case() -> Case:
    """The published loss on 150 draws, by gradient steps on the whole block, as its code does it, without a GPU."""
    import torch

    Y = answers(183, 2000)
    share = (Y.sum(axis=0) + 0.5) / (len(Y) + 1.0)

    def sampled() -> None:
        generator = torch.Generator().manual_seed(0)
        theta = torch.randn(150, len(Y), 1, generator=generator)
        target = torch.tensor(Y, dtype=torch.float32).expand(150, -1, -1)
        z = torch.zeros(Y.shape[1], requires_grad=True)
        optimiser = torch.optim.LBFGS([z], lr=0.1, max_iter=20, history_size=10, line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            optimiser.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(theta + z, target)
            loss.backward()
            return loss

        optimiser.step(closure)

    return Case(
        "composite likelihood, 183 takers x 2000 items",
        lambda: composite_difficulty(share),
        sampled,
        "sampled loss, 20 L-BFGS steps",
        "the sampled loss has not converged then",
    )


def scoring_case() -> Case:
    """Abilities of 500 takers on 300 items against one scipy optimisation each."""
    from scipy.optimize import minimize_scalar

    Y = answers(500, 300)
    model = RaschModel("composite").fit(Y)
    b = model.difficulty_

    def loop() -> list[float]:
        def loss(theta: float, y: Floats) -> float:
            return float(np.logaddexp(0.0, theta - b).sum() - theta * y.sum() + theta**2 / 2.0)

        return [minimize_scalar(loss, args=(y,)).x for y in Y]

    return Case(
        "abilities of 500 takers on 300 items",
        lambda: model.score_ability(Y, estimator="map"),
        loop,
        "scipy.optimize.minimize_scalar per taker",
    )


def cases() -> list[Case]:
    """Return the comparisons whose peers are installed."""
    found = [composite_case(), scoring_case()]
    if importlib.util.find_spec("girth"):
        found = girth_cases() + found
    if importlib.util.find_spec("catsim"):
        found.append(catsim_case())
    if importlib.util.find_spec("py_irt"):
        found.append(py_irt_case())
    return found
