"""What VCIP is compared with: a model of outcomes, and a model of the behaviour alone."""

from __future__ import annotations

from typing import Any

from paperworks._checks import check_positive, extra

with extra("torch"):
    from torch import Tensor

from .base import SequenceScorer, _Start
from .estimator import likely_actions
from .networks import BehaviourNetwork, OutcomeNetwork, Sizes

__all__ = ["BehaviourScore", "OutcomeSearch"]


class OutcomeSearch(SequenceScorer):
    """Scores actions by how far the outcome that an LSTM predicts for them lies from the target.

    The network predicts all outcomes after planned actions as changes that add up. With `balance` its view of the
    history is trained not to tell which action comes next, as counterfactual recurrent networks do.

    Parameters
    ----------
    horizon : int, default=6
        Number of actions after each history in training.
    latent_dim : int, default=16
        Width of the state of the history.
    hidden_dim : int, default=16
        Width of all hidden layers.
    n_layers : int, default=2
        Layers of the LSTM of the history.
    treatment : {"continuous", "binary"}, default="continuous"
        Actions in [0, 1], or 0 and 1.
    balance : float, default=0.0
        Weight of the reversed gradient of a model of the next action; 0 leaves it out.
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
        Where to compute.
    random_state : int, RandomState instance or None, default=None
        Source of initial weights, batches and the starts of planning.
    verbose : int, default=0
        Above 0, the loss is printed every 100 steps.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    outcome_mean_, outcome_scale_ : ndarray of float64, shape (n_outcomes,)
        Mean and standard deviation of the recorded outcomes.
    loss_curve_, validation_curve_ : list
        Training loss by step, and (step, validation loss).
    n_steps_ : int
        Step whose weights were kept.

    References
    ----------
    I. Bica, A. M. Alaa, J. Jordon, M. van der Schaar, "Estimating counterfactual treatment outcomes over time through
    adversarially balanced representations", ICLR 2020.

    Examples
    --------
    >>> from paperworks.causal import OutcomeSearch, tumour_cohort
    >>> cohort = tumour_cohort(60, gamma=4.0, length=40, random_state=0)
    >>> model = OutcomeSearch(horizon=3, max_steps=20, random_state=0).fit(cohort.outcomes, cohort.actions)
    >>> plan = model.plan(cohort.outcomes[:4, :31], cohort.actions[:4, :30], cohort.outcomes[:4, 33, 0], n_iter=5)
    >>> plan.actions.shape
    (4, 3, 2)
    """

    def __init__(
        self,
        horizon: int = 6,
        *,
        latent_dim: int = 16,
        hidden_dim: int = 16,
        n_layers: int = 2,
        treatment: str = "continuous",
        balance: float = 0.0,
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
        self.balance = balance
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
        check_positive(self.balance, "balance", zero_ok=True)

    def _network(self, sizes: Sizes) -> OutcomeNetwork:
        return OutcomeNetwork(sizes, float(self.balance))


class BehaviourScore(SequenceScorer):
    """Scores actions by how unlikely they are under the behaviour policy; the target plays no part.

    What a planner gains beside this shows how much it knows about outcomes.

    Parameters
    ----------
    horizon : int, default=6
        Number of actions after each history in training.
    latent_dim : int, default=16
        Width of the state of the history.
    hidden_dim : int, default=16
        Width of all hidden layers.
    n_layers : int, default=2
        Layers of the LSTM of the history.
    treatment : {"continuous", "binary"}, default="continuous"
        Actions in [0, 1], or 0 and 1.
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
        Where to compute.
    random_state : int, RandomState instance or None, default=None
        Source of initial weights, batches and the starts of planning.
    verbose : int, default=0
        Above 0, the loss is printed every 100 steps.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    loss_curve_, validation_curve_ : list
        Training loss by step, and (step, validation loss).
    n_steps_ : int
        Step whose weights were kept.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import BehaviourScore, tumour_cohort
    >>> cohort = tumour_cohort(60, gamma=4.0, length=40, random_state=0)
    >>> model = BehaviourScore(horizon=3, max_steps=20, random_state=0).fit(cohort.outcomes, cohort.actions)
    >>> given = model.score(cohort.outcomes[:4, :31], cohort.actions[:4, :30], np.full((1, 4, 3, 2), 0.2), np.zeros(4))
    >>> given.shape
    (1, 4)
    """

    def __init__(
        self,
        horizon: int = 6,
        *,
        latent_dim: int = 16,
        hidden_dim: int = 16,
        n_layers: int = 2,
        treatment: str = "continuous",
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
        self.min_history = min_history
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.max_steps = max_steps
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _network(self, sizes: Sizes) -> BehaviourNetwork:
        return BehaviourNetwork(sizes)

    def _mode(self, start: _Start, n_steps: int) -> Tensor:
        return likely_actions(self.network_.policy, start.z0, n_steps, self.scaling_.n_actions)
