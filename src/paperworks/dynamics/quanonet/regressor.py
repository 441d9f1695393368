"""QuanONet as a scikit-learn regressor: rows are input functions at sensors, columns of the target are query points."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

from paperworks.dynamics.quanonet.network import QuanONet

__all__ = ["QuanONetRegressor"]

PAPER = {"lr": 1e-4, "batch_size": 100, "epochs": 1000, "points": 10}
"""The training of the official code: epochs over 10 random points of each function."""

_ROWS_AT_A_TIME = 4096
"""Predictions are made for so many pairs of a function and a basis state at a time."""


class Samples(NamedTuple):
    """Input functions, their outputs and the points of the outputs."""

    U: Tensor
    targets: Tensor
    points: Tensor

    def error(self, model: QuanONet, i: Tensor, j: Tensor) -> Tensor:
        """Return the mean squared error of functions i at points j."""
        return ((model(self.U[i], self.points[j]) - self.targets[i, j]) ** 2).mean()


class QuanONetRegressor(RegressorMixin, BaseEstimator):
    """Learn an operator from functions to functions with a `QuanONet`.

    Parameters
    ----------
    num_qubits : int, default 5
        Number of qubits.
    net_size : tuple of int, default (20, 2, 10, 2)
        Branch blocks, layers in each, trunk blocks, layers in each.
    trainable_frequency : bool, default True
        Learn the scale and shift of each encoding gate.
    scale : float, default 0.1
        The scales' initial value, or the constant.
    recipe : {"fast", "paper"}, default "fast"
        ``"fast"``: Adam with a one-cycle schedule, as `lr`, `steps` and `batch_size` say. ``"paper"``: Adam at 1e-4 for
        1000 epochs of batches of 100 over 10 random points of each function, the best epoch kept; `lr`, `steps` and
        `batch_size` are not used.
    lr : float, default 0.02
        Greatest step size of the schedule.
    steps : int, default 2000
        Number of gradient steps.
    batch_size : int, default 500
        Pairs of a function and a point in a step.
    random_state : int, RandomState instance or None, default None
        Seed of the initial parameters and the batches.
    device : str, default "cpu"
        Where to train.
    verbose : int, default 0
        0 is silent; otherwise the loss is printed every 100 steps or 10 epochs.

    Attributes
    ----------
    model_ : QuanONet
        The fitted network, in float32 where the data is, else float64.
    y_points_ : ndarray of shape (n_points, n_coordinates)
        Query points of the training targets.
    history_ : ndarray
        Mean squared error of each step, or of each epoch with ``recipe="paper"``.
    n_parameters_ : int
        Number of trainable parameters.
    n_features_in_ : int
        Number of sensors.

    References
    ----------
    R. Wang and others, "QuanONet: Quantum Neural Operator with Application to Differential Equation", ICML 2025.

    Examples
    --------
    >>> from paperworks.datasets import make_operator_data
    >>> from paperworks.dynamics import QuanONetRegressor
    >>> data = make_operator_data("Antideriv", n_functions=200, n_sensors=8, n_points=20, random_state=0)
    >>> model = QuanONetRegressor(2, (6, 2, 3, 2), lr=0.05, steps=300, batch_size=200, random_state=0)
    >>> model = model.fit(data.inputs[:150], data.targets[:150], data.points)
    >>> model.predict(data.inputs[150:]).shape
    (50, 20)
    >>> bool(model.score(data.inputs[150:], data.targets[150:]) > 0.5)
    True
    """

    def __init__(
        self,
        num_qubits: int = 5,
        net_size: tuple[int, int, int, int] = (20, 2, 10, 2),
        trainable_frequency: bool = True,
        scale: float = 0.1,
        recipe: str = "fast",
        lr: float = 0.02,
        steps: int = 2000,
        batch_size: int = 500,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.num_qubits = num_qubits
        self.net_size = net_size
        self.trainable_frequency = trainable_frequency
        self.scale = scale
        self.recipe = recipe
        self.lr = lr
        self.steps = steps
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # outputs lie within the spectrum of the observable
        return tags

    def fit(self, U: ArrayLike, Y: ArrayLike, y_points: ArrayLike | None = None) -> Self:
        """Train on functions whose outputs are known at shared points.

        Parameters
        ----------
        U : array-like of shape (n_functions, n_sensors)
            Input functions at the sensors.
        Y : array-like of shape (n_functions, n_points) or (n_functions,)
            Output functions at the query points.
        y_points : array-like of shape (n_points, n_coordinates) or (n_points,), optional
            The query points; by default evenly spaced over [0, 1].

        Returns
        -------
        QuanONetRegressor
            The fitted regressor.

        Raises
        ------
        ValueError
            If an argument is out of range, shapes do not fit, or values are not finite.

        Warns
        -----
        UserWarning
            If targets lie outside the spectrum of the observable, [-5, 5], which the model reaches only by its bias.
        """
        inputs, targets = validate_data(self, U, Y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        check_choice(self.recipe, "recipe", ("fast", "paper"))
        steps = check_integer(self.steps, "steps", minimum=1)
        batch_size = check_integer(self.batch_size, "batch_size", minimum=1)
        lr = check_positive(self.lr, "lr")
        check_integer(self.verbose, "verbose", minimum=0)
        flat = targets.ndim == 1
        targets = targets.reshape(len(inputs), -1).astype(inputs.dtype)
        if y_points is None:
            points = np.linspace(0.0, 1.0, targets.shape[1])[:, None] if targets.shape[1] > 1 else np.zeros((1, 1))
        else:
            points = _points(y_points)
        if len(points) != targets.shape[1]:
            raise ValueError(
                f"y_points must have a row for each of the {targets.shape[1]} columns of Y, got {len(points)} rows"
            )
        rng = check_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(rng.randint(2**31)))
        dtype = torch.float32 if inputs.dtype == np.float32 else torch.float64
        model = QuanONet(
            inputs.shape[1],
            points.shape[1],
            num_qubits=self.num_qubits,
            net_size=self.net_size,
            trainable_frequency=self.trainable_frequency,
            scale=self.scale,
            dtype=dtype,
            generator=generator,
        ).to(self.device)
        low, high = model.observable.spectrum
        outside = np.count_nonzero((targets < low) | (targets > high))
        if outside:
            warnings.warn(
                f"{outside} of {targets.size} targets lie outside [{low:g}, {high:g}], the spectrum of the observable: "
                "scale Y, or expect a poor fit",
                UserWarning,
                stacklevel=2,
            )
        data = Samples(*(torch.as_tensor(a, dtype=dtype, device=self.device) for a in (inputs, targets, points)))
        if self.recipe == "fast":
            history = self._fast(model, data, generator, lr, steps, batch_size)
        else:
            history = self._paper(model, data, generator)
        if not np.isfinite(history).all():
            raise ValueError(f"training diverged with lr={self.lr!r}: take a smaller one")
        self.model_, self.history_, self._flat = model.requires_grad_(False), history, flat
        self.n_parameters_ = sum(p.numel() for p in model.parameters())
        self.y_points_ = points
        return self

    def _fast(
        self,
        model: QuanONet,
        data: Samples,
        generator: torch.Generator,
        lr: float,
        steps: int,
        batch_size: int,
    ) -> NDArray[np.float64]:
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps + 1)
        history = np.empty(steps)
        for step in range(steps):
            rows = torch.randint(len(data.U), (batch_size,), generator=generator)
            columns = torch.randint(len(data.points), (batch_size,), generator=generator)
            loss = data.error(model, rows, columns)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            history[step] = loss.detach()
            if self.verbose and (step + 1) % 100 == 0:
                print(f"step {step + 1} of {steps}: mean squared error {history[step]:.4g}")
        return history

    def _paper(self, model: QuanONet, data: Samples, generator: torch.Generator) -> NDArray[np.float64]:
        optimizer = torch.optim.Adam(model.parameters(), lr=PAPER["lr"])
        size, epochs = int(PAPER["batch_size"]), int(PAPER["epochs"])
        per_function = min(int(PAPER["points"]), len(data.points))
        order = torch.rand(len(data.U), len(data.points), generator=generator).argsort(dim=1)[:, :per_function]
        rows = torch.arange(len(data.U)).repeat_interleave(per_function)
        columns = order.reshape(-1)
        history = np.empty(epochs)
        best, kept = np.inf, None
        for epoch in range(epochs):
            total = 0.0
            for batch in torch.randperm(len(rows), generator=generator).split(size):
                i, j = rows[batch], columns[batch]
                loss = data.error(model, i, j)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(batch)
            history[epoch] = total / len(rows)
            if history[epoch] < best:
                best, kept = history[epoch], {k: v.detach().clone() for k, v in model.state_dict().items()}
            if self.verbose and (epoch + 1) % 10 == 0:
                print(f"epoch {epoch + 1} of {epochs}: mean squared error {history[epoch]:.4g}")
        if kept is not None:
            model.load_state_dict(kept)
        return history

    def predict(self, U: ArrayLike, y_points: ArrayLike | None = None) -> NDArray[np.floating]:
        """Return output functions at points.

        Parameters
        ----------
        U : array-like of shape (n_functions, n_sensors)
            Input functions at the sensors.
        y_points : array-like of shape (n_points, n_coordinates) or (n_points,), optional
            Query points; by default those of `fit`.

        Returns
        -------
        ndarray of shape (n_functions, n_points)
            Values; (n_functions,) if `fit` got a one-dimensional target and `y_points` is None.

        Raises
        ------
        ValueError
            If shapes do not fit or values are not finite.
        """
        check_is_fitted(self)
        inputs = validate_data(self, U, dtype=[np.float64, np.float32], reset=False)
        points = self.y_points_ if y_points is None else _points(y_points)
        if points.shape[1] != self.model_.trunk_size:
            raise ValueError(f"y_points must have {self.model_.trunk_size} columns as in fit, got shape {points.shape}")
        rows = max(1, _ROWS_AT_A_TIME // min(len(points), 2**self.model_.num_qubits))
        like = self.model_.ansatz
        queries = torch.as_tensor(points, dtype=like.dtype, device=like.device)
        with torch.no_grad():
            parts = [
                self.model_.forward_grid(torch.as_tensor(inputs[i : i + rows], dtype=like.dtype), queries).cpu().numpy()
                for i in range(0, len(inputs), rows)
            ]
        out = np.concatenate(parts)
        return out[:, 0] if self._flat and y_points is None else out


def _points(value: ArrayLike) -> NDArray[np.float64]:
    points = check_finite_array(value, "y_points")
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or points.shape[0] == 0:
        raise ValueError(f"y_points must have the shape (points, coordinates), got {points.shape}")
    return points
