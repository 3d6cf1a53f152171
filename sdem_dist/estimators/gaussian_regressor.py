"""Regression with a joint Gaussian of features and target."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from sdem_dist.corpus import Corpus, DenseMemoryCorpus
from sdem_dist.corpus.layout import DENSE
from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.feature_settings import LANES, SUM_LANE_DOCUMENTS
from sdem_dist.estimators.fitting import FitOptions, fit_state, run_quietly
from sdem_dist.estimators.inputs import Source
from sdem_dist.estimators.settings import positive_integers
from sdem_dist.families import GaussianFull
from sdem_dist.learners.columns import Columns
from sdem_dist.learners.regression import GaussianRegression
from sdem_dist.losses import Ncll, Nll
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.joint_gaussian import target_given_features


class GaussianRegressor(RegressorMixin, BaseEstimator):
    """Linear regression as the conditional mean of a joint Gaussian, which predicts with features missing (NaN).

    The target may not be missing. Missing features are summed out in training too.

    Parameters
    ----------
    loss : {"ncll", "nll"}, default="ncll"
        ``-ln p(y | x)`` or ``-ln p(y, x)``. Without missing features and without a prior both lead to least squares.
    alpha : float, default=1.0
        Observations of independent, standardised columns that the conjugate prior adds: ridge regression's penalty on
        standardised features.
    n_epochs : int, default=30
        Passes over the rows for each of: EM where features are missing, and "ncll" after it.
    n_lanes : int, default=None
        Lanes of a round. None: a function of the number of rows.
    evaluate_every : int, default=1
        Record the losses after every so many epochs; 0 never.
    n_jobs : int, default=None
        Threads, where no Dask client is given. No bit of the result depends on it.
    verbose : bool, default=False

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    variance_ : float
        Of the target where all features are known.
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch of the last stage: ``epoch``, ``seconds``, ``nll``, ``ncll`` (means a row, of standardised
        columns).
    n_iter_ : int
    """

    patience = None  # there are no validation rows
    _monitor = "ncll"

    def __init__(
        self,
        *,
        loss: str = "ncll",
        alpha: float = 1.0,
        n_epochs: int = 30,
        n_lanes: int | None = None,
        evaluate_every: int = 1,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.n_epochs = n_epochs
        self.n_lanes = n_lanes
        self.evaluate_every = evaluate_every
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None) -> GaussianRegressor:
        """Train on a table, or on a dense corpus without labels whose last column is the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or Corpus
        y : array-like of shape (n_samples,), default=None
            None with a corpus.
        sample_weight : array-like of shape (n_samples,), default=None
        client : distributed.Client, default=None
            Train a corpus on this Dask cluster.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Settings or values that the model has no place for.
        """
        if self.loss not in ("ncll", "nll"):
            raise ValueError(f"loss must be 'ncll' or 'nll', got {self.loss!r}")
        positive_integers(self, "n_epochs", "n_lanes", "n_jobs")
        if not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha must be a finite number that is not negative, got {self.alpha!r}")
        with threadpool_limits(1, user_api="blas"):  # the bits of inverses would depend on the number of its threads
            return self._fit(self._source(X, y, sample_weight, client), client)

    def _fit(self, source: Source, client: Any) -> GaussianRegressor:
        lanes = self.n_lanes or max(1, min(LANES, source.n_documents // SUM_LANE_DOCUMENTS))
        once, epochs = (Plan(source.n_documents, n, 1, lanes, 0) for n in (1, self.n_epochs))
        summary = run_quietly(Columns(source.n_features, weighted=True), once, source, client, self.n_jobs)
        gaps = bool((summary.n < source.weight * (1 - 1e-12)).any())
        scale = np.where(summary.variance > 0, np.sqrt(summary.variance), 1.0)
        family = GaussianFull(source.n_features, max(float(self.alpha), 1e-9))  # what keeps the covariance regular
        columns = tuple(range(source.n_features))
        block = Block(family, columns, tuple(summary.mean.tolist()), tuple(scale.tolist()))
        model = FeatureModel((block,))
        options = FitOptions(client=client)
        state: Any = None
        for loss in (Nll(), Ncll()) if self.loss == "ncll" else (Nll(),):
            learner = GaussianRegression(model, 1, source.weight, loss, judged=True)
            plan = epochs if gaps or isinstance(loss, Ncll) else once
            initial = None if state is None else learner.restarted(state)
            state, self.history_ = fit_state(self, learner, plan, source, options, initial)
        self.n_iter_ = len(self.history_)
        self._block, self._mu = block, learner.best(state)
        mean, covariance = family.to_moments(self._mu)
        slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
        self.coef_ = slopes * scale[-1] / scale[:-1]
        self.intercept_ = float(
            summary.mean[-1] + scale[-1] * (mean[-1] - slopes @ mean[:-1]) - self.coef_ @ summary.mean[:-1]
        )
        self.variance_ = float((covariance[-1, -1] - slopes @ covariance[:-1, -1]) * scale[-1] ** 2)
        return self

    def _source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> Source:
        weights, n = None, 0
        corpus: Corpus | DenseMemoryCorpus
        if isinstance(X, Corpus):
            if y is not None or sample_weight is not None or X.header.layout != DENSE:
                raise ValueError("a corpus must be dense and bring its target as the last column: leave y at None")
            corpus, n = X, X.header.n_documents
            self.n_features_in_ = X.header.n_features - 1
        else:
            if client is not None:
                raise ValueError("a Dask cluster trains from a corpus that its workers can read: write one first")
            if y is None:
                raise ValueError("GaussianRegressor requires y to be passed, but the target y is None")
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True)
            n = len(X)
            if sample_weight is not None:
                weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            table = np.concatenate([X, np.asarray(y, np.float64)[:, None]], axis=1)
            corpus = DenseMemoryCorpus(table, np.full(n, -1), (), weights=weights, shuffle=False)
        return Source(
            corpus=corpus,
            classes=np.empty(0),
            class_counts=(),
            n_features=self.n_features_in_ + 1,
            n_documents=n,
            weight=float(n if weights is None else weights.sum()),
            identity=corpus.header.uid,
            weighted=True,
        )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of the target given the features that are known, shape (n_samples,).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where a feature is not known.
        return_std : bool, default=False
            Return the standard deviations too, which grow with what is not known.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        location, scale = np.asarray(self._block.location), np.asarray(self._block.scale)
        family = GaussianFull(self.n_features_in_ + 1)
        mean, variance = target_given_features(family, self._mu, (X - location[:-1]) / scale[:-1])
        means = location[-1] + scale[-1] * mean
        return (means, scale[-1] * np.sqrt(variance)) if return_std else means

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_mu")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
