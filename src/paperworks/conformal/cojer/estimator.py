"""The estimator: fit models, calibrate them, predict a batch of intervals."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from paperworks._checks import check_choice, check_integer, check_positive, check_probability_open

from . import aggregation as sets
from . import thresholds
from .models import as_target, check_prefitted, default_models, fit_one, named_models, predict_all, with_shape

__all__ = ["CoJER"]

CALIBRATIONS = ("plain", "independent", "split")

Floats = NDArray[np.float64]


class CoJER(RegressorMixin, BaseEstimator):
    """Prediction intervals whose share of misses in a batch is bounded with high probability.

    For a batch of m test points the *false coverage proportion* (FCP) is the share of intervals that miss. Split
    conformal prediction bounds its expectation only; in about half of the data splits the realised share is larger.
    CoJER makes it at most `alpha` with probability at least ``1 - delta``, over calibration and test data together,
    for exchangeable data and any model. With ``band="jer"`` this holds for all levels at once, so `alpha` may be
    chosen after seeing the intervals. **If one alpha is fixed in advance, take** ``band="exact"``: its intervals are
    the shortest that keep the promise.

    Several models are combined by aggregating their conformal p-values.

    Parameters
    ----------
    estimators : estimator or list of (str, estimator), optional
        Regressors. The default is the five of the paper's code: a random forest, a cross-validated lasso, a multilayer
        perceptron, a support-vector and a nearest-neighbour regressor (the last four on standardised features).
    alpha : float, default=0.1
        Largest wanted share of misses, in (0, 1).
    delta : float, default=0.1
        Probability with which the share may exceed `alpha`, in (0, 1).
    band : {"jer", "exact", "dkw", "scp"}, default="jer"
        How the threshold is found; see `cojer_threshold`. ``"scp"`` is plain split conformal prediction.
    template : {"learned", "beta"}, default="learned"
        Shape of the ``"jer"`` band.
    k_max : int, optional
        Length of the ``"jer"`` band, at most the batch size is used and at least what `alpha` needs; the
        default is half the batch.
    n_null : int, default=1000
        Number of draws that propose the learned template, and of those that check it.
    aggregation : {"harmonic", "arithmetic", "geometric", "quantile"}, default="harmonic"
        How the p-values of several models are combined; ``"quantile"`` is the 0.3-quantile over 0.3.
    calibration : {"plain", "independent", "split"}, default="plain"
        How the aggregation is paid for. ``"plain"`` uses the threshold of a single model, as the paper's code does:
        exact for models of equal ranks, *not guaranteed* otherwise. ``"independent"`` learns the band on aggregates of
        independent ranks: conservative for positively dependent models; needs ``band="jer", template="learned"``.
        ``"split"`` spends half of the calibration set on the p-values and calibrates their aggregate on the other half:
        exact for any dependence.
    cal_size : float, default=0.33
        Share of the data given to `fit` that is set aside for calibration, in (0, 1). Not used if `X_cal` is given.
    prefit : bool, default=False
        If true, the estimators are fitted already and `fit` takes the calibration data.
    random_state : int or numpy.random.RandomState, optional
        Source of the split, of the default models and of the learned template.
    n_jobs : int, optional
        Number of models that are fitted at once; see joblib.
    verbose : int, default=0
        Verbosity of the fits; 0 is silent.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted models.
    residuals_ : ndarray of shape (n_models, n)
        Absolute calibration residuals of every model, sorted. With ``calibration="split"`` those of the first half.
    n_cal_ : int
        Number of calibration points.
    threshold_ : int
        Threshold t of the last batch: the sets keep the labels whose (aggregated) rank exceeds t.
    alpha_hat_ : float
        The same as a p-value, ``t / (n + 1)``.
    n_empty_ : int
        Number of empty prediction sets in the last batch.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of str
        Names of the features, if `fit` saw a table whose column names are all strings.

    See Also
    --------
    cojer_threshold : The thresholds alone, for scores of any kind.

    Notes
    -----
    The guarantee is per batch: the batch is all rows of one call of `predict_interval`. Ties make it conservative.
    Models may be chosen and tuned on training data, never on calibration data.

    References
    ----------
    .. [1] Blain, Thirion and Neuvial, "False Coverage Proportion Control for Conformal Prediction", ICML 2025,
       PMLR 267:4471-4481.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from paperworks.conformal import CoJER, false_coverage_proportion
    >>> X, y = make_friedman1(1200, noise=1.0, random_state=0)
    >>> models = [("ridge", Ridge()), ("knn", KNeighborsRegressor())]
    >>> cojer = CoJER(models, alpha=0.1, delta=0.1, random_state=0).fit(X[:1000], y[:1000])
    >>> intervals = cojer.predict_interval(X[1000:])
    >>> intervals.shape
    (200, 2)
    >>> false_coverage_proportion(intervals, y[1000:]) <= 0.1
    True
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        alpha: float = 0.1,
        delta: float = 0.1,
        band: Literal["jer", "exact", "dkw", "scp"] = "jer",
        template: Literal["learned", "beta"] = "learned",
        k_max: int | None = None,
        n_null: int = 1000,
        aggregation: Literal["harmonic", "arithmetic", "geometric", "quantile"] = "harmonic",
        calibration: Literal["plain", "independent", "split"] = "plain",
        cal_size: float = 0.33,
        prefit: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimators = estimators
        self.alpha = alpha
        self.delta = delta
        self.band = band
        self.template = template
        self.k_max = k_max
        self.n_null = n_null
        self.aggregation = aggregation
        self.calibration = calibration
        self.cal_size = cal_size
        self.prefit = prefit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimators is not None:
            try:
                inner = [get_tags(estimator).input_tags for _, estimator in named_models(self.estimators)]
            except (TypeError, ValueError, AttributeError):  # malformed: fit says so
                return tags
            tags.input_tags.allow_nan = all(t.allow_nan for t in inner)
            tags.input_tags.sparse = all(t.sparse for t in inner)
        return tags

    def fit(self, X: Any, y: ArrayLike, X_cal: Any = None, y_cal: ArrayLike | None = None) -> CoJER:
        """Fit the models and compute their calibration residuals.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Training data, of which a share of `cal_size` is set aside for calibration unless `X_cal` is given. With
            ``prefit=True``: the calibration data. Handed to the models as it is.
        y : array-like of shape (n_samples,)
            Targets.
        X_cal : array-like, DataFrame or sparse matrix of shape (n_cal, n_features), optional
            Calibration data. All of `X` is then used for training.
        y_cal : array-like of shape (n_cal,), optional
            Targets of the calibration data.

        Returns
        -------
        CoJER
            The fitted estimator.

        Raises
        ------
        ValueError
            If an argument or parameter is out of range, holds NaN, or has the wrong shape.
        TypeError
            If an estimator can neither be fitted nor predict.
        sklearn.exceptions.NotFittedError
            If ``prefit=True`` and an estimator is not fitted.
        """
        self._check_parameters()
        rng = check_random_state(self.random_state)
        named = named_models(self.estimators) if self.estimators is not None else default_models(rng)
        if y is None:
            raise ValueError("CoJER requires y to be passed, but the target y is None")
        if self.estimators is None and issparse(X):
            raise TypeError("sparse X is not supported by the default estimators; pass a dense array, or estimators")
        X, y = with_shape(X), as_target(y, "y")
        check_consistent_length(X, y)
        validate_data(self, X, skip_check_array=True)
        if (X_cal is None) != (y_cal is None):
            raise ValueError("X_cal and y_cal must be given together")
        if X_cal is not None:
            if self.prefit:
                raise ValueError("with prefit=True X and y are the calibration set; X_cal and y_cal must be None")
            X_cal, y_cal = with_shape(X_cal), as_target(y_cal, "y_cal")
            check_consistent_length(X_cal, y_cal)
            validate_data(self, X_cal, reset=False, skip_check_array=True)
        elif self.prefit:
            X_cal, y_cal = X, y
        else:
            X, y, X_cal, y_cal = self._split(X, y, rng)
        if len(y_cal) < 2:
            raise ValueError(f"at least 2 calibration points are needed, got 1 sample (n_samples = {len(y_cal)})")

        if self.prefit:
            for name, model in named:
                check_prefitted(model, name)
            models = [model for _, model in named]
        else:
            models = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
                delayed(fit_one)(clone(model), X, y) for _, model in named
            )
        names = [name for name, _ in named]
        residuals = np.abs(y_cal[:, None] - predict_all(models, names, X_cal))
        # Everything random from here on depends on this seed and on the batch size, not on the order of calls.
        self._seed = int(rng.randint(2**31))
        self._names = names
        self._templates: dict[int, NDArray[np.int64]] = {}
        self.estimators_ = models
        self.n_cal_ = len(y_cal)
        if self.calibration == "split":
            order, half = rng.permutation(self.n_cal_), self.n_cal_ // 2
            self.residuals_ = np.sort(residuals[order[:half]].T, axis=1)
            ranks = sets.conformal_ranks(residuals[order[half:], :], np.zeros(len(models)), self.residuals_)
            self._scores = np.sort(sets.aggregate(ranks, self.aggregation))
        else:
            self.residuals_ = np.sort(residuals.T, axis=1)
        for name in ("threshold_", "alpha_hat_", "n_empty_"):
            if hasattr(self, name):
                delattr(self, name)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the target: the mean of the models.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.
        """
        return self._predict_models(X).mean(axis=1)

    def predict_interval(
        self, X: Any, *, alpha: float | None = None, return_union: bool = False
    ) -> Floats | list[Floats]:
        """Predict one interval for each row of a batch.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (m, n_features)
            The batch: the bound holds for the share of misses among all these rows.
        alpha : float, optional
            Another level than that of the constructor. With ``band="jer"`` or ``"dkw"`` it may be chosen after seeing
            the intervals of other levels; with ``band="exact"`` the promise is for each level separately.
        return_union : bool, default=False
            If true, return the prediction sets themselves, which may consist of several pieces if there are several
            models; otherwise the smallest interval around each.

        Returns
        -------
        ndarray of shape (m, 2) or list of m ndarrays of shape (k, 2)
            Lower and upper ends, both of which belong to the set. Infinite if there are too few calibration points for
            the promise; ``[nan, nan]`` (an array of no pieces) for an empty set, which misses.

        Warns
        -----
        UserWarning
            If the intervals are infinite (it names the number of calibration points that would do), if sets are empty,
            or if `alpha` needs a longer band than the one in use.

        Notes
        -----
        The band of a batch size is drawn once and kept. A level with floor(alpha m) + 1 beyond its length draws a
        longer one; levels chosen before and after then are not covered by one common promise.
        """
        check_is_fitted(self)
        alpha = check_probability_open(self.alpha if alpha is None else alpha, "alpha")
        predictions = self._predict_models(X)
        m = len(predictions)
        t = self._threshold(m, alpha)
        n, level = self._level(t)
        self.threshold_, self.alpha_hat_ = t, t / (n + 1)
        unbounded = sets.is_unbounded(predictions.shape[1], self.aggregation, level)
        if unbounded:
            self._warn_unbounded(m, alpha)
        find = sets.prediction_unions if return_union else sets.prediction_hulls
        result = find(predictions, self.residuals_, self.aggregation, level)
        if return_union:
            self.n_empty_ = sum(len(pieces) == 0 for pieces in result)
        else:
            self.n_empty_ = int(np.isnan(result).any(axis=1).sum())
        if self.n_empty_:
            warnings.warn(
                f"{self.n_empty_} of {m} prediction sets are empty: the models contradict each other there. "
                "An empty set counts as a miss.",
                UserWarning,
                stacklevel=2,
            )
        return result

    def p_values(self, X: Any, y: ArrayLike) -> Floats:
        """Return the conformal p-values of labels, aggregated over the models.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (m, n_features)
            Samples.
        y : array-like of shape (m,)
            A label for each.

        Returns
        -------
        ndarray of shape (m,)
            Numbers in (0, 1]; small where the label is surprising. A label is in the prediction set iff its p-value
            exceeds `alpha_hat_`.
        """
        check_is_fitted(self)
        y = as_target(y, "y")
        predictions = self._predict_models(X)
        check_consistent_length(predictions, y)
        ranks = sets.conformal_ranks(y[:, None], predictions, self.residuals_)
        combined = sets.aggregate(ranks, self.aggregation)
        whole = np.rint(combined)  # a mean of equal ranks may miss them by a unit in the last place
        combined = np.where(np.abs(combined - whole) <= 1e-12 * combined, whole, combined)
        if self.calibration == "split":
            at_most = np.searchsorted(self._scores, sets.strictly_above(combined), side="right")
            return (1.0 + at_most) / (len(self._scores) + 1)
        return np.minimum(1.0, combined / (self.residuals_.shape[1] + 1))

    def fcp_bound(self, n_test: int, *, t: int | None = None, half_width: float | None = None) -> float:
        """Bound the share of misses of intervals that were chosen after seeing the data.

        Parameters
        ----------
        n_test : int
            Size m of the batch.
        t : int, optional
            Threshold of the intervals, in 0..n. Exactly one of `t` and `half_width` is needed.
        half_width : float, optional
            Half-width of the intervals around the predictions of the (single) model, at least 0.

        Returns
        -------
        float
            With probability at least ``1 - delta``, all these bounds at once are at least the share of misses. It is
            1 where the band says nothing.

        Raises
        ------
        ValueError
            If the band is not ``"jer"``, or not exactly one of `t` and `half_width` is given, or `half_width` is given
            with several models.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.dummy import DummyRegressor
        >>> from paperworks.conformal import CoJER
        >>> X, y = np.zeros((500, 1)), np.linspace(-1, 1, 500)
        >>> model = DummyRegressor(strategy="constant", constant=0.0).fit(X, y)
        >>> cojer = CoJER(model, prefit=True, template="beta").fit(X, y)
        >>> cojer.fcp_bound(200, half_width=0.9) < 0.2
        True
        """
        check_is_fitted(self)
        m = check_integer(n_test, "n_test", minimum=1)
        if self.band != "jer":
            raise ValueError(f"fcp_bound needs band='jer', got band={self.band!r}")
        if (t is None) == (half_width is None):
            raise ValueError("exactly one of t and half_width must be given")
        n = self._n_threshold()
        if half_width is not None:
            half_width = check_positive(half_width, "half_width", zero_ok=True)
            if len(self.estimators_) != 1 or self.calibration == "split":
                raise ValueError(
                    "half_width needs a single model and calibration 'plain' or 'independent'; give t instead"
                )
            t = 1 + int((self.residuals_[0] > half_width).sum())
        else:
            t = check_integer(t, "t", minimum=0, maximum=n)
        above = np.flatnonzero(self._template(m, thresholds.allowed_misses(self.alpha, m)) > t)
        return float(above[0] / m) if above.size else 1.0

    # --- Thresholds of a batch -------------------------------------------------------------------------------------

    def _n_threshold(self) -> int:
        """Return the number of calibration points that the threshold counts."""
        return len(self._scores) if self.calibration == "split" else self.n_cal_

    def _threshold(self, m: int, alpha: float) -> int:
        if self.band == "jer":
            k = thresholds.allowed_misses(alpha, m)
            return int(self._template(m, k)[k]) - 1
        return thresholds.cojer_threshold(self._n_threshold(), m, alpha, self.delta, band=self.band)

    def _template(self, m: int, k: int) -> NDArray[np.int64]:
        """Return the band of batches of m points, long enough for k misses; it is made once and kept."""
        kept = self._templates.get(m)
        if kept is None or kept.size <= k:
            if kept is not None:
                warnings.warn(
                    f"this level needs a band of length {k + 1}, but the one in use for batches of {m} has length "
                    f"{kept.size}: a new band was made, and levels used before are not covered together with those "
                    "used from now on. Set k_max to have one band for all.",
                    UserWarning,
                    stacklevel=4,
                )
            base = thresholds.allowed_misses(self.alpha, m)
            kept = self._make_template(self._n_threshold(), m, max(k, base), self.n_null)
            self._templates[m] = kept
        return kept

    def _make_template(self, n: int, m: int, k: int, n_null: int) -> NDArray[np.int64]:
        K = thresholds.template_size(k, m, None if self.k_max is None else min(self.k_max, m))
        if self.template == "beta":
            return thresholds.beta_template(n, m, K, self.delta)
        rng = np.random.default_rng([self._seed, m])
        n_models = len(self.estimators_) if self.calibration == "independent" else 1

        def draw(size: int) -> NDArray[np.int32]:
            if n_models == 1:
                return thresholds.ordered_ranks(n, m, K, size, rng)
            return sets.independent_ranks(n, m, K, size, n_models, self.aggregation, rng)

        return thresholds.learned_template(draw, n, m, K, self.delta, n_null)

    def _level(self, t: int) -> tuple[int, float]:
        """Return n and the level that the aggregated rank of a label must exceed."""
        n = self._n_threshold()
        if self.calibration != "split":
            return n, sets.strictly_above(t)
        # 1 + #{scores <= s} > t iff s is at least the t-th smallest score.
        return n, 0.0 if t == 0 else float(self._scores[t - 1]) * (1.0 - 1e-12)

    def _warn_unbounded(self, m: int, alpha: float) -> None:
        text = f"{self.n_cal_} calibration points are too few for finite intervals"
        if self.band != "scp":
            text += f" on a batch of {m} with delta={self.delta}"
        n, k = self._n_threshold(), thresholds.allowed_misses(alpha, m)
        # The least t at which the lowest rank is refused; more than 1 for the quantile aggregation.
        wanted = 1
        while self.calibration != "split" and sets.is_unbounded(
            len(self.estimators_), self.aggregation, sets.strictly_above(wanted)
        ):
            wanted += 1

        def threshold(size: int) -> int:
            if self.band == "jer":
                return int(self._make_template(size, m, k, min(self.n_null, 250))[k]) - 1
            return thresholds.cojer_threshold(size, m, alpha, self.delta, band=self.band)

        if self.threshold_ < wanted:  # otherwise ties among the scores of "split"
            needed = thresholds.smallest_n_cal(threshold, n + 1, wanted)
            if needed is None:
                text += "; no number of them would be enough for this band, a larger batch or delta might"
            else:
                about = "about " if self.band == "jer" and self.template == "learned" else ""
                needed = 2 * needed - 1 if self.calibration == "split" else needed
                text += f"; {about}{needed} would give finite ones"
        warnings.warn(f"{text} (alpha={alpha})", UserWarning, stacklevel=3)

    # --- Data and models -------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_probability_open(self.alpha, "alpha")
        check_probability_open(self.delta, "delta")
        check_choice(self.band, "band", thresholds.BANDS)
        check_choice(self.template, "template", thresholds.TEMPLATES)
        check_choice(self.aggregation, "aggregation", sets.AGGREGATIONS)
        check_choice(self.calibration, "calibration", CALIBRATIONS)
        check_probability_open(self.cal_size, "cal_size")
        check_integer(self.n_null, "n_null", minimum=1)
        if self.k_max is not None:
            check_integer(self.k_max, "k_max", minimum=1)
        if self.calibration == "independent" and (self.band, self.template) != ("jer", "learned"):
            raise ValueError(
                "calibration='independent' learns the law of the aggregates and needs band='jer' with "
                f"template='learned'; got band={self.band!r}, template={self.template!r}"
            )
        if self.prefit and self.estimators is None:
            raise ValueError("prefit=True needs estimators, got None")

    def _split(self, X: Any, y: Floats, rng: np.random.RandomState) -> tuple[Any, Floats, Any, Floats]:
        n = len(y)
        n_cal = max(2, round(self.cal_size * n))
        if n_cal >= n:
            raise ValueError(
                f"n_samples={n} is too small to set aside {n_cal} calibration points (cal_size={self.cal_size}); "
                "1 sample at least must be left for training"
            )
        order = rng.permutation(n)
        cal, train = order[:n_cal], order[n_cal:]
        return _safe_indexing(X, train), y[train], _safe_indexing(X, cal), y[cal]

    def _predict_models(self, X: Any) -> Floats:
        """Return the predictions of all models, shape (m, n_models)."""
        check_is_fitted(self)
        X = with_shape(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        if _num_samples(X) == 0:
            raise ValueError("X must hold at least one row, got 0 samples")
        return predict_all(self.estimators_, self._names, X)
