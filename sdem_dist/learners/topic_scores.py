"""What a trained topic model says of its training documents: its topics' shares, and the thresholds of labels.

A topic model has so few parameters a label that thresholds need no held-out documents.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.label_scores import best_thresholds, fitting_sums
from sdem_dist.learners.bp_slda import BpSlda
from sdem_dist.learners.topic_statistics import TopicState
from sdem_dist.models.word_counts import LocalDocuments, lengths


@dataclass(frozen=True)
class TopicScores:
    """A learner that scores the states of another one and trains nothing."""

    learner: BpSlda
    sums_of: Callable[[BpSlda, TopicState, Iterable[LocalDocuments]], np.ndarray]
    """Learner, state and batches to sums over documents."""
    values_of: Callable[[BpSlda, np.ndarray], np.ndarray]  # learner and sums to a value for each topic or label

    @property
    def cache_key(self) -> str:
        """Documents are prepared as the learner does."""
        return self.learner.cache_key

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Return documents as the learner takes them."""
        return self.learner.prepare(documents)

    def evaluate(self, state: TopicState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return sums over documents."""
        return self.sums_of(self.learner, state, batches)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return the values of topics or labels, by their numbers."""
        return {str(k): value for k, value in enumerate(self.values_of(self.learner, sums).tolist())}


def topic_words(learner: BpSlda, state: TopicState, batches: Iterable[LocalDocuments]) -> np.ndarray:
    """Return the expected words of each topic, shape (n_topics,)."""
    parameters, total = learner.parameters(state), np.zeros(learner.n_topics)
    for local in batches:
        own = parameters._replace(topics=parameters.topics[local.words])
        theta, _ = learner.inference.proportions(own, local.documents)
        total += np.einsum("d,dk->k", local.weights * lengths(local.documents), theta)
    return total


def shares(learner: BpSlda, sums: np.ndarray) -> np.ndarray:
    """Return the share of the words that each topic explains."""
    return np.asarray(sums / max(sums.sum(), 1e-300))


def label_sums(learner: BpSlda, state: TopicState, batches: Iterable[LocalDocuments]) -> np.ndarray:
    """Return the sums of `sdem_dist.label_scores.fitting_sums`."""
    parameters = learner.parameters(state)
    seen = [learner.seen(parameters, local) for local in batches]
    odds, members = (
        np.concatenate(parts) for parts in zip(*((s.outputs, s.documents.targets) for s in seen), strict=True)
    )
    return fitting_sums(learner.gamma * odds, members, np.concatenate([s.documents.weights for s in seen]))


def label_thresholds(learner: BpSlda, sums: np.ndarray) -> np.ndarray:
    """Return the probability of each label from which on F1 is largest."""
    return best_thresholds(sums, np.ones(learner.n_outputs))
