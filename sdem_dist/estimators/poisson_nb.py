"""Poisson naive Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdem_dist.estimators.bernoulli_nb import checked_alpha
from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.settings import pseudo_count
from sdem_dist.families import Poisson
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block


class PoissonNB(FeatureNB):
    """Poisson naive Bayes: every column is a count, with its own mean in every class.

    Parameters
    ----------
    alpha : float, default=1.0
        Observations of the count 1 that the conjugate Gamma prior adds to every class.
    **shared
        See `sdem_dist.estimators.feature_naive_bayes.FeatureNB`.
    """

    def __init__(self, *, alpha: float = 1.0, **shared: Any) -> None:
        super().__init__(**shared)
        self.alpha = alpha

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        family = Poisson(pseudo_count(checked_alpha(self.alpha), 0))
        return (Block(family, tuple(range(len(summary.n)))),)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse_negative(type(self).__name__, X)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def refuse_negative(who: str, X: np.ndarray) -> None:
    """Raise ValueError if a value is negative."""
    if (X < 0).any():
        row, column = np.argwhere(X < 0)[0]
        raise ValueError(
            f"Negative values in data passed to {who} (input X): row {row}, column {column} (from 0) holds "
            f"{X[row, column]}; counts are 0 or more"
        )
