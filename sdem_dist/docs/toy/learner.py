"""The mean count of every word in every class: a learner that adds up and divides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.surveys import OnePass
from sdem_dist.records import Field, record


class Sums(NamedTuple):
    """What a pass finds: the state, and the statistics of a lane."""

    words: np.ndarray  # shape (n_classes, n_features), float64
    documents: np.ndarray  # shape (n_classes,), float64


@record
class ClassMeans(OnePass[Sums, Documents]):
    """The learner of `Sums`. `OnePass` has prepare and update, for learners that look at documents once."""

    n_features: int
    n_classes: int

    state_type = Sums

    @property
    def width(self) -> int:
        return self.n_features

    @property
    def n_labels(self) -> int:
        return self.n_classes

    def state_fields(self) -> dict[str, Field]:
        """Return what each array of a state is: checkpoints and model files are checked by it."""
        return {"words": Field((self.n_classes, self.n_features), 0.0), "documents": Field((self.n_classes,), 0.0)}

    def init(self) -> Sums:
        return Sums(np.zeros((self.n_classes, self.n_features)), np.zeros(self.n_classes))

    def map(self, state: Sums, documents: Documents, lane: Lane) -> Sums:
        assert documents.labels is not None
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        rows = np.repeat(np.arange(documents.n_documents), np.diff(documents.indptr))
        words = np.zeros((self.n_classes, self.n_features))
        np.add.at(words, (documents.labels[rows], documents.indices), documents.data * weights[rows])
        return Sums(words, np.bincount(documents.labels, weights, self.n_classes))

    def combine(self, parts: Sequence[Sums]) -> Sums:
        """Add the sums of lanes, from first to last."""
        return Sums(np.sum([part.words for part in parts], axis=0), np.sum([part.documents for part in parts], axis=0))

    def parameters(self, state: Sums) -> np.ndarray:
        """Return the means, shape (n_classes, n_features)."""
        return state.words / np.maximum(state.documents, 1.0)[:, None]

    def evaluate(self, state: Sums, batches: Iterable[Documents]) -> np.ndarray:
        """Return right predictions and documents, by weight."""
        sums = np.zeros(2)
        for batch in batches:
            weights = np.ones(batch.n_documents) if batch.weights is None else batch.weights
            assert batch.labels is not None
            weights = np.where(batch.labels < 0, 0.0, weights)  # documents without a label count nowhere
            right = scores(self.parameters(state), batch).argmax(axis=1) == batch.labels
            sums += np.array([(weights * right).sum(), weights.sum()])
        return sums

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        return {"accuracy": float(sums[0] / sums[1])}


def scores(means: np.ndarray, documents: Documents) -> np.ndarray:
    """Return minus half of the squared distance to each mean, up to what is the same for all classes."""
    return np.asarray(documents.to_csr() @ means.T - 0.5 * (means**2).sum(axis=1))
