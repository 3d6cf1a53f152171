"""How much of the documents' words each topic of a trained model explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.learners.bp_slda import BpSlda
from sdem_dist.learners.local_words import LocalDocuments
from sdem_dist.learners.topic_statistics import TopicState
from sdem_dist.models.naive_bayes import lengths


@dataclass(frozen=True)
class TopicShares:
    """What scores the states of another learner by the topics of documents; it trains nothing.

    Attributes
    ----------
    learner : BpSlda
    """

    learner: BpSlda

    @property
    def cache_key(self) -> str:
        """Documents are prepared as the learner does."""
        return self.learner.cache_key

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Return documents as the learner takes them."""
        return self.learner.prepare(documents)

    def evaluate(self, state: TopicState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the expected words of each topic, shape (n_topics,)."""
        parameters, total = self.learner.parameters(state), np.zeros(self.learner.n_topics)
        for local in batches:
            own = parameters._replace(topics=parameters.topics[local.words])
            theta, _ = self.learner.inference.proportions(own, local.documents)
            total += np.einsum("d,dk->k", local.weights * lengths(local.documents), theta)
        return total

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return each topic's share, by its number."""
        return {str(k): float(n / max(sums.sum(), 1e-300)) for k, n in enumerate(sums)}
