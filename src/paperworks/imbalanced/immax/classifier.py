"""IMMAX as a scikit-learn classifier: linear, kernel or neural scorers with the margins chosen on held-out rows."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from paperworks._checks import (
    check_choice,
    check_finite_array,
    check_integer,
    check_positive,
    check_probability_open,
)

from .labels import plain_labels, plain_weights
from .loss import SURROGATES
from .margins import check_rho, class_margin_loss, geomean, optimal_margins, rho_from_counts
from .network import NetworkFitter, NetworkScorer
from .selection import Candidate, choose, make_folds, make_scorer
from .solvers import LinearFitter, LinearScorer

__all__ = ["ALPHA_GRID", "ImmaxClassifier"]

Floats = NDArray[np.float64]

ALPHA_GRID = (1e-2, 1e-3, 1e-4)  # from strong to weak: the order in which warm starts help
_COMPONENTS = 300  # of the Nystroem map, at most
_COORDINATE_CLASSES = 20


class ImmaxClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier with one confidence margin per class, for imbalanced data.

    Minimises :math:`\alpha \|h\|^2 + \frac1m \sum_i \Psi(\text{margins of row } i / \rho_{y_i})` with a surrogate
    :math:`\Psi` of the class-imbalanced margin loss; the margins :math:`\rho_k` and the penalty are chosen by
    cross-validation unless given. At ``rho = 1`` the linear model is scikit-learn's `LogisticRegression` with
    ``C = 1 / (2 * m * alpha)``.

    Parameters
    ----------
    rho : "cv", "coordinate", "theory" or array-like of float, shape (n_classes,), default="cv"
        Margins in the order of the sorted `classes_`, positive. ``"cv"`` chooses the exponent of
        ``rho_k = (m_k / geomean(m))**gamma`` among `gammas`; ``"coordinate"`` goes on with one pass of changes by
        25 % per class (at most 20 classes); ``"theory"`` is `optimal_margins` of the class counts and radii, scaled to
        geometric mean 1.
    gammas : sequence of float, default=(-1/2, -1/4, 0, 1/3, 1/2)
        Exponents to choose among; 0 is cross-entropy.
    alpha : "cv" or float, default="cv"
        Penalty of the squared norm of the weights (not the intercept); ``"cv"`` chooses among 1e-4, 1e-3 and 1e-2.
    kernel : {None, "rbf", "poly"}, default=None
        None is a linear model; otherwise a Nystroem map with min(300, n_samples) components, with the kernel width
        ``1 / (n_features * X.var())`` and degree 3 for ``"poly"``.
    surrogate : {"logistic", "sumexp", "hinge", "ramp"}, default="logistic"
        Surrogate of the margin loss. The linear hinge is solved by smoothing its kink and shrinking that to 1e-6
        (1e-4 above 300 weights, 1e-3 for problems solved by L-BFGS); the ramp starts from the hinge's solution.
    hidden : tuple of int or callable, optional
        Widths of the hidden layers of a perceptron, or ``(n_features, n_classes) -> torch.nn.Module``; trained by
        full-batch Adam (step 1e-2), at most `max_iter` epochs. The squared norm of its weight matrices is penalised.
    scoring : str or callable, default="accuracy"
        What the choice maximises on held-out rows: any scorer of scikit-learn. Ties go to the lower held-out log loss.
    cv : int, splitter or list of (train, test), default=3
        Folds of the choice; an int means shuffled stratified folds. A class with no row in a training part has its
        first row moved there.
    max_iter : int, default=500
        Iterations of one fit at most.
    fit_intercept : bool, default=True
        Whether an unpenalised intercept is fitted; networks have their own biases.
    device : str or torch.device, optional
        Where networks are trained; None is the CPU.
    random_state : int, RandomState instance or None, default=None
        Source of the folds, of the Nystroem sample and of the initial weights of networks.
    n_jobs : int, optional
        Folds in parallel, as in joblib.
    verbose : int, default=0
        0 is silent; otherwise joblib reports the progress of the folds.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Sorted class labels.
    class_count_ : ndarray of float64, shape (n_classes,)
        Summed sample weights of each class.
    rho_ : ndarray of float64, shape (n_classes,)
        Margins used.
    gamma_ : float or None
        Chosen exponent (for ``"coordinate"``, the one it started from); None for given margins and ``"theory"``.
    alpha_ : float
        Penalty used.
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        Weights (in the space of the Nystroem map with a kernel); absent with `hidden`.
    intercept_ : ndarray, shape (1,) or (n_classes,)
        Intercepts; absent with `hidden`.
    module_ : torch.nn.Module
        The trained module; only with `hidden`.
    cv_results_ : dict or None
        Per candidate: ``params``, ``alpha``, ``rho``, (``gamma``), ``split<k>_test_score``, ``mean_test_score``,
        ``std_test_score``, ``mean_test_log_loss``, ``rank_test_score``; None if nothing was chosen.
    temperature_ : float
        Divides the scores in `predict_proba`; fitted on held-out rows, 1 if nothing was chosen.
    n_iter_ : int
        Iterations (epochs) of the final fit.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

    Notes
    -----
    Sample weights count as repetitions: rows of weight 0 are dropped, and class counts are summed weights. With the
    logistic surrogate unequal margins shift the decision threshold of two classes to
    ``rho_1 / (rho_0 + rho_1)`` where classes overlap, which isn't the Bayes rule of the 0/1 error; the bounded ramp has
    no such shift. So margins should be chosen on held-out rows, as ``"cv"`` does.

    References
    ----------
    C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the Scales: A Theoretical and Algorithmic Framework for Learning
    from Imbalanced Data", ICML 2025, PMLR 267:11255-11287.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from paperworks.imbalanced import ImmaxClassifier
    >>> X, y = make_classification(400, weights=[0.9], class_sep=2.0, random_state=0)
    >>> model = ImmaxClassifier(random_state=0).fit(X, y)
    >>> model.rho_.shape, bool(model.score(X, y) > 0.95)
    ((2,), True)
    >>> ImmaxClassifier(rho=[0.5, 2.0], alpha=0.01).fit(X, y).rho_
    array([0.5, 2. ])
    """

    def __init__(
        self,
        rho: Any = "cv",
        *,
        gammas: Any = (-0.5, -0.25, 0.0, 1 / 3, 0.5),
        alpha: Any = "cv",
        kernel: str | None = None,
        surrogate: str = "logistic",
        hidden: Any = None,
        scoring: Any = "accuracy",
        cv: Any = 3,
        max_iter: int = 500,
        fit_intercept: bool = True,
        device: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rho = rho
        self.gammas = gammas
        self.alpha = alpha
        self.kernel = kernel
        self.surrogate = surrogate
        self.hidden = hidden
        self.scoring = scoring
        self.cv = cv
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel is None and self.hidden is None
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ImmaxClassifier:
        """Choose margins and penalty, and fit the scorer.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Training rows; sparse for the linear model only.
        y : array-like, shape (n_samples,)
            Labels of any kind that sorts, pandas' nullable, boolean, categorical and string columns included.
        sample_weight : array-like of float, shape (n_samples,), optional
            Non-negative weights.

        Returns
        -------
        ImmaxClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, labels are missing, there is a single class, or X holds NaN.
        TypeError
            If X is sparse with a kernel or a network, or a parameter has the wrong type.
        """
        self._check_parameters()
        self._refuse_sparse(X)
        X, y = validate_data(self, X, plain_labels(y), accept_sparse="csr", dtype=np.float64, order="C")
        check_classification_targets(y)
        weight = plain_weights(sample_weight, len(y))
        kept = np.flatnonzero(weight > 0)
        classes, indices = np.unique(y[kept], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes, got 1 class: {classes[0]!r}")
        score = make_scorer(self.scoring)
        self.classes_ = classes
        encoded = np.full(len(y), -1)
        encoded[kept] = indices
        rng = None

        def seed() -> int:
            nonlocal rng
            rng = check_random_state(self.random_state) if rng is None else rng
            return int(rng.randint(np.iinfo(np.int32).max))

        self._seed = seed() if self.kernel is not None or self.hidden is not None else 0
        choosing = (isinstance(self.rho, str) and self.rho != "theory") or isinstance(self.alpha, str)
        folds = make_folds(self.cv, X, encoded, kept, classes, seed) if choosing else []
        if len(kept) < len(y):
            X, weight = X[kept], weight[kept]
        y = indices
        self.class_count_ = np.bincount(y, weights=weight)

        feature_map, fitter = self._prepare(X, y, weight)
        candidates = self._candidates(X if feature_map is None else feature_map.transform(X), y)
        self.cv_results_: dict[str, Any] | None = None
        chosen, self.temperature_ = candidates[0], 1.0
        if choosing:
            chosen, self.cv_results_, self.temperature_ = choose(self, X, y, weight, folds, candidates, score)
        model = fitter.fit(chosen.rho, chosen.alpha, surrogate=self.surrogate)
        if not model.converged:
            warnings.warn(
                f"no convergence in max_iter={self.max_iter} iterations; scale the features or raise max_iter",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.gamma_, self.alpha_ = chosen.gamma, chosen.alpha
        self.n_iter_ = model.n_iter
        self._hold(feature_map, model, chosen.rho)
        if self.hidden is None:
            mapped = X if feature_map is None else feature_map.transform(X)
            self._training_sums = self._bound_sums(mapped, y, weight)
        return self

    def _check_parameters(self) -> None:
        if isinstance(self.rho, str):
            check_choice(self.rho, "rho", ("cv", "coordinate", "theory"))
        if isinstance(self.alpha, str):
            check_choice(self.alpha, "alpha", ("cv",))
        else:
            check_positive(self.alpha, "alpha")
        if self.kernel is not None:
            check_choice(self.kernel, "kernel", ("rbf", "poly"))
            if self.hidden is not None:
                raise ValueError(f"kernel and hidden exclude each other, got {self.kernel!r} and {self.hidden!r}")
        check_choice(self.surrogate, "surrogate", SURROGATES)
        check_integer(self.max_iter, "max_iter", minimum=1)
        check_integer(self.verbose, "verbose", minimum=0)

    def _refuse_sparse(self, X: Any) -> None:
        if sp.issparse(X) and (self.kernel is not None or self.hidden is not None):
            setting = f"kernel={self.kernel!r}" if self.kernel is not None else f"hidden={self.hidden!r}"
            raise TypeError(
                f"X is sparse, which {setting} doesn't accept; "
                "sparse X needs the linear model (kernel=None and hidden=None), or convert X to a dense array"
            )

    def _prepare(self, X: Any, y: Any, weight: Floats) -> tuple[Any, LinearFitter | NetworkFitter]:
        """Return the feature map (None without a kernel) and the fitter of one training part."""
        n_classes = len(self.classes_)
        if self.hidden is not None:
            return None, NetworkFitter(
                X,
                y,
                weight,
                n_classes,
                hidden=self.hidden,
                max_iter=self.max_iter,
                device=self.device,
                seed=self._seed,
            )
        feature_map = None
        if self.kernel is not None:
            variance = float(X.var())
            feature_map = Nystroem(
                kernel=self.kernel,
                gamma=1.0 / (X.shape[1] * variance) if variance > 0 else 1.0,
                coef0=1.0 if self.kernel == "poly" else None,
                degree=3 if self.kernel == "poly" else None,
                n_components=min(_COMPONENTS, X.shape[0]),
                random_state=self._seed,
            ).fit(X)
            X = feature_map.transform(X)
        fitter = LinearFitter(X, y, weight, n_classes, fit_intercept=bool(self.fit_intercept), max_iter=self.max_iter)
        return feature_map, fitter

    def _candidates(self, X: Any, y: Any) -> list[Candidate]:
        alphas = ALPHA_GRID if isinstance(self.alpha, str) else (float(self.alpha),)
        if not isinstance(self.rho, str):
            rho = check_rho(self.rho, len(self.classes_))
            return [Candidate(rho, alpha) for alpha in alphas]
        if self.rho == "theory":
            radii = np.zeros(len(self.classes_))
            np.maximum.at(radii, y, row_norms(X))
            if not radii.any():
                raise ValueError("rho='theory' needs rows that aren't all zero")
            radii[radii == 0] = radii[radii > 0].min()  # a class of zero rows has no radius of its own
            rho = optimal_margins(self.class_count_, radii)
            return [Candidate(rho / geomean(rho), alpha) for alpha in alphas]
        gammas = check_finite_array(self.gammas, "gammas", ndim=1)
        if len(gammas) == 0:
            raise ValueError("gammas must hold at least one exponent, got none")
        if self.rho == "coordinate" and len(self.classes_) > _COORDINATE_CLASSES:
            raise ValueError(f"rho='coordinate' takes at most {_COORDINATE_CLASSES} classes, got {len(self.classes_)}")
        return [
            Candidate(rho_from_counts(self.class_count_, gamma), alpha, float(gamma))
            for gamma in np.unique(gammas)
            for alpha in alphas
        ]

    def _hold(self, feature_map: Any, model: LinearScorer | NetworkScorer, rho: Floats) -> None:
        """Take over a fitted model."""
        self.rho_ = rho
        self._feature_map = feature_map
        if isinstance(model, NetworkScorer):
            self.module_, self._device = model.module, model.device
        else:
            self.coef_, self.intercept_ = model.coef, model.intercept

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "rho_")
        self._refuse_sparse(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X if self._feature_map is None else self._feature_map.transform(X)

    def _scores(self, mapped: Any) -> Floats:
        if self.hidden is not None:
            return NetworkScorer(self.module_, self._device, 0, True).scores(mapped)
        return LinearScorer(self.coef_, self.intercept_).scores(mapped)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
            Score of ``classes_[1]`` against ``classes_[0]`` for two classes, otherwise one score per class.
        """
        return self._scores(self._rows(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray, shape (n_samples,)
            Labels, of the kind that `fit` got.
        """
        h = self.decision_function(X)
        labels: NDArray[Any] = self.classes_[(h > 0).astype(np.int64) if h.ndim == 1 else h.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return softmax of the scores over the geometric mean of the margins and the temperature.

        The temperature is fitted on held-out rows where margins or penalty were chosen; otherwise it is 1 and the
        probabilities are uncalibrated. One temperature can't undo the shift that unequal margins bring.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        h = self.decision_function(X) / (geomean(self.rho_) * self.temperature_)
        return np.column_stack((expit(-h), expit(h))) if h.ndim == 1 else softmax(h, axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            Labels.
        sample_weight : array-like of float, shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            Share of rows whose label is predicted; of the law that X follows.
        """
        return float(accuracy_score(plain_labels(y), self.predict(X), sample_weight=sample_weight))

    def margin_bound(self, X: Any = None, y: Any = None, delta: float = 0.05) -> dict[str, float]:
        """Return the class-imbalanced margin bound on the error of the fitted linear or kernel scorer.

        ``empirical`` is the mean ramp loss, ``complexity`` is ``c * Lam / m * sqrt(sum_i ||x_i||**2 / rho[y_i]**2)``
        with c = 2 for two classes and ``4 * sqrt(2 K) * sqrt(K)`` otherwise, Lam the norm of the fitted weights (the
        intercept counts as the weight of a constant feature), and ``confidence`` is
        ``3 * sqrt(log(2 / delta) / (2 m))``. The bound takes the margins and Lam as fixed in advance; after a choice on
        the same sample it is a summary, not a guarantee. It is often above 1, where it says nothing.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features), optional
            Sample; the training sample if not given (weights then count as repetitions).
        y : array-like, shape (n_samples,), optional
            Its labels, given if X is.
        delta : float, default=0.05
            Probability with which the bound may fail.

        Returns
        -------
        dict of float
            Keys ``empirical``, ``complexity``, ``confidence`` and ``bound``, their sum.

        Raises
        ------
        ValueError
            With `hidden`, with only one of X and y, with labels unseen in `fit`, or `delta` outside of (0, 1).
        """
        check_is_fitted(self, "rho_")
        delta = check_probability_open(delta, "delta")
        if self.hidden is not None:
            raise ValueError("margin_bound needs a linear or kernel scorer; its complexity is unknown with hidden")
        if (X is None) != (y is None):
            raise ValueError(f"X and y must be given together, got only {'y' if X is None else 'X'}")
        if X is None:
            empirical, squares, m = self._training_sums
        else:
            mapped, labels = self._rows(X), np.asarray(plain_labels(y))
            if labels.shape != (mapped.shape[0],):
                raise ValueError(f"y must have shape ({mapped.shape[0]},), got {labels.shape}")
            unseen = np.setdiff1d(labels, self.classes_)
            if len(unseen):
                raise ValueError(f"y holds labels that fit hasn't seen: {unseen.tolist()}")
            indices = np.searchsorted(self.classes_, labels)
            empirical, squares, m = self._bound_sums(mapped, indices, np.ones(len(labels)))
        n_classes = len(self.classes_)
        norm = math.sqrt(float(np.sum(self.coef_**2) + np.sum(self.intercept_**2)))
        factor = 2.0 if n_classes == 2 else 4 * math.sqrt(2 * n_classes) * math.sqrt(n_classes)
        complexity = factor * norm / m * math.sqrt(squares)
        confidence = 3 * math.sqrt(math.log(2 / delta) / (2 * m))
        return {
            "empirical": empirical,
            "complexity": complexity,
            "confidence": confidence,
            "bound": empirical + complexity + confidence,
        }

    def _bound_sums(self, mapped: Any, y: Any, weight: Floats) -> tuple[float, float, float]:
        """Mean ramp loss, sum of squared norms over squared margins, and the number of rows."""
        h = self._scores(mapped)
        if h.ndim == 1:
            margins = np.where(y == 1, h, -h)
        else:
            own = h[np.arange(len(y)), y]
            h[np.arange(len(y)), y] = -np.inf
            margins = own - h.max(axis=1)
        squares = row_norms(mapped, squared=True) + bool(self.fit_intercept)
        ramp = class_margin_loss(margins, y, self.rho_)
        return float(weight @ ramp / weight.sum()), float(weight @ (squares / self.rho_[y] ** 2)), float(weight.sum())
