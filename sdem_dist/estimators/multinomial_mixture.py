"""Clustering documents by a mixture of multinomials."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators.clusters import ClusterMixture
from sdem_dist.estimators.common_parameters import OfText
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.fitting.cluster_kinds import WordClusters
from sdem_dist.fitting.drawing import drawn_from, sample_counts
from sdem_dist.inputs.spec import Spec
from sdem_dist.models.naive_bayes import pseudo_count


@estimator
class MultinomialMixture(OfText, ClusterMixture[WordClusters]):
    """Clusters of documents: a mixture of multinomials over counts, fitted without labels by EM.

    References
    ----------
    Masegosa, A. (2014). Stochastic Discriminative EM. UAI. Table 2, NLL.

    Examples
    --------
    >>> from sdem_dist import MultinomialMixture
    >>> X = [[5, 1, 0, 0], [4, 2, 0, 1], [0, 0, 3, 4], [1, 0, 4, 5]] * 50
    >>> first, second, third, _ = MultinomialMixture(2).fit(X).predict(X[:4])
    >>> bool(first == second != third)
    True
    """

    alpha: float = param(0.1, real(), "Pseudo-count of each word in each cluster; 0 stands for 1e-10.")
    weight_alpha: float = param(
        1.0, real(), "Pseudo-count of each cluster in the clusters' weights: 0 for maximum likelihood."
    )

    spec = Spec(
        "sparse", "nothing", "cluster", shown=("nll", "perplexity"), words="component_log_prob_", shuffled=False
    )

    @property
    def _kind(self) -> WordClusters:
        alpha = pseudo_count(self.alpha, 0)
        return WordClusters(
            int(self.n_components), alpha, float(self.weight_alpha), self.init, int(self.init_documents)
        )

    def _check(self) -> None:
        super()._check()
        if self.weight_alpha == 0 and self.em == "variational":
            raise ValueError("em='variational' needs a prior: weight_alpha must be positive with it")

    @property
    def component_log_prob_(self) -> np.ndarray:
        """Logarithm of p(word | cluster), shape (n_components, n_features)."""
        check_is_fitted(self)
        return np.asarray((self._parameters.log_words - self._parameters.log_totals).T)

    def sample(
        self, n_samples: int = 1, random_state: object = None, *, length: int = 100
    ) -> tuple[sp.csr_matrix, np.ndarray]:
        """Draw documents of `length` words, and their clusters.

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
        labels : ndarray of shape (n_samples,)

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
        length : int, default=100
            Words of each document.
        """
        check_is_fitted(self)
        drawn, rng = drawn_from(self.component_log_prior_, n_samples, random_state)
        return sample_counts(self.component_log_prob_, drawn, length, rng), drawn
