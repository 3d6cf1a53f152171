"""Stochastic discriminative EM for classes that are LDA models (Masegosa 2014, Algorithms 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.evaluation import evaluation_sums
from sdem_dist.kernels import lda as kernel
from sdem_dist.kernels.randomness import document_keys, log_normal
from sdem_dist.learners import blocks
from sdem_dist.learners.local_words import visiting_order
from sdem_dist.learners.protocol import Lane, LocalDocuments
from sdem_dist.learners.word_counts import KERNEL_LOSS, SdemState, SdemStatistics, WordCountSdem
from sdem_dist.models import lda
from sdem_dist.models.naive_bayes import lengths


@dataclass(frozen=True)
class LdaSdem(WordCountSdem):
    """The learner of LDA classes: a column of the table is a topic of a class, ``topic * n_classes + class``.

    Attributes
    ----------
    n_topics : int
        Of each class.
    inference : Inference
    noise : float
        The start is multiplied by ``exp(noise * normal)``, once and before lanes part: they would each number the topics in
        their own way otherwise, and averaging would erase them.
    """

    n_topics: int = 2
    inference: lda.Inference = field(default_factory=lda.Inference)
    noise: float = 0.1

    @property
    def cache_key(self) -> str:
        """Prepared documents are checked where each occurrence has a topic."""
        return f"{super().cache_key}{' whole' if self.inference.occurrences == 'each' else ''}"

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly; where each occurrence has a topic, counts have to be whole."""
        lda.check_occurrences(documents, self.inference)
        return super().prepare(documents)

    def init(self) -> SdemState:
        """Return the prior's counts with the symmetry of the topics broken (Algorithm 5, line 1)."""
        return self._start(0, self.n_features)

    def initial_block(self, block: int, n_blocks: int) -> SdemState:
        """Return one block of ``init()``."""
        return self._start(*blocks.bounds(self.n_features, block, n_blocks))

    def _start(self, first: int, last: int) -> SdemState:
        words = np.empty((last - first, self.n_topics * self.n_classes))
        log_normal(self.seed, first, self.noise if self.n_topics > 1 else 0.0, words)
        words *= self.alpha
        return SdemState(
            words=words,
            totals=words.sum(axis=0),
            class_counts=np.full(self.n_classes, self.class_alpha),
            gamma=0.0,
            class_gamma=0.0,
            t=0.0,
            mean_words=np.zeros_like(words) if self.average else np.empty((0, 0)),
            mean_class_counts=np.empty(0),
            n_averaged=0.0,
        )

    def _run_lane(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        weight = float(documents.weights.sum())
        class_counts = state.class_counts.copy()
        word_step = self.prior_scale * self.alpha / self.n_documents
        class_step = self.prior_scale * self.class_alpha / self.n_documents
        words = blocks.take(state.words, local.words)
        gamma, class_gamma, _ = kernel.run_documents(
            documents.data,
            documents.indices,
            documents.indptr,
            documents.labels,
            documents.weights,
            visiting_order(self.seed, lane, documents.n_documents),
            document_keys(self.seed, lane.epoch, lane.start, lane.stop),
            words,
            state.totals.copy(),
            class_counts,
            state.gamma
            + 0.5 * word_step * weight / (1.0 + self.step_decay * state.t),  # that of the middle of the lane
            state.gamma,
            state.class_gamma,
            self.initial_log_prior(),
            self.log_prior is None,
            word_step,
            class_step,
            self.n_features,
            state.t,
            lane.round_documents / max(documents.n_documents, 1),
            self.step_decay,
            KERNEL_LOSS[self.loss],
            self.tolerance,
            self.inference.how,
        )
        words *= weight
        class_counts *= weight
        met = np.full(len(words), weight)
        return SdemStatistics(local.words, words, met, class_counts, weight * gamma, weight * class_gamma, weight)

    def _expected_statistics(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        rows = np.zeros((len(local.words), self.n_topics * self.n_classes))
        class_counts = np.zeros(self.n_classes)
        parameters = self.parameters(state, local.words)
        # NLL asks for no scores, and so for no particles.
        how = replace(self.inference, n_particles=0 if self.loss == "nll" else self.inference.n_particles).how
        kernel.add_expected_statistics(
            documents.data,
            documents.indices,
            documents.indptr,
            documents.labels,
            documents.weights,
            document_keys(self.seed, lane.epoch, lane.start, lane.stop),
            parameters.words,
            parameters.totals,
            parameters.gamma,
            parameters.log_prior,
            self.n_features,
            KERNEL_LOSS[self.loss],
            self.tolerance,
            how,
            rows,
            class_counts,
        )
        weight = float(documents.weights.sum())
        return SdemStatistics(local.words, rows, np.zeros(len(rows)), class_counts, 0.0, 0.0, weight)

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> lda.LdaParameters:
        """Return what defines p(word | topic, class) of the given words, and the class prior (M-step)."""
        state = self.scored(state)
        rows = blocks.take(state.words, words)
        return lda.LdaParameters(rows, state.totals, state.gamma, self.n_features, self.class_log_prior(state))

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all batches."""
        columns = []
        for d, words in batches:
            scores, _ = lda.joint_scores(self.parameters(state, words), d, words, self.inference, self.seed)
            columns.append((scores, d.labels, d.weights, lengths(d)))
        return evaluation_sums(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
