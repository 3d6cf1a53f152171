"""Clustering rows of a table by mixtures of Gaussians or of exponentials."""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators.clusters import ClusterMixture
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.fitting.cluster_kinds import RowClusters
from sdem_dist.fitting.drawing import drawn_from
from sdem_dist.inputs.spec import Estimator, Spec
from sdem_dist.learners.column_blocks import Kind, moments


@estimator
class OfRows(Estimator):
    """What mixtures over columns of a table have beside the others: families of the columns, and samples."""

    alpha: float = param(1.0, real(above=True), "Observations of the column's mean (and variance) that the prior adds.")

    spec = Spec("dense", "nothing", "cluster", shown=("nll", "perplexity"), shuffled=False)
    _family: ClassVar[str]

    if TYPE_CHECKING:
        n_components: int
        init: str
        init_documents: int

    @property
    def _kind(self) -> RowClusters:
        kind = Kind(self._family, float(self.alpha))
        return RowClusters(int(self.n_components), kind, self.init, int(self.init_documents))

    @property
    def weights_(self) -> np.ndarray:
        """Shares of the clusters, shape (n_components,)."""
        check_is_fitted(self)
        return np.exp(self._parameters.log_prior)

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
        drawn, rng = drawn_from(self._parameters.log_prior, n_samples, random_state)
        return self.learner_.model.variables.sample(self._parameters, drawn, rng), drawn


@estimator
class GaussianMixture(OfRows, ClusterMixture[RowClusters]):
    """Clusters of rows: a mixture of Gaussians with diagonal covariances, fitted without labels by EM.

    Missing values (NaN) are summed out.

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

    _family = "gaussian"

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
class ExponentialMixture(OfRows, ClusterMixture[RowClusters]):
    """Clusters of rows of numbers from 0 on: a mixture of exponential distributions, fitted without labels by EM.

    Missing values (NaN) are summed out.

    Examples
    --------
    >>> from sdem_dist import ExponentialMixture
    >>> X = [[1.0, 0.1], [2.0, 0.2], [0.1, 3.0], [0.2, 2.5]] * 20
    >>> first, second, third, fourth = ExponentialMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third == fourth)
    True
    """

    spec = replace(OfRows.spec, positive=True)
    _family = "exponential"

    @property
    def means_(self) -> np.ndarray:
        """Mean of each cluster and column, shape (n_components, n_features)."""
        check_is_fitted(self)
        block = self.learner_.model.variables.blocks[0]
        return np.asarray(-1.0 / self._parameters.theta * np.asarray(block.scale))
