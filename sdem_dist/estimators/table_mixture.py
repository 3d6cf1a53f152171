"""Clustering rows of a table by mixtures of Gaussians or of exponentials."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import AnyStage, Stage, Stages, state_of
from sdem_dist.estimators.clusters import ClusterMixture
from sdem_dist.estimators.em_settings import em_form
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.fitting.drawing import drawn_from
from sdem_dist.fitting.mixture_starts import positions_of, sampled_positions, surveyed
from sdem_dist.inputs.source import table_of
from sdem_dist.inputs.spec import Spec
from sdem_dist.learners.column_blocks import Kind, moments
from sdem_dist.learners.columns import Columns
from sdem_dist.learners.feature_em import FeatureEm
from sdem_dist.learners.features import FeatureState
from sdem_dist.learners.starts import features_at_examples, features_by_k_means, rows_at
from sdem_dist.models.feature_classes import FeatureClasses
from sdem_dist.models.features import FeatureModel, Features

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from sdem_dist.inputs.source import Source


@estimator
class TableMixture(ClusterMixture[FeatureEm[Features], FeatureState]):
    """Base of mixtures over columns of a table."""

    alpha: float = param(1.0, real(above=True), "Observations of the column's mean (and variance) that the prior adds.")

    spec = Spec("dense", "nothing", "cluster", shown=("nll", "perplexity"), shuffled=False)

    @property
    @abstractmethod
    def _kind(self) -> Kind:
        """Return what components are."""

    def _em(self, source: Source, plan: Plan) -> Stages[FeatureEm[Features]]:
        once = Plan(source.n_documents, 1, 1, plan.n_lanes, plan.seed)
        summary = yield from state_of(Stage("columns", Columns(source.n_features, weighted=True), once))
        model = FeatureClasses(FeatureModel((self._kind.block(summary),)), 1, (0,) * int(self.n_components))
        return FeatureEm(model, source.weight, monitored=True, form=em_form(self), seed=plan.seed)

    def _started(self, learner: FeatureEm[Features], once: Plan, source: Source, which: str) -> Stages[AnyStage]:
        variables, number = learner.model.variables, int(self.n_components)
        n_examples = number if self.init == "examples" else self.init_documents
        survey = yield from surveyed(source, once, n_examples, name=f"survey{which}", labelled=False)
        if self.init == "k-means":

            def start() -> FeatureState:
                rows = rows_at(source.corpus, sampled_positions(survey))
                return features_by_k_means(rows, number, variables, source.weight, once.seed)

            return Stage(f"start{which}", learner, once, start)
        generative = FeatureEm(FeatureClasses(variables, 1, (0,)), source.weight)
        whole = yield from state_of(Stage(f"all rows{which}", generative, once))
        examples = rows_at(source.corpus, positions_of(survey, (number,), source))
        return Stage(f"start{which}", learner, once, features_at_examples(examples, (number,), variables, whole))

    def _prior_share(self, learner: FeatureEm[Features], state: FeatureState) -> float:
        """Return minus the divergence of the components from the centre of the prior, by its weight."""
        variables, (_, mu) = learner.model.variables, state.best
        divergence = variables.divergence(np.broadcast_to(variables.centre, mu.shape), mu)
        return -float((variables.weight_of_variables * divergence).sum())

    def _joint_log_proba(self, X: object) -> np.ndarray:
        model: FeatureModel = self.learner_.model.variables
        return model.scores(self._parameters, model.features(table_of(self, X)))

    @property
    def _n_parameters(self) -> int:
        return int(len(self.weights_) - 1 + self._parameters.theta.size)

    @property
    def weights_(self) -> np.ndarray:
        """Shares of the clusters, shape (n_components,)."""
        return np.exp(self.component_log_prior_)

    def sample(self, n_samples: int = 1, random_state: object = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows and their clusters.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), float64
        labels : ndarray of shape (n_samples,)

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        """
        check_is_fitted(self)
        drawn, rng = drawn_from(self.component_log_prior_, n_samples, random_state)
        return self.learner_.model.variables.sample(self._parameters, drawn, rng), drawn


@estimator
class GaussianMixture(TableMixture):
    """Clusters of rows: a mixture of Gaussians with diagonal covariances, fitted without labels by EM.

    Missing values (NaN) are summed out.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Dempster, A., Laird, N. and Rubin, D. (1977). Maximum Likelihood from Incomplete Data via the EM Algorithm. JRSS B.

    Examples
    --------
    >>> from sdem_dist import GaussianMixture
    >>> X = [[0.0, 0.1], [0.2, 0.0], [5.0, 5.1], [5.2, float("nan")]] * 20
    >>> first, second, third, fourth = GaussianMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    @property
    def _kind(self) -> Kind:
        return Kind("gaussian", float(self.alpha))

    @property
    def means_(self) -> np.ndarray:
        """Mean of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)[0]

    @property
    def covariances_(self) -> np.ndarray:
        """Variance of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)[1]


@estimator
class ExponentialMixture(TableMixture):
    """Clusters of rows of numbers from 0 on: a mixture of exponential distributions, fitted without labels by EM.

    Missing values (NaN) are summed out.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from sdem_dist import ExponentialMixture
    >>> X = [[1.0, 0.1], [2.0, 0.2], [0.1, 3.0], [0.2, 2.5]] * 20
    >>> first, second, third, fourth = ExponentialMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    @property
    def _kind(self) -> Kind:
        return Kind("exponential", float(self.alpha))

    @property
    def means_(self) -> np.ndarray:
        """Mean of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        block = self.learner_.model.variables.blocks[0]
        return np.asarray(-1.0 / self._parameters.theta * np.asarray(block.scale))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
