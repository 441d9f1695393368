"""Pricing of the cluster program: the legal set S with the greatest sum of W over its pairs plus linear terms inside.

Three ways. `enumerate_sets` looks at all legal sets of a small problem. `grow` is local search from every node at once.
`Pricer` proves a bound: a linear relaxation, tightened by triangle cuts of the Boolean quadric polytope, and a
mixed-integer program where the relaxation does not decide.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from .canonical import solve
from .problem import Bools, Floats, Ints

__all__ = ["LegalSets", "Pricer", "enumerate_sets", "grow"]

Cut = tuple[int, tuple[int, ...]]
"""(u, T): the star cut of u with T; (-1, (u, v, w)): the triangle of three minus pairs."""

SLACK = 1e-9
"""What is added to bounds that a solver in floating point has found, relative to the weights."""


class LegalSets(NamedTuple):
    """All legal sets of a small problem."""

    member: Bools
    """(n_sets, m) membership."""
    value: Floats
    """(n_sets,) value of each set."""

    def best(self, y: Floats, count: int, tol: float) -> tuple[Bools, float]:
        """Return the `count` best sets at prices y, as far as they gain, and the greatest gain."""
        gain = self.value - self.member @ y
        count = min(count, gain.size)
        top = np.argpartition(-gain, count - 1)[:count]
        top = top[np.argsort(-gain[top], kind="stable")]
        return self.member[top[gain[top] > tol]], float(gain.max())


def enumerate_sets(weights: Floats, hostile: Bools) -> LegalSets:
    """Return all non-empty legal sets; `weights` has single values on its diagonal."""
    codes, value = subset_values(weights, hostile)
    legal = np.isfinite(value)
    legal[0] = False
    member = (codes[legal, None] >> np.arange(len(weights))) & 1
    return LegalSets(member.astype(bool), value[legal])


def subset_values(weights: Floats, hostile: Bools) -> tuple[Ints, Floats]:
    """Return the 2^m subsets as bit codes and their values, -inf where they hold a hostile pair."""
    pull = np.where(hostile, -np.inf, weights)
    value = np.zeros(1)
    for i in range(len(weights)):
        link = np.zeros(1)
        for j in range(i):
            link = np.concatenate([link, link + pull[i, j]])
        value = np.concatenate([value, value + link + weights[i, i]])
    return np.arange(value.size), value


def grow(W: Floats, linear: Floats, hostile: Bools, tol: float, *, per_node: int = 3) -> Bools:
    """Improve the single set of every node by adding, dropping and swapping one node; return the sets that gain.

    All searches run side by side on (m, m) arrays. Each first adds the best node again and again, even at a loss, and
    goes back to the best set on that way: small sets seldom gain when large ones do. Every set met that gains is a
    candidate; the best `per_node` m of them are returned.
    """
    m = len(W)
    enemies = hostile.astype(np.float64)
    member = np.eye(m, dtype=bool)
    pull = W + linear  # row i: gains for the set {i}
    banned = hostile.copy()
    value = linear.copy()
    top_member, top_value = member.copy(), value.copy()
    deepest = 4.0 * float(np.abs(W).max(initial=0.0)) + float(np.abs(linear).max(initial=0.0))
    active = np.arange(m)
    for _ in range(m - 1):
        toggled = np.where(member[active] | banned[active], -np.inf, pull[active])
        pick = toggled.argmax(axis=1)
        step = toggled[np.arange(active.size), pick]
        go = np.isfinite(step)
        _toggle(active[go], pick[go], step[go], W, enemies, member, pull, banned, value)
        active = active[go]
        better = active[value[active] > top_value[active] + tol]
        top_member[better], top_value[better] = member[better], value[better]
        active = active[step[go] > -deepest]
        if active.size == 0:
            break
    member, value = top_member, top_value
    pull = member.astype(np.float64) @ W + linear
    banned = member.astype(np.float64) @ enemies > 0
    met: dict[bytes, tuple[float, Bools]] = {}
    active = np.arange(m)
    for _ in range(4 * m):
        for i in active[value[active] > tol].tolist():
            met.setdefault(np.packbits(member[i]).tobytes(), (float(value[i]), member[i].copy()))
        toggled = np.where(member[active], -pull[active], np.where(banned[active], -np.inf, pull[active]))
        pick = toggled.argmax(axis=1)
        step = toggled[np.arange(active.size), pick]
        go = step > tol
        _toggle(active[go], pick[go], step[go], W, enemies, member, pull, banned, value)
        swapped = _swap(active[~go], W, enemies, member, pull, banned, value, tol)
        active = np.sort(np.concatenate([active[go], swapped]))
        if active.size == 0:
            break
    best = sorted(met.values(), key=lambda found: -found[0])[: per_node * m]
    return np.array([row for _, row in best], dtype=bool).reshape(-1, m)


def _toggle(
    rows: Ints,
    picks: Ints,
    steps: Floats,
    W: Floats,
    enemies: Floats,
    member: Bools,
    pull: Floats,
    banned: Bools,
    value: Floats,
) -> None:
    sign = np.where(member[rows, picks], -1.0, 1.0)
    member[rows, picks] ^= True
    pull[rows] += sign[:, None] * W[picks]
    value[rows] += steps
    if enemies.any():
        banned[rows] = member[rows].astype(np.float64) @ enemies > 0


def _swap(
    rows: Ints, W: Floats, enemies: Floats, member: Bools, pull: Floats, banned: Bools, value: Floats, tol: float
) -> Ints:
    """Swap one member for one other node in each of the given sets where that gains; return those sets."""
    done = []
    clashes = enemies.any()
    for i in rows.tolist():
        inside, outside = np.flatnonzero(member[i]), np.flatnonzero(~member[i])
        if inside.size < 2 or outside.size == 0:
            continue
        gain = pull[i, outside][None, :] - pull[i, inside][:, None] - W[np.ix_(inside, outside)]
        if clashes:
            quarrels = enemies[np.ix_(inside, outside)]
            gain = np.where(quarrels.sum(axis=0)[None, :] - quarrels > 0, -np.inf, gain)
        a, b = divmod(int(gain.argmax()), outside.size)
        if gain[a, b] <= tol:
            continue
        member[i, inside[a]], member[i, outside[b]] = False, True
        pull[i] += W[outside[b]] - W[inside[a]]
        value[i] += gain[a, b]
        if clashes:
            banned[i] = member[i].astype(np.float64) @ enemies > 0
        done.append(i)
    return np.array(done, dtype=np.int64)


class Pricer:
    """Exact pricing; keeps the cuts that were tight before, for the next call."""

    def __init__(self, W: Floats, hostile: Bools, deadline: float) -> None:
        self.W, self.hostile, self.deadline = W, hostile, deadline
        self.scale = max(1.0, float(np.abs(W).max(initial=0.0)))
        self.cuts: set[Cut] = set()

    def best(self, linear: Floats, tol: float) -> tuple[Bools, float]:
        """Return sets with a gain above `tol` (perhaps none) and a proven upper bound on all gains.

        A set is no worse without a member that loses, so nodes that can't gain in any set are left out. The relaxation
        stops early once its bound is below `tol`.
        """
        W, m = self.W, len(self.W)
        none = np.zeros((0, m), dtype=bool)
        keep = np.arange(m)
        while keep.size:
            hope = linear[keep] + np.where(
                self.hostile[np.ix_(keep, keep)], 0.0, np.maximum(W[np.ix_(keep, keep)], 0.0)
            ).sum(axis=1)
            if (hope >= 0).all():
                break
            keep = keep[hope >= 0]
        if keep.size == 0:
            return none, 0.0
        relaxation = _Relaxation(W[np.ix_(keep, keep)], linear[keep], self.hostile[np.ix_(keep, keep)], self.scale)
        place = {int(u): i for i, u in enumerate(keep)}
        relaxation.cuts = {
            (place[u] if u >= 0 else -1, tuple(place[t] for t in T))
            for u, T in self.cuts
            if (u < 0 or u in place) and all(t in place for t in T)
        }
        bound = relaxation.tighten(tol, self.deadline)
        self.cuts = {(int(keep[u]) if u >= 0 else -1, tuple(int(keep[t]) for t in T)) for u, T in relaxation.cuts}
        found = none
        if bound > tol and time.monotonic() < self.deadline:
            sets, proven = relaxation.integer(self.deadline)
            bound = min(bound, proven)
            found = np.zeros((len(sets), m), dtype=bool)
            found[:, keep] = sets
            gain = ((found @ W) * found).sum(axis=1) / 2.0 + found @ linear
            found = found[gain > tol]
        return found, bound


class _Relaxation:
    """Maximise sum of W e over pairs plus linear b, with e_uv standing for b_u b_v, over [0, 1]."""

    def __init__(self, W: Floats, linear: Floats, hostile: Bools, scale: float) -> None:
        self.W, self.linear, self.hostile, self.scale = W, linear, hostile, scale
        self.m = len(W)
        self.heads, self.tails = np.nonzero(np.triu((W != 0) & ~hostile, 1))
        self.number = np.full((self.m, self.m), -1, dtype=np.int64)
        self.number[self.heads, self.tails] = self.number[self.tails, self.heads] = self.m + np.arange(self.heads.size)
        self.cost = -np.concatenate([linear, W[self.heads, self.tails]])
        self.cuts: set[Cut] = set()

    def rows(self) -> tuple[sparse.csr_array, Floats]:
        """Return A and b with A (b, e) <= b."""
        plus = self.W[self.heads, self.tails] > 0
        e = self.m + np.arange(self.heads.size)
        row, column, value, right = [], [], [], []
        count = 0

        def add(columns: list[Ints], factors: list[float], bound: float) -> None:
            nonlocal count
            size = len(columns[0])
            for which, factor in zip(columns, factors, strict=True):
                row.append(count + np.arange(size))
                column.append(which)
                value.append(np.full(size, factor))
            right.append(np.full(size, bound))
            count += size

        add([e[plus], self.heads[plus]], [1.0, -1.0], 0.0)
        add([e[plus], self.tails[plus]], [1.0, -1.0], 0.0)
        add([e[~plus], self.heads[~plus], self.tails[~plus]], [-1.0, 1.0, 1.0], 1.0)
        foe_heads, foe_tails = np.nonzero(np.triu(self.hostile, 1))
        add([foe_heads, foe_tails], [1.0, 1.0], 1.0)
        for u, T in sorted(self.cuts):
            inside = np.array([self.number[a, b] for i, a in enumerate(T) for b in T[i + 1 :]], dtype=np.int64)
            inside = inside[inside >= 0]
            spokes = self.number[u, list(T)] if u >= 0 else np.array(T)
            row.append(np.full(spokes.size + inside.size + (u >= 0), count))
            column += [spokes, inside]
            value += [np.ones(spokes.size), -np.ones(inside.size)]
            if u >= 0:
                column.append(np.array([u]))
                value.append(-np.ones(1))
            right.append(np.full(1, 0.0 if u >= 0 else 1.0))
            count += 1
        A = sparse.csr_array(
            (np.concatenate(value), (np.concatenate(row), np.concatenate(column))), shape=(count, self.cost.size)
        )
        return A, np.concatenate(right)

    def tighten(self, tol: float, deadline: float, rounds: int = 12) -> float:
        """Add violated triangle cuts until the bound is at most `tol`, or does not fall any more."""
        if not self.cuts:
            self.cuts = self._first_stars()
        bound = np.inf
        for _ in range(rounds):
            A, b = self.rows()
            result = solve(self.cost / self.scale, deadline, "highs-ipm", A_ub=A, b_ub=b, bounds=(0, 1))
            if result is None:
                break
            before, bound = bound, min(bound, self._proven(A, b, result))
            if bound <= tol or before - bound < 1e-4 * max(abs(bound), tol):
                break
            fresh = self._violated(result.x)
            if not fresh:
                break
            self.cuts |= fresh
        return bound

    def _proven(self, A: sparse.csr_array, b: Floats, result: Any) -> float:
        """Return the bound of the dual solution: any dual with the right sign proves one."""
        dual = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
        return float((b @ dual + np.maximum(-self.cost / self.scale - A.T @ dual, 0.0).sum()) * self.scale)

    def _violated(self, solution: Floats) -> set[Cut]:
        """Return the most violated triangle cuts."""
        m = self.m
        b = solution[:m]
        e = np.zeros((m, m))
        e[self.heads, self.tails] = e[self.tails, self.heads] = solution[m:]
        plus = (self.W > 0) & ~self.hostile
        minus = (self.W < 0) & ~self.hostile
        live = np.flatnonzero(b > 1e-6)
        found: list[tuple[float, Cut]] = []
        usable = (self.number >= 0) | self.hostile
        for u in live.tolist():
            near = np.flatnonzero(plus[u] & (e[u] > 1e-6))
            found += self._stars(u, near[np.argsort(-e[u, near], kind="stable")], e, b, usable)
            far = live[minus[u, live] & (live > u)]
            if far.size > 1:
                gap = b[u] + b[far][:, None] + b[far][None, :] - 1.0
                gap -= e[u, far][:, None] + e[u, far][None, :] + e[np.ix_(far, far)]
                gap[~minus[np.ix_(far, far)]] = 0.0
                found += self._top(gap, far, u)
        found.sort(key=lambda item: -item[0])
        fresh: set[Cut] = set()
        for _, cut in found:
            if len(fresh) >= 20 * m:
                break
            if cut not in self.cuts:
                fresh.add(cut)
        return fresh

    def _first_stars(self) -> set[Cut]:
        """Cover the plus neighbours of each node by stars without plus pairs among their ends."""
        plus = (self.W > 0) & ~self.hostile
        usable = ((self.number >= 0) | self.hostile) & ~plus
        cuts: set[Cut] = set()
        for u in range(self.m):
            left = np.flatnonzero(plus[u]).tolist()
            while left:
                T = [left[0]]
                for t in left[1:]:
                    if usable[t, T].all():
                        T.append(t)
                left = [t for t in left if t not in T]
                if len(T) > 1:
                    cuts.add((u, tuple(T)))
        return cuts

    def _stars(self, u: int, near: Ints, e: Floats, b: Floats, usable: Bools) -> list[tuple[float, Cut]]:
        """Grow a star from each spoke: e(u, T) - e(T) <= b_u holds since t - t (t - 1) / 2 <= 1 for t members of T."""
        found = {}
        for first in near.tolist():
            T, gain, rest = [first], e[u, first], e[u] - e[first]
            fits = usable[first].copy()
            for t in near.tolist():
                if fits[t] and t != first and rest[t] > 1e-6:
                    T.append(t)
                    gain += rest[t]
                    rest = rest - e[t]
                    fits &= usable[t]
            if gain > b[u] + 1e-4:
                found[u, tuple(sorted(T))] = float(gain - b[u])
        return [(gap, cut) for cut, gap in found.items()]

    @staticmethod
    def _top(gap: Floats, nodes: Ints, u: int) -> list[tuple[float, Cut]]:
        rows, columns = np.nonzero(np.triu(gap, 1) > 1e-4)
        if rows.size > 20:
            top = np.argpartition(-gap[rows, columns], 20)[:20]
            rows, columns = rows[top], columns[top]
        return [
            (float(gap[i, j]), (-1, (u, int(nodes[i]), int(nodes[j]))))
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        ]

    def integer(self, deadline: float) -> tuple[Bools, float]:
        """Solve with b in {0, 1}; return the sets found and a bound. A set that gains half of the best is enough."""
        A, b = self.rows()
        left = deadline - time.monotonic()
        options: dict[str, Any] = {"mip_rel_gap": 0.3}
        if np.isfinite(left):
            options["time_limit"] = max(left, 0.01)
        kinds: NDArray[np.int64] = np.zeros(self.cost.size, dtype=np.int64)
        kinds[: self.m] = 1
        result = milp(
            self.cost / self.scale,
            integrality=kinds,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(sparse.csc_array(A), -np.inf, b),
            options=options,
        )
        proven = np.inf if result.mip_dual_bound is None else -float(result.mip_dual_bound) * self.scale
        if np.isfinite(proven):
            proven += SLACK * self.scale * self.m
        if result.x is None:
            return np.zeros((0, self.m), dtype=bool), proven
        return (result.x[None, : self.m] > 0.5), proven
