"""One pass over documents that counts how often each word occurs, and how the targets spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.learners.one_pass import OnePass
from sdem_dist.learners.protocol import Lane
from sdem_dist.models.fields import Field
from sdem_dist.models.word_counts import entries
from sdem_dist.records import record

_ROUNDING = 1e-13
"""Standard deviation, next to the mean, up to which a target counts as constant."""


class WordSummary(NamedTuple):
    """What documents hold, each by its weight."""

    frequencies: np.ndarray  # how often each word occurs, shape (n_features,), float64
    weight: float  # documents
    mean: np.ndarray  # of each target, shape (n_targets,), float64
    squares: np.ndarray  # sum of squared deviations of each target from its mean

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each target; for a constant, up to rounding, a number so small that it is predicted."""
        deviation, size = np.sqrt(self.squares / (self.weight or 1.0)), np.abs(self.mean)
        return np.where(deviation > _ROUNDING * size, deviation, _ROUNDING * np.maximum(size, 1.0))


@record
@dataclass(frozen=True)
class Words(OnePass[WordSummary, Documents]):
    """The learner of `WordSummary`."""

    n_features: int
    n_targets: int = 0
    log_counts: bool = False  # add up ln(1 + x) of the counts

    state_type = WordSummary

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is."""
        of_targets = dict.fromkeys(("mean", "squares"), Field((self.n_targets,)))
        return {"frequencies": Field((self.n_features,), 0.0), "weight": Field((), 0.0), **of_targets}

    def init(self) -> WordSummary:
        """Return the summary of nothing."""
        return WordSummary(np.zeros(self.n_features), 0.0, np.zeros(self.n_targets), np.zeros(self.n_targets))

    def map(self, state: WordSummary, documents: Documents, lane: Lane) -> WordSummary:
        """Return the summary of one lane."""
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        counts = entries(documents.data, self.log_counts) * np.repeat(weights, np.diff(documents.indptr))
        frequencies = np.bincount(documents.indices, counts, self.n_features)
        weight = float(weights.sum())
        targets = np.empty((len(weights), 0)) if documents.targets is None else documents.targets
        targets = targets[:, : self.n_targets]
        mean = (weights[:, None] * targets).sum(axis=0) / (weight or 1.0)
        return WordSummary(frequencies, weight, mean, (weights[:, None] * (targets - mean) ** 2).sum(axis=0))

    def combine(self, parts: Sequence[WordSummary]) -> WordSummary:
        """Join summaries, without the cancellation of sums of squares (Chan, Golub and LeVeque 1983)."""
        whole = parts[0]
        for part in parts[1:]:
            weight = whole.weight + part.weight
            shift, share = part.mean - whole.mean, part.weight / (weight or 1.0)
            squares = whole.squares + part.squares + shift**2 * whole.weight * share
            whole = WordSummary(whole.frequencies + part.frequencies, weight, whole.mean + shift * share, squares)
        return whole
