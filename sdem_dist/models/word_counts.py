"""Expected counts of words and classes: the expectation parameters of every model of words, and documents for them."""

from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import column_sums, row_squares
from sdem_dist.kernels.documents import Visited
from sdem_dist.kernels.losses import LossForm
from sdem_dist.kernels.schedule import Moment, Schedule, Table

Rows = np.ndarray | tuple[np.ndarray, ...]
"""Rows of all words: one array, or consecutive arrays."""


class SdemState(NamedTuple):
    """Expectation parameters mu, unnormalised, and where the run stands."""

    words: np.ndarray
    """N, expected counts without gamma of a word in each column: shape (n_features, n_columns), float64.  A column is a
    class, a component of a class, or a topic of a class.  While lanes are mapped, the table of a vocabulary that is cut
    into blocks is a tuple of consecutive arrays, see `rows_of`."""
    totals: np.ndarray  # M, the sums of N over the vocabulary: shape (n_columns,)
    class_counts: np.ndarray  # C, expected counts of the classes, or of the components, without gamma
    gamma: float  # running prior correction of the words: sum of alpha * rho / n over the documents seen
    class_gamma: float  # the same for the classes
    t: float  # documents seen, a document of weight w counting w


class LocalDocuments(NamedTuple):
    """Documents whose words are renumbered compactly, so that a lane's tables are small and stay in cache."""

    documents: Documents  # `indices` are positions in `words`; labels and weights are beside it
    words: np.ndarray  # shape (n_words,), uint32: the words of the corpus that occur, in any order
    labels: np.ndarray  # shape (n_documents,), int32
    weights: np.ndarray  # shape (n_documents,), float64
    targets: np.ndarray  # shape (n_documents, n_targets), float64; (1, 0) without targets

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.documents.nbytes + sum(array.nbytes for array in self[1:])

    @property
    def weight(self) -> float:
        """Documents, by weight."""
        return float(self.weights.sum())

    def entries(self) -> np.ndarray:
        """Return the sum of each word's entries over documents, by their weights, shape (n_words,), float64."""
        d = self.documents
        return column_sums(d.data, d.indices, d.indptr, self.weights, len(self.words))

    def occurrences(self) -> np.ndarray:
        """Return the documents that have each word, by their weights, shape (n_words,), float64."""
        d = self.documents
        return column_sums(np.ones(len(d.data), np.uint8), d.indices, d.indptr, self.weights, len(self.words))

    def squares(self) -> np.ndarray:
        """Return the squared length of each document, shape (n_documents,), float64."""
        return row_squares(self.documents.data, self.documents.indptr)

    def visited(self, order: np.ndarray | None = None) -> Visited:
        """Return what kernels visit, in an order, or as the documents are stored."""
        d = self.documents
        order = np.arange(d.n_documents) if order is None else order
        return Visited(d.data, d.indices, d.indptr, self.labels, self.weights, order)


def rows_of(table: Rows, words: np.ndarray | slice) -> np.ndarray:
    """Return the rows of some words, in any order, or of a slice."""
    if isinstance(table, np.ndarray):
        return table[words]
    if isinstance(words, slice):
        return np.concatenate(table)[words]
    rows, first = np.empty((len(words), table[0].shape[1])), 0
    for part in table:
        inside = (words >= first) & (words < first + len(part))
        rows[inside] = part[words[inside] - words.dtype.type(first)]
        first += len(part)
    return rows


def log_class_prior(state: SdemState, fixed: tuple[float, ...] | None) -> np.ndarray:
    """Return normalised ln p(y) of the classes, or the components: the fixed one, or theta(mu) of the categorical."""
    if fixed is not None:
        return np.asarray(fixed)
    counts = state.class_counts + state.class_gamma
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(counts) - np.log(counts.sum()))


def working_table(
    state: SdemState, words: np.ndarray, log_prior: tuple[float, ...] | None, n_features: int
) -> tuple[Table, Moment]:
    """Return what a lane's kernel changes, with the lane's rows in `words`, and where it starts."""
    counts = state.class_counts.copy()
    prior = np.zeros(len(counts)) if log_prior is None else np.array(log_prior)
    table = Table(words, state.totals.copy(), counts, prior, log_prior is None, n_features)
    return table, Moment(float(state.gamma), float(state.class_gamma), float(state.t))


class Steps(NamedTuple):
    """How a lane of sequential sdEM steps."""

    schedule: Schedule
    frozen: float  # the gamma of a whole lane, where it cannot follow the moment's
    literal: bool  # steps are the paper's, to the letter
    loss: LossForm
    tolerance: float
