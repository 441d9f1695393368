"""The estimator: learn around one column, then ask about others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from paperworks.causal.local_cause.ci_tests import FisherTester, FunctionTester, GTester, Tester
from paperworks.causal.local_cause.inputs import check_settings, column_number, correlation, read_table
from paperworks.causal.local_cause.learner import Blankets, GaussianBlankets, LocalLearner, TestedBlankets
from paperworks.causal.local_cause.pag import PagMark
from paperworks.causal.local_cause.rules import Answer, Surroundings, corrected_rule, look_around, printed_rule

__all__ = ["LocalCause"]

Floats = NDArray[np.float64]


class LocalCause(BaseEstimator):
    """Is X a cause of Y? Answered locally, hidden common causes allowed.

    ``fit`` learns the partial ancestral graph over the Markov blanket of one column, the target. ``relation`` then
    says for another column whether the target is an ancestor of it in no graph that fits the data (an *invariant
    non-ancestor*), in some (a *possible ancestor*), or in all (an *invariant ancestor*: *explicit* if one directed
    path is common to all, else *implicit*).

    Parameters
    ----------
    ci_test : {"fisherz", "g"} or callable, default="fisherz"
        Test of conditional independence: Fisher's z of partial correlations for numeric data, the G-test for discrete
        codes, or a function ``ci_test(x, y, z) -> p`` of two column numbers and a tuple of them. A function is asked
        nothing twice.
    alpha : float, default=0.01
        Level of the tests: p-values above it count as independence.
    max_cond : int or None, default=3
        Largest conditioning set in the search for the graph; None for no limit. The tests of the decision itself may
        use larger ones.
    rule : {"corrected", "paper"}, default="corrected"
        How the decision is made. The rule as printed calls some merely possible ancestors explicit ones, see Notes.
    mb : {"tc"}, default="tc"
        How Markov blankets are found: by total conditioning, each pair given all other columns. With ``"fisherz"``
        all of it comes from one inverse of the correlation matrix, shrunk unless there are more than four rows per
        column. With ``"g"`` it suits a few columns only: given many, hardly two rows are alike.
    mb_alpha : float or "auto", default="auto"
        Level of the tests for Markov blankets; ``"auto"`` is `alpha`, from ten columns on divided by
        ``10 * (n_features // 10)``.
    max_local : int or None, default=None
        Largest number of local structures learned for one variable; None lets the stopping rule decide.
    cache : bool, default=True
        Whether p-values are kept, so that no test is made twice.
    verbose : int, default=0
        If positive, a line is printed for each local structure.

    Attributes
    ----------
    pag_ : ndarray of shape (n_features, n_features), int8
        What is known of the partial ancestral graph after `fit`: ``pag_[i, j]`` is the `PagMark` at j on the edge
        between i and j. It is complete over the target and its Markov blanket.
    markov_blanket_ : list of int
        Column numbers of the target's Markov blanket.
    augmented_parents_ : list of int
        Pa* of the target.
    circle_neighbours_ : list of int
        Neighbours whose edge has a circle at the target.
    cliques_ : list of list of int
        Maximal cliques of `circle_neighbours_`.
    sepsets_ : dict
        From pairs ``(i, j)``, i < j, to the tuple of columns found to separate them.
    n_tests_ : int
        Number of different tests made so far, `relation` included.
    n_tests_by_stage_ : dict
        The same, apart for ``"markov_blanket"``, ``"skeleton"`` and ``"decision"``.
    n_local_ : int
        Number of local structures learned by `fit`.
    target_ : int
        Column number of the target.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns; their numbers if `X` has none.

    Raises
    ------
    ValueError
        From `fit`, see there.

    Notes
    -----
    The paper's Theorem 2 fails as worded. With perfect knowledge of all independences, on 92,268 ordered pairs of
    random graphs with five to nine observed variables, the printed rule was wrong for 3,250, nearly always "explicit"
    for "possible". ``rule="corrected"`` was wrong for none of them; it has no proof. Both numbers are for
    ``max_cond=None``: a smaller one keeps edges that only larger sets remove.

    Data are assumed to come from a causal graph without feedback, faithfully, without selection of the samples.

    References
    ----------
    Z. Li, Z. Liu, F. Xie, H. Zhang, C. Liu, Z. Geng, "Local Identifying Causal Relations in the Presence of Latent
    Variables", ICML 2025, Algorithms 1-2 and Theorems 1-4.

    Examples
    --------
    Rain and the sprinkler wet the grass, and wet grass makes shoes wet.

    >>> import numpy as np, pandas as pd
    >>> from paperworks.causal import LocalCause
    >>> rng = np.random.default_rng(0)
    >>> rain, sprinkler, a, b = rng.normal(size=(4, 2000))
    >>> grass = rain + sprinkler + a
    >>> X = pd.DataFrame({"rain": rain, "sprinkler": sprinkler, "grass": grass, "shoes": grass + b})
    >>> model = LocalCause().fit(X, target="grass")
    >>> model.relation("shoes"), model.relation("rain")
    ('explicit_invariant_ancestor', 'invariant_non_ancestor')
    """

    def __init__(
        self,
        ci_test: Literal["fisherz", "g"] | Callable[[int, int, tuple[int, ...]], float] = "fisherz",
        alpha: float = 0.01,
        max_cond: int | None = 3,
        rule: Literal["corrected", "paper"] = "corrected",
        mb: Literal["tc"] = "tc",
        mb_alpha: float | Literal["auto"] = "auto",
        max_local: int | None = None,
        cache: bool = True,
        verbose: int = 0,
    ) -> None:
        self.ci_test = ci_test
        self.alpha = alpha
        self.max_cond = max_cond
        self.rule = rule
        self.mb = mb
        self.mb_alpha = mb_alpha
        self.max_local = max_local
        self.cache = cache
        self.verbose = verbose

    def fit(self, X: ArrayLike | pd.DataFrame, y: Any = None, *, target: Any) -> LocalCause:
        """Learn the graph around the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The data. With a function as `ci_test` only its columns count.
        y : ignored
            Present for consistency.
        target : int or str
            Number or name of the column whose effects are asked for.

        Returns
        -------
        LocalCause
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` is not 2-D, has fewer than two columns, NaN, infinite values, constant columns, or two columns of
            one name; if two columns are copies of each other or the correlation is singular (``"fisherz"``), or the
            rows are too few for `max_cond`; if `target` is unknown; if a setting is out of range; or if a function
            `ci_test` returns something outside [0, 1].
        TypeError
            If a column is not numeric, or a setting has the wrong type.
        """
        check_settings(
            self.ci_test, self.alpha, self.max_cond, self.rule, self.mb, self.mb_alpha, self.max_local, self.verbose
        )
        values, names = read_table(X)
        chosen = column_number(names, target, "target")
        tester, blanket, order = self._prepare(values, names, chosen)
        learner = LocalLearner(
            tester,
            blanket,
            max_cond=self.max_cond,
            max_local=self.max_local,
            report=_reporter(self.verbose, names, order),
        )
        here = look_around(learner, order.index(chosen))

        self._order, self._learner, self._here = order, learner, here
        self._elsewhere: dict[int, Surroundings] = {}
        self._answers: dict[int, Answer] = {}
        self.target_ = chosen
        self.n_features_in_ = len(names)
        self.feature_names_in_ = names
        place = np.argsort(order)
        self.pag_ = learner.graph.to_array()[np.ix_(place, place)]
        self.markov_blanket_ = self._columns(here.blanket)
        self.augmented_parents_ = self._columns(here.parents)
        self.circle_neighbours_ = self._columns(here.circles)
        self.cliques_ = sorted(self._columns(c) for c in here.cliques)
        sepset = learner.graph.sepset
        columns = {z: tuple(self._columns(z)) for z in set(sepset.values())}
        self.sepsets_ = {(order[a], order[b]): columns[z] for (a, b), z in sepset.items() if order[a] < order[b]}
        self.n_local_ = len(learner.done)
        self._count()
        return self

    def _prepare(self, values: Floats, names: NDArray[Any], target: int) -> tuple[Tester, Blankets, list[int]]:
        """Return tests, Markov blankets and the order in which columns are worked through.

        With data the order is that of the correlation with the target, so that the order of the columns in the table
        has no influence. A function knows columns by their numbers.
        """
        n_samples, n = values.shape
        level = self.alpha if n < 10 else self.alpha / (10 * (n // 10))
        level = level if self.mb_alpha == "auto" else self.mb_alpha
        if callable(self.ci_test):
            asked = FunctionTester(self.ci_test, self.alpha, cache=self.cache)
            return asked, TestedBlankets(asked, n, level), list(range(n))
        corr: Floats = correlation(values, names) if self.ci_test == "fisherz" else np.asarray(np.corrcoef(values.T))
        order = [target, *(k for k in np.argsort(-np.abs(corr[target]), kind="stable").tolist() if k != target)]
        if self.ci_test == "g":
            counted = GTester(values[:, order], self.alpha, cache=self.cache)
            return counted, TestedBlankets(counted, n, level), order
        if n_samples - (self.max_cond or 0) - 3 < 1:
            raise ValueError(
                f"X must have at least max_cond + 4 = {(self.max_cond or 0) + 4} rows for Fisher's z, got {n_samples}"
            )
        corr = corr[np.ix_(order, order)]
        tester = FisherTester(corr, n_samples, self.alpha, cache=self.cache)
        shrinkage = 0.0 if n_samples > 4 * n else _shrinkage(values)
        return tester, GaussianBlankets(tester, corr, shrinkage, level), order

    def _columns(self, internal: Iterable[int]) -> list[int]:
        return sorted(self._order[k] for k in internal)

    def _count(self) -> None:
        self.n_tests_by_stage_ = dict(self._learner.tester.counts)
        self.n_tests_ = sum(self.n_tests_by_stage_.values())

    def _look_elsewhere(self, v: int) -> Surroundings:
        """Return the surroundings of another variable, learned from where `fit` stopped whatever was asked since."""
        if v not in self._elsewhere:
            tester = self._learner.tester
            before = tester.stage
            self._elsewhere[v] = look_around(self._learner.copy(), v)
            tester.stage = before
        return self._elsewhere[v]

    def _answer(self, effect: Any) -> tuple[int, Answer]:
        check_is_fitted(self, "target_")
        column = column_number(self.feature_names_in_, effect, "effect")
        if column == self.target_:
            raise ValueError(f"effect must be another column than the target, got {effect!r}")
        if column not in self._answers:
            inside, tester = self._order.index(column), self._learner.tester
            if self.rule == "paper":
                self._answers[column] = printed_rule(self._here, inside, tester)
            else:
                self._answers[column] = corrected_rule(self._here, inside, tester, self._look_elsewhere)
            self._count()
        return column, self._answers[column]

    def relation(self, effect: Any) -> str:
        """Return what the data say about the target as a cause of another column.

        Parameters
        ----------
        effect : int or str
            Number or name of the other column.

        Returns
        -------
        str
            ``"invariant_non_ancestor"``, ``"possible_ancestor"``, ``"explicit_invariant_ancestor"`` or
            ``"implicit_invariant_ancestor"``.

        Raises
        ------
        ValueError
            If `effect` is unknown or the target itself.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        return self._answer(effect)[1].relation

    def relations(self, effects: Iterable[Any] | None = None) -> pd.Series:
        """Return the relations to several columns.

        Parameters
        ----------
        effects : iterable of int or str, default=None
            The columns; None for all others.

        Returns
        -------
        pandas.Series of str
            One relation for each, by the columns' names.

        Raises
        ------
        ValueError
            If one of `effects` is unknown or the target itself.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "target_")
        names = self.feature_names_in_
        asked = [k for k in range(len(names)) if k != self.target_] if effects is None else list(effects)
        found = [self._answer(names[k] if effects is None else k) for k in asked]
        index = pd.Index([names[column] for column, _ in found])
        return pd.Series([answer.relation for _, answer in found], index=index, name="relation", dtype=object)

    def explain(self, effect: Any) -> dict[str, Any]:
        """Return a relation with the rule, the sets and the tests that it rests on.

        Parameters
        ----------
        effect : int or str
            Number or name of the other column.

        Returns
        -------
        dict
            ``"relation"``; ``"rule"``, in words; ``"sets"``, from names to sorted lists of column numbers;
            ``"tests"``, a list of ``(x, y, z, p)`` with column numbers, the one that decided last. Where the edge
            between the two columns decides, the list is empty.

        Raises
        ------
        ValueError
            If `effect` is unknown or the target itself.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        _, answer = self._answer(effect)
        tester, order = self._learner.tester, self._order
        tests = [
            (order[x], order[y], tuple(self._columns(z)), tester.p(x, y, tuple(sorted(z))))
            for x, y, z in answer.questions
        ]
        return {
            "relation": answer.relation,
            "rule": answer.rule,
            "sets": {name: self._columns(members) for name, members in answer.sets.items()},
            "tests": tests,
        }

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the graph over the target and its Markov blanket.

        Returns
        -------
        networkx.MultiDiGraph
            Nodes are the columns' names. Each edge of the PAG is one edge ``(u, v)`` with the attributes ``mark_u``
            and ``mark_v``: ``"circle"``, ``"arrow"`` or ``"tail"``. It runs along the arrow where there is one arrow.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "target_")
        names = [name.item() if isinstance(name, np.generic) else name for name in self.feature_names_in_]
        nodes = sorted([self.target_, *self.markov_blanket_])
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(names[k] for k in nodes)
        for i in nodes:
            for j in nodes:
                if i < j and self.pag_[i, j]:
                    u, v = (j, i) if self.pag_[j, i] == PagMark.ARROW != self.pag_[i, j] else (i, j)
                    at_u, at_v = (PagMark(int(m)).name.lower() for m in (self.pag_[v, u], self.pag_[u, v]))
                    graph.add_edge(names[u], names[v], mark_u=at_u, mark_v=at_v)
        return graph


def _shrinkage(values: Floats) -> float:
    from sklearn.covariance import ledoit_wolf

    return float(ledoit_wolf((values - values.mean(axis=0)) / values.std(axis=0))[1])


def _reporter(verbose: int, names: NDArray[Any], order: list[int]) -> Callable[[int, int], None] | None:
    if not verbose:
        return None
    return lambda v, count: print(f"local structure {count}: around {names[order[v]]}", flush=True)
