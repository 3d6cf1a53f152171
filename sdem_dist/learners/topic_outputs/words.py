"""The words alone: topics without labels (BP-LDA)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdem_dist.kernels import topic_outputs
from sdem_dist.learners.topic_outputs.protocol import Seen, Settings, TopicOutput
from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.models.word_counts import lengths


class NoOutput(TopicOutput):
    """U has no rows."""

    kind = topic_outputs.NONE
    learns = "nothing"

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return the words, minus their log-likelihood, and the documents."""
        total = np.zeros(3)
        for seen in batches:
            d, weights = seen.documents, seen.documents.weights
            words = (weights * lengths(d.documents)).sum()
            total += np.array([words, -(weights * seen.log_likelihood).sum(), weights.sum()])
        return total

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return ``-ln p(w | theta)`` per word; theta comes from these words, so it is lower than for held-out ones."""
        return {"plug_in_nll": float(sums[1]) / max(float(sums[0]), 1e-300)}
