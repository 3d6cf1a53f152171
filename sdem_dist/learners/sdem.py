"""Stochastic discriminative EM for multinomial naive Bayes, as the engine wants it (Masegosa 2014, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sdem_dist import losses
from sdem_dist.documents import Documents
from sdem_dist.evaluation import evaluation_sums, finish
from sdem_dist.kernels import losses as kernel_losses
from sdem_dist.kernels.multinomial import run_documents
from sdem_dist.kernels.rows import (
    average_rows,
    gather_rows,
    mark_words,
    number_words,
    scatter_add_rows,
)
from sdem_dist.learners import blocks
from sdem_dist.learners.local_words import renumbered, visiting_order
from sdem_dist.learners.protocol import Lane, LocalDocuments
from sdem_dist.models import naive_bayes

_KERNEL_LOSS = {"nll": kernel_losses.NLL, "ncll": kernel_losses.NCLL, "hinge": kernel_losses.HINGE}
_COMPILED = {"uint8": np.uint8, "uint16": np.float32, "float32": np.float32}
"""Dtypes of entries in kernels, by the dtype stored: exact, small, and few, since each is compiled; else float64."""


class SdemState(NamedTuple):
    """Expectation parameters mu, unnormalised, and where the run stands."""

    words: Any
    """N, expected counts of word and class without gamma: shape (n_features, n_classes), float64; where the vocabulary is
    cut into blocks, a tuple of consecutive arrays."""
    totals: np.ndarray
    """M, the sums of N over the vocabulary: shape (n_classes,)."""
    class_counts: np.ndarray
    """C, expected counts of the classes without gamma: shape (n_classes,)."""
    gamma: float
    """Running prior correction of the words: sum of alpha * rho / n over the documents seen."""
    class_gamma: float
    """The same for the classes."""
    t: float
    """Documents seen, a document of weight w counting w."""
    mean_words: Any
    """Mean of N + gamma over the rounds averaged (Polyak-Ruppert); shape (0, 0) where none will be."""
    mean_class_counts: np.ndarray
    """Mean of C + class_gamma over the same rounds; shape (0,) where there are none."""
    n_averaged: float
    """Rounds averaged so far."""


class SdemStatistics(NamedTuple):
    """Sums over lanes: weighted results of the lanes (merge "mean") or statistics at one theta (merge "sum")."""

    words: np.ndarray
    """The words met by any lane: shape (n_words,), uint32, ascending."""
    rows: np.ndarray
    """Shape (n_words, n_classes): sums over the lanes that met the word."""
    met: np.ndarray
    """Shape (n_words,): the weights of those lanes; zeros for merge "sum"."""
    class_counts: np.ndarray
    """Shape (n_classes,)."""
    gamma: float
    class_gamma: float
    weight: float
    """Documents, by weight."""


@dataclass(frozen=True)
class Sdem:
    """Settings and pure functions of sdEM for multinomial naive Bayes.

    Attributes
    ----------
    n_features, n_classes : int
    n_documents : float
        n, the documents of the training corpus by weight.
    loss : {"nll", "ncll", "hinge"}
    alpha, class_alpha : float
        Pseudo-count of every word and of every class in the conjugate priors.
    merge : {"mean", "sum"}
    batch_size : int
        Documents of a step inside a lane ("mean" only).
    exact : bool
        Take logarithms at the gamma of the moment instead of freezing gamma in them for a lane's run.
    step_decay : float
        lambda of ``rho = 1 / (1 + lambda t)``.
    tolerance : float
        Documents whose largest class weight is not above it ask for no step.
    prior_scale : float
        Multiplies what gamma gains.
    absence : float
        Weight, between 0 and 1, with which a lane that did not meet a word pulls its row to the broadcast value.
    average : bool
        Score with the mean of mu over all rounds after the first epoch instead of the last mu.
    log_prior : tuple of float or None
        Fixed ln p(y); None learns it.
    class_weight : tuple of float or None
        Multiplies the weights of the documents of each class.
    seed : int
    """

    n_features: int
    n_classes: int
    n_documents: float
    loss: str = "ncll"
    alpha: float = 1.0
    class_alpha: float = 1.0
    merge: str = "mean"
    batch_size: int = 1
    exact: bool = False
    step_decay: float = 1e-5
    tolerance: float = 1e-6
    prior_scale: float = 1.0
    absence: float = 0.0
    average: bool = False
    log_prior: tuple[float, ...] | None = None
    class_weight: tuple[float, ...] | None = None
    seed: int = 0

    @property
    def cache_key(self) -> str:
        """Prepared documents depend on the class weights only."""
        return f"local-words {self.class_weight}"

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
            else np.empty((0, 0)),  # from the start: memory is checked once
            mean_class_counts=np.empty(0),
            n_averaged=0.0,
        )

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly, in few bytes an entry, and fold class weights into document weights."""
        if documents.labels is None:
            raise ValueError("documents without labels cannot be prepared for training or evaluation")
        words, local = renumbered(documents)
        local = local.astype(np.uint16 if len(words) <= 1 << 16 else np.uint32, copy=False)
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        if self.class_weight is not None:
            weights = weights * np.asarray(self.class_weight)[documents.labels]
        data = documents.data.astype(_COMPILED.get(documents.data.dtype.name, np.float64), copy=False)
        local_documents = replace(documents, data=data, indices=local, n_features=len(words), weights=weights)
        return LocalDocuments(local_documents, words)

    def map(self, state: SdemState, documents: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return what one lane adds to a round; see `_run_lane` and `_expected_statistics`."""
        if self.loss != "nll" and self.merge == "mean":
            return self._run_lane(state, documents, lane)
        return self._expected_statistics(state, documents)

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
        logs = np.empty_like(words)
        done = 0
        for table, chosen in blocks.split(state.words, local.words):
            rows = slice(done, done + len(chosen))
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
            np.empty((0, 0)) if self.exact else logs,
            frozen,
            state.gamma,
            state.class_gamma,
            self._initial_log_prior(),
            self.log_prior is None,
            word_step,
            class_step,
            self.n_features,
            state.t,
            lane.round_documents / max(documents.n_documents, 1),
            self.step_decay,
            _KERNEL_LOSS[self.loss],
            self.tolerance,
        )
        words *= weight
        class_counts *= weight
        met = np.full(len(words), weight)
        return SdemStatistics(local.words, words, met, class_counts, weight * gamma, weight * class_gamma, weight)

    def _expected_statistics(self, state: SdemState, local: LocalDocuments) -> SdemStatistics:
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

    def combine(self, parts: Sequence[SdemStatistics]) -> SdemStatistics:
        """Add sets of lanes, word by word, from first to last."""
        if len(parts) == 1:
            return parts[0]
        number = np.zeros(self.n_features, np.uint32)
        for part in parts:
            mark_words(part.words, number)
        words = number_words(number)
        rows, met = np.zeros((len(words), self.n_classes)), np.zeros(len(words))
        for part in parts:
            scatter_add_rows(part.words, part.rows, part.met, number, rows, met)
        return SdemStatistics(
            words,
            rows,
            met,
            np.sum([p.class_counts for p in parts], axis=0),
            sum(p.gamma for p in parts),
            sum(p.class_gamma for p in parts),
            sum(p.weight for p in parts),
        )

    def update(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Merge the lanes of a round into the next mu."""
        if statistics.weight == 0.0:
            return state
        if self.loss == "nll":
            return self._maximum_likelihood(state, statistics)
        new = self._mean(state, statistics) if self.merge == "mean" else self._step(state, statistics)
        return self._averaged(state, new) if self.average and state.t >= self.n_documents else new

    def _averaged(self, old: SdemState, new: SdemState) -> SdemState:
        """Add the new mu to the running mean of mu."""
        n = old.n_averaged + 1.0
        words, class_counts = new.words + new.gamma, new.class_counts + new.class_gamma
        if old.n_averaged:
            words = old.mean_words + (words - old.mean_words) / n
            class_counts = old.mean_class_counts + (class_counts - old.mean_class_counts) / n
        return new._replace(mean_words=words, mean_class_counts=class_counts, n_averaged=n)

    def _mean(self, state: SdemState, lanes: SdemStatistics) -> SdemState:
        """Average the lanes' mu; each word's row over the lanes that met it, see `absence`."""
        total = lanes.weight
        words = state.words.copy()
        average_rows(lanes.words, lanes.rows, lanes.met, total, self.absence, words)
        return state._replace(
            words=words,
            totals=words.sum(axis=0),
            class_counts=lanes.class_counts / total,
            gamma=lanes.gamma / total,
            class_gamma=lanes.class_gamma / total,
            t=state.t + total,
        )

    def _step(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Take one step of Algorithm 1 with the statistics of all lanes: mu += rho * sum, check."""
        t = state.t + statistics.weight
        rho = 1.0 / (1.0 + self.step_decay * t)
        words = state.words.copy()
        words[statistics.words] = np.maximum(words[statistics.words] + rho * statistics.rows, 0.0)
        prior_step = self.prior_scale * rho * statistics.weight / self.n_documents
        return state._replace(
            words=words,
            totals=words.sum(axis=0),
            class_counts=np.maximum(state.class_counts + rho * statistics.class_counts, 0.0),
            gamma=state.gamma + self.alpha * prior_step,
            class_gamma=state.class_gamma + self.class_alpha * prior_step,
            t=t,
        )

    def _maximum_likelihood(self, state: SdemState, statistics: SdemStatistics) -> SdemState:
        """Add the counts to alpha: what NLL's steps converge to, exactly; no prior on the classes."""
        words = state.words.copy()
        words[statistics.words] += statistics.rows
        class_counts = state.class_counts + statistics.class_counts
        return state._replace(
            words=words, totals=words.sum(axis=0), class_counts=class_counts, t=state.t + statistics.weight
        )

    def initial_block(self, block: int, n_blocks: int) -> SdemState:
        """Return one block of ``init()``."""
        first, last = blocks.bounds(self.n_features, block, n_blocks)
        return replace(self, n_features=last - first).init()

    def block_of_state(self, state: SdemState, block: int, n_blocks: int) -> SdemState:
        """Return one block of a whole state."""
        return blocks.of_state(state, *blocks.bounds(self.n_features, block, n_blocks))

    def block_of_statistics(self, statistics: SdemStatistics, block: int, n_blocks: int) -> SdemStatistics:
        """Return what one block's update needs of statistics."""
        return blocks.of_statistics(statistics, *blocks.bounds(self.n_features, block, n_blocks))

    def joined(self, states: Sequence[SdemState]) -> SdemState:
        """Return blocks as one state, for `map` and `evaluate`, without copying them."""
        return blocks.joined(states)

    def whole(self, n_blocks: int, get: Callable[[int], SdemState]) -> SdemState:
        """Return a state in one piece from its blocks, asked for one at a time."""
        return get(0) if n_blocks == 1 else blocks.whole(self.n_features, n_blocks, get)

    def parameters(self, state: SdemState, words: np.ndarray | slice = slice(None)) -> naive_bayes.NaturalParameters:
        """Return the natural parameters theta(mu) of the given words (M-step, Algorithm 3)."""
        state = self._scored(state)
        rows, totals = blocks.take(state.words, words) + state.gamma, state.totals + state.gamma * self.n_features
        with np.errstate(divide="ignore"):  # ln 0 = -inf: a class without documents, or alpha = 0
            return naive_bayes.NaturalParameters(np.log(rows), np.log(totals), self.class_log_prior(state))

    def _scored(self, state: SdemState) -> SdemState:
        """Return a state that stands for what scores: the mean of mu over rounds, where it is averaged."""
        if not state.n_averaged:
            return state
        return state._replace(
            words=state.mean_words,
            totals=blocks.column_sums(state.mean_words),
            class_counts=state.mean_class_counts,
            gamma=0.0,
            class_gamma=0.0,
            n_averaged=0.0,
        )

    def class_log_prior(self, state: SdemState) -> np.ndarray:
        """Return normalised ln p(y), shape (n_classes,)."""
        if self.log_prior is not None:
            return np.asarray(self.log_prior)
        state = self._scored(state)
        counts = state.class_counts + state.class_gamma
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(counts) - np.log(counts.sum()))

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses and perplexity, see `sdem_dist.evaluation.finish`."""
        return finish(sums)

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all batches."""
        state = self._scored(state)
        columns = []  # joined before the sums: batches may be a few documents each
        for d, words in batches:
            scores = naive_bayes.joint_scores(self.parameters(state, words), d)
            columns.append((scores, d.labels, d.weights, naive_bayes.lengths(d)))
        return evaluation_sums(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))

    def _initial_log_prior(self) -> np.ndarray:
        return np.zeros(self.n_classes) if self.log_prior is None else np.array(self.log_prior)
