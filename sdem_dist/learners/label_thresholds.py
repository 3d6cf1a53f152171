"""From which probability on a document gets each of several labels: what is best on the training documents.

A topic model has so few parameters a label that held-out documents are not needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.label_scores import best_cuts, fitting_sums, probabilities
from sdem_dist.learners.bp_slda import BpSlda
from sdem_dist.learners.local_words import LocalDocuments
from sdem_dist.learners.topic_statistics import TopicState


@dataclass(frozen=True)
class LabelThresholds:
    """What scores the states of another learner by the thresholds of largest F1; it trains nothing.

    Attributes
    ----------
    learner : BpSlda
        Of several labels.
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
        """Return the sums of `sdem_dist.label_scores.fitting_sums`."""
        parameters = self.learner.parameters(state)
        seen = [self.learner.seen(parameters, local) for local in batches]
        odds, members = (
            np.concatenate(parts) for parts in zip(*((s.outputs, s.documents.targets) for s in seen), strict=True)
        )
        return fitting_sums(self.learner.gamma * odds, members, np.concatenate([s.documents.weights for s in seen]))

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return each label's threshold, by its number."""
        found = probabilities(best_cuts(sums, self.learner.n_outputs))
        return {str(i): t for i, t in enumerate(found.tolist())}
