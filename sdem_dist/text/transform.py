"""Raw text becomes exactly what a corpus holds."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock, local
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.documents import offsets_of
from sdem_dist.kernels.spelling import arrange, murmur
from sdem_dist.text import tokens
from sdem_dist.text.patterns import PatternError
from sdem_dist.text.terms import Trie, sorted_terms
from sdem_dist.text.texts import (
    Texts,
    listed,
    parts_of_strings,
    pieces,
    texts_of_strings,
)
from sdem_dist.text.tokens import CsrCounts, NgramCounter
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.text.texts import TextColumn

SPELLED_AT_A_TIME = 1 << 15  # terms that become texts together: their bytes stay in the cache
MOST_HASHED = 1 << 21  # n-grams that a counter by hashing remembers


def joined(parts: Sequence[CsrCounts]) -> CsrCounts:
    if len(parts) == 1:
        return parts[0]
    ends = offsets_of([len(part.nodes) for part in parts])
    indptr = [np.zeros(1, np.int64), *(part.indptr[1:] + end for part, end in zip(parts, ends, strict=False))]
    nodes, counts = ([np.zeros(0, np.int32), *(part[i] for part in parts)] for i in (1, 2))
    return CsrCounts(np.concatenate(indptr), np.concatenate(nodes), np.concatenate(counts))


def arranged(parts: Sequence[CsrCounts], columns: np.ndarray, dtype: type | np.dtype) -> CsrCounts:
    """Return consecutive documents with nodes in their columns, ascending; nodes of a negative one drop out."""
    n, n_documents = sum(len(part.nodes) for part in parts), sum(len(part.indptr) - 1 for part in parts)
    indptr, indices, counts = np.zeros(n_documents + 1, np.int64), np.empty(n, np.int32), np.empty(n, dtype)
    row = entry = 0
    for part in parts:
        rows = slice(row, row + len(part.indptr))
        n_entries = arrange(*part, columns, (indptr[rows], indices[entry:], counts[entry:]))
        indptr[rows] += entry
        row, entry = rows.stop - 1, entry + n_entries
    return CsrCounts(indptr, indices[:entry], counts[:entry])


def matrix_of(counts: CsrCounts, n_features: int) -> sp.csr_matrix:
    import scipy.sparse as sp

    matrix = sp.csr_matrix((counts.counts, counts.nodes, counts.indptr), shape=(len(counts.indptr) - 1, n_features))
    matrix.has_canonical_format = True
    return matrix


def count_texts(
    texts: TextColumn | Texts, settings: VectorizerSettings, vocabulary: Sequence[str] | None = None
) -> tuple[sp.csr_matrix, list[str]]:
    """Count terms as scikit-learn's ``CountVectorizer`` does with the same expression; ValueError: one is no text.

    Parameters
    ----------
    texts : sequence of str, ndarray, pandas or Arrow column, or Texts
    settings : VectorizerSettings
        Not of kind "matrix"; limits of the vocabulary (`min_df`, `max_df`, `max_features`) do not apply.
    vocabulary : sequence of str, or None
        The terms to count, in the order of columns; by default all that occur, sorted.

    Returns
    -------
    counts : csr_matrix of shape (n_texts, n_features), int64, indices sorted
    vocabulary : list of str
        The terms of the columns; empty for kind "hashing".
    """
    if vocabulary is None and settings.kind == "count":
        return learned_texts(texts, settings, np.dtype(np.int64))[:2]
    texts = texts if isinstance(texts, Texts) else texts_of_strings(texts)
    return TextTransformer(settings, vocabulary).counts(texts).astype(np.int64), list(vocabulary or ())


def learned_texts(
    texts: TextColumn | Texts, settings: VectorizerSettings, dtype: np.dtype | None = None
) -> tuple[sp.csr_matrix, list[str], TextTransformer]:
    """Return counts, terms, and what counts other texts by these; `dtype` of counts: None: the smallest unsigned."""
    counter, parts = NgramCounter(settings, tallies=False), list[CsrCounts]()
    for some in [texts] if isinstance(texts, Texts) else parts_of_strings(texts):
        parts += counter.parts(some)
    data, offsets, _, (columns,) = sorted_terms([Trie.of(counter)], end=ord("\n"))
    n_terms, words = len(offsets) - 1, list[str]()
    if dtype is None:
        dtype = np.min_scalar_type(max((int(part.counts.max(initial=0)) for part in parts), default=0))
    matrix = matrix_of(arranged(parts, columns, dtype), n_terms)
    for first in range(0, n_terms, SPELLED_AT_A_TIME):
        bounds = offsets[first : first + SPELLED_AT_A_TIME + 1]
        spelled = data[bounds[0] : bounds[-1]].tobytes()
        if spelled.count(b"\n") == len(bounds) - 1:  # cut by one call
            words += spelled.decode("utf-8", "surrogatepass").split("\n")[:-1]
        else:
            words += listed(Texts(data, bounds[:-1], bounds[1:] - 1))
    counter.tally = counter.tally[:0].copy()  # each thread that counts has its own
    return matrix, words, TextTransformer(settings, words, (counter, columns))


class TextTransformer:
    def __init__(
        self,
        settings: VectorizerSettings,
        vocabulary: Sequence[str] | None = None,
        learned: tuple[NgramCounter, np.ndarray] | None = None,  # of all terms, with their columns: slow to prepare
        owner: str = "",  # what the settings are of, such as the path of a model, for messages
    ) -> None:
        if settings.kind == "matrix":
            raise ValueError("these documents came as numbers; there is no way from text to their columns")
        if settings.kind == "count" and vocabulary is None:
            raise ValueError("text of kind 'count' needs the vocabulary of the corpus")
        self._settings, self._terms, self._learned, self._owner = settings, vocabulary, learned, owner
        self._counters: list[NgramCounter] = []  # of words, where terms are given
        self._making, self._of_thread = Lock(), local()

    def __reduce__(self) -> tuple[type[TextTransformer], tuple[object, ...]]:
        return TextTransformer, (self._settings, self._terms, None, self._owner)  # stemmers cannot be sent

    def _counter(self) -> tuple[NgramCounter, np.ndarray]:
        if self._settings.kind == "hashing":
            return NgramCounter(self._settings, tallies=False), np.zeros(0, np.int32)
        with self._making:  # made when it is first needed: a driver of workers does not count
            if self._learned is None:
                counter = NgramCounter(self._settings, tallies=False)
                nodes = counter.insert(list(self._terms or ()))
                columns = np.full(counter.n_nodes, -1, np.int32)
                columns[nodes[nodes >= 0]] = np.flatnonzero(nodes >= 0)
                self._learned = counter, columns
        counter = NgramCounter(self._settings, learned=self._learned[0])
        self._counters += [counter] if self._settings.analyzer == "word" else []
        return counter, self._learned[1]

    def counts(self, texts: Texts) -> sp.csr_matrix:
        """Return int32 counts, indices sorted."""
        hashes, of_thread, parts = self._settings.kind == "hashing", self._of_thread, list[CsrCounts]()
        n_features = self._settings.n_features or 1 if hashes else len(self._terms or ())
        for first, stop in pieces(texts.sizes, tokens.PIECE):
            counter, columns = getattr(of_thread, "counter", None) or self._counter()
            if hashes and counter.n_nodes > MOST_HASHED:
                counter, columns = self._counter()
            try:
                part = counter.count(texts.take(slice(first, stop)), np.zeros(stop - first, bool))
            except PatternError as error:
                error.path = self._owner or None
                raise
            if hashes:  # the columns of scikit-learn's FeatureHasher without signs, of terms that are new
                nodes = counter.parents[: counter.n_nodes], counter.lasts[: counter.n_nodes]
                data, bounds = counter.tokenizer.spelling.texts(*nodes, len(columns))
                hashed = np.empty(len(bounds) - 1, np.int32)
                murmur(data, bounds, hashed)
                new = np.abs(hashed.astype(np.int64))
                # the one number without a positive counterpart, as FeatureHasher takes it
                new[hashed == np.iinfo(np.int32).min] = 2**31 - 1 - (n_features - 1)
                columns = np.concatenate([columns, (new % n_features).astype(np.int32)])
            of_thread.counter = counter, columns  # it keeps memory, since allocating it anew is slow
            parts.append(arranged([part], columns, np.int32))
        return matrix_of(joined(parts), n_features)

    @property
    def unknown_share(self) -> float | None:
        """Share of the words in texts counted so far that no term has; None if words are hashed, or there were none."""
        n_words = sum(counter.n_words for counter in self._counters)
        return sum(counter.n_unknown for counter in self._counters) / n_words if n_words else None
