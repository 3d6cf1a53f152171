"""Bernoulli naive Bayes."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.settings import pseudo_count
from sdem_dist.families import Bernoulli
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block


class BernoulliNB(FeatureNB):
    """Bernoulli naive Bayes: every column is 0 or 1, with its own probability in every class.

    With ``loss="nll"`` it is scikit-learn's.

    Parameters
    ----------
    alpha : float, default=1.0
        Pseudo-count of each of the two values.
    binarize : float or None, default=0.0
        Values above it count as 1, others as 0; None: the values are 0 and 1.
    **shared
        See `sdem_dist.estimators.feature_naive_bayes.FeatureNB`.
    """

    def __init__(self, *, alpha: float = 1.0, binarize: float | None = 0.0, **shared: Any) -> None:
        super().__init__(**shared)
        self.alpha = alpha
        self.binarize = binarize

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        b = self.binarize
        if b is not None and not (isinstance(b, Real) and abs(float(b)) < float("inf")):
            raise ValueError(f"binarize must be a finite number or None, got {b!r}")
        threshold = None if b is None else float(b)
        family = Bernoulli(pseudo_count(checked_alpha(self.alpha), 0), threshold)
        return (Block(family, tuple(range(len(summary.n)))),)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # halved by a threshold, continuous features lose much
        return tags


def checked_alpha(alpha: Any) -> float:
    """Return a pseudo-count, or raise ValueError."""
    if not (isinstance(alpha, Real) and 0 <= float(alpha) < float("inf")):
        raise ValueError(f"alpha must be a finite number that is not negative, got {alpha!r}")
    return float(alpha)
