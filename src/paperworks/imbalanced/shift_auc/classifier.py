"""The scikit-learn estimator: weights, scorer, threshold."""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from paperworks._checks import (
    check_choice,
    check_fraction,
    check_integer,
    check_positive,
    check_probability_open,
)

from .linear import Samples, fit_linear, folds, held_out_risk
from .pairs import LOSSES
from .ratio import RATIOS, DensityRatio, check_relative, fit_ratio, one_scale
from .risks import auc_risk_positive, auc_risk_pu, check_weights, is_symmetric

__all__ = ["ShiftAUCClassifier"]

Floats = NDArray[np.float64]

_MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
_PENALTIES = (0.1, 1.0, 10.0)
_FEW = 10.0  # effective positives below which the weights are reported


class ShiftAUCClassifier(ClassifierMixin, BaseEstimator):
    r"""Ranks the rows of a shifted target domain, trained on positives and unlabelled rows.

    Minimises ``mix * Q1 + (1 - mix) * Q2`` plus a penalty: Q1 (`auc_risk_pu`) ranks weighted positives above weighted
    unlabelled training rows, Q2 (`auc_risk_positive`) above unlabelled target rows. With the density ratio as weights
    both estimate the same risk, which for a symmetric loss differs from the target's AUC risk by constants.

    Parameters
    ----------
    base : {"linear", "mlp"} or torch.nn.Module, default="mlp"
        Scorer. ``"linear"`` needs no PyTorch and is fitted by L-BFGS on all pairs; ``"mlp"`` is a perceptron with ReLU;
        a module maps (B, ...) to (B,) or (B, 1), sees X as it is and is copied, not changed.
    mix : float or "cv", default=0.5
        Share of Q1, in [0, 1]. ``"cv"`` chooses it among 0, 1/4, 1/2, 3/4 and 1, the penalty among `alpha` times 0.1, 1
        and 10, and the number of epochs, by the zero-one risk (half Q1, half Q2) on 3 folds.
    ratio : {"kernel-logistic", "logistic", "ulsif"} or callable, default="kernel-logistic"
        How the density ratio is estimated (see `density_ratio`), or ``ratio(X)``, whose weights are used as they are.
    relative : float, default=0.0
        In [0, 1): flattens estimated weights to ``w / (relative * w + 1 - relative)``. The AUC then belongs to a
        mixture of the domains.
    clip : float or None, default=0.995
        Caps estimated weights at this quantile of the weights of positives and unlabelled rows; None doesn't.
    loss : {"sigmoid", "logistic", "squared", "hinge", "ramp"} or callable, default="sigmoid"
        Loss of a margin; callables get tensors and need a module or ``"mlp"``.
    alpha : float, default=1e-3
        Penalty: ``alpha * |theta|^2`` of the linear scorer, ``alpha / 10`` as the weight decay of modules.
    hidden : tuple of int, default=(64, 64)
        Widths of the hidden layers of ``"mlp"``.
    lr : float, default=1e-3
        Step size of Adam.
    max_epochs : int, default=100
        Epochs at most.
    batch_size : int, default=256
        Unlabelled and target rows of a step each; with them come all positives, or 128 of them.
    early_stopping : bool, default=True
        Modules: hold out a fifth of each sample, stop 10 epochs after the best zero-one risk and return to it. Needs 5
        rows in each sample, otherwise all epochs are run.
    prior : float, optional
        Share of positives in the target, in (0, 1): sets the threshold of `predict` and, for symmetric losses, turns
        `estimated_risk` into the AUC risk. Training doesn't need it.
    device : str or torch.device, optional
        Where modules are trained; None is the CPU.
    random_state : int, RandomState instance or None, default=None
        Source of folds, landmarks, initial weights and batches.
    verbose : int, default=0
        Above 0, modules print their risk every 10 epochs.

    Attributes
    ----------
    ratio_ : callable
        The density ratio, without the cap.
    weights_pos_ : ndarray of float64, shape (n_pos,)
        Weights of the positives.
    weights_unl_ : ndarray of float64, shape (n_unl,)
        Weights of the unlabelled rows; estimated by fits without the row.
    effective_sample_size_ : float
        ``(sum w)^2 / sum w^2`` of the positives; below 10 comes with a warning.
    domain_auc_ : float
        Held-out AUC of telling the domains apart; NaN for a callable ratio. Near 1 the weights are hopeless, near 0.5
        they aren't needed.
    threshold_ : float
        Raw score above which `predict` returns 1; `decision_function` is the raw score less this.
    coef_ : ndarray of float64, shape (1, n_features)
        Weights in the unit of X; only linear.
    module_ : torch.nn.Module
        The trained module; only otherwise.
    mix_ : float
        Share of Q1 used.
    alpha_ : float
        Penalty used.
    classes_ : ndarray of int, shape (2,)
        ``[0, 1]``.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.
    loss_curve_ : list of float
        Objective by iteration or epoch.

    Notes
    -----
    Labelled positives should not stand in the unlabelled sample a second time: such copies pull their scores down.
    An AUC sets no threshold. The default one marks as many target rows as `prior` says, or else the share of labelled
    rows among the training rows, which is a convention and no estimate.

    References
    ----------
    A. Kumagai, T. Iwata, H. Takahashi, T. Nishiyama, K. Adachi, Y. Fujiwara, "Positive-unlabeled AUC Maximization under
    Covariate Shift", ICML 2025, PMLR 267.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.imbalanced import ShiftAUCClassifier
    >>> rng = np.random.default_rng(0)
    >>> def rows(n, share):  # in group 1 a positive has a larger first column, in group 0 a smaller one
    ...     group, y = rng.random(n) < share, rng.random(n) < 0.3
    ...     X = np.c_[rng.normal(size=n) + 2 * y * np.where(group, 1, -1), 3.0 * group + rng.normal(size=n) / 3]
    ...     return X, y
    >>> X, y = rows(1500, 0.1)
    >>> s = (y & (rng.random(1500) < 0.5)).astype(int)
    >>> X_new, y_new = rows(1500, 0.9)
    >>> model = ShiftAUCClassifier(base="linear", random_state=0).fit(X, s, X_new)
    >>> bool(model.score(X_new, y_new) > 0.8)
    True
    """

    def __init__(
        self,
        base: Any = "mlp",
        *,
        mix: Any = 0.5,
        ratio: Any = "kernel-logistic",
        relative: float = 0.0,
        clip: float | None = 0.995,
        loss: Any = "sigmoid",
        alpha: float = 1e-3,
        hidden: Any = (64, 64),
        lr: float = 1e-3,
        max_epochs: int = 100,
        batch_size: int = 256,
        early_stopping: bool = True,
        prior: float | None = None,
        device: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.base = base
        self.mix = mix
        self.ratio = ratio
        self.relative = relative
        self.clip = clip
        self.loss = loss
        self.alpha = alpha
        self.hidden = hidden
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.prior = prior
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._is_linear()
        tags.classifier_tags.multi_class = False
        return tags

    def _is_linear(self) -> bool:
        return isinstance(self.base, str) and self.base == "linear"

    def fit(self, X: Any, s: Any, X_target: Any) -> ShiftAUCClassifier:
        """Estimate the weights and train the scorer.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Training rows; sparse for the linear scorer only. A module may take rows of more dimensions.
        s : array-like, shape (n_samples,)
            1 for a labelled positive, 0 for an unlabelled row; pandas' nullable and boolean columns too.
        X_target : array-like or sparse matrix, shape (n_target, n_features)
            Unlabelled rows of the target domain.

        Returns
        -------
        ShiftAUCClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, `s` isn't made of both 0 and 1 or has fewer than 2 positives, `X_target`
            is empty, holds NaN or has another width, all columns are constant, or weights are negative or all zero.
        TypeError
            If X is sparse with a module, or a parameter has the wrong type.
        """
        self._check_parameters()
        self._refuse_sparse(X)
        X, s = self._rows(X, reset=True), _indicator(s)
        if len(s) != X.shape[0]:
            raise ValueError(f"s must have one entry for each of the {X.shape[0]} rows of X, got {len(s)}")
        X_target = self._target_rows(X_target)
        n_pos = int(s.sum())
        if n_pos < 2 or n_pos == len(s):
            raise ValueError(
                f"s must hold both classes, at least 2 labelled positives and 1 unlabelled row, "
                f"got {n_pos} and {len(s) - n_pos} (n_samples={len(s)})"
            )
        rng = check_random_state(self.random_state)
        pos, unl = X[s], X[~s]
        self.classes_ = np.array([0, 1])
        self._weigh(pos, unl, X_target, rng)
        samples = Samples(pos, unl, X_target, self.weights_pos_, self.weights_unl_)
        self._centre, self._scale = self._unit(samples)
        samples = samples._replace(pos=self._scaled(pos), unl=self._scaled(unl), target=self._scaled(X_target))
        seed = int(rng.randint(np.iinfo(np.int32).max))
        if self._is_linear():
            self._fit_linear(samples, seed)
        else:
            self._fit_module(samples, seed)
        scores = self._scores(X_target)
        share = n_pos / len(s) if self.prior is None else self.prior
        # quantile by order statistic, so that the share above it is right without ties
        n_above = min(len(scores) - 1, max(1, round(share * len(scores)))) if len(scores) > 1 else 0
        ordered = np.sort(scores)
        self.threshold_ = float(ordered[len(scores) - 1 - n_above])
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the scores; only their order means something.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Scores less `threshold_`, larger for rows more likely to be positive.
        """
        check_is_fitted(self, "threshold_")
        self._refuse_sparse(X)
        return self._scores(self._rows(X, reset=False)) - self.threshold_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return 1 for rows with a positive `decision_function`.

        The threshold in it is the quantile of the target rows' scores in `fit` that leaves the share `prior` above it,
        or the share of labelled rows among the training rows where no prior is given.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of int, shape (n_samples,)
            1 or 0.
        """
        above: NDArray[Any] = self.decision_function(X) > 0
        labels: NDArray[Any] = self.classes_[above.astype(np.int64)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the AUC on labelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            True classes, two of them.
        sample_weight : array-like of float, shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        float
            Area under the ROC curve.
        """
        return float(roc_auc_score(y, self.decision_function(X), sample_weight=sample_weight))

    def estimated_risk(self, X: Any, s: Any, X_target: Any) -> dict[str, float]:
        """Estimate the target's risk without any label of the target.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows of the training domain.
        s : array-like, shape (n_samples,)
            1 for a labelled positive, 0 for an unlabelled row.
        X_target : array-like or sparse matrix, shape (n_target, n_features)
            Unlabelled rows of the target domain.

        Returns
        -------
        dict of str to float
            ``"pu"`` (Q1), ``"positive"`` (Q2) and ``"mixed"``, of the loss trained with. With `prior` and a symmetric
            loss these are the AUC risk itself and may be below 0 on small samples.
        """
        check_is_fitted(self, "threshold_")
        self._refuse_sparse(X)
        X, s = self._rows(X, reset=False), _indicator(s)
        if len(s) != X.shape[0]:
            raise ValueError(f"s must have one entry for each of the {X.shape[0]} rows of X, got {len(s)}")
        if not 0 < s.sum() < len(s):
            raise ValueError("s must hold both 0 and 1")
        X_target = self._target_rows(X_target)
        v, w = (np.minimum(self._ratio_of(x), self._cap) for x in (X[s], X[~s]))
        loss, prior = self.loss, self.prior
        scores: list[Any] = [self._scores(x) for x in (X[s], X[~s], X_target)]
        if callable(loss):
            torch = sys.modules["torch"]
            scores = [torch.from_numpy(x) for x in scores]
        if not is_symmetric(loss, tensor=callable(loss)):
            prior = None
        pu = float(auc_risk_pu(scores[0], scores[1], v, w, loss=loss, prior=prior))
        positive = float(auc_risk_positive(scores[0], scores[2], v, loss=loss, prior=prior))
        return {"pu": pu, "positive": positive, "mixed": self.mix_ * pu + (1.0 - self.mix_) * positive}

    def _check_parameters(self) -> None:
        if isinstance(self.base, str):
            check_choice(self.base, "base", ("linear", "mlp"))
        elif not hasattr(self.base, "state_dict") or not callable(self.base):
            raise TypeError(f"base must be 'linear', 'mlp' or a torch.nn.Module, got {self.base!r}")
        if isinstance(self.mix, str):
            check_choice(self.mix, "mix", ("cv",))
        else:
            check_fraction(self.mix, "mix")
        if not callable(self.ratio):
            check_choice(self.ratio, "ratio", RATIOS)
        check_relative(self.relative)
        if self.clip is not None and check_fraction(self.clip, "clip") == 0:
            raise ValueError("clip must lie in (0, 1], got 0")
        if not callable(self.loss):
            check_choice(self.loss, "loss", [name for name in LOSSES if name != "zero_one"])
        elif self._is_linear():
            raise TypeError("loss must be a name with base='linear'; callables need base='mlp' or a module")
        check_positive(self.alpha, "alpha", zero_ok=True)
        check_positive(self.lr, "lr")
        check_integer(self.max_epochs, "max_epochs", minimum=1)
        check_integer(self.batch_size, "batch_size", minimum=1)
        for width in self.hidden:
            check_integer(width, "hidden", minimum=1)
        if self.prior is not None:
            check_probability_open(self.prior, "prior")

    def _refuse_sparse(self, X: Any) -> None:
        if sp.issparse(X) and not self._is_linear():
            raise TypeError(f"X is sparse, which base={self.base!r} doesn't accept; base='linear' does")

    def _rows(self, X: Any, *, reset: bool) -> Any:
        allow_nd = not isinstance(self.base, str)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, allow_nd=allow_nd, reset=reset)

    def _target_rows(self, X_target: Any) -> Any:
        self._refuse_sparse(X_target)
        names = getattr(self, "feature_names_in_", None)
        given = getattr(X_target, "columns", None)
        if names is not None and given is not None and list(names) != list(given):
            raise ValueError("X_target must have the columns of X in the same order")
        X_target = check_array(
            X_target,
            accept_sparse="csr",
            dtype=np.float64,
            allow_nd=not isinstance(self.base, str),
            ensure_min_samples=0,
            input_name="X_target",
        )
        if X_target.shape[0] == 0:
            raise ValueError("X_target must hold at least one row, got none")
        if X_target.shape[1] != self.n_features_in_:
            raise ValueError(f"X_target must have {self.n_features_in_} features as X has, got {X_target.shape[1]}")
        return X_target

    def _weigh(self, pos: Any, unl: Any, target: Any, rng: np.random.RandomState) -> None:
        if callable(self.ratio):
            self.ratio_, self._cap, self.domain_auc_ = self.ratio, np.inf, float("nan")
            self.weights_pos_, self.weights_unl_ = self._ratio_of(pos), self._ratio_of(unl)
        else:
            fitted, weights_unl, self.domain_auc_ = fit_ratio(
                _flat(unl), _flat(target), self.ratio, self.relative, rng, out_of_fold=True
            )
            self.ratio_ = fitted
            weights_pos = self._ratio_of(pos)
            pooled = np.concatenate((weights_pos, weights_unl))
            self._cap = np.inf if self.clip is None else float(np.quantile(pooled, self.clip))
            self.weights_pos_, self.weights_unl_ = (np.minimum(w, self._cap) for w in (weights_pos, weights_unl))
        w = self.weights_pos_ / self.weights_pos_.max()
        self.effective_sample_size_ = float(w.sum() ** 2 / (w**2).sum())
        if self.effective_sample_size_ < min(_FEW, len(w)):
            warnings.warn(
                f"the weights leave {self.effective_sample_size_:.1f} effective positives of {len(w)}: "
                "the target hardly overlaps the training rows",
                RuntimeWarning,
                stacklevel=3,
            )

    def _ratio_of(self, X: Any) -> Floats:
        rows = _flat(X) if isinstance(self.ratio_, DensityRatio) else X
        return check_weights(self.ratio_(rows), "the result of ratio", X.shape[0])

    def _unit(self, samples: Samples) -> tuple[Any, float]:
        if not isinstance(self.base, str):
            return 0.0, 1.0
        used = [samples.unl] * (self.mix != 0) + [samples.target] * (self.mix != 1)
        return one_scale(used)

    def _scaled(self, X: Any) -> Any:
        if not isinstance(self.base, str):
            return X
        return X / self._scale if sp.issparse(X) else (X - self._centre) / self._scale

    def _scores(self, X: Any) -> Floats:
        if self._is_linear():
            if sp.issparse(X) or np.ndim(self._centre) == 0:  # fitted on, or given, sparse rows
                scores: Floats = X @ self.coef_[0] - np.sum(self._centre * self.coef_[0])
            else:
                scores = (X - self._centre) @ self.coef_[0]
            return scores
        from .network import scores_of

        return scores_of(self.module_, self._scaled(X), self.device)

    def _fit_linear(self, samples: Samples, seed: int) -> None:
        self.mix_, self.alpha_ = self.mix, float(self.alpha)
        if isinstance(self.mix, str):
            risks: dict[tuple[float, float], float] = {}
            for train, test in folds(samples, seed):
                for setting in _settings(self.alpha):
                    theta, _ = fit_linear(train, mix=setting[0], alpha=setting[1], loss=self.loss)
                    risks[setting] = risks.get(setting, 0.0) + held_out_risk(theta, test, 0.5)
            self.mix_, self.alpha_ = min(risks, key=lambda setting: risks[setting])
        theta, self.loss_curve_ = fit_linear(samples, mix=self.mix_, alpha=self.alpha_, loss=self.loss)
        self.coef_ = theta[None] / self._scale
        scores = np.concatenate([x @ theta for x in samples[:3]])
        self._warn_if_collapsed(scores)

    def _fit_module(self, samples: Samples, seed: int) -> None:
        from .network import scores_of, train

        report = _print_risk if self.verbose > 0 else None

        def run(
            part: Samples, held_out: Samples | None, mix: float, alpha: float, epochs: int, patience: bool, start: int
        ) -> Any:
            return train(
                self._new_module(start),
                part,
                held_out,
                mix=mix,
                held_out_mix=0.5 if isinstance(self.mix, str) else mix,
                loss=self.loss,
                lr=self.lr,
                decay=alpha / 10.0,
                n_epochs=epochs,
                batch_size=self.batch_size,
                patience=patience,
                seed=start,
                device=self.device,
                report=report,
            )

        self.mix_, self.alpha_, epochs = self.mix, float(self.alpha), self.max_epochs
        part, held_out = samples, None
        if isinstance(self.mix, str):
            curves: dict[tuple[float, float], Any] = {}
            for fold, rest in folds(samples, seed):
                for setting in _settings(self.alpha):
                    curve = np.array(run(fold, rest, *setting, self.max_epochs, False, seed).held_out)
                    curves[setting] = curves.get(setting, 0.0) + curve
            self.mix_, self.alpha_ = min(curves, key=lambda setting: float(curves[setting].min()))
            epochs = int(curves[self.mix_, self.alpha_].argmin()) + 1
        elif self.early_stopping and min(x.shape[0] for x in samples[:3]) >= 5:
            part, held_out = next(iter(folds(samples, seed, 5)))
        for attempt in range(2):
            start = (seed + attempt) % np.iinfo(np.int32).max
            trained = run(part, held_out, self.mix_, self.alpha_, epochs, held_out is not None, start)
            scores = np.concatenate([scores_of(trained.module, x, self.device) for x in samples[:3]])
            if not _is_collapsed(scores):
                break
        self.module_, self.loss_curve_ = trained.module, trained.losses
        self._warn_if_collapsed(scores)

    def _new_module(self, seed: int) -> Any:
        from .network import perceptron

        if isinstance(self.base, str):
            return perceptron(self.n_features_in_, tuple(self.hidden), seed, self.device)
        module = copy.deepcopy(self.base)
        return module if self.device is None else module.to(self.device)

    def _warn_if_collapsed(self, scores: Floats) -> None:
        if _is_collapsed(scores):
            warnings.warn(
                "all scores are equal after training (collapsed): lower alpha, scale X or change random_state",
                RuntimeWarning,
                stacklevel=4,
            )


def _indicator(s: Any) -> NDArray[np.bool_]:
    """Return the mask of labelled positives."""
    import pandas as pd

    array = np.asarray(s, dtype=object)
    missing = int(np.sum(pd.isna(array)))
    if missing:
        raise ValueError(f"s holds {missing} missing value(s) (NaN); 0 marks an unlabelled row")
    array = column_or_1d(array, warn=True)
    known = np.array([not isinstance(x, str | bytes) and x in (0, 1) for x in array], dtype=bool)
    if not known.all():
        raise ValueError(f"s must hold 0 (unlabelled) and 1 (labelled positive) only, got {array[~known][0]!r}")
    mask: NDArray[np.bool_] = array.astype(np.float64) == 1
    return mask


def _flat(X: Any) -> Any:
    return X if sp.issparse(X) else X.reshape(len(X), -1)


def _is_collapsed(scores: Floats) -> bool:
    return bool(np.ptp(scores) <= 1e-12 * max(1.0, float(np.abs(scores).max())))


def _settings(alpha: float) -> list[tuple[float, float]]:
    return [(mix, alpha * factor) for mix in _MIXES for factor in _PENALTIES]


def _print_risk(epoch: int, risk: float) -> None:
    if (epoch + 1) % 10 == 0:
        print(f"epoch {epoch + 1}: risk {risk:.4f}")
