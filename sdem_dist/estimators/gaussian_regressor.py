"""Regression with a joint Gaussian of features and target."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from threadpoolctl import threadpool_limits

from sdem_dist.corpus import Corpus, DenseMemoryCorpus
from sdem_dist.corpus.layout import DENSE
from sdem_dist.corpus.tables import numbering
from sdem_dist.engine.plan import Plan
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.estimators.feature_settings import LANES, SUM_LANE_DOCUMENTS
from sdem_dist.estimators.fitting import FitOptions, fit_state, run_quietly
from sdem_dist.estimators.gaussian_nb import refuse_beyond_squares
from sdem_dist.estimators.inputs import Source
from sdem_dist.estimators.restoring import restorer
from sdem_dist.estimators.settings import positive_integers
from sdem_dist.estimators.validated import refuse_targets_of_text, validated
from sdem_dist.families import GaussianFull
from sdem_dist.learners.columns import Columns, ColumnSummary
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.feature_sdem import FeatureSdem
from sdem_dist.learners.features import started
from sdem_dist.losses import Ncll
from sdem_dist.models.evidence import largest_evidence
from sdem_dist.models.features import Block, FeatureModel
from sdem_dist.models.joint_gaussian import target_given_features
from sdem_dist.models.regression import JointGaussian

_LEAST_PRIOR = 1e-10
"""Share of the rows that the prior counts for at least."""
_PILOT_EPOCHS = 10
"""Iterations of EM, where features are missing, after which the prior is chosen."""


class GaussianRegressor(RegressorMixin, EngineEstimator):
    """Linear regression as the conditional mean of a joint Gaussian, which predicts with features missing (NaN).

    In memory the target is `y`; a dense corpus without labels has it as its last column.
    The target may not be missing. Missing features are summed out in training too.

    Parameters
    ----------
    loss : {"nll", "ncll"}, default="nll"
        ``-ln p(y, x)`` or ``-ln p(y | x)``. Where no training row misses a feature both have the same minimum, ridge regression,
        in closed form. Else "nll" runs EM, and "ncll" takes steps down the conditional loss after it.
    alpha : float or "evidence", default="evidence"
        Observations of independent, standardised columns that the conjugate prior adds: ridge regression's penalty on
        standardised features. "evidence" takes the one under which the targets are most probable (empirical Bayes), and
        so decides, too, whether every feature has a unit of its own or all have one: then those that vary little count
        little. It costs one more pass over the rows, and 10 where features are missing. A row of weight w counts as w rows.
    n_epochs : int, default=30
        Where features are missing: passes over the rows for each of EM and, for "ncll", the steps after it.
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
    alpha_ : float
        The prior's observations.
    variance_ : float
        Of the target where all features are known.
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch of the last stage: ``epoch``, ``seconds``, ``nll``, ``ncll`` (means a row, of standardised
        columns).
    n_iter_ : int
    """

    patience = None  # there are no validation rows
    _sparse = False
    _restore = staticmethod(restorer(FeatureEm, FeatureSdem))

    def __init__(
        self,
        *,
        loss: str = "nll",
        alpha: float | str = "evidence",
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

    @property
    def _monitor(self) -> str:
        return self.loss

    def _train(self, source: Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        if self.loss not in ("nll", "ncll"):
            raise ValueError(f"loss must be 'nll' or 'ncll', got {self.loss!r}")
        positive_integers(self, "n_epochs", "n_lanes", "n_jobs")
        if not (isinstance(self.evaluate_every, int | np.integer) and self.evaluate_every >= 0):
            raise ValueError(f"evaluate_every must be an integer that is not negative, got {self.evaluate_every!r}")
        if self.alpha != "evidence" and not (isinstance(self.alpha, Real) and 0 <= float(self.alpha) < np.inf):
            raise ValueError(f"alpha must be 'evidence' or a finite number that is not negative, got {self.alpha!r}")
        with threadpool_limits(1, user_api="blas"):  # the bits of inverses would depend on the number of its threads
            return self._stages(source, options)

    def _stages(self, source: Source, options: FitOptions) -> tuple[Any, Any, list[dict[str, float]]]:
        """Run the joint loss and, from where it ends, the conditional one; only the last stage is kept in checkpoints."""
        client = options.client
        lanes = self.n_lanes or max(1, min(LANES, source.n_documents // SUM_LANE_DOCUMENTS))
        once, epochs = (Plan(source.n_documents, n, 1, lanes, 0) for n in (1, self.n_epochs))
        summary = run_quietly(Columns(source.n_features, weighted=True), once, source, client, self.n_jobs)
        gaps = bool((summary.n < source.weight * (1 - 1e-12)).any())
        refuse_beyond_squares(summary, np.arange(source.n_features), target=source.n_features - 1)
        alpha, scale = self.alpha, summary.scale
        if isinstance(alpha, str):
            pilot = _learner(source, summary, scale, 1.0 if gaps else 0.0)
            few = Plan(source.n_documents, min(self.n_epochs, _PILOT_EPOCHS) if gaps else 1, 1, lanes, 0)
            products = pilot.model.products(run_quietly(pilot, few, source, client, self.n_jobs).mu[0], source.weight)
            alpha, scale = _most_probable_prior(products, summary, source.weight)
        joint = _learner(source, summary, scale, float(alpha))
        plan = epochs if gaps else once
        if self.loss == "nll" or not gaps:  # without gaps the minimum of the joint loss is the conditional one's, too
            return joint, *fit_state(self, joint, plan, source, options)
        state = run_quietly(joint, plan, source, client, self.n_jobs)
        learner = FeatureSdem(joint.model, source.weight, loss=Ncll())
        start = started(np.array([source.weight]), state.mu, state.t)
        return learner, *fit_state(self, learner, epochs, source, options, start)

    def _describe(self, source: Source) -> None:
        super()._describe(source)
        self.n_features_in_ = source.n_features - 1  # the target is a column too

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance of features and target, standardised."""
        check_is_fitted(self)
        return self._learner.model.family.to_moments(self._state.best[1][0])

    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what was taken off the columns and what they were divided by."""
        block = self._learner.model.variables.blocks[0]
        return np.asarray(block.location), np.asarray(block.scale)

    @property
    def alpha_(self) -> float:
        """Observations that the prior counts for."""
        check_is_fitted(self)
        return float(self._learner.model.family.alpha)

    @property
    def coef_(self) -> np.ndarray:
        """What a unit of each feature adds, shape (n_features,)."""
        (_, covariance), (_, scale) = self._moments(), self._units()
        return np.asarray(np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1]) * scale[-1] / scale[:-1])

    @property
    def intercept_(self) -> float:
        """The target where all features are 0."""
        (mean, _), (location, scale) = self._moments(), self._units()
        means = location + scale * mean
        return float(means[-1] - self.coef_ @ means[:-1])

    @property
    def variance_(self) -> float:
        """Variance of the target where all features are known."""
        (_, covariance), (_, scale) = self._moments(), self._units()
        slopes = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
        return float((covariance[-1, -1] - slopes @ covariance[:-1, -1]) * scale[-1] ** 2)

    def _training_source(self, X: Any, y: Any, sample_weight: Any, client: Any) -> Source:
        return self._source(X, y, sample_weight, client, reset=True)

    def _evaluation_source(self, X: Any, y: Any, client: Any) -> Source:
        source = self._source(X, y, None, client, reset=False)
        if source.n_features != self.n_features_in_ + 1:
            raise ValueError(f"{X!r} has {source.n_features} columns, and the model {self.n_features_in_} and a target")
        return source

    def _source(self, X: Any, y: Any, sample_weight: Any, client: Any, *, reset: bool) -> Source:
        weights, n = None, 0
        corpus: Corpus | DenseMemoryCorpus
        if isinstance(X, Corpus):
            if y is not None or sample_weight is not None or X.header.layout != DENSE:
                raise ValueError("a corpus must be dense and bring its target as the last column: leave y at None")
            if numbering(X.header.vectorizer):
                raise ValueError(f"{X!r} has columns of text, categories or booleans, and a regressor takes numbers")
            corpus, n, n_features = X, X.header.n_documents, X.header.n_features
        else:
            if client is not None:
                raise ValueError("a Dask cluster trains from a corpus that its workers can read: write one first")
            if y is None:
                raise ValueError("GaussianRegressor requires y to be passed, but the target y is None")
            refuse_targets_of_text(y)
            X, y = validated(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", y_numeric=True, reset=reset)
            n, n_features = len(X), X.shape[1] + 1
            if sample_weight is not None:
                weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            table = np.concatenate([X, np.asarray(y, np.float64)[:, None]], axis=1)
            corpus = DenseMemoryCorpus(table, np.full(n, -1), (), weights=weights, shuffle=False)
        return Source(
            corpus=corpus,
            classes=np.empty(0),
            class_counts=(),
            n_features=n_features,
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
        X = validated(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        location, scale = self._units()
        rows = (X - location[:-1]) / scale[:-1]
        mean, variance = target_given_features(self._learner.model.family, self._state.best[1][0], rows)
        means = location[-1] + scale[-1] * mean
        return (means, scale[-1] * np.sqrt(variance)) if return_std else means

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _learner(source: Source, summary: ColumnSummary, scale: np.ndarray, alpha: float) -> Any:
    """Return the learner of columns that are divided by `scale`."""
    # Columns that determine each other have a covariance without an inverse: a little of the prior keeps it regular.
    family = GaussianFull(source.n_features, max(alpha, _LEAST_PRIOR * source.weight))
    block = Block(family, tuple(range(source.n_features)), tuple(summary.mean.tolist()), tuple(scale.tolist()))
    return FeatureEm(JointGaussian(FeatureModel((block,))), source.weight)


def _most_probable_prior(products: np.ndarray, summary: ColumnSummary, n: float) -> tuple[float, np.ndarray]:
    """Return alpha, and what columns are to be divided by: each feature by its own deviation, or all by one."""
    one = summary.scale.copy()
    one[:-1] = np.sqrt(summary.variance[:-1].mean()) or 1.0
    found = []
    for scale in (summary.scale, one):
        factor = summary.scale / scale
        found.append((largest_evidence(products * factor * factor[:, None], n), scale))
    best, scale = max(found, key=lambda pair: pair[0].log_evidence)
    return best.penalty, scale
