"""Raw text becomes exactly what a corpus holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from threading import Lock, local
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.text.counters import FixedCounter, HashingCounter, LearningCounter, Vocabulary, arranged
from sdem_dist.text.terms import Trie, sorted_terms
from sdem_dist.text.texts import Texts, parts_of_strings, sample_scripts, texts_of_strings, warn_of_unspaced
from sdem_dist.text.vectorizer import PatternError, VectorizerSettings

if TYPE_CHECKING:
    import pyarrow
    import scipy.sparse as sp

SPELLED_AT_A_TIME = 1 << 15
"""Terms that become texts together: their bytes stay in the cache."""


def count_texts(
    texts: Sequence[str] | np.ndarray | pyarrow.Array | Texts,
    settings: VectorizerSettings,
    vocabulary: Sequence[str] | None = None,
) -> tuple[sp.csr_matrix, list[str]]:
    """Count the terms of texts, as scikit-learn's ``CountVectorizer`` does.

    Parameters
    ----------
    texts : sequence of str, ndarray, pandas or Arrow column, or Texts
    settings : VectorizerSettings
        Its kind is not "matrix"; its limits of the vocabulary (`min_df`, `max_df`, `max_features`) do not apply.
    vocabulary : sequence of str, or None
        The terms to count, in the order of columns; by default all that occur, sorted.

    Returns
    -------
    counts : csr_matrix of shape (n_texts, n_features), int64, indices sorted
    vocabulary : list of str
        The terms of the columns; empty for kind "hashing".

    Raises
    ------
    ValueError
        Something is not text.
    """
    if vocabulary is None and settings.kind == "count":
        return learned_texts(texts, settings, np.dtype(np.int64))[:2]
    texts = texts if isinstance(texts, Texts) else texts_of_strings(texts)
    if vocabulary is None:
        warn_of_unspaced(sample_scripts(texts), settings)
    return TextTransformer(settings, vocabulary).counter()(texts), list(vocabulary or ())


def learned_texts(
    texts: Sequence[str] | np.ndarray | pyarrow.Array | Texts,
    settings: VectorizerSettings,
    dtype: np.dtype | None = None,
) -> tuple[sp.csr_matrix, list[str], TextTransformer]:
    """Count texts as `count_texts` does without a vocabulary, and return what counts others by these terms, too.

    `dtype`: of the counts; None: the smallest unsigned integers that hold them.
    """
    counter = LearningCounter(settings, tallies=False)
    parts, sample = [], np.zeros(3, int)
    for some in [texts] if isinstance(texts, Texts) else parts_of_strings(texts):
        sample += sample_scripts(some)
        parts += counter.parts(some)
    warn_of_unspaced(sample, settings)
    tree, terms = counter.tree, sorted_terms([Trie.of(counter)], end=ord("\n"))
    n_terms, columns, words = len(terms.offsets) - 1, terms.columns[0], list[str]()
    if dtype is None:
        dtype = np.min_scalar_type(max((int(part.counts.max(initial=0)) for part in parts), default=0))
    matrix = arranged(parts, columns, dtype).matrix(n_terms)
    for first in range(0, n_terms, SPELLED_AT_A_TIME):
        bounds = terms.offsets[first : first + SPELLED_AT_A_TIME + 1]
        spelled = terms.data[bounds[0] : bounds[-1]].tobytes()
        if spelled.count(b"\n") == len(bounds) - 1:  # cut by one call
            words += spelled.decode("utf-8", "surrogatepass").split("\n")[:-1]
        else:
            limits = itertools.pairwise((bounds - bounds[0]).tolist())
            words += [spelled[a : b - 1].decode("utf-8", "surrogatepass") for a, b in limits]
    tree.tally = tree.tally[:0].copy()  # each thread that counts has its own
    return matrix, words, TextTransformer(settings, words, Vocabulary(counter.tokenizer, tree, columns, n_terms))


class TextTransformer:
    """Counts texts under a vocabulary, or by hashing; made once, it counts any number of them.

    `learned`: the vocabulary, ready to be found: making it of many terms takes long.
    `owner`: what the settings are of, such as the path of a model, for messages.
    """

    def __init__(
        self,
        settings: VectorizerSettings,
        vocabulary: Sequence[str] | None = None,
        learned: Vocabulary | None = None,
        owner: str = "",
    ) -> None:
        if settings.kind == "matrix":
            raise ValueError("these documents came as numbers; there is no way from text to their columns")
        if settings.kind == "count" and vocabulary is None:
            raise ValueError("text of kind 'count' needs the vocabulary of the corpus")
        self._settings, self._terms, self._owner = settings, vocabulary, owner
        self._counters: list[FixedCounter] = []
        self._vocabulary, self._making, self._own = learned, Lock(), local()

    def __reduce__(self) -> tuple[type[TextTransformer], tuple[object, ...]]:
        return TextTransformer, (self._settings, self._terms, None, self._owner)  # stemmers cannot be sent

    def counter(self) -> Callable[[Texts], sp.csr_matrix]:
        """Return a function from texts to int64 counts, indices sorted; every thread needs its own."""
        counter = self._counter()
        if isinstance(counter, FixedCounter):
            self._counters.append(counter)
        return lambda texts: self._counted(counter, texts, np.int64)

    def counts(self, texts: Texts) -> sp.csr_matrix:
        """Return int32 counts, indices sorted; these texts have no part in `unknown_share`."""
        if not hasattr(self._own, "counter"):  # this thread's; it keeps memory, since allocating it anew is slow
            self._own.counter = self._counter()
        return self._counted(self._own.counter, texts, np.int32)

    def _counter(self) -> FixedCounter | HashingCounter:
        if self._settings.kind == "hashing":
            return HashingCounter(self._settings)
        with self._making:  # made when it is first needed: a driver of workers does not count
            if self._vocabulary is None:
                self._vocabulary = Vocabulary.of(self._settings, self._terms or ())
        return FixedCounter(self._vocabulary)

    def _counted(self, counter: FixedCounter | HashingCounter, texts: Texts, dtype: type) -> sp.csr_matrix:
        try:
            return counter.count(texts, dtype)
        except PatternError as error:
            raise PatternError(error.problem, pattern=error.pattern, path=self._owner) from None

    @property
    def unknown_share(self) -> float | None:
        """Share of the words in texts counted so far that no term has; None if words are hashed, or there were none."""
        of_words = self._settings.analyzer == "word"
        n_words = sum(counter.n_words for counter in self._counters) if of_words else 0
        return sum(counter.n_unknown for counter in self._counters) / n_words if n_words else None
