"""The vocabulary of a corpus: terms of all blocks added up, then chosen as scikit-learn's CountVectorizer chooses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.text.spill import BlockTerms
from sdem_dist.text.vectorizer import VectorizerSettings


class TermTotals:
    """Document frequency and occurrences of every term met so far; memory grows with distinct terms only."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._document_frequency = GrowingSum()
        self._total = GrowingSum()

    def add(self, block: BlockTerms) -> np.ndarray:
        """Add a block; return the number of each of its terms, int64."""
        known = self._numbers
        numbers = np.array([known.setdefault(term, len(known)) for term in block.terms], np.int64)
        self._document_frequency.add(numbers, block.document_frequency)
        self._total.add(numbers, block.total)
        return numbers

    def choose(self, settings: VectorizerSettings, n_documents: int) -> tuple[list[str], np.ndarray]:
        """Choose the vocabulary.

        Parameters
        ----------
        settings : VectorizerSettings
            Its `min_df`, `max_df` and `max_features` decide.
        n_documents : int
            Number of documents that were counted.

        Returns
        -------
        vocabulary : list of str
            Sorted.
        columns : ndarray of shape (n_terms,), int64
            Column of every numbered term, -1 for those left out.

        Raises
        ------
        IngestError
            If no term is left.
        """
        n_terms = len(self._numbers)
        frequency, total = self._document_frequency.values(n_terms), self._total.values(n_terms)
        if not frequency.any():
            raise IngestError(
                "no document has a word; check the column of the text, and what a word is (token_pattern, stop_words; "
                "--text, --token-pattern, --stop-words)"
            )
        least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
        # held-out documents bring terms of frequency 0, which a min_df of 0.0 must not let in
        kept = (frequency >= max(least, 1)) & (frequency <= most)
        chosen = sorted((term, number) for term, number in self._numbers.items() if kept[number])
        if settings.max_features is not None and len(chosen) > settings.max_features:
            totals = total[[number for _, number in chosen]]
            # the very expression of scikit-learn, whose sort decides between terms of equal totals
            best = (-totals).argsort()[: settings.max_features]
            chosen = [chosen[i] for i in np.sort(best)]
        if not chosen:
            raise IngestError(
                f"no word is in at least {least:g} and at most {most:g} of the {n_documents} documents; "
                "lower min_df (--min-df) or raise max_df (--max-df)"
            )
        numbers = np.array([number for _, number in chosen], np.int64)
        columns = np.full(n_terms, -1, np.int64)
        columns[numbers] = np.arange(len(numbers))
        return [term for term, _ in chosen], columns


class FixedTerms:
    """A vocabulary that is given: terms outside it are passed over."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._columns = {term: column for column, term in enumerate(vocabulary)}

    def add(self, block: BlockTerms) -> np.ndarray:
        """Return the column of each of the block's terms, int64, -1 for terms outside the vocabulary."""
        columns = self._columns
        return np.array([columns.get(term, -1) for term in block.terms], np.int64)


class GrowingSum:
    """A sum of arrays whose length shows only with time."""

    def __init__(self) -> None:
        self._sums = np.zeros(1024, np.int64)

    def add(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Add `values` at `positions`, none of which is repeated."""
        if len(positions) == 0:
            return
        needed = int(positions.max()) + 1
        if needed > len(self._sums):
            self._sums = np.concatenate(
                [self._sums, np.zeros(max(needed, 2 * len(self._sums)) - len(self._sums), np.int64)]
            )
        self._sums[positions] += values

    def values(self, length: int) -> np.ndarray:
        """Return the first `length` sums, int64; what nothing was added to is 0."""
        sums = self._sums[:length]
        return np.concatenate([sums, np.zeros(length - len(sums), np.int64)])
