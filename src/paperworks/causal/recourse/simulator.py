"""A world with persons, candidates and known probabilities of improvement, in which policies can be compared."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive

from .classifier import Classifier
from .costs import COSTS, CostModel
from .inputs import as_generator, column_number, column_numbers, read_labels, read_table
from .methods import METHODS, check_settings, make_policy
from .pool import acceptance_of, plausible
from .protocol import Feedback, Floats, Situation

POLICIES = (*METHODS, "oracle")
COLUMNS = ("candidate", "regret", "reward", "expected_reward", "cost", "acceptance", "improvement", "seconds")


class RecourseSimulator:
    """Let policies advise a stream of rejected persons whose reactions are drawn from known probabilities.

    The rows are split, stratified, into halves and quarters: half trains the classifier, a quarter supplies the
    candidates (those predicted favourable), a quarter the persons (those predicted and labelled unfavourable), drawn
    with replacement. A person carries an action out with the acceptance p, and improves with the probability theta of
    the candidate. A success is told d rounds later, d geometric, unless d exceeds the time-out or the run has ended.

    All policies meet the same persons, reactions and delays. A policy is told nothing of a round but its situation,
    and of earlier ones what has arrived.

    Parameters
    ----------
    estimator : classifier or None
        A clone is fitted to the first part; a `sklearn.frozen.FrozenEstimator` is used as it is. None means a
        `RandomForestClassifier`.
    X : array-like or DataFrame of shape (n_samples, D)
        Numeric features.
    y : array-like of shape (n_samples,)
        Labels, 1 being favourable.
    n_rounds : int, default=1000
        Rounds of a run.
    timeout : int, default=10
        Rounds within which a success counts.
    delay : float or (float, float), default=0.2
        Rate of the geometric delay; a pair gives the rates of the persons with `group` 1 and of the others.
    improvement_noise : float, default=0.1
        Standard deviation of the noise on theta = label + noise, clipped to [0, 1].
    probability_noise : float, default=0.0
        Standard deviation of the noise on the acceptance that policies see, clipped to [0, 1].
    cost : {"norm", "mps", "mahalanobis", "group", "random"}, default="norm"
        True cost. ``"group"``: mps for persons with `group` 1 and Mahalanobis for the others; ``"random"``: one of
        the two for each round.
    assumed_cost : {"norm", "mps", "mahalanobis"}, default="norm"
        Cost behind the acceptance that policies see; the oracle sees the true one.
    improvement : array-like of shape (n_samples,) or None, default=None
        Probability theta of each row of X, if it is known; then no noise is added.
    immutable : sequence of column names or numbers, default=()
        Features in which candidate and person must be equal.
    group : column name or number, or None, default=None
        A column with values 0 and 1.
    max_candidates : int, default=200
        Largest number of candidates K, drawn at random.
    outlier_limit : float or None, default=None
        As in `ImprovementRecourse`.
    alpha : float, default=20.0
        Of the policy ``"linucb"``, see `DelayedLinUCB`.
    delta : float, default=0.05
        Of the policy ``"linucb"``.
    bonus : {"squared", "norm"}, default="squared"
        Of the policy ``"linucb"``.
    correct_timeout : bool, default=False
        Of the policy ``"linucb"``.
    n_estimators : int, default=50
        Of the policy ``"bwo"``, see `ForestUCB`.
    sample_ratio : float, default=4.0
        Of the policy ``"bwo"``.
    gamma : float, default=1.0
        Of the policies ``"bwo"`` and ``"gp"``.
    refit_every : int, default=1
        Of the policies ``"bwo"`` and ``"gp"``.
    model_refit_every : int or None, default=None
        Fit the classifier anew after so many rounds, on its rows and the outcomes so far: the target with label 1
        where a success was told, with label 0 where the time-out has passed without. Candidates and persons must
        then satisfy the new classifier.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Makes everything repeatable; each run of the same policy then gives the same result.

    Attributes
    ----------
    estimator_ : classifier
        The classifier.
    candidates_ : ndarray of shape (K, D)
        Candidates in original units.
    improvement_ : ndarray of shape (K,)
        theta of each candidate.
    people_ : ndarray of shape (n_people, D)
        Persons that may come, in original units.
    persons_ : ndarray of int of shape (n_rounds,)
        Which person comes in each round.
    uniforms_ : ndarray of shape (n_rounds, 2)
        An action is carried out where the first is below p, and improves where the second is below theta.
    delays_ : ndarray of int of shape (n_rounds,)
        Rounds until a success is told, 1 being the same round.
    candidate_rows_ : ndarray of int of shape (K,)
        Rows of X that the candidates are.
    people_rows_ : ndarray of int of shape (n_people,)
        Rows of X that the persons are.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of its kind or outside its range, or no candidate or no person is found.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, experiments and appendix.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import RecourseSimulator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 3))
    >>> y = (X[:, 0] + 0.3 * rng.normal(size=400) > 0.5).astype(int)
    >>> world = RecourseSimulator(None, X, y, n_rounds=200, random_state=0)
    >>> learned, fixed = (world.run(policy).improvement.mean() for policy in ("linucb", "nearest"))
    >>> bool(learned > fixed)
    True
    """

    def __init__(
        self,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_rounds: int = 1000,
        timeout: int = 10,
        delay: float | tuple[float, float] = 0.2,
        improvement_noise: float = 0.1,
        probability_noise: float = 0.0,
        cost: str = "norm",
        assumed_cost: str = "norm",
        improvement: ArrayLike | None = None,
        immutable: Any = (),
        group: Any = None,
        max_candidates: int = 200,
        outlier_limit: float | None = None,
        alpha: float = 20.0,
        delta: float = 0.05,
        bonus: str = "squared",
        correct_timeout: bool = False,
        n_estimators: int = 50,
        sample_ratio: float = 4.0,
        gamma: float = 1.0,
        refit_every: int = 1,
        model_refit_every: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_rounds = check_integer(n_rounds, "n_rounds", minimum=1)
        self.timeout = check_integer(timeout, "timeout", minimum=1)
        self.probability_noise = check_positive(probability_noise, "probability_noise", zero_ok=True)
        self.cost = check_choice(cost, "cost", (*COSTS, "group", "random"))
        self.assumed_cost = check_choice(assumed_cost, "assumed_cost", COSTS)
        self.model_refit_every = model_refit_every
        if model_refit_every is not None:
            check_integer(model_refit_every, "model_refit_every", minimum=1)
        check_integer(max_candidates, "max_candidates", minimum=1)
        noise = check_positive(improvement_noise, "improvement_noise", zero_ok=True)
        rates = _rates(delay)
        table, names = read_table(X)
        labels = read_labels(y, len(table))
        n, n_features = table.shape
        self._immutable = column_numbers(immutable, "immutable", n_features, names)
        if group is None and (rates[0] != rates[1] or cost == "group"):
            raise ValueError('group must name a column for cost="group" or a pair of delays, got None')
        self._settings = {
            "timeout": timeout,
            "alpha": alpha,
            "delta": delta,
            "bonus": bonus,
            "correct_timeout": correct_timeout,
            "n_estimators": n_estimators,
            "sample_ratio": sample_ratio,
            "gamma": gamma,
            "refit_every": refit_every,
        }
        check_settings(self._settings)
        self._trust: list[Any] = []
        rng = as_generator(random_state)
        self._seeds = {name: int(seed) for name, seed in zip(POLICIES, rng.integers(2**31, size=7), strict=True)}
        split, fit, outliers, self._noise_seed = (int(seed) for seed in rng.integers(2**31, size=4))

        rows = np.arange(n)
        try:
            train, rest = train_test_split(rows, test_size=0.5, stratify=labels, random_state=split)
            held, others = train_test_split(rest, test_size=0.5, stratify=labels[rest], random_state=split)
        except ValueError as error:
            raise ValueError(f"X has too few rows, {n}, for three parts with both labels: {error}") from error
        self._train = (table[train], labels[train])
        self._held = (table[held], labels[held])
        self._classifier = Classifier.of(estimator, names, fit).fit(*self._train)
        self.estimator_ = self._classifier.model
        chosen = held[self._classifier.predict(table[held]) == 1]
        if chosen.size == 0:
            raise ValueError(f"no candidate: none of {held.size} rows is predicted favourable")
        if chosen.size > max_candidates:
            chosen = rng.choice(chosen, max_candidates, replace=False)
        self.candidate_rows_ = np.sort(chosen)
        rejected = others[labels[others] == 0]
        self._eligible = self._classifier.predict(table[rejected]) == 0
        if not self._eligible.any():
            raise ValueError(f"no person: none of {rejected.size} unfavourable rows is predicted unfavourable")
        self.people_rows_ = rejected if model_refit_every is not None else rejected[self._eligible]
        if model_refit_every is None:
            self._eligible = np.ones(self.people_rows_.size, dtype=bool)
        self.candidates_, self.people_ = table[self.candidate_rows_], table[self.people_rows_]
        self._usable = plausible(self._train[0][self._train[1] == 1], self.candidates_, outlier_limit, outliers)

        if improvement is None:
            drawn = labels[self.candidate_rows_] + noise * rng.normal(size=len(self.candidates_))
            self.improvement_: Floats = np.clip(drawn, 0.0, 1.0)
        else:
            theta = check_finite_array(improvement, "improvement", ndim=1)
            if theta.size != n or theta.min() < 0.0 or theta.max() > 1.0:
                raise ValueError(f"improvement must be {n} probabilities, one per row of X, got shape {theta.shape}")
            self.improvement_ = theta[self.candidate_rows_]
        self._low, width = table.min(axis=0), np.ptp(table, axis=0)
        self._scale = np.divide(1.0, width, out=np.zeros(n_features), where=width > 0)
        self._costs = self._cost_tables(table)
        self._same = (self.people_[:, None, self._immutable] == self.candidates_[None, :, self._immutable]).all(axis=2)
        young = np.zeros(len(self.people_), dtype=bool)
        if group is not None:
            column = self.people_[:, column_number(group, "group", n_features, names)]
            if not np.isin(column, (0.0, 1.0)).all():
                raise ValueError(
                    f"group must be a column of 0 and 1, got values such as {np.unique(column)[:5].tolist()}"
                )
            young = column == 1.0
        self._young = young

        # The stream: the same for all policies.
        self._picks = rng.random(self.n_rounds)  # which of the eligible persons comes
        eligible = np.flatnonzero(self._eligible)
        self.persons_ = eligible[(self._picks * eligible.size).astype(np.intp)]
        self.uniforms_ = rng.random((self.n_rounds, 2))
        self._coins = rng.random(self.n_rounds) < 0.5
        waits = rng.random(self.n_rounds)
        rate = np.where(young[self.persons_], rates[0], rates[1])
        self.delays_ = np.maximum(np.ceil(np.log1p(-waits) / np.log1p(-np.minimum(rate, 1 - 1e-16))), 1).astype(
            np.int64
        )

    def run(self, policy: Any) -> pd.DataFrame:
        """Let a policy advise the stream of persons.

        Parameters
        ----------
        policy : {"linucb", "bwo", "gp", "nearest", "trust", "random", "oracle"} or object
            A name, or an object with ``suggest(situation) -> int`` and ``update(feedback)`` as `ForestUCB` has them,
            which must be new. ``"oracle"`` knows p and theta and maximises their product.

        Returns
        -------
        DataFrame
            A row per round with the columns candidate (-1 if none), regret (largest theta p of the feasible
            candidates less that of the choice), reward (whether things improved, told or not), expected_reward
            (theta p), cost, acceptance (both true ones), improvement (theta), and seconds (spent by the policy). cost,
            acceptance and improvement are NaN where nothing was recommended.

        Raises
        ------
        TypeError, ValueError
            If the policy is unknown, or suggests a candidate that is not feasible.
        """
        oracle = isinstance(policy, str) and policy == "oracle"
        if isinstance(policy, str):
            adviser = self._make(check_choice(policy, "policy", POLICIES))
        elif callable(getattr(policy, "suggest", None)) and callable(getattr(policy, "update", None)):
            adviser = policy
        else:
            raise TypeError(f"policy must be a name or have suggest and update, got {policy!r}")
        noise = np.random.default_rng(self._noise_seed)
        model, usable, eligible = self._classifier, self._usable, self._eligible
        scaled_people, targets = self._scaled(self.people_), self._scaled(self.candidates_)
        scores, people_scores = model.scores(self.candidates_), model.scores(self.people_)
        due: dict[int, list[Feedback]] = {}
        told: dict[int, bool] = {}
        log: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for t in range(self.n_rounds):
            if self.model_refit_every is not None and t > 0 and t % self.model_refit_every == 0:
                model = self._refitted(log["candidate"], told, t)
                usable = self._usable & (model.predict(self.candidates_) == 1)
                eligible = model.predict(self.people_) == 0
                scores, people_scores = model.scores(self.candidates_), model.scores(self.people_)
            person = self._person(t, eligible)
            kind = self._kind(t, person)
            true_cost = self._costs[kind][person]
            true_p = acceptance_of(true_cost, kind, targets.shape[1])
            seen = true_p
            if not oracle:
                if kind != self.assumed_cost:
                    seen = acceptance_of(self._costs[self.assumed_cost][person], self.assumed_cost, targets.shape[1])
                if self.probability_noise > 0.0:
                    shaken = seen + self.probability_noise * noise.normal(size=seen.size)
                    seen = np.clip(shaken, 0.0, 1.0)
            feasible = np.flatnonzero(usable & self._same[person]) if eligible.any() else np.empty(0, np.intp)
            here = Situation(scaled_people[person], targets, seen, feasible, float(people_scores[person]), scores)
            start = time.perf_counter()
            k = adviser.suggest(here)
            seconds = time.perf_counter() - start
            if k != -1 and k not in feasible:
                raise ValueError(f"policy suggested {k!r} in round {t + 1}, which is not feasible")
            expected = self.improvement_ * true_p
            best = float(expected[feasible].max()) if feasible.size else 0.0
            reward = False
            if k >= 0:
                carried_out, improves = self.uniforms_[t] < (true_p[k], self.improvement_[k])
                reward = bool(carried_out and improves)
                delay = int(self.delays_[t])
                if reward and delay <= self.timeout:
                    due.setdefault(t + delay - 1, []).append(Feedback(int(k), float(seen[k]), 1.0, t, delay))
            arrived = due.pop(t, [])
            told.update((item.number, True) for item in arrived)
            start = time.perf_counter()
            adviser.update(arrived)
            seconds += time.perf_counter() - start
            chosen = float(expected[k]) if k >= 0 else 0.0
            facts = (float(true_cost[k]), float(true_p[k]), float(self.improvement_[k])) if k >= 0 else (math.nan,) * 3
            for name, value in zip(
                COLUMNS, (int(k), best - chosen, float(reward), chosen, *facts, seconds), strict=True
            ):
                log[name].append(value)
        return pd.DataFrame(log)

    def _make(self, name: str) -> Any:
        if name == "oracle":
            return _Oracle(self.improvement_)
        if name == "trust" and self._trust:
            return self._trust[0]  # it learns nothing from a run
        policy = make_policy(name, len(self.candidates_), self._settings, self._seeds[name])
        if name == "trust":
            (rows, labels), (held, held_labels) = self._train, self._held
            scores = self._classifier.scores(held)
            self._trust.append(policy.fit(self._scaled(rows), labels, self._scaled(held), held_labels, scores))
        return policy

    def _scaled(self, rows: Floats) -> Floats:
        return np.asarray((rows - self._low) * self._scale)

    def _cost_tables(self, table: Floats) -> dict[str, Floats]:
        """Return the cost of each candidate (columns) for each person (rows) under the costs in use."""
        kinds = {self.assumed_cost, *(("mps", "mahalanobis") if self.cost in ("group", "random") else (self.cost,))}
        tables = {}
        for kind in sorted(kinds):
            model = CostModel(kind).fit(self._scaled(table))
            people, targets = model.embed(self._scaled(self.people_)), model.embed(self._scaled(self.candidates_))
            tables[kind] = np.array([model.distance(person, targets) for person in people])
        return tables

    def _person(self, t: int, eligible: NDArray[np.bool_]) -> int:
        if eligible is self._eligible or not eligible.any():
            return int(self.persons_[t])
        numbers = np.flatnonzero(eligible)
        return int(numbers[int(self._picks[t] * numbers.size)])

    def _kind(self, t: int, person: int) -> str:
        if self.cost in ("group", "random"):
            first = self._young[person] if self.cost == "group" else self._coins[t]
            return "mps" if first else "mahalanobis"
        return self.cost

    def _refitted(self, candidates: list[int], told: dict[int, bool], t: int) -> Classifier:
        """Fit the classifier to its rows and to the outcomes known before round t."""
        known = [i for i, k in enumerate(candidates) if k >= 0 and (i in told or i + self.timeout <= t)]
        rows = np.vstack([self._train[0], self.candidates_[[candidates[i] for i in known]]])
        labels = np.concatenate([self._train[1], np.array([i in told for i in known], dtype=np.int64)])
        return self._classifier.refitted(rows, labels)


class _Oracle:
    """Knows theta, and sees the true p."""

    def __init__(self, improvement: Floats) -> None:
        self._improvement = improvement

    def suggest(self, situation: Situation) -> int:
        arms = situation.feasible
        return int(arms[np.argmax((self._improvement * situation.acceptance)[arms])]) if arms.size else -1

    def update(self, feedback: Any = ()) -> None:
        return


def _rates(delay: Any) -> tuple[float, float]:
    pair = delay if isinstance(delay, tuple | list) else (delay, delay)
    if len(pair) != 2:
        raise ValueError(f"delay must be a rate or two, got {delay!r}")
    rates = [check_positive(rate, "delay") for rate in pair]
    if max(rates) > 1.0:
        raise ValueError(f"delay must lie in (0, 1], got {delay!r}")
    return rates[0], rates[1]
