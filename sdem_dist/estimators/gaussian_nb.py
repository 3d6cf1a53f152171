"""Gaussian naive Bayes."""

from __future__ import annotations

import numpy as np

from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.parameters import estimator, param, real
from sdem_dist.families import Gaussian
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block


@estimator
class GaussianNB(FeatureNB):
    """Gaussian naive Bayes: every column is normally distributed in every class, with its own mean and variance.

    With ``loss="nll"`` it is scikit-learn's.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        Labelled training documents, by weight.
    class_log_prior_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    history_ : list of dict
        One entry an epoch, see `MultinomialNB`; ``perplexity`` is a value, not a word.
    n_iter_ : int
    theta_, var_ : ndarray of shape (n_classes, n_features)
        Mean and variance of each class and column.

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


def moments(block: Block, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of Gaussian variables, each of shape (n_classes, n_columns)."""
    theta, scale = block.shaped(parameters), np.asarray(block.scale)
    variance = -0.5 / theta[..., 1]
    return theta[..., 0] * variance * scale + np.asarray(block.location), variance * scale**2


def refuse_beyond_squares(summary: ColumnSummary, columns: np.ndarray, target: int | None = None) -> None:
    """Raise ValueError if a column, one of which may be the target, holds values whose squares cannot be summed."""
    largest = np.maximum(np.abs(summary.low), np.abs(summary.high))
    unfit = columns[(largest[columns] > LARGEST) & (summary.n[columns] > 0)]
    if len(unfit):
        column = int(unfit[0])
        raise ValueError(
            f"{'the target' if column == target else f'column {column} (from 0)'} holds values as large as "
            f"{largest[column]:.3g}, and squares of more than {LARGEST:.0e} cannot be summed: divide it by a constant, or mark "
            "such values as missing (NaN)"
        )


def gaussian_block(summary: ColumnSummary, columns: np.ndarray, prior: float, added: float) -> Block:
    """Return columns as Gaussian variables, standardised; `added` is added to variances of the generative fit."""
    refuse_beyond_squares(summary, columns)
    scale = summary.scale[columns]
    smoothing = tuple((added / scale**2).tolist())
    return Block(
        Gaussian(smoothing, prior),
        tuple(columns.tolist()),
        tuple(summary.mean[columns].tolist()),
        tuple(scale.tolist()),
    )
