"""Counts of raw texts, with the same columns and counts as in a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock, local
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.counts import CsrCounts, arranged, joined
from sdem_dist.kernels.spelling import murmur
from sdem_dist.text import tokens
from sdem_dist.text.patterns import PatternError
from sdem_dist.text.terms import Trie, merged_terms
from sdem_dist.text.texts import Texts, listed, parts_of_strings, pieces, texts_of_strings
from sdem_dist.text.tokens import NgramCounter
from sdem_dist.text.vectorizer import MARK, VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.text.texts import TextColumn

SPELLED_AT_A_TIME = 1 << 15  # terms that are decoded together: their bytes fit in the CPU's cache
MOST_HASHED = 1 << 21  # most n-grams in the cache of a hashing counter


def matrix_of(counts: CsrCounts, n_features: int) -> sp.csr_matrix:
    import scipy.sparse as sp

    matrix = sp.csr_matrix((counts.counts, counts.nodes, counts.indptr), shape=(len(counts.indptr) - 1, n_features))
    matrix.has_canonical_format = True
    return matrix


def count_texts(
    texts: TextColumn | Texts, settings: VectorizerSettings, vocabulary: Sequence[str] | None = None
) -> tuple[sp.csr_matrix, list[str]]:
    """Count terms like scikit-learn's ``CountVectorizer`` with the same pattern; ValueError if one is not a string.

    Parameters
    ----------
    texts : sequence of str, ndarray, pandas or Arrow column, or Texts
    settings : VectorizerSettings
        Not of kind "matrix"; limits of the vocabulary (`min_df`, `max_df`, `max_features`) do not apply.
    vocabulary : sequence of str, or None
        The terms to count, in the order of columns. Default: all terms of the texts, sorted.

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
    texts: TextColumn | Texts,
    settings: VectorizerSettings,
    dtype: np.dtype | None = None,
    n_documents: int | None = None,
) -> tuple[sp.csr_matrix, list[str], TextTransformer]:
    """Return counts, terms, and a transformer with these terms; `dtype`: of the counts, None: the smallest unsigned.

    `n_documents`: for the vocabulary's limits; `texts` may have more, empty ones. None: limits do not apply.
    """
    limited = n_documents is not None and settings.chooses_terms
    counters = [NgramCounter(part, tallies=limited) for part in settings.parts]
    counted: list[list[CsrCounts]] = [[] for _ in counters]
    for part in [texts] if isinstance(texts, Texts) else parts_of_strings(texts):
        for counter, parts in zip(counters, counted, strict=True):
            parts += counter.parts(part, np.full(len(part), limited))
    if dtype is None:
        dtype = np.result_type(np.uint8, *(part.counts for parts in counted for part in parts))
    words, learned = list[str](), list[tuple[NgramCounter, np.ndarray]]()
    for counter in counters:
        data, offsets, (columns,) = merged_terms(
            [Trie.of(counter)], settings, n_documents if limited else None, end=ord("\n")
        )
        columns[columns >= 0] += len(words)
        mark = MARK * bool(learned)
        for first in range(0, len(offsets) - 1, SPELLED_AT_A_TIME):
            bounds = offsets[first : first + SPELLED_AT_A_TIME + 1]
            spelled = data[bounds[0] : bounds[-1]].tobytes()
            if spelled.count(b"\n") == len(bounds) - 1:  # no term contains a line feed
                some_words = spelled.decode("utf-8", "surrogatepass").split("\n")[:-1]
            else:
                some_words = listed(Texts(data, bounds[:-1], bounds[1:] - 1))
            words += [mark + word for word in some_words] if mark else some_words
        counter.tally = counter.tally[:0].copy()  # each counting thread allocates its own
        learned.append((counter, columns))
    counts = arranged(
        [(parts, columns) for parts, (_, columns) in zip(counted, learned, strict=True)], len(words), dtype
    )
    return matrix_of(counts, len(words)), words, TextTransformer(settings, words, learned)


class TextTransformer:
    def __init__(
        self,
        settings: VectorizerSettings,
        vocabulary: Sequence[str] | None = None,
        learned: Sequence[tuple[NgramCounter, np.ndarray]] = (),  # counters of all terms, and their columns
        owner: str = "",  # where the settings are from, such as the path of a model, for messages
    ) -> None:
        if settings.kind == "matrix":
            raise ValueError("the model was trained on numbers, so it cannot convert text to columns")
        if settings.kind == "count" and vocabulary is None:
            raise ValueError("text of kind 'count' needs the vocabulary of the corpus")
        self._settings, self._terms, self._learned, self._owner = settings, vocabulary, learned, owner
        self._parts, self._boundary = settings.parts, settings.boundary(vocabulary)
        self._counters: list[NgramCounter] = []  # counters of words, if terms are fixed
        self._making, self._of_thread = Lock(), local()

    def __reduce__(self) -> tuple[type[TextTransformer], tuple[object, ...]]:
        return TextTransformer, (self._settings, self._terms, (), self._owner)  # stemmers cannot be serialized

    def _new_counters(self) -> list[tuple[NgramCounter, np.ndarray]]:
        if self._settings.kind == "hashing":
            return [(NgramCounter(part, tallies=False), np.zeros(0, np.int32)) for part in self._parts]
        with self._making:  # created at first use: a driver of workers does not count
            if not self._learned:
                self._learned = list(map(NgramCounter.of, self._parts, *self._terms_of_parts()))
        counters = [NgramCounter(part, learned=one) for part, (one, _) in zip(self._parts, self._learned, strict=True)]
        self._counters += counters[: int(self._settings.analyzer == "word")]
        return [(counter, columns) for counter, (_, columns) in zip(counters, self._learned, strict=True)]

    def _terms_of_parts(self) -> tuple[list[Sequence[str]], list[int]]:
        """Return the terms and the first column of each kind of columns."""
        terms, first = self._terms or (), self._boundary
        if len(self._parts) == 1:
            return [terms], [0]
        return [terms[:first], [term[len(MARK) :] for term in terms[first:]]], [0, first]

    def counts(self, texts: Texts) -> sp.csr_matrix:
        """Return int32 counts, indices sorted."""
        hashes, of_thread, parts = self._settings.kind == "hashing", self._of_thread, list[CsrCounts]()
        n_features = self._settings.n_features or 1 if hashes else len(self._terms or ())
        for first, stop in pieces(texts.sizes, tokens.PIECE):
            counters = getattr(of_thread, "counters", None) or self._new_counters()
            piece = texts.take(slice(first, stop))
            if hashes and max(counter.n_nodes for counter, _ in counters) > MOST_HASHED:
                counters = self._new_counters()
            kinds = []
            for i, (counter, columns) in enumerate(counters):
                try:
                    part = counter.count(piece, np.zeros(len(piece), bool))
                except PatternError as error:
                    error.path = self._owner or None
                    raise
                if hashes:
                    columns = _hashed(counter, columns, self._parts[i].n_features or 1, self._boundary * i)
                    counters[i] = counter, columns
                kinds.append(([part], columns))
            of_thread.counters = counters  # reused with their buffers, since allocating memory is slow
            parts.append(arranged(kinds, n_features, np.int32))
        return matrix_of(joined(parts), n_features)

    @property
    def unknown_share(self) -> float | None:
        """Fraction of unknown words in the texts counted so far; None for hashing, or if there were no words."""
        n_words = sum(counter.n_words for counter in self._counters)
        return sum(counter.n_unknown for counter in self._counters) / n_words if n_words else None


def _hashed(counter: NgramCounter, columns: np.ndarray, n_features: int, first: int) -> np.ndarray:
    """Return the columns of all terms of a counter: `columns`, then new terms hashed as by FeatureHasher, unsigned."""
    nodes = counter.parents[: counter.n_nodes], counter.lasts[: counter.n_nodes]
    data, bounds = counter.tokenizer.spelling.texts(*nodes, len(columns))
    hashed = np.empty(len(bounds) - 1, np.int32)
    murmur(data, bounds, hashed)
    new = np.abs(hashed.astype(np.int64))
    # the only int32 without an absolute value, treated as by FeatureHasher
    new[hashed == np.iinfo(np.int32).min] = 2**31 - 1 - (n_features - 1)
    return np.concatenate([columns, (new % n_features + first).astype(np.int32)])
