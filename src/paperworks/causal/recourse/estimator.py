"""The estimator: recommendations, reports that come late, and rounds."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_integer, check_positive, check_probability_open

from .classifier import Classifier
from .costs import COSTS, CostModel
from .inputs import Names, as_generator, column_numbers, read_bounds, read_labels, read_person, read_table
from .methods import LEARNING, METHODS, check_settings, make_policy
from .pool import Pool, plausible
from .protocol import Feedback, Floats, Policy, Recommendation, Situation

HISTORY = ("ticket", "round", "candidate", "cost", "acceptance", "improved", "delay")


class _Entry(NamedTuple):
    """One row of the history."""

    round: int
    candidate: int
    cost: float
    acceptance: float
    improved: bool | None
    delay: int | None


class ImprovementRecourse(BaseEstimator):
    """Recommend changes that make things really better, learning from delayed and partly missing reports.

    A classifier is fitted on one part of the data; rows of the other part that it finds favourable are the candidates.
    Each recommendation names one of them. Reports of improvement may come late, in any order, or never. Before any
    report the default recommends the nearest candidate.

    The estimated improvement is an average over those who followed a recommendation: no causal guarantee for one
    person.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A clone is fitted; a `sklearn.frozen.FrozenEstimator` is used as it is. None means a `RandomForestClassifier`.
    method : {"linucb", "bwo", "gp", "nearest", "trust", "random"}, default="linucb"
        The policy: `DelayedLinUCB`, `ForestUCB`, `GPUCB`, `NearestPolicy`, `TrustPolicy`, or a random feasible
        candidate.
    cost : {"norm", "mps", "mahalanobis"}, default="norm"
        Cost of an action, see `CostModel`; ``"norm"`` and ``"mahalanobis"`` on features scaled to [0, 1].
    immutable : sequence of column names or numbers, default=()
        Features that no action may touch: only candidates equal to the person there are feasible.
    max_candidates : int, default=200
        Largest number of candidates K, drawn at random.
    timeout : int, default=10
        Rounds within which a report counts, the round of the recommendation included.
    alpha : float, default=20.0
        For ``method="linucb"``: start of the precision, see `DelayedLinUCB`.
    delta : float, default=0.05
        For ``method="linucb"``: level of the bounds, in (0, 1).
    bonus : {"squared", "norm"}, default="squared"
        For ``method="linucb"``: the bonus of the authors' code, or that of the theory.
    n_estimators : int, default=50
        For ``method="bwo"``: number of trees.
    sample_ratio : float, default=4.0
        For ``method="bwo"``: each tree sees ``1 / sample_ratio`` of the rows; at least 1.
    gamma : float, default=1.0
        For ``method="bwo"`` and ``"gp"``: base of the decay of exploration, in (0, 1].
    outlier_limit : float or None, default=None
        Largest outlier score of a candidate, that is -`score_samples` of an isolation forest fitted to the favourable
        rows of the classifier's part. None or 1 is no limit.
    candidate_fraction : float, default=0.33
        Share of the rows, stratified, that is kept from the classifier and supplies the candidates; in (0, 1).
    correct_timeout : bool, default=False
        For ``method="linucb"``: divide estimates by the share of reports that come in time, see `DelayedLinUCB`.
    acceptance : callable or None, default=None
        ``acceptance(cost, D)``, with costs of shape (K,), returns the probability that an action is carried out. None
        is ``exp(-cost / D)``, with 2 D in place of D for the Mahalanobis cost.
    auto_tick : bool, default=True
        Let `recommend` close the round before. With False several persons may be served in one round, which only
        `tick` closes.
    allow_favourable : bool, default=False
        Accept persons that the classifier finds favourable already.
    refit_every : int, default=1
        For ``method="bwo"`` and ``"gp"``: least number of rounds between two fits of the surrogate.
    bounds : mapping or None, default=None
        Maps columns to ``(low, high)``, in original units, inclusive, None being no limit: only candidates within are
        drawn.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Makes the split, the classifier, the candidates and the policy repeatable.

    Attributes
    ----------
    estimator_ : classifier
        The classifier.
    candidates_ : ndarray of shape (K, D)
        Candidates in original units, each favourable to `estimator_`.
    scaler_ : MinMaxScaler
        Scaling to [0, 1] by all rows; constant features count as 0.
    cost_model_ : CostModel
        Fitted cost.
    bandit_ : object
        The policy.
    history_ : DataFrame
        A row for each recommendation, with the columns ticket, round (from 1), candidate, cost, acceptance, improved
        (missing without a report that counts) and delay (round of the report, 1 being that of the recommendation).
    n_features_in_ : int
        Number of features D.
    feature_names_in_ : ndarray of str
        Column names, if X was a DataFrame whose names are all strings.

    References
    ----------
    K. Kanamori, K. Kobayashi, S. Hara, T. Takagi, "Algorithmic Recourse for Long-Term Improvement", ICML 2025.

    Examples
    --------
    >>> import numpy as np, pickle
    >>> from paperworks.causal import ImprovementRecourse
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((300, 3))
    >>> y = (X[:, 0] + X[:, 1] > 1).astype(int)
    >>> recourse = ImprovementRecourse(immutable=[], random_state=0).fit(X, y)
    >>> first = recourse.recommend([0.2, 0.3, 0.5])
    >>> second = recourse.recommend([0.1, 0.4, 0.9])
    >>> recourse.report(first.ticket)  # in any order, also after the object was stored and loaded
    >>> recourse = pickle.loads(pickle.dumps(recourse))
    >>> recourse.tick()
    >>> recourse.explain([0.2, 0.3, 0.5], top=1)["candidate"].tolist() == [first.candidate]
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "linucb",
        cost: str = "norm",
        immutable: Sequence[Any] = (),
        max_candidates: int = 200,
        timeout: int = 10,
        alpha: float = 20.0,
        delta: float = 0.05,
        bonus: str = "squared",
        n_estimators: int = 50,
        sample_ratio: float = 4.0,
        gamma: float = 1.0,
        outlier_limit: float | None = None,
        candidate_fraction: float = 0.33,
        correct_timeout: bool = False,
        acceptance: Callable[[Floats, int], Any] | None = None,
        auto_tick: bool = True,
        allow_favourable: bool = False,
        refit_every: int = 1,
        bounds: Mapping[Any, tuple[float | None, float | None]] | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cost = cost
        self.immutable = immutable
        self.max_candidates = max_candidates
        self.timeout = timeout
        self.alpha = alpha
        self.delta = delta
        self.bonus = bonus
        self.n_estimators = n_estimators
        self.sample_ratio = sample_ratio
        self.gamma = gamma
        self.outlier_limit = outlier_limit
        self.candidate_fraction = candidate_fraction
        self.correct_timeout = correct_timeout
        self.acceptance = acceptance
        self.auto_tick = auto_tick
        self.allow_favourable = allow_favourable
        self.refit_every = refit_every
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> ImprovementRecourse:
        """Fit the classifier, draw the candidates and start a policy without experience.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, D)
            Numeric features; boolean columns count as 0 and 1.
        y : array-like of shape (n_samples,)
            Labels, 1 being the favourable one.

        Returns
        -------
        ImprovementRecourse
            The fitted estimator.

        Raises
        ------
        TypeError
            If columns are not numeric (they are named), or a parameter is of the wrong kind.
        ValueError
            If values are missing, y is not binary, a parameter is out of range, a column is unknown, or no row kept
            for candidates is favourable and within the bounds.
        """
        check_choice(self.method, "method", METHODS)
        check_choice(self.cost, "cost", COSTS)
        check_integer(self.max_candidates, "max_candidates", minimum=1)
        check_integer(self.timeout, "timeout", minimum=1)
        check_probability_open(self.candidate_fraction, "candidate_fraction")
        if self.outlier_limit is not None:
            check_positive(self.outlier_limit, "outlier_limit", zero_ok=True)
        if self.acceptance is not None and not callable(self.acceptance):
            raise TypeError(f"acceptance must be a function of (cost, D) or None, got {self.acceptance!r}")
        table, names = read_table(X)
        labels = read_labels(y, len(table))
        n_features = table.shape[1]
        immutable = column_numbers(self.immutable, "immutable", n_features, names)
        low, high = read_bounds(self.bounds, n_features, names)
        rng = as_generator(self.random_state)
        seeds = [int(seed) for seed in rng.integers(2**31, size=4)]
        # Nothing is set on self until everything has worked.
        state = copy.copy(self)
        check_settings(self.get_params(deep=False))
        scaler = MinMaxScaler().fit(table)
        constant = table.max(axis=0) == table.min(axis=0)
        if constant.any():
            which = [names[d] if names is not None else int(d) for d in np.flatnonzero(constant)]
            warnings.warn(f"X has constant columns, which count as 0: {which}", UserWarning, stacklevel=2)
        try:
            train, held = train_test_split(
                np.arange(len(table)), test_size=self.candidate_fraction, stratify=labels, random_state=seeds[1]
            )
        except ValueError as error:
            raise ValueError(
                f"candidate_fraction={self.candidate_fraction} of {len(table)} rows cannot be split with both labels "
                f"on both sides: {error}"
            ) from error
        classifier = Classifier.of(self.estimator, names, seeds[2]).fit(table[train], labels[train])
        favourable = held[classifier.predict(table[held]) == 1]
        inside = favourable[((table[favourable] >= low) & (table[favourable] <= high)).all(axis=1)]
        if inside.size == 0:
            raise ValueError(
                f"no candidate: of {held.size} rows kept from the classifier {favourable.size} are predicted "
                f"favourable, {inside.size} of them within bounds"
            )
        if inside.size > self.max_candidates:
            inside = rng.choice(inside, self.max_candidates, replace=False)
        chosen = np.sort(inside)

        scale = np.where(constant, 0.0, scaler.scale_)
        offset = np.where(constant, 0.0, scaler.min_)
        state.scaler_ = scaler
        state.cost_model_ = CostModel(self.cost).fit(table * scale + offset)
        state.candidates_ = table[chosen]
        positives = table[train][labels[train] == 1]
        scores = classifier.scores(table) if self.method == "trust" else np.ones(len(table))
        state._pool = Pool(
            state.candidates_,
            scale=scale,
            offset=offset,
            cost_model=state.cost_model_,
            immutable=immutable,
            acceptance=self.acceptance,
            usable=plausible(positives, state.candidates_, self.outlier_limit, seeds[3]),
            scores=scores[chosen],
        )
        state.bandit_ = make_policy(self.method, len(chosen), self.get_params(deep=False), seeds[0])
        if self.method == "trust":
            scaled = state._pool.scaled(table)
            state.bandit_.fit(scaled[train], labels[train], scaled[held], labels[held], scores[held])
        state._names, state._classifier, state.estimator_ = names, classifier, classifier.model
        state.n_features_in_ = n_features
        state._entries, state._pending, state._closed, state._open = [], [], 0, False
        if names is not None and all(isinstance(name, str) for name in names):
            state.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(state, "feature_names_in_"):
            del state.feature_names_in_
        self.__dict__ = state.__dict__
        return self

    def recommend(self, x: ArrayLike) -> Recommendation:
        """Recommend a change to one person; with `auto_tick` this closes the round before and opens a new one.

        Parameters
        ----------
        x : array-like, Series, mapping or DataFrame of one row
            The person, with D features; named ones are put in order.

        Returns
        -------
        Recommendation
            The change. If no candidate is feasible its candidate is -1, and a warning says so; the round counts.

        Raises
        ------
        TypeError, ValueError
            If x is not numeric or finite, has other features, or is favourable already (unless `allow_favourable`);
            nothing has changed then.
        """
        person, situation, cost = self._situation(x)
        if self.auto_tick and self._open:
            self.tick()
        # The number is that of the call of `suggest`, which is the ticket.
        ticket = len(self._entries)
        allowed = self.bandit_.rank(situation)[0].size if self.method == "trust" else situation.feasible.size
        candidate = self.bandit_.suggest(situation)
        self._open = True
        if candidate < 0:
            self._entries.append(_Entry(self._closed + 1, -1, math.nan, math.nan, None, None))
            warnings.warn("no candidate is feasible for this person; nothing is recommended", UserWarning, stacklevel=2)
            return Recommendation(ticket, None, None, -1, math.nan, math.nan, math.nan, 0)
        target = self.candidates_[candidate]
        entry = _Entry(
            self._closed + 1, candidate, float(cost[candidate]), float(situation.acceptance[candidate]), None, None
        )
        self._entries.append(entry)
        return Recommendation(
            ticket,
            self._named(target - person),
            self._named(target.copy()),
            candidate,
            entry.cost,
            entry.acceptance,
            self.bandit_.last_improvement_,
            int(allowed),
        )

    def report(self, ticket: int, improved: bool = True) -> None:
        """Say what became of a recommendation; reports may come late and in any order.

        A report counts while fewer than `timeout` rounds were closed since the recommendation. It is handed to the
        policy when the round in which it comes is closed. A failure adds nothing to what silence says.

        Parameters
        ----------
        ticket : int
            The ticket of the recommendation.
        improved : bool, default=True
            Whether the person carried the action out and things got better.

        Raises
        ------
        TypeError
            If `improved` is not a boolean, 0 or 1.
        ValueError
            If the ticket is unknown, names a recommendation of nothing, or was reported before; nothing has changed
            then.

        Warns
        -----
        UserWarning
            If the report comes after the time-out; it changes nothing.
        """
        check_is_fitted(self, "bandit_")
        if not isinstance(improved, bool | np.bool_ | int | np.integer) or improved not in (0, 1):
            raise TypeError(f"improved must be True or False, got {improved!r}")
        known = isinstance(ticket, int | np.integer) and not isinstance(ticket, bool)
        if not known or not 0 <= ticket < len(self._entries):
            raise ValueError(f"ticket must be one that recommend returned, got {ticket!r}")
        entry = self._entries[int(ticket)]
        if entry.candidate < 0:
            raise ValueError(f"ticket {ticket} is one of a round in which nothing was recommended")
        if entry.improved is not None:
            raise ValueError(f"ticket {ticket} was reported before")
        delay = self._closed + 1 - (entry.round - 1)
        if delay > self.timeout:
            warnings.warn(
                f"the report of ticket {ticket} comes {delay - 1} rounds after the recommendation, past the time-out "
                f"of {self.timeout}; it is ignored",
                UserWarning,
                stacklevel=2,
            )
            return
        self._entries[int(ticket)] = entry._replace(improved=bool(improved), delay=delay)
        if improved:
            self._pending.append(Feedback(entry.candidate, entry.acceptance, 1.0, int(ticket), delay))

    def tick(self, rounds: int = 1) -> None:
        """Close rounds: the open one, or an idle one if none is open, and idle ones after it.

        Parameters
        ----------
        rounds : int, default=1
            How many to close; the reports so far belong to the first.

        Raises
        ------
        TypeError, ValueError
            If `rounds` is not an integer >= 1.
        """
        check_is_fitted(self, "bandit_")
        for _ in range(check_integer(rounds, "rounds", minimum=1)):
            # In the order of tickets, so that sums do not depend on the order of reports.
            self.bandit_.update(sorted(self._pending, key=lambda item: item.number))
            self._pending, self._open = [], False
            self._closed += 1

    def candidates(self) -> pd.DataFrame:
        """Return the candidates in original units.

        Returns
        -------
        DataFrame of shape (K, D)
            A row for each candidate; the index is its number.
        """
        check_is_fitted(self, "bandit_")
        names = self._names if self._names is not None else [f"x{d}" for d in range(self.n_features_in_)]
        index = pd.RangeIndex(len(self.candidates_), name="candidate")
        return pd.DataFrame(self.candidates_.copy(), columns=list(names), index=index)

    def explain(self, x: ArrayLike, top: int = 5) -> pd.DataFrame:
        """Show how the feasible candidates compare for a person; nothing changes.

        Parameters
        ----------
        x : array-like, Series, mapping or DataFrame of one row
            The person.
        top : int, default=5
            How many candidates to show at most.

        Returns
        -------
        DataFrame
            Candidates, best first, with the columns candidate, value, mean, bonus, cost and acceptance. value = mean +
            bonus is what the next `recommend` compares, reports so far included if that will close their round.

        Raises
        ------
        TypeError, ValueError
            As for `recommend`; or if `top` is not an integer >= 1.
        """
        check_integer(top, "top", minimum=1)
        _, situation, cost = self._situation(x)
        bandit: Policy = self.bandit_
        if self.auto_tick and self._open and self.method in LEARNING:
            bandit = copy.deepcopy(bandit)
            bandit.update(sorted(self._pending, key=lambda item: item.number))
        arms, mean, bonus = bandit.rank(situation)
        frame = pd.DataFrame(
            {
                "candidate": arms,
                "value": mean + bonus,
                "mean": mean,
                "bonus": bonus,
                "cost": cost[arms],
                "acceptance": situation.acceptance[arms],
            }
        )
        return frame.sort_values("value", ascending=False, kind="stable", ignore_index=True).head(top)

    @property
    def history_(self) -> pd.DataFrame:
        """Recommendations so far with what was reported of them."""
        if "_entries" not in self.__dict__:
            raise AttributeError("history_ exists after fit")
        rows: Iterable[Any] = ((ticket, *entry) for ticket, entry in enumerate(self._entries))
        frame = pd.DataFrame(rows, columns=list(HISTORY))
        kinds: dict[str, Any] = {"cost": float, "acceptance": float, "improved": "boolean", "delay": "Int64"}
        return frame.astype({name: kinds.get(name, np.int64) for name in HISTORY})

    def _situation(self, x: Any) -> tuple[Floats, Situation, Floats]:
        check_is_fitted(self, "bandit_")
        person = read_person(x, self.n_features_in_, self._names)
        if not self.allow_favourable and self._classifier.predict(person[None])[0] == 1:
            raise ValueError("x is predicted favourable already; allow_favourable=True accepts it all the same")
        score = float(self._classifier.scores(person[None])[0]) if self.method == "trust" else 0.0
        return person, *self._pool.situation(person, score)

    def _named(self, values: Floats) -> Any:
        return values if self._names is None else pd.Series(values, index=list(self._names))

    _names: Names | None
    _classifier: Classifier
    _pool: Pool
    _entries: list[_Entry]
    _pending: list[Feedback]
    _closed: int
    _open: bool
