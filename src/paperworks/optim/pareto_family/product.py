"""Independent blocks, each from its own family, mixed with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .exponential import Family, Floats, Params

__all__ = ["Product"]


class Product(Family):
    """Members are independent blocks; parameters of the blocks follow each other in one tuple."""

    name = "product"

    def __init__(self, blocks: list[Family], tol: float = 1e-10, max_iter: int = 50) -> None:
        super().__init__(tol, max_iter)
        self.blocks = blocks
        self.labels = tuple(f"{label} of {block.name}" for block in blocks for label in block.labels)
        self.matrix = any(block.matrix for block in blocks)

    def _split(self, values: tuple[Any, ...], sizes: list[int] | None = None) -> list[tuple[Any, ...]]:
        sizes = [len(block.labels) for block in self.blocks] if sizes is None else sizes
        ends = np.cumsum(sizes)
        return [tuple(values[end - size : end]) for size, end in zip(sizes, ends, strict=True)]

    def _each(self, method: str, params: Params) -> list[Any]:
        return [getattr(block, method)(part) for block, part in zip(self.blocks, self._split(params), strict=True)]

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        if len(values) == len(self.blocks) and all(isinstance(value, tuple) for value in values):
            values = tuple(part for value in values for part in value)
        if len(values) != len(self.labels):
            raise ValueError(f"{where} must be a tuple ({', '.join(self.labels)}), got {len(values)} value(s)")
        found: list[Floats] = []
        for block, part in zip(self.blocks, self._split(values), strict=True):
            found += block.check(part, f"{where}: {block.name}", reg if block.matrix else 0.0)
        return tuple(found)

    def check_targets(self, params: Params, divergence: str, names: list[str]) -> None:
        for block, part in zip(self.blocks, self._split(params), strict=True):
            block.check_targets(part, divergence, names)

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        raise TypeError(f"{wheres[0]} must be a tuple of parameters: a product of families takes no samples")

    def natural(self, params: Params) -> Floats:
        return np.concatenate(self._each("natural", params), axis=1)

    def expectation(self, params: Params) -> Floats:
        return np.concatenate(self._each("expectation", params), axis=1)

    def entropy(self, params: Params) -> Floats:
        return np.sum(self._each("entropy", params), axis=0)

    def prepare(self, params: Params) -> list[Any]:
        return self._each("prepare", params)

    def inner(self, prepared: Any, params: Params) -> Any:
        split = zip(self.blocks, prepared, self._split(params), strict=True)
        return [block.inner(own, part) for block, own, part in split]

    def outer(self, prepared: Any, inner: Any) -> Params:
        split = zip(self.blocks, prepared, inner, strict=True)
        return tuple(value for block, own, part in split for value in block.outer(own, part))

    def solve(self, prepared: Any, weights: Floats, divergence: str) -> Any:
        return [block.solve(own, weights, divergence) for block, own in zip(self.blocks, prepared, strict=True)]

    def objectives(self, prepared: Any, inner: Any, divergence: str) -> Floats:
        split = zip(self.blocks, prepared, inner, strict=True)
        return np.sum([block.objectives(own, part, divergence) for block, own, part in split], axis=0)

    def gram(self, prepared: Any, inner: Any, divergence: str) -> Floats:
        split = zip(self.blocks, prepared, inner, strict=True)
        return np.sum([block.gram(own, part, divergence) for block, own, part in split], axis=0)

    def log_density(self, params: Params, x: Any) -> Floats:
        if not isinstance(x, tuple | list) or len(x) != len(self.blocks):
            raise ValueError(f"x must be a tuple of {len(self.blocks)} arrays, one for each block")
        split = zip(self.blocks, self._split(params), x, strict=True)
        return np.sum([block.log_density(part, np.asarray(rows)) for block, part, rows in split], axis=0)

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Any:
        split = zip(self.blocks, self._split(params), strict=True)
        return tuple(block.draw(part, n, rng) for block, part in split)
