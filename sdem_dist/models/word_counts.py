"""Models of words: expected counts of words and classes, prepared documents, and sums over lanes."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import NO_TARGETS, Visited, column_sums, runs, unsigned
from sdem_dist.kernels.csr import row_sums as sums_of_rows
from sdem_dist.kernels.losses import Moment, Table
from sdem_dist.kernels.rows import OFTEN, add_rows_to, number_words
from sdem_dist.kernels.rows import column_sums as sums_of_columns
from sdem_dist.models.heads import Classes, Labels, Model
from sdem_dist.records import Field

COMPILED = {"uint8": np.uint8, "uint16": np.float32, "float32": np.float32}
"""Dtype of entries in kernels by stored dtype, else float64: exact, small, and few, since each needs a compilation."""


@dataclass(frozen=True)
class BlockedTable:
    """The rows of all words in consecutive arrays, which lanes of a wide model read without joining them."""

    blocks: Sequence[np.ndarray]

    def __getitem__(self, words: np.ndarray) -> np.ndarray:
        rows, first = np.empty((len(words), self.blocks[0].shape[1])), 0
        for block in self.blocks:
            inside = (words >= first) & (words < first + len(block))
            rows[inside] = block[words[inside] - words.dtype.type(first)]
            first += len(block)
        return rows


class SdemState(NamedTuple):
    """Expectation parameters mu, unnormalized, and the progress of the run."""

    # N, expected counts of words in each column (a class, or a component or topic of a class), without gamma; in lanes
    # of a wide model a `BlockedTable`.
    words: np.ndarray  # shape (n_features, n_columns), float64
    totals: np.ndarray  # M, the sums of N over the vocabulary: shape (n_columns,)
    class_counts: np.ndarray  # C, expected counts of the classes, or of the components, without gamma
    gamma: float  # running prior correction of the words: sum of alpha * rho / n over the documents seen
    class_gamma: float  # the same for the classes
    t: float  # weight of the documents seen


def state_at(words: np.ndarray, class_counts: np.ndarray) -> SdemState:
    return SdemState(words, words.sum(axis=0), class_counts, 0.0, 0.0, 0.0)


Moves: TypeAlias = tuple[np.ndarray, np.ndarray, Moment]  # changes of N of the lane's words and of C; last moment


class LocalDocuments(NamedTuple):
    """Documents with compact word numbers, so that a lane's tables are small and stay in the CPU's cache."""

    documents: Documents  # `indices` are positions in `words`; without labels and weights
    words: np.ndarray  # shape (n_words,), uint32: corpus numbers of the words that occur, in any order
    labels: np.ndarray  # shape (n_documents,), int32
    weights: np.ndarray  # shape (n_documents,), float64
    targets: np.ndarray  # shape (n_documents, n_targets), float64 or uint8; (1, 0) without targets

    @property
    def nbytes(self) -> int:
        return self.documents.nbytes + sum(array.nbytes for array in self[1:])

    @property
    def weight(self) -> float:
        return float(self.weights.sum())

    def sums_of_words(self, data: np.ndarray) -> np.ndarray:
        """Return for each word the sum of `data`, one number per entry, times the documents' weights: (n_words,)."""
        d = self.documents
        return np.asarray(column_sums(data, d.indices, d.indptr, self.weights, len(self.words)))

    def statistics(self, rows: np.ndarray, class_counts: np.ndarray) -> "SdemStatistics":
        """Return statistics at one theta."""
        zeros = np.zeros(len(rows))
        return SdemStatistics(self.words, rows, zeros, zeros, class_counts, 0.0, 0.0, self.weight, 0.0)

    def visited(self, order: np.ndarray) -> Visited:
        d = self.documents
        return Visited(d.data, d.indices, d.indptr, self.labels, self.weights, order, self.targets)


def localised(
    documents: Documents, labels: np.ndarray, weights: np.ndarray, targets: np.ndarray, frequent_first: bool = False
) -> LocalDocuments:
    """Return documents whose words are numbered from 0; if `frequent_first`, frequent words get adjacent rows."""
    # Kernels take a quarter of NumPy's time, and each block of a prediction needs this.
    number, indices = np.zeros(documents.n_features, np.uint32), np.empty(len(documents.indices), np.uint32)
    words = number_words(unsigned(documents.indices), number, OFTEN if frequent_first else 1, indices)
    local = replace(documents, indices=indices, n_features=len(words), labels=None, weights=None, targets=None)
    return LocalDocuments(local, words, labels, weights, targets)


def entries(data: np.ndarray, log_counts: bool) -> np.ndarray:
    """Return counts, or ``ln(1 + counts)``, as float32, so that kernels are compiled for one dtype."""
    return np.asarray(np.log1p(data.astype(np.float64)) if log_counts else data, np.float32)


def lengths(documents: Documents) -> np.ndarray:
    return np.asarray(sums_of_rows(documents.data, documents.indptr))


class SdemStatistics(NamedTuple):
    """Sums over lanes: of the changes by steps, or of statistics at one theta."""

    words: np.ndarray  # words of any lane: shape (n_words,), uint32; ascending after `add`
    rows: np.ndarray  # shape (n_words, n_columns): sums over the lanes that have the word
    met: np.ndarray  # shape (n_words,): number of lanes that changed the word
    entries: np.ndarray  # shape (n_words,): sums of the documents' entries
    class_counts: np.ndarray  # shape (n_counts,)
    gamma: float  # increase of the running prior correction
    class_gamma: float
    weight: float  # weight of the documents
    n_lanes: float


def added_by_word(
    words: Sequence[np.ndarray], tables: Sequence[Sequence[np.ndarray]], n_features: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the union of the parts' words, ascending, and for each table the sum of the parts' rows per word."""
    number = np.zeros(n_features, np.uint32)
    number[np.concatenate(words)] = 1
    union = np.flatnonzero(number).astype(np.uint32)
    number[union] = np.arange(len(union))
    places, sums = [number[own] for own in words], []
    for parts in tables:
        total = np.zeros((len(union), *parts[0].shape[1:]))
        add = add_rows_to if total.ndim > 1 else np.add.at
        for rows, own in zip(parts, places, strict=True):
            add(total, own, rows)
        sums.append(total)
    return union, sums


@dataclass(frozen=True)
class WordCounts(Model):
    """Base of the models of words: states, documents, sums."""

    n_features: int
    head: Classes | Labels
    alpha: float = 1.0  # pseudo-count of every word in the conjugate prior
    class_alpha: float = 1.0  # pseudo-count of every class, or column
    log_prior: tuple[float, ...] | None = None  # fixed ln p of each class, or column; None: learned
    state_type = SdemState
    tempered = True

    def __post_init__(self) -> None:
        if self.log_prior is not None and len(self.log_prior) != self.n_counts:
            raise ValueError(f"log_prior has {len(self.log_prior)} numbers for {self.n_counts} classes")

    @property
    def n_columns(self) -> int:
        return self.head.n_columns

    @property
    def n_counts(self) -> int:
        return self.n_columns

    @property
    def cache_key(self) -> str:
        return f"local-words {type(self.head).__name__} {self.head.clusters}"

    @abstractmethod
    def start(self, first: int, last: int, seed: int) -> SdemState:
        """Return the prior's mu_0 of the words ``first:last`` (Algorithm 1, line 1)."""

    def init(self, n_documents: float, seed: int) -> SdemState:
        return self.start(0, self.n_features, seed)

    def state_fields(self) -> dict[str, Field]:
        shapes = (self.n_features, self.n_columns), (self.n_columns,), (self.n_counts,), (), (), ()
        return {name: Field(shape, 0.0) for name, shape in zip(SdemState._fields, shapes, strict=True)}

    def check_state(self, state: SdemState) -> None:
        with np.errstate(over="ignore"):
            totals = state.totals + state.gamma * self.n_features
        if not (np.isfinite(totals) & (totals > 0)).all():
            raise ValueError("array 'totals' contains columns in which no word has a positive probability")
        if not np.allclose(state.words.sum(axis=0), state.totals, rtol=1e-3, atol=1e-6):  # rounding errors accumulate
            raise ValueError("array 'totals' does not match the sums of 'words'")
        if state.gamma == 0 and not state.words.any(axis=1).all():
            raise ValueError("array 'words' contains words without a positive probability")
        if state.t > 0 and not (state.class_counts + state.class_gamma).any():
            raise ValueError("array 'class_counts' contains no class with a positive probability")

    def prepare(self, documents: Documents, *, frequent_first: bool = False) -> LocalDocuments:
        """Return documents with compact word numbers and dtypes; classes need labels, `Labels` need targets."""
        labels, targets = documents.labels, NO_TARGETS
        if self.head.clusters:
            labels = np.zeros(documents.n_documents, np.int32)
        elif labels is None:
            raise ValueError("training and evaluation need documents with labels")
        if isinstance(self.head, Labels):
            members = labels[:, None] == np.arange(self.n_classes) if self.head.exclusive else documents.targets
            if members is None:
                raise ValueError("labels must be an indicator matrix of 0 and 1")
            targets = np.ascontiguousarray(members, np.uint8)
        weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
        data = documents.data.astype(COMPILED.get(documents.data.dtype.name, np.float64), copy=False)
        return localised(replace(documents, data=data), labels, weights, targets, frequent_first)

    def add(self, parts: Sequence[SdemStatistics]) -> SdemStatistics:
        words, rows, met, entries, counts, *numbers = zip(*parts, strict=True)
        union, tables = added_by_word(words, (rows, met, entries), self.n_features)
        return SdemStatistics._make([union, *tables, np.sum(counts, axis=0), *(float(sum(n)) for n in numbers)])

    def counted(self, state: SdemState, s: SdemStatistics, n_documents: float) -> SdemState:
        words = state.words.copy()
        words[s.words] += s.rows
        counts, t = state.class_counts + s.class_counts, state.t + s.weight
        return state._replace(words=words, totals=sums_of_columns(words), class_counts=counts, t=t)

    def log_class_prior(self, state: SdemState) -> np.ndarray:
        """Return normalized ln p(y) of classes, or components: the fixed one, or the one of the class counts."""
        if self.log_prior is not None:
            return np.asarray(self.log_prior)
        counts = state.class_counts + state.class_gamma
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(counts) - np.log(counts.sum()))

    def working_table(self, state: SdemState, words: np.ndarray) -> tuple[Table, Moment]:
        """Return the table that a lane's kernel changes and its first moment; `words`: the lane's rows."""
        counts = state.class_counts.copy()
        prior = np.zeros(len(counts)) if self.log_prior is None else np.array(self.log_prior)
        table = Table(words, state.totals.copy(), counts, prior, self.log_prior is None, self.n_features)
        return table, Moment(float(state.gamma), float(state.class_gamma), float(state.t))

    def stepped(
        self, state: SdemState, local: LocalDocuments, at: Any, costs: np.ndarray, run: Callable[..., Any]
    ) -> Moves:
        """Run a kernel over a lane's documents; return the changes of N of their words and of C; the last moment."""
        order = at.order(local.documents.n_documents)
        before = state.words[local.words]
        table, moment = self.working_table(state, before.copy())
        for a, b in runs(costs[order]):
            moment = Moment(*run(local.visited(order[a:b]), table, moment=moment))
        return table.words - before, table.class_counts - state.class_counts, moment

    def bounds(self, block: int, n_blocks: int) -> tuple[int, int]:
        """Return the range of words ``first:stop`` of a block of the vocabulary."""
        return self.n_features * block // n_blocks, self.n_features * (block + 1) // n_blocks
