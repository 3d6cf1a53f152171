"""EM for multinomial naive Bayes where the class of some documents is not known (Masegosa 2014, Table 2, NLL)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from sdem_dist.learners.protocol import Lane, LocalDocuments
from sdem_dist.learners.sdem import Sdem
from sdem_dist.learners.word_counts import SdemState, SdemStatistics
from sdem_dist.models import naive_bayes


@dataclass(frozen=True)
class HiddenClassSdem(Sdem):
    """The learner of NLL for documents of which some have the label -1; a round of all documents is an iteration of EM.

    Attributes
    ----------
    unlabelled_weight : float
        Weight of a document without a label.
    """

    unlabelled_weight: float = 1.0

    def _expected_statistics(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return expected counts; the first round sees labelled documents only."""
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        hidden = documents.labels < 0
        weights = np.zeros((documents.n_documents, self.n_classes))
        if state.t > 0:
            scores = naive_bayes.joint_scores(self.parameters(state, local.words), documents)
            weights[hidden] = self.unlabelled_weight * softmax(scores[hidden], axis=1)
        weights[np.flatnonzero(~hidden), documents.labels[~hidden]] = 1.0
        weights *= documents.weights[:, None]
        rows = naive_bayes.weighted_statistics(weights, documents, len(local.words))
        total = float(documents.weights.sum())
        return SdemStatistics(local.words, rows, np.zeros(len(rows)), weights.sum(axis=0), 0.0, 0.0, total)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Return the expected counts with the prior's: maximisation, in closed form."""
        if not statistics.class_counts.any():
            return state
        return self._maximum_likelihood(self.init()._replace(t=state.t), statistics)

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over documents with a label."""
        return super().evaluate(state, (_labelled(local) for local in batches))


def _labelled(local: LocalDocuments) -> LocalDocuments:
    """Return documents of which those without a label weigh nothing."""
    documents = local.documents
    assert documents.labels is not None
    assert documents.weights is not None
    hidden = documents.labels < 0
    weights = np.where(hidden, 0.0, documents.weights)
    return local._replace(documents=replace(documents, labels=np.where(hidden, 0, documents.labels), weights=weights))
