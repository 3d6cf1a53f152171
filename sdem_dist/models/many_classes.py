"""Multinomial naive Bayes of very many classes: its table keeps only counts that differ from the prior's.

A word that a class has not seen keeps the count of the start, which is equal in all classes. So a document's scores are
a part common to all classes, a part of each class's totals, and a sum over the counts that are kept for its words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import row_sums
from sdem_dist.kernels.documents import Counted
from sdem_dist.kernels.many_classes import EMPTY, Lists, add_rises, fill, moved

SCORES = 1 << 22
"""Scores that are held at a time, where documents are scored a few at a time."""


class ManyClassState(NamedTuple):
    """Expectation parameters mu, unnormalised, and where the run stands."""

    prior: np.ndarray  # alpha_w, where the count of each word starts in every class: shape (n_features,)
    pairs: np.ndarray  # ``word * n_classes + class`` of the counts that have moved, ascending: shape (n_pairs,)
    changes: np.ndarray  # how far they are from the prior's, shape (n_pairs,)
    totals: np.ndarray  # M, sums of all counts of each class: shape (n_classes,)
    class_counts: np.ndarray  # C, expected counts of the classes, shape (n_classes,)
    t: float  # documents seen, a document of weight w counting w

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the word and the class of each pair, int64."""
        words, classes = np.divmod(self.pairs.astype(np.int64), len(self.totals))
        return words, classes


class ManyClassParameters(NamedTuple):
    """Natural parameters theta(mu)."""

    starts: np.ndarray  # the pairs of word w are ``starts[w]:starts[w + 1]``, shape (n_features + 1,), int64
    classes: np.ndarray  # of each pair, ascending within a word: int32
    rises: np.ndarray  # ln(N / alpha_w) of each pair, float64
    log_start: np.ndarray  # ln alpha_w, shape (n_features,)
    log_totals: np.ndarray  # ln M, shape (n_classes,)
    log_prior: np.ndarray  # ln p(y), shape (n_classes,)

    def log_words(self, words: np.ndarray, k: int) -> np.ndarray:
        """Return ln p(word | class) of some words in one class."""
        found = self.log_start[words] - self.log_totals[k]
        for i, word in enumerate(words.tolist()):
            start, stop = self.starts[word], self.starts[word + 1]
            place = start + np.searchsorted(self.classes[start:stop], k)
            if place < stop and self.classes[place] == k:
                found[i] += self.rises[place]
        return found


def start_at(prior: np.ndarray, n_classes: int, class_count: float) -> ManyClassState:
    """Return mu_0: the pseudo-counts of words, shape (n_features,), and of a class."""
    nothing, totals = np.zeros(0), np.full(n_classes, prior.sum())
    return ManyClassState(prior, nothing, nothing, totals, np.full(n_classes, class_count), 0.0)


def parameters_of(state: ManyClassState) -> ManyClassParameters:
    """Return the natural parameters of a state (M-step)."""
    words, classes = state.split()
    starts = np.searchsorted(state.pairs, np.arange(len(state.prior) + 1) * float(len(state.totals)))
    with np.errstate(divide="ignore", invalid="ignore"):  # ln 0 = -inf: a class without documents
        log_prior = np.log(state.class_counts / state.class_counts.sum())
    rises = np.log1p(state.changes / state.prior[words])
    return ManyClassParameters(
        starts, classes.astype(np.int32), rises, np.log(state.prior), np.log(state.totals), log_prior
    )


def joint_scores(parameters: ManyClassParameters, documents: Documents) -> np.ndarray:
    """Return ln p(y, d) of every class and document, exactly, shape (n_documents, n_classes).

    Without the multinomial coefficient.
    """
    p, d = parameters, documents
    lengths = row_sums(d.data, d.indptr)
    scores = p.log_prior - lengths[:, None] * p.log_totals
    add_rises(Counted(d.data, d.indices, d.indptr), p.starts, p.classes, p.rises, scores)
    scores += row_sums(d.data * p.log_start[d.indices], d.indptr)[:, None]
    return scores


def few_at_a_time(documents: Documents, n_classes: int) -> Iterator[Documents]:
    """Yield documents in pieces whose scores fit in memory."""
    step = max(1, SCORES // n_classes)
    for start in range(0, max(documents.n_documents, 1), step):
        yield documents[start : start + step]


def added(pairs: Sequence[np.ndarray], numbers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the numbers of each pair, the pairs ascending."""
    every, values = np.concatenate(pairs), np.concatenate(numbers)
    order = np.argsort(every, kind="stable")  # fast, where parts are sorted
    every, values = every[order], values[order]
    first = np.flatnonzero(np.diff(every, prepend=-1.0))
    return every[first], np.add.reduceat(values, first) if len(first) else values


def lists_of(state: ManyClassState, documents: Documents) -> Lists:
    """Return the counts of a state as a kernel takes them, with room for all that a pass over the documents can add."""
    n_features, n_classes = len(state.prior), len(state.totals)
    words, classes = state.split()
    kept = np.bincount(words, minlength=n_features)
    # A document adds at most its label and one rival to the list of each of its words.
    room = kept + 2 * np.bincount(documents.indices, minlength=n_features)
    size = int(room.sum())
    keys = 1 << max(4, int(1.5 * size).bit_length())
    lists = Lists(
        starts=np.cumsum(room) - room,
        used=np.zeros(n_features, np.int64),
        classes=np.empty(size, np.int32),
        counts=np.empty(size, np.float32),
        rises=np.empty(size, np.float32),
        keys=np.full(keys, EMPTY, np.uint64),
        places=np.empty(keys, np.int32),
        prior=state.prior.astype(np.float32),
    )
    fill(words, classes, state.changes, n_classes, lists)
    return lists


def changes_of(state: ManyClassState, lists: Lists) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs whose counts in the lists are no longer those of the state, ascending, and by how much."""
    n_features, n_classes = len(state.prior), len(state.totals)
    firsts = np.searchsorted(state.pairs, np.arange(n_features + 1) * float(n_classes))
    return moved(lists, firsts, state.changes, n_classes)
