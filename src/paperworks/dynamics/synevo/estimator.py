"""`SynEVO`: one spatiotemporal model that grows over domains, and refuses those that are unrelated."""

from __future__ import annotations

import copy
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_integer, check_positive, extra
from paperworks.dynamics.synevo import keeping
from paperworks.dynamics.synevo.backbone import GraphWaveNet, check_adjacency
from paperworks.dynamics.synevo.curriculum import curriculum_order, elastic_factors
from paperworks.dynamics.synevo.gate import domain_distance, synapse_gate, train_extractor
from paperworks.dynamics.synevo.series import (
    Scaler,
    Series,
    Windows,
    at_same_times,
    check_series,
    errors,
    gate_windows,
    read_domain,
    read_domains,
)
from paperworks.dynamics.synevo.training import converge, full_gradient, set_dropout, train_epoch

with extra("torch"):
    import torch
    from torch import Tensor, nn

__all__ = ["SynEVO"]

Floats = NDArray[np.float64]

STATIC_DROPOUT, STATIC_DECAY = 0.1, 0.001
"""Regularisation of all domains where `elastic` is False: the paper's ablation."""

_MARGIN_STEPS = 10
"""A domain has at least so many windows."""

_PREDICT_BATCH = 256


class SynEVO(BaseEstimator):
    """Forecast several related sources on the same nodes with one model that grows from domain to domain.

    Domains are learnt from easy to hard, each with the dropout and weight decay that its distance from the easiest one
    asks for. A new domain that resembles a known one is added to the shared model; another gets a model of its own and
    leaves the shared one untouched.

    Parameters
    ----------
    backbone : {"graph_wavenet"} or callable, default "graph_wavenet"
        The shared model: `GraphWaveNet`, or ``backbone(num_nodes, in_dim, horizon, adjacency)`` that returns a module
        from windows (B, W, N, F) to forecasts (B, horizon, N). Dropout is set on all its dropout modules.
    window, horizon : int, default 12
        Steps of the past and of the future.
    p0 : float, default 0.5
        Base dropout, in (0, 1].
    lambda0 : float, default 0.05
        Base weight decay of Adam, in (0, 1).
    kappa : "auto" or float, default "auto"
        Distance below which a new domain is related. ``"auto"`` is 1.5 times the greatest distance of a trained domain
        to its nearest one, between 0.5 and 1.5 where `gate_space` is ``"raw"``.
    margin : float, default 1.0
        Distance that the embedding wants between different domains.
    embed_dim : int, default 16
        Length of the embedding of a window; at most window times features.
    cycles : int, default 2
        Rounds through the domains.
    epochs : int, default 10
        Epochs per domain and round.
    lr : float, default 1e-3
        Step size of Adam in the container.
    curriculum_lr, curriculum_weight_decay : float, default 0.01 and 1e-3
        Adam of the models from whose gradients the order comes.
    batch_size : int, default 64
        Windows in a step.
    gate_space : {"raw", "embedding"}, default "raw"
        Where distances are taken: ``"raw"`` on z-scored windows, 2 (1 - correlation); ``"embedding"`` on their learnt
        projections.
    reorder : {"easy_first", "hard_first", "random"} or None, default "easy_first"
        Order of the domains; None keeps that of the mapping.
    elastic : bool, default True
        Regularise by the curriculum; else dropout 0.1 and weight decay 0.001 for all.
    gate : bool, default True
        Ask whether a new domain is related; else all join.
    elastic_scale : {"relative", "raw"}, default "relative"
        Unit of the curriculum's lengths; see `elastic_factors`.
    loss : {"mae", "mse"}, default "mae"
        Training loss on z-scored targets; missing ones are left out.
    window_stride : int, default 1
        Steps between training windows. If it divides a day, or shares a factor with it, training sees few hours of it.
    device : str, default "auto"
        ``"auto"`` takes a GPU where there is one.
    random_state : int, RandomState instance or None, default None
        Seed of weights, batches, dropout and a random order.
    verbose : int, default 0
        0 is silent; otherwise the order, the gate and each epoch are told.
    callback : callable, optional
        ``callback(domain, cycle, epoch, model, optimizer, loss)`` after every epoch of the container.

    Attributes
    ----------
    order_ : list of str
        Domains in the order of training; accepted ones are appended.
    bench_ : str or None
        The easiest domain; None where neither `reorder` nor `elastic` needs the curriculum.
    gradient_sums_, lengths_ : dict
        Squared norm of the gradient, and distance to that of the bench, by domain.
    d_max_ : float
        Greatest length.
    dropout_, weight_decay_ : dict
        Regularisation by domain.
    embeddings_ : dict
        Embedded windows (windows, nodes, embed_dim) by domain.
    distances_ : DataFrame
        Distances between domains, refused ones included.
    kappa_ : float or None
        Threshold of the gate; None where there is no gate.
    gate_ : dict
        Whether an adapted domain joined, by name.
    model_ : torch.nn.Module
        The container.
    branches_ : dict
        Models of refused domains.
    history_ : list of dict
        Domain, cycle, epoch and loss of all training.

    References
    ----------
    J. Liu, Z. Yi, Z. Zhou, Q. Huang, K. Yang, X. Wang, Y. Wang, "SynEVO: A neuro-inspired spatiotemporal evolutional
    framework for cross-domain adaptation", ICML 2025. Adam's weight decay is half of the penalty in equation 15.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.dynamics import GraphWaveNet, SynEVO
    >>> def small(num_nodes, in_dim, horizon, adjacency):
    ...     return GraphWaveNet(num_nodes, in_dim, horizon, adjacency, channels=4, blocks=1, skip=8, end=8)
    >>> rng = np.random.default_rng(0)
    >>> base = np.sin(np.arange(200)[:, None] / 4 + np.arange(3))
    >>> north, south = (base + 0.1 * rng.normal(size=base.shape) for _ in range(2))
    >>> model = SynEVO(small, window=6, horizon=3, epochs=2, cycles=1, random_state=0)
    >>> model = model.fit({"north": north, "south": south})
    >>> model.predict(north[None, -6:], "north").shape
    (1, 3, 3)
    >>> model = model.adapt("noise", rng.normal(size=(200, 3)), epochs=1)
    >>> model.gate_
    {'noise': False}
    """

    model_: nn.Module
    order_: list[str]
    d_max_: float
    distances_: pd.DataFrame

    def __init__(
        self,
        backbone: str | Callable[..., nn.Module] = "graph_wavenet",
        *,
        window: int = 12,
        horizon: int = 12,
        p0: float = 0.5,
        lambda0: float = 0.05,
        kappa: str | float = "auto",
        margin: float = 1.0,
        embed_dim: int = 16,
        cycles: int = 2,
        epochs: int = 10,
        lr: float = 1e-3,
        curriculum_lr: float = 0.01,
        curriculum_weight_decay: float = 1e-3,
        batch_size: int = 64,
        gate_space: str = "raw",
        reorder: str | None = "easy_first",
        elastic: bool = True,
        gate: bool = True,
        elastic_scale: str = "relative",
        loss: str = "mae",
        window_stride: int = 1,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
    ) -> None:
        self.backbone = backbone
        self.window = window
        self.horizon = horizon
        self.p0 = p0
        self.lambda0 = lambda0
        self.kappa = kappa
        self.margin = margin
        self.embed_dim = embed_dim
        self.cycles = cycles
        self.epochs = epochs
        self.lr = lr
        self.curriculum_lr = curriculum_lr
        self.curriculum_weight_decay = curriculum_weight_decay
        self.batch_size = batch_size
        self.gate_space = gate_space
        self.reorder = reorder
        self.elastic = elastic
        self.gate = gate
        self.elastic_scale = elastic_scale
        self.loss = loss
        self.window_stride = window_stride
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags._skip_test = True  # a mapping of series is not the array that the common checks pass
        return tags

    # Training

    def fit(self, domains: Mapping[str, Any], adjacency: Any = None) -> Self:
        """Train on several domains.

        Parameters
        ----------
        domains : mapping of str to array-like of shape (T, N) or (T, N, F)
            Series by name, evenly spaced in time, as arrays, data frames (time by nodes) or xarray. NaN is missing. The
            first feature is forecast. All of them are training data.
        adjacency : array-like of shape (N, N), optional
            Non-negative weights of the graph's edges.

        Returns
        -------
        SynEVO
            The fitted model.

        Raises
        ------
        ValueError
            If a parameter is out of range, a series is too short or has a node without values, or nodes and features
            differ.
        TypeError
            If `domains` is not a mapping or holds other than numbers.

        Warns
        -----
        UserWarning
            If a domain is constant at a node, or the backbone has no dropout to set.
        """
        self._check_parameters()
        arrays = read_domains(domains, self.window + self.horizon + _MARGIN_STEPS)
        _, n_nodes, n_features = next(iter(arrays.values())).shape
        if self.kappa == "auto" and self.gate and self.gate_space == "embedding" and len(arrays) == 1:
            raise ValueError("kappa must be a number where gate_space is 'embedding' and one domain is given")
        adjacency = check_adjacency(adjacency, n_nodes)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        device = self._device()
        scalers = {name: Scaler.of(array, name) for name, array in arrays.items()}
        with _seeded(seed):
            start = self._new_model(n_nodes, n_features, adjacency).to(device)
        series = {name: self._series(array, scalers[name], device) for name, array in arrays.items()}
        state: dict[str, Any] = {"n_nodes_": n_nodes, "n_features_": n_features, "adjacency_": adjacency}
        state |= self._curriculum(start, series, seed)
        if self.reorder == "random":
            state["order_"] = [list(arrays)[k] for k in rng.permutation(len(arrays))]
        if self.verbose:
            print(f"order: {', '.join(state['order_'])}; bench: {state['bench_']}")
        gate_arrays = {name: gate_windows(a, scalers[name], self.window) for name, a in arrays.items()}
        with _seeded(seed):
            state |= self._gate_state(gate_arrays, seed)
        state["history_"], model = [], copy.deepcopy(start)
        if not set_dropout(model, 0.0):
            warnings.warn("the backbone has no dropout module: p0 has no effect", UserWarning, stacklevel=2)
        with _seeded(seed + 1):
            for cycle in range(self.cycles):
                for name in state["order_"]:
                    factors = state["dropout_"][name], state["weight_decay_"][name]
                    state["history_"] += self._grow(model, series[name], name, cycle, self.epochs, *factors)
        state |= {"model_": model.eval(), "branches_": {}, "gate_": {}, "scalers_": scalers, "seed_": seed}
        for name, value in state.items():
            setattr(self, name, value)
        return self

    def _curriculum(self, start: nn.Module, series: Mapping[str, Series], seed: int) -> dict[str, Any]:
        """Train a copy of the model on each domain; return order, lengths and factors (equations 5 to 11)."""
        names = list(series)
        static = {"dropout_": dict.fromkeys(names, STATIC_DROPOUT), "weight_decay_": dict.fromkeys(names, STATIC_DECAY)}
        if not self.elastic and self.reorder not in ("easy_first", "hard_first"):
            empty: dict[str, Any] = {
                "bench_": None,
                "bench_gradient_": None,
                "gradient_sums_": {},
                "lengths_": {},
                "d_max_": 0.0,
            }
            return {"order_": names, **empty, **static}
        gradients = {}
        for name in names:
            with _seeded(seed + 2):
                model = copy.deepcopy(start)
                converge(
                    model, series[name], self.curriculum_lr, self.curriculum_weight_decay, self.batch_size, self.loss
                )
            gradients[name] = full_gradient(model, series[name], self.batch_size, self.loss)
        order, lengths, bench = curriculum_order(gradients)
        d_max = max(lengths.values())
        factors = static
        if self.elastic:
            dropout, decay = elastic_factors(lengths, self.p0, self.lambda0, d_max, self.elastic_scale)
            factors = {"dropout_": dropout, "weight_decay_": decay}
        orders = {"easy_first": order, "hard_first": order[::-1]}
        return {
            "order_": orders.get(str(self.reorder), names),
            "bench_": bench,
            "bench_gradient_": np.concatenate([part.ravel() for part in gradients[bench]]),
            "gradient_sums_": {n: float(sum(np.sum(p.astype(float) ** 2) for p in g)) for n, g in gradients.items()},
            "lengths_": lengths,
            "d_max_": d_max,
            **factors,
        }

    def _gate_state(self, windows: dict[str, Windows], seed: int) -> dict[str, Any]:
        """Learn the extractor; return it with embeddings, distances between domains and the threshold."""
        extractor = self._extractor(windows, seed)
        names = list(windows)
        apart = np.zeros((len(names), len(names)))
        for i, j in itertools.combinations(range(len(names)), 2):
            distance = self._distance(windows[names[i]], windows[names[j]], extractor)
            apart[i, j] = apart[j, i] = np.nan if distance is None else distance
        distances = pd.DataFrame(apart, index=names, columns=names)
        return {
            "extractors_": {"container": extractor},
            "windows_": windows,
            "embeddings_": {name: w.values @ extractor.numpy().T for name, w in windows.items()},
            "distances_": distances,
            "kappa_": self._threshold(distances) if self.gate else None,
        }

    def _extractor(self, windows: dict[str, Windows], seed: int, start: Tensor | None = None) -> Tensor:
        stacked = torch.as_tensor(np.stack(at_same_times(list(windows.values()))), dtype=torch.float32)
        dim = min(self.embed_dim, stacked.shape[-1])
        return train_extractor(stacked, dim, self.margin, torch.Generator().manual_seed(seed), start)

    def _distance(self, a: Windows, b: Windows, extractor: Tensor) -> float | None:
        """Return the distance of two domains over windows of the same times, None without any."""
        one, other = at_same_times([a, b])
        if not len(one):
            return None
        if self.gate_space == "embedding":
            projection = extractor.numpy().astype(float).T
            one, other = one @ projection, other @ projection
        return domain_distance(one, other)

    def _threshold(self, distances: pd.DataFrame) -> float:
        if self.kappa != "auto":
            return float(self.kappa)
        if len(distances) == 1:
            return 1.5
        apart = distances.to_numpy() + np.diag(np.full(len(distances), np.inf))
        kappa = 1.5 * float(np.nanmax(np.nanmin(apart, axis=1)))
        return min(max(kappa, 0.5), 1.5) if self.gate_space == "raw" else kappa

    def _grow(
        self, model: nn.Module, data: Series, name: str, cycle: int, epochs: int, dropout: float, decay: float
    ) -> list[dict[str, Any]]:
        """Train a model on a domain; return the history."""
        set_dropout(model, dropout)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.lr, weight_decay=decay)
        history = []
        for epoch in range(epochs):
            value = train_epoch(model, data, optimizer, self.batch_size, self.loss)
            if not math.isfinite(value):
                raise ValueError(f"training on domain {name!r} diverged with lr={self.lr!r}: take a smaller one")
            history.append({"domain": name, "cycle": cycle, "epoch": epoch, "loss": value})
            if self.verbose:
                print(f"{name}, cycle {cycle + 1}, epoch {epoch + 1} of {epochs}: loss {value:.4f}")
            if self.callback is not None:
                self.callback(name, cycle, epoch, model, optimizer, value)
        model.eval()
        return history

    def adapt(self, name: str, X: Any, *, few_shot: int | None = None, epochs: int | None = None) -> Self:
        """Add a new domain: to the shared model if it resembles a known one, else as a model of its own.

        The gate compares windows of the same times. Series that end at the same time as those of `fit` are aligned,
        whatever their lengths.

        Parameters
        ----------
        name : str
            Name of the domain.
        X : array-like of shape (T, N) or (T, N, F)
            Its history.
        few_shot : int, optional
            Use only the first so many windows, for the scaler, the gate and training.
        epochs : int, optional
            Epochs of training; 0 trains nothing (zero-shot). By default `epochs` of the estimator.

        Returns
        -------
        SynEVO
            The model itself.

        Raises
        ------
        ValueError
            If the name is known, or the series does not fit.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.

        Warns
        -----
        UserWarning
            If an unrelated domain gets an untrained model, because `epochs` is 0.
        """
        check_is_fitted(self)
        self._check_parameters()
        if name in self.scalers_:
            raise ValueError(f"name must be new, {name!r} is known")
        epochs = self.epochs if epochs is None else check_integer(epochs, "epochs", minimum=0)
        array = read_domain(X, name)
        if array.shape[1:] != (self.n_nodes_, self.n_features_):
            raise ValueError(
                f"domain {name!r} must have the nodes and features {(self.n_nodes_, self.n_features_)}, got "
                f"{array.shape[1:]}"
            )
        length = len(array)
        used = self.window + self.horizon + _MARGIN_STEPS
        if few_shot is not None:
            beyond_first = check_integer(few_shot, "few_shot", minimum=1) - 1
            used = self.window + self.horizon + beyond_first * self.window_stride
            if length < used:
                raise ValueError(f"few_shot={few_shot} needs {used} time steps of domain {name!r}, got {length}")
            array = array[:used]
        check_series(array, name, used)
        scaler = Scaler.of(array, name)
        windows = gate_windows(array, scaler, self.window, length)
        shared = self.extractors_["container"]
        found = {known: self._distance(windows, self.windows_[known], shared) for known in self.order_}
        distances = {known: distance for known, distance in found.items() if distance is not None}
        if self.kappa_ is not None and not distances:
            raise ValueError(f"domain {name!r} has no window at the time of a known domain: give a longer history")
        related = self.kappa_ is None or synapse_gate(distances, self.kappa_)
        if self.verbose:
            nearest = min(distances, key=lambda known: distances[known], default="none")
            print(f"{name}: nearest is {nearest}, {'joins the container' if related else 'gets a branch'}")
        data = self._series(array, scaler, self._device())
        seed = self.seed_ + 3 + len(self.scalers_)
        with _seeded(seed):
            if related:
                self._join(name, data, epochs)
            else:
                self._branch(name, data, epochs, windows, seed)
        self.scalers_[name], self.gate_[name] = scaler, related
        head = self.extractors_.get(name, shared)
        self.embeddings_[name] = windows.values @ head.numpy().T
        if related:
            self.windows_[name] = windows
        names = [*self.distances_.index, name]
        self.distances_ = self.distances_.reindex(index=names, columns=names)
        for known, distance in (distances | {name: 0.0}).items():
            self.distances_.at[name, known] = self.distances_.at[known, name] = distance
        return self

    def _join(self, name: str, data: Series, epochs: int) -> None:
        model = copy.deepcopy(self.model_)
        dropout, decay = STATIC_DROPOUT, STATIC_DECAY
        length, d_max = None, self.d_max_
        if self.bench_gradient_ is not None:
            flat = np.concatenate([p.ravel() for p in full_gradient(model, data, self.batch_size, self.loss)])
            length = float(np.linalg.norm(flat.astype(float) - self.bench_gradient_))
            d_max = max(d_max, length)
            if self.elastic:
                factors = elastic_factors({name: length}, self.p0, self.lambda0, d_max, self.elastic_scale)
                dropout, decay = (part[name] for part in factors)
        history = self._grow(model, data, name, self.cycles, epochs, dropout, decay)
        self.model_ = model.eval()
        self.history_ += history
        self.order_ = [*self.order_, name]
        self.d_max_ = d_max
        self.dropout_[name], self.weight_decay_[name] = dropout, decay
        if length is not None:
            self.lengths_[name] = length

    def _branch(self, name: str, data: Series, epochs: int, windows: Windows, seed: int) -> None:
        model = self._new_model(self.n_nodes_, self.n_features_, self.adjacency_).to(data.inputs.device)
        if epochs == 0:
            warnings.warn(
                f"domain {name!r} is unrelated to the known ones, and with epochs=0 its own model is untrained",
                UserWarning,
                stacklevel=3,
            )
        history = self._grow(model, data, name, 0, epochs, 0.0, 0.0)
        # The head for the new domain goes on from the shared one, which stays as it is.
        known = {other: self.windows_[other] for other in self.order_}
        head = self._extractor(known | {name: windows}, seed, self.extractors_["container"])
        self.branches_[name], self.extractors_[name] = model.eval(), head
        self.history_ += history

    # Prediction

    def predict(self, X_window: Any, domain: str | None = None) -> Floats:
        """Forecast the steps after windows.

        Parameters
        ----------
        X_window : array-like of shape (B, window, N) or (B, window, N, F)
            Windows of the past in original units; gaps are filled by the last value.
        domain : str, optional
            Which domain they are of; by default the one whose means are nearest.

        Returns
        -------
        ndarray of shape (B, horizon, N)
            Forecasts of the first feature in original units.

        Raises
        ------
        KeyError
            If the domain is not known.
        ValueError
            If the windows have another shape.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        windows = read_domain(X_window, "X_window", ndim=4)
        if windows.shape[1:] != (self.window, self.n_nodes_, self.n_features_):
            expected = f"(B, {self.window}, {self.n_nodes_}, {self.n_features_})"
            raise ValueError(f"X_window must have the shape {expected}, got {windows.shape}")
        name = self._nearest(windows.reshape(-1, *windows.shape[2:])) if domain is None else self._known(domain)
        scaler = self.scalers_[name]
        return self._forecasts(name, scaler.filled(windows))

    def _forecasts(self, name: str, z: Floats) -> Floats:
        model = self.branches_.get(name, self.model_)
        device = next(model.parameters()).device
        with torch.no_grad():
            parts = [
                model(torch.as_tensor(z[i : i + _PREDICT_BATCH], dtype=torch.float32, device=device)).cpu().numpy()
                for i in range(0, len(z), _PREDICT_BATCH)
            ]
        shape = (0, self.horizon, self.n_nodes_)
        return self.scalers_[name].restore(np.concatenate(parts or [np.empty(shape)]).astype(float))

    def _known(self, domain: str) -> str:
        if domain not in self.scalers_:
            raise KeyError(f"domain {domain!r} is not known; known are {', '.join(self.scalers_)}")
        return domain

    def _nearest(self, rows: Floats) -> str:
        """Return the known domain whose means are nearest, in its standard deviations."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a node without a value in these windows
            mean = np.nanmean(rows, axis=0)
        if np.isnan(mean).all():
            raise ValueError("X_window must hold at least one value where no domain is given")
        gaps = {n: float(np.nanmean(((mean - s.mean) / s.std) ** 2)) for n, s in self.scalers_.items()}
        return min(gaps, key=lambda n: gaps[n])

    def score(self, X: Any, domain: str | None = None, metric: str = "mae") -> float:
        """Return minus the error over all windows of a series.

        Parameters
        ----------
        X : array-like of shape (T, N) or (T, N, F)
            The series in original units.
        domain : str, optional
            Which domain it is of; by default the one whose means are nearest.
        metric : {"mae", "rmse", "mape"}, default "mae"
            Mean absolute, root mean squared, or mean absolute percentage error (a share). Missing targets are left out;
            zeros count, but not in the percentage.

        Returns
        -------
        float
            Minus the error, so that larger is better.

        Raises
        ------
        KeyError
            If the domain is not known.
        ValueError
            If the series is too short or has another shape.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_choice(metric, "metric", ("mae", "rmse", "mape"))
        return -self._errors(X, domain)[metric]

    def _errors(self, X: Any, domain: str | None) -> dict[str, float]:
        check_is_fitted(self)
        array = read_domain(X, "X" if domain is None else domain)
        if array.shape[1:] != (self.n_nodes_, self.n_features_):
            raise ValueError(
                f"X must have nodes and features {(self.n_nodes_, self.n_features_)}, got {array.shape[1:]}"
            )
        if len(array) < self.window + self.horizon:
            raise ValueError(f"X must have at least {self.window + self.horizon} time steps, got {len(array)}")
        name = self._nearest(array) if domain is None else self._known(domain)
        z = self.scalers_[name].filled(array)
        starts = np.arange(len(array) - self.window - self.horizon + 1)[:, None]
        found = self._forecasts(name, z[starts + np.arange(self.window)])
        truth = array[starts + np.arange(self.window, self.window + self.horizon), :, 0]
        return errors(found, truth, self.scalers_[name].std[:, 0])

    def evaluate(self, domains: Mapping[str, Any]) -> pd.DataFrame:
        """Return the errors of several series.

        Parameters
        ----------
        domains : mapping of str to array-like
            Series by the name of their domain.

        Returns
        -------
        DataFrame
            A row for each domain; columns ``mae``, ``rmse`` and ``mape``, positive.

        Raises
        ------
        KeyError
            If a domain is not known.
        ValueError
            If a series is too short or has another shape.
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        return pd.DataFrame({name: self._errors(X, name) for name, X in domains.items()}).T

    # Keeping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file of tensors and plain values.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        """
        check_is_fitted(self)
        keeping.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: str | Callable[..., nn.Module] = "graph_wavenet") -> Self:
        """Read what `save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : str or path-like
            The file.
        backbone : {"graph_wavenet"} or callable, default "graph_wavenet"
            The backbone, if the model was made with one of its own.

        Returns
        -------
        SynEVO
            The fitted model.

        Raises
        ------
        ValueError
            If the model has a backbone of its own and none is given.
        """
        content = keeping.read(path)
        if content["own_backbone"] and isinstance(backbone, str):
            raise ValueError("backbone must be given: the saved model was made with one of its own")
        self = cls(backbone, **content["params"])
        keeping.restore(self, content)

        def made(state: dict[str, Tensor]) -> nn.Module:
            with _seeded(0):
                model = self._new_model(self.n_nodes_, self.n_features_, self.adjacency_)
            model.load_state_dict(state)
            return model.to(self._device()).eval()

        self.model_ = made(content["model"])
        self.branches_ = {name: made(state) for name, state in content["branches"].items()}
        return self

    # Parts

    def _check_parameters(self) -> None:
        for name in ("window", "horizon", "embed_dim", "cycles", "batch_size", "window_stride"):
            check_integer(getattr(self, name), name, minimum=1)
        check_integer(self.epochs, "epochs", minimum=0)
        if not isinstance(self.verbose, bool):
            check_integer(self.verbose, "verbose", minimum=0)
        for name in ("margin", "lr", "curriculum_lr"):
            check_positive(getattr(self, name), name)
        check_positive(self.curriculum_weight_decay, "curriculum_weight_decay", zero_ok=True)
        elastic_factors({}, self.p0, self.lambda0, 0.0, self.elastic_scale)
        if self.kappa != "auto":
            check_positive(self.kappa, "kappa")
        check_choice(self.gate_space, "gate_space", ("raw", "embedding"))
        check_choice(self.loss, "loss", ("mae", "mse"))
        if self.reorder is not None:
            check_choice(self.reorder, "reorder", ("easy_first", "hard_first", "random"))
        if not callable(self.backbone):
            check_choice(self.backbone, "backbone", ("graph_wavenet",))

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    def _new_model(self, n_nodes: int, n_features: int, adjacency: Floats | None) -> nn.Module:
        if callable(self.backbone):
            return self.backbone(n_nodes, n_features, self.horizon, adjacency)
        return GraphWaveNet(n_nodes, n_features, self.horizon, adjacency)

    def _series(self, array: Floats, scaler: Scaler, device: torch.device) -> Series:
        return Series(array, scaler, self.window, self.horizon, self.window_stride, device)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw from torch's global stream, which dropout uses, with a seed of one's own, and put it back."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed % 2**32)
        yield
