"""What the three scorers share: fit on records, score candidates, plan."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_fraction, check_integer, check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

from . import planning
from .candidates import TREATMENTS
from .networks import Sizes
from .planning import Plan
from .records import Records, Scaling, check_candidates, check_records, check_target
from .training import Sequences, find_device, train

__all__ = ["SequenceScorer"]

Floats = NDArray[np.float64]

CHUNK = 20_000  # sequences scored at once


class _Start(NamedTuple):
    """Where plans begin: latent state and present outcome of each person."""

    z0: Tensor
    now: Tensor


class SequenceScorer(BaseEstimator, ABC):
    """Fits a network to records and scores sequences of actions; subclasses bring the network."""

    horizon: int
    latent_dim: int
    hidden_dim: int
    n_layers: int
    treatment: str
    min_history: int
    batch_size: int
    lr: float
    weight_decay: float
    max_steps: int
    validation_fraction: float
    device: Any
    random_state: Any
    verbose: int

    @abstractmethod
    def _network(self, sizes: Sizes) -> Any:
        """Return the network to be trained."""

    def _check_options(self) -> None:
        for name in ("horizon", "latent_dim", "hidden_dim", "n_layers", "batch_size", "max_steps"):
            check_integer(getattr(self, name), name, minimum=1)
        check_integer(self.min_history, "min_history", minimum=0)
        check_choice(self.treatment, "treatment", TREATMENTS)
        check_positive(self.lr, "lr")
        check_positive(self.weight_decay, "weight_decay", zero_ok=True)
        if check_fraction(self.validation_fraction, "validation_fraction") > 0.9:
            raise ValueError(f"validation_fraction must be at most 0.9, got {self.validation_fraction!r}")
        find_device(self.device)

    def fit(
        self,
        outcomes: ArrayLike,
        actions: ArrayLike,
        *,
        covariates: ArrayLike | None = None,
        static: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Any:
        """Train on the records of people.

        Parameters
        ----------
        outcomes : array-like of shape (n, T + 1) or (n, T + 1, n_outcomes)
            Outcomes; ``outcomes[:, t]`` is seen before ``actions[:, t]`` is given.
        actions : array-like of shape (n, T, n_actions)
            Treatments, in [0, 1] or, if binary, 0 or 1.
        covariates : array-like of shape (n, T + 1, n_covariates), optional
            Other things that vary over time, seen together with the outcome.
        static : array-like of shape (n, n_static), optional
            Things that don't vary over time.
        mask : array-like of bool, shape (n, T + 1), optional
            False at steps of which nothing was recorded: gaps, where the last seen values are carried forward and an
            input says so, and the steps after the end of a shorter record. What stands there is ignored and may be NaN.
            An action is unknown if it is NaN, which is allowed at such steps only. Windows for training end with a seen
            outcome and plan known actions.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        ValueError
            If a shape or value doesn't fit, T is below `min_history` + `horizon` + 1, no window can be cut, an outcome
            is constant, or an option is out of range.
        TypeError
            If something isn't numeric.
        FloatingPointError
            If training diverges.
        """
        self._check_options()
        records = check_records(outcomes, actions, covariates, static, mask, self.treatment)
        steps = records.actions.shape[1]
        if steps < self.min_history + self.horizon + 1:
            raise ValueError(
                f"actions must have at least min_history + horizon + 1 = {self.min_history + self.horizon + 1} steps, "
                f"got {steps}"
            )
        rng = check_random_state(self.random_state)
        device = find_device(self.device)
        order = rng.permutation(len(records.last))
        n_validation = int(np.ceil(self.validation_fraction * len(order))) if len(order) > 1 else 0
        held, kept = order[:n_validation], order[n_validation:]
        scaling = Scaling.of(records.take(kept))._replace(gaps=records.gaps)
        sequences = Sequences.of(records.take(kept), scaling, self.horizon, self.min_history, device)
        if not sequences.usable.any():
            raise ValueError(
                f"no record has min_history = {self.min_history} steps, a seen outcome, horizon = {self.horizon} known "
                "actions and a seen outcome after them"
            )
        validation = None
        if n_validation:
            validation = Sequences.of(records.take(held), scaling, self.horizon, self.min_history, device)
            validation = validation if validation.usable.any() else None
        network = self._build(scaling, int(rng.randint(2**31 - 1))).to(device)
        fitted = train(
            network,
            sequences,
            validation,
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
            max_steps=self.max_steps,
            rng=rng,
            verbose=self.verbose,
        )
        self._keep(network, scaling)
        self.loss_curve_ = fitted.losses
        self.validation_curve_ = fitted.validation
        self.n_steps_ = fitted.kept
        return self

    def _build(self, scaling: Scaling, seed: int) -> Any:
        sizes = Sizes(
            scaling.n_inputs,
            scaling.outcome_mean.size,
            scaling.n_actions,
            self.latent_dim,
            self.hidden_dim,
            self.n_layers,
            self.treatment == "binary",
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self._network(sizes)

    def _keep(self, network: Any, scaling: Scaling) -> None:
        self.network_ = network.requires_grad_(False).eval()  # planning needs the gradient of actions only
        self.scaling_ = scaling
        self.outcome_mean_ = scaling.outcome_mean
        self.outcome_scale_ = scaling.outcome_scale

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights and the scaling, as tensors.

        Returns
        -------
        dict of str to torch.Tensor
            What `load_state_dict` takes.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model isn't fitted.
        """
        check_is_fitted(self, "network_")
        state = {f"network.{name}": value.detach().clone() for name, value in self.network_.state_dict().items()}
        return state | {f"scaling.{name}": torch.as_tensor(v) for name, v in self.scaling_._asdict().items()}

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Take the weights and the scaling of a fitted model with the same options.

        Parameters
        ----------
        state : dict of str to torch.Tensor
            From `state_dict`.

        Returns
        -------
        self
            Ready to score and plan.

        Raises
        ------
        ValueError
            If something is missing or of another size; the model stays as it was.
        """
        self._check_options()
        missing = [name for name in Scaling._fields if f"scaling.{name}" not in state]
        if missing:
            raise ValueError(f"state must come from state_dict; missing: {', '.join(missing)}")
        parts = {name: state[f"scaling.{name}"].cpu().numpy() for name in Scaling._fields}
        gaps, n_actions = bool(parts.pop("gaps")), int(parts.pop("n_actions"))
        scaling = Scaling(**parts, gaps=gaps, n_actions=n_actions)
        network = self._build(scaling, 0)
        weights = {name[8:]: value for name, value in state.items() if name.startswith("network.")}
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise ValueError(f"state doesn't fit the options of this model: {error}") from error
        self._keep(network.to(find_device(self.device)), scaling)
        return self

    def _records(self, outcomes: Any, actions: Any, covariates: Any, static: Any, mask: Any) -> Records:
        check_is_fitted(self, "network_")
        records = check_records(outcomes, actions, covariates, static, mask, self.treatment)
        scaling = self.scaling_
        for name, found, expected in (
            ("outcomes", records.outcomes.shape[2], scaling.outcome_mean.size),
            ("actions", records.actions.shape[2], scaling.n_actions),
            ("covariates", records.covariates.shape[2], scaling.covariate_mean.size),
            ("static", records.static.shape[1], scaling.static_mean.size),
        ):
            if found != expected:
                raise ValueError(f"{name} must have {expected} column(s) as in fit, got {found}")
        if records.gaps and not scaling.gaps:
            raise ValueError("mask has gaps, but the model was fitted to records without any")
        return records

    def _start(self, records: Records) -> _Start:
        """Encode each history up to its last seen outcome."""
        device = next(self.network_.parameters()).device
        inputs = torch.as_tensor(self.scaling_.inputs(records), dtype=torch.float32, device=device)
        rows = np.arange(len(records.last))
        now = self.scaling_.outcomes(records.outcomes[rows, records.last])
        with torch.no_grad():
            states = self.network_.history(inputs)[rows, records.last]
        return _Start(states, torch.as_tensor(now, dtype=torch.float32, device=device))

    def _target(self, target: Any, n: int) -> Tensor:
        device = next(self.network_.parameters()).device
        raw = check_target(target, n, self.outcome_mean_.size)
        return torch.as_tensor(self.scaling_.outcomes(raw), dtype=torch.float32, device=device)

    def _each(self, function: Any, start: _Start, actions: Tensor, target: Tensor) -> Any:
        """Call a function of flat (z0, now, actions, target) on actions (k, n, ., .); results get the shape (k, n)."""
        k, n = actions.shape[:2]
        flat = [
            start.z0.expand(k, -1, -1).reshape(k * n, -1),
            start.now.expand(k, -1, -1).reshape(k * n, -1),
            actions.reshape(k * n, *actions.shape[2:]),
            target.expand(k, -1, -1).reshape(k * n, -1),
        ]
        parts = [function(*(x[i : i + CHUNK] for x in flat)) for i in range(0, k * n, CHUNK)]
        return torch.cat(parts).view(k, n, *parts[0].shape[1:])

    def score(
        self,
        outcomes: ArrayLike,
        actions: ArrayLike,
        candidates: ArrayLike,
        target: ArrayLike,
        *,
        covariates: ArrayLike | None = None,
        static: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Floats:
        """Score candidate sequences of actions for each person; smaller is better.

        Parameters
        ----------
        outcomes : array-like of shape (n, h + 1) or (n, h + 1, n_outcomes)
            Outcomes so far; the last one is seen before the first candidate action.
        actions : array-like of shape (n, h, n_actions)
            Actions so far.
        candidates : array-like of shape (k, n, n_steps, n_actions)
            Sequences to compare, of at most `horizon` steps.
        target : array-like of shape (n,) or (n, n_outcomes)
            Outcome wanted after the last action, in raw units.
        covariates : array-like of shape (n, h + 1, n_covariates), optional
            As in `fit`.
        static : array-like of shape (n, n_static), optional
            As in `fit`.
        mask : array-like of bool, shape (n, h + 1), optional
            As in `fit`: each history ends at its last True.

        Returns
        -------
        ndarray of float64, shape (k, n)
            The scores. They depend on nothing random, nor on who else is scored.

        Raises
        ------
        ValueError
            If a shape or value doesn't fit.
        sklearn.exceptions.NotFittedError
            If the model isn't fitted.
        """
        records = self._records(outcomes, actions, covariates, static, mask)
        plans = self._candidates(candidates, len(records.last))
        wanted = self._target(target, len(records.last))
        with torch.no_grad():
            found = self._each(self.network_.scores, self._start(records), plans, wanted)
        return _array(found)

    def _candidates(self, candidates: Any, n: int) -> Tensor:
        array = check_candidates(candidates, n, self.scaling_.n_actions, self.horizon, self.treatment)
        device = next(self.network_.parameters()).device
        return torch.as_tensor(array, dtype=torch.float32, device=device)

    def plan(
        self,
        outcomes: ArrayLike,
        actions: ArrayLike,
        target: ArrayLike,
        *,
        horizon: int | None = None,
        method: str = "gradient",
        n_iter: int = 100,
        restarts: int = 16,
        bounds: Any = (0, 1),
        cost: Any = None,
        receding: bool = False,
        covariates: ArrayLike | None = None,
        static: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Plan:
        """Search for the actions with the smallest score.

        Parameters
        ----------
        outcomes : array-like of shape (n, h + 1) or (n, h + 1, n_outcomes)
            Outcomes so far.
        actions : array-like of shape (n, h, n_actions)
            Actions so far.
        target : array-like of shape (n,) or (n, n_outcomes)
            Outcome wanted after the last planned action, in raw units.
        horizon : int, optional
            Number of actions to plan; that of the fit by default.
        method : {"gradient", "search"}, default="gradient"
            ``"gradient"`` descends with Adam (step 0.05) in the logits of the actions from `restarts` starts: the most
            likely actions where the model has a policy, one start near the middle, the rest uniform in the box.
            ``"search"`` scores the same starts and `restarts` times `n_iter` uniform draws. Binary actions are always
            searched: all of them if there are at most 4096 sequences, otherwise the best single flips from each start.
        n_iter : int, default=100
            Steps of the descent, rounds of the search, or flips.
        restarts : int, default=16
            Number of starts.
        bounds : pair, default=(0, 1)
            Lower and upper bound within [0, 1], each a number or one per action; not used for binary actions.
        cost : float, sequence of float or callable, optional
            Price of a unit of action, or of each action, added to the score; or a function of a tensor
            (m, n_steps, n_actions) that returns a tensor (m,).
        receding : bool, default=False
            Plan again after each action, as if the predicted next outcome had been seen and the covariates had stayed
            as they are.
        covariates : array-like of shape (n, h + 1, n_covariates), optional
            As in `fit`.
        static : array-like of shape (n, n_static), optional
            As in `fit`.
        mask : array-like of bool, shape (n, h + 1), optional
            As in `score`.

        Returns
        -------
        Plan
            Actions, score and predicted outcome.

        Raises
        ------
        ValueError
            If a shape or value doesn't fit.
        sklearn.exceptions.NotFittedError
            If the model isn't fitted.

        Warns
        -----
        UserWarning
            If a target lies outside the outcomes that the model predicts for the sequences from which the search starts
            and those it found.
        """
        records = self._records(outcomes, actions, covariates, static, mask)
        n = len(records.last)
        wanted = self._target(target, n)
        length = self.horizon if horizon is None else check_integer(horizon, "horizon", minimum=1, maximum=self.horizon)
        check_choice(method, "method", ("gradient", "search"))
        n_iter, restarts = planning.check_search(n_iter, restarts)
        low, high = (b.to(wanted.device) for b in planning.check_bounds(bounds, self.scaling_.n_actions))
        price = planning.cost_function(cost, self.scaling_.n_actions)
        if receding and not hasattr(self.network_, "after"):
            raise ValueError("receding=True needs a model that predicts outcomes")
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))

        def search(start: _Start, n_steps: int) -> Tensor:
            starts = self._starts(start, n_steps, restarts, low, high, generator)

            def score(proposed: Tensor) -> Tensor:
                return self._each(self.network_.scores, start, proposed, wanted) + price(proposed)

            if self.treatment == "binary":
                found = planning.by_flips(score, starts, n_iter)
            elif method == "search":
                found = planning.by_sampling(score, starts, low, high, n_iter, generator)
            else:
                found = planning.by_gradient(score, starts, low, high, n_iter)
            if n_steps == length:
                self._warn_out_of_reach(start, torch.cat([starts, found[None]]), wanted)
            return found

        start = self._start(records)
        if not receding:
            planned = search(start, length)
        else:
            done: list[Tensor] = []
            for left in range(length, 0, -1):
                planned = search(start, left)
                done.append(planned[:, 0])
                if left > 1:
                    with torch.no_grad():
                        ahead = self.network_.after(start.z0, start.now, planned[:, 0])
                    records = records.extended(_array(planned[:, 0]), self._raw(ahead))
                    start = self._start(records)
        with torch.no_grad():
            score = self._each(self.network_.scores, start, planned[None], wanted)[0]
            outcome = None
            if hasattr(self.network_, "outcome"):
                outcome = self._raw(self.network_.outcome(start.z0, start.now, planned))
        return Plan(_array(torch.stack(done, dim=1) if receding else planned), _array(score), outcome)

    def _starts(self, start: _Start, n_steps: int, restarts: int, low: Tensor, high: Tensor, generator: Any) -> Tensor:
        """Return (restarts, n, n_steps, n_actions): the policy's mode, a draw near the middle, the rest uniform."""
        n, n_actions = len(start.z0), self.scaling_.n_actions
        drawn = torch.rand((restarts, n, n_steps, n_actions), generator=generator).to(start.z0)
        if self.treatment == "binary":
            drawn = drawn.round()
        else:
            drawn[-1] = torch.sigmoid(drawn[-1])
            drawn = low + (high - low) * drawn
        mode = self._mode(start, n_steps)
        if mode is not None:
            drawn[0] = mode
        return drawn

    def _mode(self, start: _Start, n_steps: int) -> Tensor | None:
        return None

    def _warn_out_of_reach(self, start: _Start, proposed: Tensor, wanted: Tensor) -> None:
        if not hasattr(self.network_, "outcome"):
            return
        with torch.no_grad():
            ahead = self._each(lambda z, now, a, y: self.network_.outcome(z, now, a), start, proposed, wanted)
        slack = 0.1  # standard deviations of the outcome
        outside = ((wanted < ahead.amin(dim=0) - slack) | (wanted > ahead.amax(dim=0) + slack)).any(dim=1)
        if bool(outside.any()):
            warnings.warn(
                f"the target of {int(outside.sum())} of {len(outside)} person(s) lies outside the outcomes predicted "
                "for any plan tried; it may be out of reach",
                stacklevel=4,  # plan's caller
            )

    def _raw(self, outcomes: Tensor) -> Floats:
        return _array(outcomes) * self.outcome_scale_ + self.outcome_mean_


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().numpy().astype(np.float64)
