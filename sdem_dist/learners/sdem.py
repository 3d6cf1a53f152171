"""Stochastic discriminative EM for multinomial naive Bayes (Masegosa 2014, Algorithms 2 to 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sdem_dist import losses
from sdem_dist.evaluation import evaluation_sums
from sdem_dist.kernels.multinomial import run_documents
from sdem_dist.kernels.rows import gather_rows
from sdem_dist.learners import blocks
from sdem_dist.learners.local_words import visiting_order
from sdem_dist.learners.protocol import Lane, LocalDocuments
from sdem_dist.learners.word_counts import KERNEL_LOSS, SdemState, SdemStatistics, WordCountSdem
from sdem_dist.models import naive_bayes


@dataclass(frozen=True)
class Sdem(WordCountSdem):
    """The learner of naive Bayes: a column of the table is a class.

    Attributes
    ----------
    batch_size : int
        Documents of a step inside a lane ("mean" only).
    exact : bool
        Take logarithms at the gamma of the moment instead of freezing gamma in them for a lane's run.
    """

    batch_size: int = 1
    exact: bool = False

    @property
    def owners(self) -> tuple[int, ...]:
        """The class of each component, where what is called classes here are components; else empty."""
        return ()

    def init(self) -> SdemState:
        """Return mu_0, the prior's (Algorithm 1, line 1)."""
        words = np.full((self.n_features, self.n_classes), self.alpha)
        return SdemState(
            words=words,
            totals=words.sum(axis=0),
            class_counts=np.full(self.n_classes, 0.0 if self.loss == "nll" else self.class_alpha),
            gamma=0.0,
            class_gamma=0.0,
            t=0.0,
            mean_words=np.zeros_like(words)
            if self.average
            else np.empty((0, 0)),  # memory is checked once, at the start
            mean_class_counts=np.empty(0),
            n_averaged=0.0,
        )

    def map(self, state: SdemState, documents: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return what one lane adds to a round; NLL only counts."""
        if self.loss == "nll":
            return self._expected_statistics(state, documents, lane)
        return super().map(state, documents, lane)

    def _run_lane(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Run sdEM over the lane's documents from the broadcast mu; return its mu times its weight."""
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        weight = float(documents.weights.sum())
        order = visiting_order(self.seed, lane, documents.n_documents)
        class_counts = state.class_counts.copy()
        word_step = self.prior_scale * self.alpha / self.n_documents
        class_step = self.prior_scale * self.class_alpha / self.n_documents
        # The gamma frozen in the logarithms is that of the middle of the lane.
        frozen = state.gamma + 0.5 * word_step * weight / (1.0 + self.step_decay * state.t)
        words = np.empty((len(local.words), self.n_classes))
        logs = np.empty((0, 0) if self.exact else words.shape)
        done = 0
        for table, chosen in blocks.split(state.words, local.words):
            rows = slice(done, done + len(chosen))
            if self.exact:
                words[rows] = table[chosen]
            else:
                gather_rows(table, chosen, frozen, words[rows], logs[rows])
            done += len(chosen)
        gamma, class_gamma, _ = run_documents(
            documents.data,
            documents.indices,
            documents.indptr,
            documents.labels,
            documents.weights,
            order,
            self.batch_size,
            words,
            state.totals.copy(),
            class_counts,
            logs,
            frozen,
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
            np.asarray(self.owners, np.int64),
        )
        words *= weight
        class_counts *= weight
        met = np.full(len(words), weight)
        return SdemStatistics(local.words, words, met, class_counts, weight * gamma, weight * class_gamma, weight)

    def _expected_statistics(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return the sum over documents of class weights times counts, all at the broadcast theta (Table 1)."""
        documents = local.documents
        assert documents.labels is not None
        assert documents.weights is not None
        if self.loss == "nll":
            scores = np.zeros((documents.n_documents, self.n_classes))
        else:
            scores = naive_bayes.joint_scores(self.parameters(state, local.words), documents)
        weights = losses.class_weights(self.loss, scores, documents.labels) * documents.weights[:, None]
        rows = naive_bayes.weighted_statistics(weights, documents, len(local.words))
        weight = float(documents.weights.sum())
        return SdemStatistics(local.words, rows, np.zeros(len(rows)), weights.sum(axis=0), 0.0, 0.0, weight)

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Merge the lanes of a round into the next mu."""
        if self.loss == "nll" and statistics.weight > 0.0:
            return self._maximum_likelihood(state, statistics)
        return super().update(state, statistics)

    def _maximum_likelihood(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Add the counts to alpha: what NLL's steps converge to, exactly; no prior on the classes."""
        words = state.words.copy()
        words[statistics.words] += statistics.rows
        class_counts = state.class_counts + statistics.class_counts
        return state._replace(
            words=words, totals=words.sum(axis=0), class_counts=class_counts, t=state.t + statistics.weight
        )

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> naive_bayes.NaturalParameters:
        """Return the natural parameters theta(mu) of the given words (M-step, Algorithm 3)."""
        state = self.scored(state)
        rows, totals = blocks.take(state.words, words) + state.gamma, state.totals + state.gamma * self.n_features
        with np.errstate(divide="ignore"):  # ln 0 = -inf: a class without documents, or alpha = 0
            # In place: the table of a wide model is not to be there twice.
            return naive_bayes.NaturalParameters(np.log(rows, out=rows), np.log(totals), self.class_log_prior(state))

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all batches."""
        state = self.scored(state)
        columns = []  # joined before the sums: batches may be a few documents each
        for d, words in batches:
            scores = naive_bayes.joint_scores(self.parameters(state, words), d)
            columns.append((scores, d.labels, d.weights, naive_bayes.lengths(d)))
        return evaluation_sums(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))
