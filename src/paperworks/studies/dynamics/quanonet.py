"""Do trainable frequencies make a quantum circuit a better operator network, and how far is it from a small DeepONet?

Every network gets the same functions, the same number of steps and batches, and a one-cycle schedule. The circuits are
trained at one learning rate. The DeepONet, whose best rate is not known beforehand, gets the best of three, judged on a
fifth of the training functions; the ridge regression chooses its penalty by cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Figure, Metric, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SCALES_OF = {"tf": 0.1, "tf-s1": 1.0, "fixed": 0.1, "fixed-s1": 1.0, "tf-heaqnn": 0.1, "heaqnn": 0.1}
"""Initial or constant scale of the encoding, by circuit."""
RATES = (0.005, 0.02, 0.05)
"""Learning rates among which the DeepONet chooses."""


@lru_cache(maxsize=2)
def problem(dataset: str, seed: int, scale: str) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return training inputs and targets, test inputs and targets, and the query points."""
    from paperworks.datasets import make_operator_data

    settings = STUDY.scales[scale].settings
    n, test = settings["n_train"], settings["n_test"]
    made = make_operator_data(
        dataset, n + test, settings["n_sensors"], 100, random_state=rng_for("data", dataset, seed)
    )
    return made.inputs[:n], made.targets[:n], made.inputs[n:], made.targets[n:], made.points


def circuit(contender: str, settings: Mapping[str, Any], n_sensors: int, n_coordinates: int, seed: int) -> Any:
    """Return an untrained circuit; the baseline has as many blocks and parameters, and the output bias too."""
    import torch

    from paperworks.dynamics import HEAQNN, QuanONet

    trainable = contender.startswith("tf")
    options: dict[str, Any] = {
        "num_qubits": settings["num_qubits"],
        "trainable_frequency": trainable,
        "scale": SCALES_OF[contender],
        "generator": torch.Generator().manual_seed(seed_for("weights", seed)),
        "dtype": torch.float32,
    }
    b, b_layers, t, t_layers = settings["net_size_tf" if trainable else "net_size_fixed"]
    if "heaqnn" not in contender:
        return QuanONet(n_sensors, n_coordinates, net_size=(b, b_layers, t, t_layers), **options)
    return HEAQNN(n_sensors, n_coordinates, net_size=(b + t, b_layers), bias=True, **options)


def deeponet(n_sensors: int, n_coordinates: int, n_parameters: int, seed: int) -> Any:
    """Return a DeepONet with one hidden layer in each part, of about `n_parameters` parameters."""
    import torch
    from torch import nn

    def size(width: int) -> int:
        return (n_sensors + n_coordinates + 2) * width + 2 * (width + 1) * width + 1

    width = min(range(1, 400), key=lambda w: abs(size(w) - n_parameters))

    class DeepONet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch, self.trunk = (
                nn.Sequential(nn.Linear(k, width), nn.Tanh(), nn.Linear(width, width))
                for k in (n_sensors, n_coordinates)
            )
            self.bias = nn.Parameter(torch.zeros(()))

        def forward(self, u: Any, y: Any) -> Any:
            return (self.branch(u) * self.trunk(y)).sum(dim=-1) + self.bias

        def forward_grid(self, u: Any, y: Any) -> Any:
            return self.branch(u) @ self.trunk(y).mT + self.bias

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("weights", seed))
        return DeepONet()


def train(model: Any, data: tuple[Floats, Floats, Floats], lr: float, settings: Mapping[str, Any], seed: int) -> float:
    """Train on random pairs of a function and a point by Adam and a one-cycle schedule; return the seconds per step."""
    import time

    import torch

    U, targets, points = (torch.as_tensor(part, dtype=torch.float32) for part in data)
    generator = torch.Generator().manual_seed(seed_for("batches", seed))
    steps, size = settings["steps"], settings["batch_size"]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps + 1)
    begin = time.perf_counter()
    for _ in range(steps):
        i = torch.randint(len(U), (size,), generator=generator)
        j = torch.randint(len(points), (size,), generator=generator)
        loss = ((model(U[i], points[j]) - targets[i, j]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return (time.perf_counter() - begin) / steps


def on_grid(model: Any, U: Floats, points: Floats) -> Floats:
    """Return predictions of all functions at all points."""
    import torch

    u, y = (torch.as_tensor(part, dtype=torch.float32) for part in (U, points))
    with torch.no_grad():
        if hasattr(model, "forward_grid"):
            out = [model.forward_grid(part, y) for part in u.split(100)]
        else:
            out = [
                model(part.repeat_interleave(len(y), 0), y.repeat(len(part), 1)).view(-1, len(y))
                for part in u.split(100)
            ]
    return torch.cat(out).numpy().astype(float)


def relative_error(found: Floats, truth: Floats) -> float:
    """Return the norm of the difference over that of the truth."""
    import numpy as np

    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def ridge(data: tuple[Floats, Floats, Floats], U: Floats) -> tuple[Floats, int]:
    """Ridge regression on sensors times polynomials of the point, up to degree 5 in all coordinates together."""
    import numpy as np
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import PolynomialFeatures

    inputs, targets, points = data
    powers = PolynomialFeatures(5).fit_transform(points)
    # For each power of y a linear map of u: coefficients of the best polynomial of each function, then a regression.
    coefficients = np.linalg.lstsq(powers, targets.T, rcond=None)[0].T
    model = RidgeCV(np.logspace(-6, 3, 10)).fit(inputs, coefficients)
    return model.predict(U) @ powers.T, int(model.coef_.size + model.intercept_.size)


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Train one contender and return its errors on test functions."""
    import numpy as np

    settings = STUDY.scales[scale].settings
    U, targets, U_test, truth, points = problem(dataset, seed, scale)
    data = (U, targets, points)
    seconds = np.nan
    if contender == "ridge":
        found, n_parameters = ridge(data, U_test)
    else:
        if contender == "deeponet":
            size = sum(p.numel() for p in circuit("tf", settings, U.shape[1], points.shape[1], seed).parameters())
            kept = len(U) * 4 // 5
            scores = {}
            for rate in RATES:
                model = deeponet(U.shape[1], points.shape[1], size, seed)
                train(model, (U[:kept], targets[:kept], points), rate, settings, seed)
                scores[rate] = relative_error(on_grid(model, U[kept:], points), targets[kept:])
            lr = min(scores, key=lambda rate: scores[rate])
            model = deeponet(U.shape[1], points.shape[1], size, seed)
        else:
            lr = settings["lr"]
            model = circuit(contender, settings, U.shape[1], points.shape[1], seed)
        seconds = train(model, data, lr, settings, seed)
        n_parameters = sum(p.numel() for p in model.parameters())
        found = on_grid(model, U_test, points)
    return {
        "relative_l2": relative_error(found, truth),
        "mse": float(np.mean((found - truth) ** 2)),
        "parameters": float(n_parameters),
        "step_ms": 1000 * seconds,
    }


STUDY = Study(
    slug="quanonet",
    family="dynamics",
    paper=Paper(
        title="QuanONet: Quantum Neural Operator with Application to Differential Equation",
        authors="Ruocheng Wang and others",
        venue="ICML 2025",
        url="https://openreview.net/forum?id=gedP1zQzX4",
        code="https://github.com/Wang-Ruocheng/QuanONet",
    ),
    question="Can a small quantum circuit learn the solution operator of a differential equation, and should its "
    "encoding be trained?",
    datasets=("Antideriv", "Homogeneous", "Nonlinear", "RDiffusion", "Advection"),
    contenders=(
        Contender("tf", role="method", source="TF-QuanONet, frequencies start at 0.1"),
        Contender("tf-s1", role="ablation", source="TF-QuanONet, frequencies start at 1"),
        Contender("fixed", role="ablation", source="QuanONet, all frequencies 0.1"),
        Contender("fixed-s1", role="ablation", source="QuanONet, all frequencies 1"),
        Contender("tf-heaqnn", role="peer", source="one circuit on the joined input, trained frequencies, output bias"),
        Contender("heaqnn", role="peer", source="one circuit on the joined input, frequencies 0.1, output bias"),
        Contender("deeponet", role="peer", source="DeepONet of as many parameters, best of three learning rates"),
        Contender("ridge", role="peer", source="sklearn RidgeCV: sensors times polynomials of the point"),
    ),
    metrics=(
        Metric("relative_l2", better="lower", description="norm of the error / norm of the solution, test functions"),
        Metric("mse", better="lower", description="mean squared error on test functions"),
        Metric("parameters", better="lower", description="trained parameters"),
        Metric("step_ms", better="lower", unit="ms", description="time of one training step in this run"),
    ),
    claims=(
        Claim(
            "Trained frequencies give a lower test error than fixed ones",
            metric="relative_l2",
            subject="tf",
            against="fixed",
            kind="better",
        ),
        Claim(
            "TF-QuanONet has a lower test error than a plain circuit with trained frequencies",
            metric="relative_l2",
            subject="tf",
            against="tf-heaqnn",
            kind="better",
        ),
        Claim(
            "TF-QuanONet has a lower test error than a plain circuit with fixed frequencies",
            metric="relative_l2",
            subject="tf",
            against="heaqnn",
            kind="better",
        ),
        Claim(
            "Started at ten times the scale, trained frequencies still beat the best fixed ones",
            metric="relative_l2",
            subject="tf-s1",
            against="fixed",
            kind="better",
        ),
        Claim(
            "At the greater scale, trained frequencies beat fixed ones",
            metric="relative_l2",
            subject="tf-s1",
            against="fixed-s1",
            kind="better",
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=1,
            datasets=("Antideriv",),
            settings={
                "num_qubits": 2,
                "net_size_tf": (2, 1, 2, 1),
                "net_size_fixed": (2, 1, 2, 1),
                "n_sensors": 4,
                "n_train": 40,
                "n_test": 20,
                "steps": 20,
                "batch_size": 50,
                "lr": 0.05,
            },
        ),
        "quick": Scale(
            seeds=8,
            datasets=("Antideriv",),
            settings={
                "num_qubits": 3,
                "net_size_tf": (8, 2, 4, 2),
                "net_size_fixed": (8, 2, 4, 2),
                "n_sensors": 10,
                "n_train": 500,
                "n_test": 200,
                "steps": 200,
                "batch_size": 200,
                "lr": 0.05,
            },
        ),
        "paper": Scale(
            seeds=5,
            settings={
                "num_qubits": 5,
                "net_size_tf": (20, 2, 10, 2),
                "net_size_fixed": (20, 2, 20, 2),
                "n_sensors": 20,
                "n_train": 1000,
                "n_test": 1000,
                "steps": 100_000,
                "batch_size": 100,
                "lr": 1e-4,
            },
        ),
    },
    trial=trial,
    extras=("torch",),
    figures=(
        Figure(
            "relative_l2",
            "tf",
            "Antideriv",
            0.1192,
            "table of the official repository: 2 qubits, (5, 1, 5, 1), scale 0.001, 10 sensors",
        ),
    ),
    plots=(
        Plot("spread", "relative_l2", "Error on test functions, each seed a point"),
        Plot("tradeoff", "relative_l2", "Error against the time of a step", against="step_ms"),
    ),
    limits=(
        "Most of these operators are linear in the input function: a linear regression on the sensors comes close to "
        "the truth and beats every network at this size.",
        "A DeepONet of as many parameters is the better model, and a step of it costs a small part of a circuit's. The "
        "comparison at equal parameters favours circuits.",
        "Small fixed frequencies make the circuit almost linear in the input function, hence both scales.",
        "The paper's tables could not be read; the figure is that of the official repository, for a smaller circuit "
        "trained for 1000 epochs.",
        "Circuits are simulated without noise.",
    ),
    keywords=(
        "quantum machine learning",
        "variational quantum circuit",
        "operator learning",
        "DeepONet",
        "data re-uploading",
        "solve many differential equations with different inputs",
        "qubits",
        "NISQ hardware",
    ),
)
