"""The cut-off: the estimator that users hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_finite_array, check_positive

from .bounds import asymptotic_warning, check_bounded, standard_error, upper_bound
from .distortion import Curve, Distortion, make_distortion
from .losses import INNERS, Inner, check_lambdas, long_columns, loss_steps, score_tables, to_matrix

__all__ = ["DistortionRiskControl"]

Floats = NDArray[np.float64]

_MAX_GRID = 2000
_BLOCK = 500_000


class DistortionRiskControl(BaseEstimator):
    """Largest cut-off on machine scores that keeps a tail risk of the human losses at or below `alpha`.

    Parameters
    ----------
    risk : {"cvar", "mean", "var", "spectral"} or sequence of these, default="cvar"
        What is controlled: the mean of the worst share ``1 - beta`` of prompts, the mean, the quantile at `beta`, or a
        weighted average of quantiles given by `psi` or `cdf`. With a sequence all of them are controlled together.
    beta : float or sequence of float, default=0.75
        Level of "cvar", in [0, 1), or of "var", in (0, 1); unused otherwise.
    alpha : float or sequence of float, default=0.35
        Greatest risk allowed, strictly between 0 and `loss_bound`.
    delta : float, default=0.05
        Allowed probability, over the calibration prompts, that a risk at `lambda_` exceeds its `alpha`.
    method : {"L", "exact", "bootstrap", "DKW", "BJ"}, default="L"
        Confidence bound, see `distortion_ucb`: "L" (the paper's), "exact" for "var", "DKW" and "BJ" for every n.
    psi : callable, optional
        Density of the weight of quantile levels, for "spectral".
    cdf : callable, optional
        Distribution function of the weight of quantile levels, for "spectral".
    lambdas : array-like of shape (n_lambdas,), optional
        Cut-offs to choose from. Default: the distinct machine scores, or 2000 of their quantiles if there are more.
    selection : {"fixed_sequence", "largest"}, default="fixed_sequence"
        "fixed_sequence" walks up from the smallest cut-off and stops before the first bound above `alpha`: valid for
        any shape of the curve. "largest" takes the largest cut-off with a bound of at most `alpha`, which is not valid
        where the bound dips below `alpha` again.
    inner : {"max", "mean", "first"} or callable, default="max"
        Loss of a prompt from the human losses of its kept candidates, see `prompt_losses`. Only "max" certifies
        whatever kept candidate is shown.
    loss_bound : float, default=1.0
        Greatest possible human loss.
    n_bootstrap : int, default=1000
        Resamples of "bootstrap".
    random_state : int, numpy.random.Generator or None, default=None
        Source of the resamples.
    verbose : int, default=0
        Above 0 shows a progress bar over the cut-offs.

    Attributes
    ----------
    lambda_ : float
        The cut-off: candidates with a machine score of at most this are kept. ``-inf`` if no cut-off is safe.
    feasible_ : bool
        Whether any cut-off is safe.
    lambdas_ : ndarray of shape (n_lambdas,)
        Increasing cut-offs.
    risk_curve_, ucb_curve_ : ndarray of shape (n_lambdas,) or (n_risks, n_lambdas)
        Empirical risk and its upper confidence bound at each cut-off; two-dimensional if `risk` is a sequence.
    n_prompts_ : int
        Number of calibration prompts.
    n_candidates_ : int
        Smallest number of candidates of a calibration prompt.
    losses_at_lambda_ : ndarray of shape (n_prompts,)
        Losses of the calibration prompts at `lambda_`.

    See Also
    --------
    distortion_ucb : The confidence bounds.
    GuardedGenerator : Deployment of the cut-off.

    Notes
    -----
    C. Y.-C. Chen, J. Shen, Z. Deng, L. Lei, "Conformal Tail Risk Control for Large Language Model Alignment", ICML
    2025. The guarantee ``P(R(losses at lambda_) <= alpha) >= 1 - delta`` is asymptotic for "L" and "bootstrap".

    Prompts in deployment must come from the same law as those of calibration, candidates from the same generator. A
    prompt without a kept candidate counts as loss 0. `alpha` and `delta` must be fixed before the curve is seen.

    Several risks need no smaller `delta`: a cut-off passes if all its bounds do, and one that breaks some risk passes
    with probability at most `delta` because already that risk's bound rarely lets it.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.conformal import DistortionRiskControl
    >>> rng = np.random.default_rng(0)
    >>> human = rng.beta(0.5, 2, size=(500, 10))
    >>> machine = np.clip(human + rng.normal(scale=0.1, size=human.shape), 0, 1)
    >>> control = DistortionRiskControl("cvar", beta=0.75, alpha=0.35).fit(machine, human)
    >>> control.feasible_, bool(control.ucb_curve_[control.lambdas_ == control.lambda_][0] <= 0.35)
    (True, True)
    >>> control.keep([0.05, 0.95])
    array([ True, False])
    """

    def __init__(
        self,
        risk: str | Sequence[str] = "cvar",
        beta: float | Sequence[float] = 0.75,
        *,
        alpha: float | Sequence[float] = 0.35,
        delta: float = 0.05,
        method: str = "L",
        psi: Curve | None = None,
        cdf: Curve | None = None,
        lambdas: ArrayLike | None = None,
        selection: str = "fixed_sequence",
        inner: Inner = "max",
        loss_bound: float = 1.0,
        n_bootstrap: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.risk = risk
        self.beta = beta
        self.alpha = alpha
        self.delta = delta
        self.method = method
        self.psi = psi
        self.cdf = cdf
        self.lambdas = lambdas
        self.selection = selection
        self.inner = inner
        self.loss_bound = loss_bound
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, machine_scores: Any, human_scores: Any = None) -> DistortionRiskControl:
        """Choose the cut-off on calibration prompts.

        Parameters
        ----------
        machine_scores : array-like of shape (n_prompts, n_candidates), list of vectors, or DataFrame
            Machine scores, NaN for a missing candidate; or one long frame with the columns prompt, machine and human,
            whose order of lines is the order of drawing.
        human_scores : array-like of the same shape, optional
            Human losses, NaN at the same places; omitted with a long frame.

        Returns
        -------
        DistortionRiskControl
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range or does not fit the others, scores are malformed (see `prompt_losses`),
            an asymptotic method gets fewer than 2 prompts, or a bounded one a human loss outside [0, `loss_bound`].

        Warns
        -----
        UserWarning
            If no cut-off is safe, or an asymptotic bound rests on few prompts.
        """
        targets = self._targets()
        check_choice(self.selection, "selection", ("fixed_sequence", "largest"))
        if not callable(self.inner):
            check_choice(self.inner, "inner", INNERS)
        machine, human = score_tables(machine_scores, human_scores)
        n = len(machine)
        bounds = [
            upper_bound(
                distortion,
                n,
                delta=self.delta,
                method=self.method,
                loss_bound=self.loss_bound,
                n_bootstrap=self.n_bootstrap,
                random_state=self.random_state,
            )
            for distortion, _ in targets
        ]
        for distortion, _ in targets:
            check_bounded(human, "human_scores", distortion, n, self.delta, self.method, self.loss_bound)
        lambdas = _default_grid(machine) if self.lambdas is None else np.sort(check_lambdas(self.lambdas))

        steps = loss_steps(machine, human, lambdas, self.inner)
        statistics = [distortion.statistic(n) for distortion, _ in targets]
        risks = np.empty((len(targets), lambdas.size))
        ucbs = np.empty_like(risks)
        size = max(1, min(100, _BLOCK // n))
        unsorted = self.method in ("L", "bootstrap") and all(distortion.symmetric for distortion, _ in targets)
        for start, block in _progress(steps.blocks(size), -(-lambdas.size // size), self.verbose):
            if not unsorted:
                block.sort(axis=1)
            part = slice(start, start + len(block))
            for j, (statistic, bound) in enumerate(zip(statistics, bounds, strict=True)):
                risks[j, part] = statistic(block)
                ucbs[j, part] = bound(block)

        safe = np.all(ucbs <= np.array([[alpha] for _, alpha in targets]), axis=0)
        if self.selection == "fixed_sequence":
            chosen = (int(np.argmin(safe)) if not safe.all() else safe.size) - 1
        else:
            chosen = int(np.flatnonzero(safe)[-1]) if safe.any() else -1
        if self.method in ("L", "bootstrap"):
            for message in dict.fromkeys(asymptotic_warning(distortion, n) for distortion, _ in targets):
                if message:
                    warnings.warn(message, UserWarning, stacklevel=2)
        if chosen < 0:
            warnings.warn(
                f"no cut-off is safe: at the smallest, {lambdas[0]:.6g}, the upper bound of the risk is "
                f"{', '.join(f'{value:.4g}' for value in ucbs[:, 0])} with alpha = "
                f"{', '.join(f'{alpha:.4g}' for _, alpha in targets)}; lambda_ is -inf and every candidate is rejected",
                UserWarning,
                stacklevel=2,
            )
        several = not isinstance(self.risk, str)
        self.lambda_ = float(lambdas[chosen]) if chosen >= 0 else -np.inf
        self.feasible_ = chosen >= 0
        self.lambdas_ = lambdas
        self.risk_curve_ = risks if several else risks[0]
        self.ucb_curve_ = ucbs if several else ucbs[0]
        self.n_prompts_ = n
        self.n_candidates_ = int((~np.isnan(machine)).sum(axis=1).min())
        self.losses_at_lambda_ = self._losses(machine, human)
        return self

    def keep(self, machine_scores: Any) -> Any:
        """Tell which candidates may be shown.

        Parameters
        ----------
        machine_scores : array-like of any shape, list of vectors, or DataFrame
            Machine scores; NaN is never kept. A frame needs the column machine.

        Returns
        -------
        ndarray of bool, or list of ndarray of bool
            Whether a score is at most `lambda_`, in the same shape; one value per line of a frame, a list of vectors
            for a ragged list.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        TypeError
            If the scores are not numeric.
        """
        check_is_fitted(self, "lambda_")
        if isinstance(machine_scores, pd.DataFrame) and "machine" in machine_scores.columns:
            machine_scores = machine_scores["machine"].to_numpy(dtype=np.float64, na_value=np.nan)
        if isinstance(machine_scores, list | tuple) and len({np.shape(row) for row in machine_scores}) > 1:
            return [self.keep(row) for row in machine_scores]
        try:
            scores = np.asarray(machine_scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"machine_scores must be numeric: {error}") from error
        return scores <= self.lambda_

    def select(self, machine_scores: Any) -> Any:
        """Return the first candidate that may be shown, prompt by prompt.

        Parameters
        ----------
        machine_scores : array-like of shape (n_prompts, n_candidates) or (n_candidates,), list of vectors, or DataFrame
            Machine scores in the order of drawing; a frame needs the columns prompt and machine.

        Returns
        -------
        ndarray of shape (n_prompts,), or int
            Index of the first kept candidate of each prompt, -1 where none is kept; one int for a single vector. The
            prompts of a frame come in the order in which they first occur.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If the scores have another shape, or are infinite.
        """
        check_is_fitted(self, "lambda_")
        if isinstance(machine_scores, pd.DataFrame) and "machine" in machine_scores.columns:
            codes, places, values, prompts = long_columns(machine_scores, ("machine",))
            scores = np.full((len(prompts), int(places.max(initial=-1)) + 1), np.nan)
            scores[codes, places] = values[0]
            return _first(scores <= self.lambda_)
        rows = machine_scores.to_numpy() if isinstance(machine_scores, pd.DataFrame) else machine_scores
        single = all(np.ndim(row) == 0 for row in rows)
        found = _first(to_matrix([rows] if single else rows, "machine_scores") <= self.lambda_)
        return int(found[0]) if single else found

    def evaluate(self, machine_scores: Any, human_scores: Any = None) -> dict[str, Any]:
        """Measure the cut-off on other prompts with known human losses.

        Parameters
        ----------
        machine_scores : array-like of shape (n_prompts, n_candidates), list of vectors, or DataFrame
            As in `fit`.
        human_scores : array-like of the same shape, optional
            As in `fit`.

        Returns
        -------
        dict
            ``risk`` (an array if `risk` is a sequence), ``mean`` and ``max`` of the prompts' losses at `lambda_`;
            ``abstain_rate``, the share of prompts without a kept candidate; ``deployment_cost``, the mean number of
            draws up to and including the first kept candidate, all of them where none is kept.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If the scores are malformed.
        """
        check_is_fitted(self, "lambda_")
        machine, human = score_tables(machine_scores, human_scores)
        losses = self._losses(machine, human)
        ordered = np.sort(losses)[None, :]
        risks = np.array([distortion.statistic(losses.size)(ordered)[0] for distortion, _ in self._targets()])
        kept = machine <= self.lambda_
        first = _first(kept)
        drawn = np.cumsum(~np.isnan(machine), axis=1)
        cost = np.where(first >= 0, drawn[np.arange(len(machine)), first], drawn[:, -1])
        return {
            "risk": float(risks[0]) if isinstance(self.risk, str) else risks,
            "mean": float(losses.mean()),
            "max": float(losses.max()),
            "abstain_rate": float(np.mean(first < 0)),
            "deployment_cost": float(cost.mean()),
        }

    def risk_profile(self, betas: ArrayLike = (0.0, 0.5, 0.75, 0.9, 0.95)) -> pd.DataFrame:
        """Show how heavy the tail of the calibration losses at `lambda_` is, with two-sided intervals.

        Parameters
        ----------
        betas : array-like of shape (n_betas,), default=(0, 0.5, 0.75, 0.9, 0.95)
            Levels in [0, 1).

        Returns
        -------
        pandas.DataFrame
            Columns ``beta``, ``cvar`` (mean of the worst share ``1 - beta``), ``low``, ``high``: asymptotic intervals
            of level ``1 - delta``, each for itself. A diagnosis: the cut-off was chosen on the same losses.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If a level is outside [0, 1).
        """
        check_is_fitted(self, "lambda_")
        levels = check_finite_array(betas, "betas", ndim=1)
        ordered = np.sort(self.losses_at_lambda_)[None, :]
        z = float(stats.norm.isf(self.delta / 2))
        rows = []
        for beta in levels:
            distortion = make_distortion("cvar", float(beta), None, None)
            value = float(distortion.statistic(ordered.size)(ordered)[0])
            half = z * float(standard_error(distortion, ordered.size)(ordered)[0])
            rows.append((float(beta), value, value - half, value + half))
        return pd.DataFrame(rows, columns=["beta", "cvar", "low", "high"])

    def _targets(self) -> list[tuple[Distortion, float]]:
        """Return each risk with its alpha; one value of `beta` or `alpha` serves all risks."""
        risks = [self.risk] if isinstance(self.risk, str) else list(self.risk)
        if not risks:
            raise ValueError("risk must name at least one risk, got an empty sequence")
        check_positive(self.loss_bound, "loss_bound")
        targets = []
        betas, alphas = _spread(self.beta, "beta", len(risks)), _spread(self.alpha, "alpha", len(risks))
        for risk, beta, alpha in zip(risks, betas, alphas, strict=True):
            own = (self.psi, self.cdf) if risk == "spectral" or len(risks) == 1 else (None, None)
            if check_positive(alpha, "alpha") >= self.loss_bound:
                raise ValueError(
                    f"alpha must lie strictly between 0 and loss_bound = {self.loss_bound:g}, got {alpha!r}"
                )
            targets.append((make_distortion(risk, beta, *own), float(alpha)))
        if len(risks) > 1 and "spectral" not in risks and (self.psi is not None or self.cdf is not None):
            raise ValueError(f"psi and cdf belong to risk='spectral', got risk={self.risk!r}")
        return targets

    def _losses(self, machine: Floats, human: Floats) -> Floats:
        if self.lambda_ == -np.inf:
            return np.zeros(len(machine))
        steps = loss_steps(machine, human, np.array([self.lambda_]), self.inner)
        _, block = next(steps.blocks(1))
        losses: Floats = block[0]
        return losses


def _spread(value: Any, name: str, count: int) -> list[Any]:
    if np.ndim(value) == 0:
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ValueError(f"{name} must be one number or one for each of {count} risk(s), got {len(values)}")
    return values


def _default_grid(machine: Floats) -> Floats:
    scores = np.unique(machine[~np.isnan(machine)])
    if scores.size <= _MAX_GRID:
        return scores
    # Quantiles of the scores as drawn, each of them a score: ties weigh what they weigh in use.
    present = machine[~np.isnan(machine)]
    return np.unique(np.quantile(present, np.linspace(0.0, 1.0, _MAX_GRID), method="inverted_cdf"))


def _first(kept: NDArray[np.bool_]) -> NDArray[np.intp]:
    if kept.shape[1] == 0:
        return np.full(len(kept), -1)
    first: NDArray[np.intp] = np.where(kept.any(axis=1), kept.argmax(axis=1), -1)
    return first


def _progress(blocks: Any, total: int, verbose: int) -> Any:
    if verbose <= 0:
        return blocks
    from rich.progress import track

    return track(blocks, description="cut-offs", total=total)
