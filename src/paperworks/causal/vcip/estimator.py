"""VCIP itself: scores by the bound on the probability of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_choice, check_integer, check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

from .base import SequenceScorer, _array, _Start
from .bound import policy_mode
from .networks import Sizes, VariationalNetwork

__all__ = ["VCIP", "likely_actions"]

WEIGHTS = ("reg", "kl", "step", "action", "hy")


class VCIP(SequenceScorer):
    r"""Plans treatments that are likely to lead one person to a wanted outcome.

    A variational model of latent states is trained on records with time-varying confounding. Sequences of actions are
    then scored by the negative of a lower bound on ``log p(outcome = target | history, do(actions))``, rewritten with
    the behaviour policy so that records are enough:

    ``lambda_reg * error + lambda_kl * KL(q || p) + lambda_step * step + lambda_action * action``

    Parameters
    ----------
    horizon : int, default=6
        Number of actions after each history in training; shorter plans can be scored, longer ones can't.
    latent_dim : int, default=16
        Width of the latent states.
    hidden_dim : int, default=16
        Width of all hidden layers.
    n_layers : int, default=2
        Layers of the LSTMs of history, prior and posterior.
    treatment : {"continuous", "binary"}, default="continuous"
        Actions in [0, 1], or 0 and 1.
    lambdas : dict, optional
        Weights ``reg``, ``kl``, ``step``, ``action`` and ``hy`` (prediction of the next outcome over the history, in
        training only), each at least 0 and 1 if not given.
    likelihood_scale : float, optional
        Standard deviation of a Gaussian likelihood in standard deviations of the outcome; None is the mean squared
        error.
    step_bound : float, default=-10.0
        Lower bound of the log-likelihood in the step term.
    entropy_reg : float, default=1.0
        Weight of the entropy in the step term.
    kl_reduction : {"mean", "batch_sum"}, default="mean"
        Whether the KL divergence is averaged over the batch in training, or summed as in the authors' code, where its
        weight grows with the batch.
    n_samples : int, default=10
        Posterior draws that are averaged in training.
    min_history : int, default=20
        Shortest history in training.
    batch_size : int, default=256
        People in a step of training.
    lr : float, default=0.01
        First step size of Adam, lowered to 0 along a cosine.
    weight_decay : float, default=1e-5
        Weight decay of Adam.
    max_steps : int, default=600
        Steps of training.
    validation_fraction : float, default=0.1
        Share of people held out to choose the step whose weights are kept; 0 keeps the last.
    device : str or torch.device, default="auto"
        Where to compute; ``"auto"`` takes CUDA if there is one.
    random_state : int, RandomState instance or None, default=None
        Source of initial weights, batches, draws and the starts of planning.
    verbose : int, default=0
        Above 0, the loss is printed every 100 steps.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    outcome_mean_ : ndarray of float64, shape (n_outcomes,)
        Mean of the recorded outcomes.
    outcome_scale_ : ndarray of float64, shape (n_outcomes,)
        Their standard deviation.
    scaling_ : tuple
        All means and scales.
    loss_curve_ : list of float
        Training loss by step.
    validation_curve_ : list of tuple
        Step and validation loss.
    n_steps_ : int
        Step whose weights were kept.

    Notes
    -----
    The paper's text and code weigh the Kullback-Leibler divergence by its mean over steps and the error without its
    constants. The sum is the true negative bound up to a constant with ``likelihood_scale`` and ``lambdas={"kl": tau,
    "step": 0, "action": 0}`` for plans of tau steps. The step and action terms come from estimates of the behaviour, so
    that the score prefers plans that people like this one were given; where the target was set without regard to
    practice, `OutcomeSearch` usually ranks better. The step term of the authors' code has the opposite sign for binary
    treatments, which contradicts the derivation; here it has the sign of continuous ones.

    No gradient flows from the score to the actions through the decoder's own code of them, as in the authors' code, so
    the descent of `plan` follows the other paths only; the best plan visited is chosen by the full score.

    References
    ----------
    X. Wang, S. Lyu, L. Chi, X. Zhou, H. Chen, "Variational Counterfactual Intervention Planning to Achieve Target
    Outcomes", ICML 2025.

    Examples
    --------
    >>> from paperworks.causal import VCIP, perturb_actions, tumour_cohort
    >>> cohort = tumour_cohort(60, gamma=4.0, length=40, random_state=0)
    >>> model = VCIP(horizon=3, max_steps=20, random_state=0).fit(cohort.outcomes, cohort.actions)
    >>> before, after = cohort.outcomes[:5, :31], cohort.outcomes[:5, 33, 0]
    >>> candidates = perturb_actions(cohort.actions[:5, 30:33], 20, random_state=0)
    >>> model.score(before, cohort.actions[:5, :30], candidates, after).shape
    (20, 5)
    """

    def __init__(
        self,
        horizon: int = 6,
        *,
        latent_dim: int = 16,
        hidden_dim: int = 16,
        n_layers: int = 2,
        treatment: str = "continuous",
        lambdas: Mapping[str, float] | None = None,
        likelihood_scale: float | None = None,
        step_bound: float = -10.0,
        entropy_reg: float = 1.0,
        kl_reduction: str = "mean",
        n_samples: int = 10,
        min_history: int = 20,
        batch_size: int = 256,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_steps: int = 600,
        validation_fraction: float = 0.1,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.horizon = horizon
        self.latent_dim = latent_dim
        self.hidden_dim = hidden_dim
        self.n_layers = n_layers
        self.treatment = treatment
        self.lambdas = lambdas
        self.likelihood_scale = likelihood_scale
        self.step_bound = step_bound
        self.entropy_reg = entropy_reg
        self.kl_reduction = kl_reduction
        self.n_samples = n_samples
        self.min_history = min_history
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_steps = max_steps
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        self._weights()
        if self.likelihood_scale is not None:
            check_positive(self.likelihood_scale, "likelihood_scale")
        if isinstance(self.step_bound, bool) or not np.isfinite(self.step_bound):
            raise ValueError(f"step_bound must be a finite number, got {self.step_bound!r}")
        check_positive(self.entropy_reg, "entropy_reg", zero_ok=True)
        check_choice(self.kl_reduction, "kl_reduction", ("mean", "batch_sum"))
        check_integer(self.n_samples, "n_samples", minimum=1)

    def _weights(self) -> dict[str, float]:
        given = {} if self.lambdas is None else self.lambdas
        if not isinstance(given, Mapping):
            raise TypeError(f"lambdas must be a dict, got {type(given).__name__}")
        unknown = [str(name) for name in given if name not in WEIGHTS]
        if unknown:
            raise ValueError(f"lambdas may hold {', '.join(WEIGHTS)}; got {', '.join(unknown)}")
        return {name: check_positive(given.get(name, 1.0), f"lambdas[{name!r}]", zero_ok=True) for name in WEIGHTS}

    def _network(self, sizes: Sizes) -> VariationalNetwork:
        options = {
            "lambdas": self._weights(),
            "likelihood_scale": self.likelihood_scale,
            "step_bound": float(self.step_bound),
            "entropy_reg": self.entropy_reg,
            "kl_reduction": self.kl_reduction,
            "n_samples": self.n_samples,
        }
        return VariationalNetwork(sizes, options)

    def bound_terms(
        self,
        outcomes: ArrayLike,
        actions: ArrayLike,
        candidates: ArrayLike,
        target: ArrayLike,
        *,
        covariates: ArrayLike | None = None,
        static: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        """Return the four terms of which `score` is the weighted sum.

        Parameters
        ----------
        outcomes : array-like of shape (n, h + 1) or (n, h + 1, n_outcomes)
            Outcomes so far, as in `score`.
        actions : array-like of shape (n, h, n_actions)
            Actions so far.
        candidates : array-like of shape (k, n, n_steps, n_actions)
            Sequences to compare.
        target : array-like of shape (n,) or (n, n_outcomes)
            Outcome wanted after the last action, in raw units.
        covariates : array-like of shape (n, h + 1, n_covariates), optional
            As in `fit`.
        static : array-like of shape (n, n_static), optional
            As in `fit`.
        mask : array-like of bool, shape (n, h + 1), optional
            As in `score`.

        Returns
        -------
        dict of str to ndarray of float64, shape (k, n)
            ``reg``: error of the reconstructed target; ``kl``: divergence of posterior from prior, summed over
            dimensions, mean over steps; ``step`` and ``action``: the terms of the behaviour. Not yet weighted.

        Raises
        ------
        ValueError
            If a shape or value doesn't fit.
        sklearn.exceptions.NotFittedError
            If the model isn't fitted.
        """
        records = self._records(outcomes, actions, covariates, static, mask)
        n = len(records.last)
        plans, wanted = self._candidates(candidates, n), self._target(target, n)

        def stacked(z0: Tensor, now: Tensor, proposed: Tensor, goal: Tensor) -> Tensor:
            found = self.network_.terms(z0, proposed, goal)
            return torch.stack([found[name] for name in WEIGHTS[:4]], dim=1)

        with torch.no_grad():
            table = self._each(stacked, self._start(records), plans, wanted)
        return {name: _array(table[:, :, i]) for i, name in enumerate(WEIGHTS[:4])}

    def _mode(self, start: _Start, n_steps: int) -> Tensor:
        return likely_actions(self.network_.policy, start.z0, n_steps, self.scaling_.n_actions)


def likely_actions(policy: Any, z0: Tensor, n_steps: int, n_actions: int) -> Tensor:
    """Return the most likely action at each step given those before it, (n, n_steps, n_actions)."""
    actions = z0.new_zeros(len(z0), n_steps, n_actions)
    with torch.no_grad():
        for s in range(n_steps):
            law, _ = policy(z0, actions[:, : s + 1])
            actions[:, s] = policy_mode(law[:, s], policy.binary)
    return actions
