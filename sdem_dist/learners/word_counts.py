"""Stochastic discriminative EM in tables of word counts, as the engine wants it (Masegosa 2014, Algorithm 1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.evaluation import finish
from sdem_dist.kernels import losses as kernel_losses
from sdem_dist.kernels.rows import average_rows, mark_words, number_words, scatter_add_rows
from sdem_dist.learners import blocks
from sdem_dist.learners.local_words import renumbered
from sdem_dist.learners.protocol import Lane, LocalDocuments

KERNEL_LOSS = {"nll": kernel_losses.NLL, "ncll": kernel_losses.NCLL, "hinge": kernel_losses.HINGE}
_COMPILED = {"uint8": np.uint8, "uint16": np.float32, "float32": np.float32}
"""Dtypes of entries in kernels, by the dtype stored: exact, small, and few, since each is compiled; else float64."""


class SdemState(NamedTuple):
    """Expectation parameters mu, unnormalised, and where the run stands."""

    words: Any
    """N, expected counts without gamma of a word in each column: shape (n_features, n_columns), float64; where the
    vocabulary is cut into blocks, a tuple of consecutive arrays. A column is a class, or a topic of a class."""
    totals: np.ndarray
    """M, the sums of N over the vocabulary: shape (n_columns,)."""
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
    """Shape (n_words, n_columns): sums over the lanes that met the word."""
    met: np.ndarray
    """Shape (n_words,): the weights of those lanes; zeros for merge "sum"."""
    class_counts: np.ndarray
    """Shape (n_classes,)."""
    gamma: float
    class_gamma: float
    weight: float
    """Documents, by weight."""


@dataclass(frozen=True)
class WordCountSdem:
    """Settings and pure functions that sdEM needs whatever a column of the table stands for.

    Attributes
    ----------
    n_features, n_classes : int
    n_documents : float
        n, the documents of the training corpus by weight.
    loss : {"nll", "ncll", "hinge"}
    alpha, class_alpha : float
        Pseudo-count of every word and of every class in the conjugate priors.
    merge : {"mean", "sum"}
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

    @abstractmethod
    def init(self) -> SdemState:
        """Return mu_0."""

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
        if self.merge == "mean":
            return self._run_lane(state, documents, lane)
        return self._expected_statistics(state, documents, lane)

    @abstractmethod
    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.evaluation` over all batches."""

    @abstractmethod
    def _run_lane(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Run sdEM over the lane's documents from the broadcast mu; return its mu times its weight."""

    @abstractmethod
    def _expected_statistics(self, state: SdemState, local: LocalDocuments, lane: Lane) -> SdemStatistics:
        """Return the sum over documents of class weights times expected statistics, all at the broadcast theta."""

    def combine(self, parts: Sequence[SdemStatistics]) -> SdemStatistics:
        """Add sets of lanes, word by word, from first to last."""
        if len(parts) == 1:
            return parts[0]
        number = np.zeros(self.n_features, np.uint32)
        for part in parts:
            mark_words(part.words, number)
        words = number_words(number)
        rows, met = np.zeros((len(words), parts[0].rows.shape[1])), np.zeros(len(words))
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

    def scored(self, state: SdemState) -> SdemState:
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
        state = self.scored(state)
        counts = state.class_counts + state.class_gamma
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(counts) - np.log(counts.sum()))

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return accuracy, mean losses and perplexity, see `sdem_dist.evaluation.finish`."""
        return finish(sums)

    def initial_log_prior(self) -> np.ndarray:
        """Return what a lane starts with as ln p(y): the fixed one, or room for the learned one."""
        return np.zeros(self.n_classes) if self.log_prior is None else np.array(self.log_prior)
