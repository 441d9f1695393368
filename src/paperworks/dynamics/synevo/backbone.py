"""Graph WaveNet, compact: gated dilated convolutions in time, diffusion over a given and a learnt graph in space.

After Z. Wu and others, "Graph WaveNet for deep spatial-temporal graph modeling", IJCAI 2019, without batch
normalisation, whose statistics would mix domains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paperworks._checks import check_finite_array, check_fraction, check_integer, extra

with extra("torch"):
    import torch
    from torch import Tensor, nn

__all__ = ["GraphWaveNet", "check_adjacency"]

_EMBEDDING = 10
"""Length of the node embeddings behind the learnt graph."""


def check_adjacency(value: Any, num_nodes: int) -> np.ndarray | None:
    """Return an adjacency matrix of `num_nodes` nodes as an array, or None."""
    if value is None:
        return None
    matrix = check_finite_array(value.detach().cpu() if torch.is_tensor(value) else value, "adjacency")
    if matrix.shape != (num_nodes, num_nodes):
        raise ValueError(f"adjacency must have the shape ({num_nodes}, {num_nodes}), got {matrix.shape}")
    if (matrix < 0).any():
        raise ValueError("adjacency must not have negative weights")
    return matrix


def _transitions(adjacency: np.ndarray) -> np.ndarray:
    """Return first and second powers of the forward and the backward transition matrix, (4, N, N)."""
    out = []
    for matrix in (adjacency, adjacency.T):
        total = matrix.sum(axis=1, keepdims=True)
        step = np.divide(matrix, total, out=np.zeros_like(matrix), where=total > 0)
        out += [step, step @ step]
    return np.stack(out)


class _Layer(nn.Module):
    """A gated convolution of kernel 2, a graph convolution, a residual and a skip connection."""

    def __init__(self, channels: int, skip: int, supports: int, dilation: int, dropout: float, **like: Any) -> None:
        super().__init__()
        self.dilation = dilation
        self.gated = nn.Linear(2 * channels, 2 * channels, **like)
        self.graph = nn.Linear((supports + 1) * channels, channels, **like)
        self.skip = nn.Linear(channels, skip, **like)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, supports: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the next x (B, N, T - dilation, C) and the skip of the last time step, (B, N, skip)."""
        now = x[:, :, self.dilation :]
        filtered, gate = self.gated(torch.cat([x[:, :, : -self.dilation], now], dim=-1)).chunk(2, dim=-1)
        h = torch.tanh(filtered) * torch.sigmoid(gate)
        parts = [h]
        if supports is not None:
            batch, n, t, c = h.shape
            # All supports in one product: (S N, N) x (B, N, T C).
            spread = (supports.flatten(0, 1) @ h.reshape(batch, n, t * c)).view(batch, -1, n, t, c)
            parts += spread.unbind(1)
        h = self.dropout(self.graph(torch.cat(parts, dim=-1)))
        return now + h, self.skip(h[:, :, -1])


class GraphWaveNet(nn.Module):
    """Forecasts of all nodes of a graph from a window of their past.

    Parameters
    ----------
    num_nodes : int
        Number N of nodes.
    in_dim : int, default 1
        Features of a node at a time.
    horizon : int, default 12
        Number of future steps.
    adjacency : array-like of shape (N, N), optional
        Non-negative weights of edges, from row to column.
    adaptive : bool, default True
        Learn a further graph from node embeddings.
    channels : int, default 32
        Width of the layers.
    blocks : int, default 4
        Number of blocks.
    layers : int, default 2
        Layers in a block, with dilations 1, 2, 4, ...
    skip, end : int, default 256 and 512
        Widths of the skip connections and of the output layer.
    dropout : float, default 0.3
        Probability after every graph convolution.
    device : torch.device or str, optional
        Where the parameters live.
    dtype : torch.dtype, optional
        Type of the parameters; by default torch's default.

    Attributes
    ----------
    receptive_field : int
        Steps of the past that the output depends on; shorter windows are padded with zeros on the left.

    Raises
    ------
    ValueError
        If a size is below 1, `dropout` is not in [0, 1], or `adjacency` is not a matrix of non-negative weights.

    References
    ----------
    Z. Wu and others, "Graph WaveNet for deep spatial-temporal graph modeling", IJCAI 2019.

    Examples
    --------
    >>> import torch
    >>> from paperworks.dynamics import GraphWaveNet
    >>> model = GraphWaveNet(5, horizon=3, blocks=2, channels=8, skip=16, end=16)
    >>> model(torch.rand(7, 12, 5, 1)).shape
    torch.Size([7, 3, 5])
    """

    transitions: Tensor | None

    def __init__(
        self,
        num_nodes: int,
        in_dim: int = 1,
        horizon: int = 12,
        adjacency: Any = None,
        adaptive: bool = True,
        channels: int = 32,
        blocks: int = 4,
        layers: int = 2,
        skip: int = 256,
        end: int = 512,
        dropout: float = 0.3,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = {"num_nodes": num_nodes, "in_dim": in_dim, "horizon": horizon, "channels": channels, "blocks": blocks}
        for name, value in (sizes | {"layers": layers, "skip": skip, "end": end}).items():
            check_integer(value, name, minimum=1)
        check_fraction(dropout, "dropout")
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.num_nodes, self.in_dim, self.horizon = num_nodes, in_dim, horizon
        matrix = check_adjacency(adjacency, num_nodes)
        fixed = None if matrix is None else torch.as_tensor(_transitions(matrix)).to(torch.empty(0, **like))
        self.register_buffer("transitions", fixed)
        self.adaptive = adaptive
        if adaptive:
            self.sources = nn.Parameter(torch.randn(num_nodes, _EMBEDDING, **like))
            self.targets = nn.Parameter(torch.randn(num_nodes, _EMBEDDING, **like))
        supports = (0 if matrix is None else 4) + 2 * adaptive
        dilations = [2**k for _ in range(blocks) for k in range(layers)]
        self.receptive_field = 1 + sum(dilations)
        self.enter = nn.Linear(in_dim, channels, **like)
        self.layers = nn.ModuleList(_Layer(channels, skip, supports, d, dropout, **like) for d in dilations)
        self.leave = nn.Sequential(nn.ReLU(), nn.Linear(skip, end, **like), nn.ReLU(), nn.Linear(end, horizon, **like))

    def _supports(self) -> Tensor | None:
        parts = [] if self.transitions is None else [self.transitions]
        if self.adaptive:
            step = torch.softmax(torch.relu(self.sources @ self.targets.mT), dim=1)
            parts.append(torch.stack([step, step @ step]))
        return torch.cat(parts) if parts else None

    def forward(self, x: Tensor) -> Tensor:
        """Return forecasts.

        Parameters
        ----------
        x : torch.Tensor of shape (B, W, N, F)
            Windows of the past, oldest step first.

        Returns
        -------
        torch.Tensor of shape (B, horizon, N)
            The next steps.

        Raises
        ------
        ValueError
            If `x` has other nodes or features.
        """
        if x.ndim != 4 or x.shape[2:] != (self.num_nodes, self.in_dim):
            raise ValueError(f"x must have the shape (B, W, {self.num_nodes}, {self.in_dim}), got {tuple(x.shape)}")
        missing = self.receptive_field - x.shape[1]
        x = nn.functional.pad(x, (0, 0, 0, 0, missing, 0)) if missing > 0 else x[:, -missing:]
        supports = self._supports()
        h = self.enter(x.transpose(1, 2))
        total: Tensor | float = 0.0
        for layer in self.layers:
            h, skip = layer(h, supports)
            total = total + skip
        return self.leave(total).transpose(1, 2)
