"""Naive Bayes of tables whose columns are values 0 and 1, categories, or counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sdem_dist.estimators.parameters import checked_later, estimator, or_none, param, real
from sdem_dist.estimators.table_naive_bayes import FeatureNB
from sdem_dist.families import Bernoulli, Poisson
from sdem_dist.learners.column_blocks import categorical_blocks, refuse, refuse_other_than_categories
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.features import Block
from sdem_dist.models.naive_bayes import pseudo_count


@estimator
class BernoulliNB(FeatureNB):
    """Bernoulli naive Bayes: every column is 0 or 1, with its own probability in every class.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> from sdem_dist import BernoulliNB
    >>> clf = BernoulliNB(loss="nll").fit([[1, 0], [1, 0], [0, 1], [1, 1]], [0, 0, 1, 1])
    >>> clf.predict([[1, 0], [0, 1]]).tolist()
    [0, 1]
    """

    alpha: float = param(1.0, real(), "Pseudo-count of each of the two values.")
    binarize: float | None = param(
        0.0, or_none(real(-np.inf)), "Values above it count as 1, others as 0; None: values are 0 and 1."
    )

    spec = replace(FeatureNB.spec, poor_score=True)  # a threshold loses much of a continuous feature

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        threshold = None if self.binarize is None else float(self.binarize)
        family = Bernoulli(pseudo_count(self.alpha, 0), threshold)
        return (Block(family, tuple(range(len(summary.n)))),)

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(value 1 | class), shape (n_classes, n_features)."""
        return self._log_densities(1.0 if self.binarize is None else float(self.binarize) + 1.0).T


@estimator
class CategoricalNB(FeatureNB):
    """Categorical naive Bayes: every column holds one of a few categories, numbered from 0.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> from sdem_dist import CategoricalNB
    >>> clf = CategoricalNB(loss="nll").fit([[0, 2], [0, 1], [1, 0], [2, 0]], [0, 0, 1, 1])
    >>> clf.predict([[0, 1], [2, 0]]).tolist()
    [0, 1]
    """

    alpha: float = param(1.0, real(), "Pseudo-count of each category.")
    min_categories: object = param(
        None,
        checked_later("int or array-like of shape (n_features,)"),
        "Least categories of a column; None: as many as training shows.",
    )

    spec = replace(FeatureNB.spec, positive=True)

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        columns = np.arange(len(summary.n))
        return categorical_blocks(summary, columns, pseudo_count(self.alpha, 0), self.min_categories)

    @property
    def n_categories_(self) -> np.ndarray:
        """Categories of each column, shape (n_features,), int64."""
        check_is_fitted(self)
        sizes = np.empty(self.n_features_in_, np.int64)
        for block in self.learner_.model.variables.blocks:
            sizes[list(block.columns)] = block.family.n_categories
        return sizes

    @property
    def feature_log_prob_(self) -> list[np.ndarray]:
        """Logarithm of p(category | class) of each column, shapes (n_classes, n_categories)."""
        sizes = self.n_categories_
        of_categories = np.stack([self._log_densities(np.minimum(c, sizes - 1)) for c in range(sizes.max())], axis=2)
        return [of_categories[column, :, :n] for column, n in enumerate(sizes)]

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse_other_than_categories(type(self).__name__, X)
        return X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


@estimator
class PoissonNB(FeatureNB):
    """Poisson naive Bayes: every column is a count, with its own mean in every class.

    Examples
    --------
    >>> from sdem_dist import PoissonNB
    >>> clf = PoissonNB(loss="nll").fit([[9, 1], [8, 0], [1, 7], [0, 9]], [0, 0, 1, 1])
    >>> clf.predict([[7, 2], [1, 6]]).tolist()
    [0, 1]
    """

    alpha: float = param(1.0, real(), "Observations of the count 1 that the conjugate Gamma prior adds to every class.")

    spec = replace(FeatureNB.spec, positive=True)

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        return (Block(Poisson(pseudo_count(self.alpha, 0)), tuple(range(len(summary.n)))),)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse(X, X < 0, "Negative values", type(self).__name__, "counts are 0 or more")
        return X
