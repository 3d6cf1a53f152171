"""Gaussian naive Bayes."""

import numpy as np

from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.learners.column_blocks import gaussian_block, moments
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block


@estimator
class GaussianNB(FeatureNB):
    """Gaussian naive Bayes: every column is normally distributed in every class, with its own mean and variance.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> import numpy as np
    >>> from sdem_dist import GaussianNB
    >>> X = np.array([[1.0, 2.0], [1.5, np.nan], [4.0, 4.5], [5.0, 5.0]])
    >>> clf = GaussianNB(loss="nll").fit(X, ["low", "low", "high", "high"])
    >>> clf.predict([[1.2, np.nan], [np.nan, 5.0]]).tolist()  # what is missing is summed out
    ['low', 'high']
    """

    var_smoothing: float = param(
        1e-9, real(), "Share of the largest variance that the generative fit adds to all variances."
    )
    prior: float = param(
        1.0, real(), 'Observations of the column\'s mean and variance that the prior adds to each class, but for "nll".'
    )

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        columns = np.arange(len(summary.n))
        added = self.var_smoothing * summary.variance.max()
        return (gaussian_block(summary, columns, 0.0 if generative else self.prior, added),)

    @property
    def theta_(self) -> np.ndarray:
        """Mean of each class and column, shape (n_classes, n_features)."""
        return self._moments()[0]

    @property
    def var_(self) -> np.ndarray:
        """Variance of each class and column, shape (n_classes, n_features)."""
        return self._moments()[1]

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return moments(self.learner_.model.variables.blocks[0], self._parameters.theta)
