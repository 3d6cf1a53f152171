"""Categorical naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdem_dist.estimators.bernoulli_nb import checked_alpha
from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.settings import pseudo_count
from sdem_dist.families import Categorical
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block

MOST_CATEGORIES = 100_000
"""Categories of a column: each takes a number for every row and class."""


class CategoricalNB(FeatureNB):
    """Categorical naive Bayes: every column holds one of a few categories, numbered from 0.

    With ``loss="nll"`` it is scikit-learn's.

    Parameters
    ----------
    alpha : float, default=1.0
        Pseudo-count of each category.
    min_categories : int or array-like of shape (n_features,), default=None
        Categories that a column has at least; None: as many as the training documents show.
    **shared
        See `sdem_dist.estimators.feature_naive_bayes.FeatureNB`.
    """

    def __init__(self, *, alpha: float = 1.0, min_categories: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        self.alpha = alpha
        self.min_categories = min_categories

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        columns = np.arange(len(summary.n))
        return categorical_blocks(summary, columns, pseudo_count(checked_alpha(self.alpha), 0), self.min_categories)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse_other_than_categories(type(self).__name__, X)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags


def categorical_blocks(
    summary: ColumnSummary, columns: np.ndarray, alpha: float, least: Any = None
) -> tuple[Block, ...]:
    """Return columns as categorical variables, those with as many categories together."""
    high = np.maximum(summary.high[columns], 1.0)
    if (high >= MOST_CATEGORIES).any():
        column = int(columns[high.argmax()])
        raise ValueError(
            f"column {column} (from 0) holds the category {high.max():.10g}, and {MOST_CATEGORIES:,} of a column are the most "
            "there may be: number those that occur 0, 1, 2, ... (scikit-learn's OrdinalEncoder does)"
        )
    shown = high.astype(int) + 1
    if least is not None:
        least = np.asarray(least)
        if least.dtype.kind not in "iu" or least.shape not in ((), shown.shape):
            raise ValueError(f"min_categories must be an integer, or one for each of {len(shown)} columns, got {least}")
        shown = np.maximum(shown, least)
    return tuple(
        Block(Categorical(int(n), alpha), tuple(columns[shown == n].tolist())) for n in np.unique(shown).tolist()
    )


def refuse_other_than_categories(who: str, X: np.ndarray) -> None:
    """Raise ValueError if a value is no number of a category."""
    for unfit, what in ((X < 0, "Negative values"), (np.floor(X) != X, "Values that are not whole")):
        unfit = unfit & ~np.isnan(X)
        if unfit.any():
            row, column = np.argwhere(unfit)[0]
            raise ValueError(
                f"{what} in data passed to {who} (input X): row {row}, column {column} (from 0) holds {X[row, column]}; "
                "categories are numbered 0, 1, 2, ..."
            )
