"""Mixtures of multinomials over counts: EM, its online form, and sdEM with the component hidden (Masegosa 2014, Table 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sdem_dist import losses
from sdem_dist.documents import Documents
from sdem_dist.evaluation import evaluation_sums
from sdem_dist.learners.protocol import Lane, LocalDocuments
from sdem_dist.learners.sdem import Sdem
from sdem_dist.learners.word_counts import SdemState, SdemStatistics
from sdem_dist.models import naive_bayes
from sdem_dist.models.components import by_class

DECAY = 0.7
"""Steps of online EM are ``(rounds + 2) ** -DECAY``: between 1/2 and 1, as stochastic approximation asks for."""


@dataclass(frozen=True)
class MixtureCounts(Sdem):
    """The learner of `Sdem` whose classes are components; clustering has one class, whatever the labels.

    With ``loss="nll"`` a round is an iteration of EM, or with `online` a step of stochastic EM.

    Attributes
    ----------
    owners : tuple of int
        The class of each component, ascending; ``n_classes`` counts components.
    n_labels : int
        Classes.
    online : bool
    """

    owners: tuple[int, ...] = ()
    n_labels: int = 0
    online: bool = False

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on the class weights and on whether labels count."""
        return f"{super().cache_key} {self.n_labels == 1}"

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly; with one class no label is needed."""
        if self.n_labels == 1:
            documents = replace(documents, labels=np.zeros(documents.n_documents, np.int32))
        return super().prepare(documents)

    def init(self) -> SdemState:
        """Return mu_0, the prior's: here components have one too, and so none dies out."""
        return super().init()._replace(class_counts=np.full(self.n_classes, self.class_alpha))

    def start(self, words: np.ndarray, class_counts: np.ndarray) -> SdemState:
        """Return the state at some expected counts of words and components, shapes (n_features, n) and (n,)."""
        return self.init()._replace(words=words, totals=words.sum(axis=0), class_counts=class_counts)

    def _expected_statistics(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return the sum over documents of components' weights times counts (Table 2)."""
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        scores = naive_bayes.joint_scores(self.parameters(state, local.words), documents)
        of_class, posterior = by_class(scores, self.owners)
        weights = losses.class_weights(self.loss, of_class, documents.labels)[:, self.owners] * posterior
        weights *= documents.weights[:, None]
        rows = naive_bayes.weighted_statistics(weights, documents, len(local.words))
        total = float(documents.weights.sum())
        return SdemStatistics(local.words, rows, np.zeros(len(rows)), weights.sum(axis=0), 0.0, 0.0, total)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Merge the lanes of a round; for NLL maximise, or go some way towards the round's maximum."""
        if self.loss != "nll" or statistics.weight == 0.0:
            return super().update(state, statistics)
        if not self.online:
            return self._maximum_likelihood(self.init()._replace(t=state.t), statistics)
        rho = (state.t / statistics.weight + 2.0) ** -DECAY
        scale = self.n_documents / statistics.weight
        words = (1.0 - rho) * state.words + rho * self.alpha
        words[statistics.words] += rho * scale * statistics.rows
        counts = (1.0 - rho) * state.class_counts + rho * scale * statistics.class_counts
        t = state.t + statistics.weight
        return state._replace(words=words, totals=words.sum(axis=0), class_counts=counts, t=t)

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all batches."""
        state = self.scored(state)
        columns = []
        for d, words in batches:
            scores = by_class(naive_bayes.joint_scores(self.parameters(state, words), d), self.owners)[0]
            columns.append((scores, d.labels, d.weights, naive_bayes.lengths(d)))
        joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
        if self.n_labels == 1:  # a rival that never is: what concerns classes means nothing
            joined[0] = np.concatenate([joined[0], np.full((len(joined[0]), 1), -np.inf)], axis=1)
        return evaluation_sums(*joined)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses and perplexity; of clusters only what concerns p(d)."""
        found = super().metrics(sums)
        return {name: found[name] for name in ("nll", "perplexity")} if self.n_labels == 1 else found
