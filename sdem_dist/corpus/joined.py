"""Several corpora with one vocabulary as one: nothing is copied."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.reader import Corpus
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    from sdem_dist.storage.arrays import Group

SAME = ("layout", "vocabulary_hash", "n_features", "classes", "n_targets", "vectorizer", "has_weights")
"""What corpora have to share."""


def concat(corpora: Sequence[Corpus]) -> Corpus:
    """Return several corpora as one, whose documents are theirs, in order; nothing is read or copied.

    Lanes are neighbouring documents, so corpora that differ much in their classes are better ingested together.
    Where only some keep groups, folds take each document of the others as a group of its own.

    Parameters
    ----------
    corpora : sequence of Corpus
        They have one vocabulary and the same classes, as ``sdem ingest --vocabulary-from`` makes them.

    Returns
    -------
    Corpus

    Raises
    ------
    CorpusError
        They differ in what documents are, or there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from sdem_dist import concat, write_corpus
    >>> folder = mkdtemp()
    >>> monday, tuesday = (write_corpus(f"{folder}/{day}", np.eye(2, dtype=int), ["a", "b"]) for day in ("mon", "tue"))
    >>> len(concat([monday, tuesday]))
    4
    """
    if not corpora:
        raise CorpusError("there are no corpora to join")
    for corpus in corpora:
        if type(corpus) is not Corpus and not isinstance(corpus, JoinedCorpus):
            raise CorpusError(f"{corpus!r} is not a corpus on disk: join corpora first, and take a subset of the whole")
    return corpora[0] if len(corpora) == 1 else JoinedCorpus(corpora)


class JoinedCorpus(Corpus):
    """Several corpora as one, see `concat`."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.corpora = tuple(corpora)
        self.path = " and ".join(corpus.path for corpus in corpora)

    def __reduce__(self) -> tuple[Callable[..., Corpus], tuple[object, ...]]:
        return JoinedCorpus, (self.corpora,)

    def __repr__(self) -> str:
        return f"concat([{', '.join(map(repr, self.corpora))}])"

    @cached_property
    def header(self) -> Header:
        """The manifest that a corpus of all these shards would have."""
        from sdem_dist.storage.checksum import crc32c

        headers = [corpus.header for corpus in self.corpora]
        first = headers[0]
        for corpus, header in zip(self.corpora[1:], headers[1:], strict=True):
            if unlike := [name for name in SAME if getattr(header, name) != getattr(first, name)]:
                raise CorpusError(
                    f"{corpus.path} and {self.corpora[0].path} differ in {', '.join(unlike)}: ingest one of them with the "
                    "vocabulary of the other (--vocabulary-from), or all sources together"
                )
        sparse = first.document_frequency_checksum is not None
        return replace(
            first,
            n_documents=sum(header.n_documents for header in headers),
            n_nonzeros=sum(header.n_nonzeros for header in headers),
            class_counts=tuple(map(sum, zip(*(header.class_counts for header in headers), strict=True))),
            shards=tuple(shard for header in headers for shard in header.shards),
            weighted=any(header.weighted for header in headers),
            document_frequency_checksum=crc32c(self.document_frequency) if sparse else None,
            made_by={
                "joined": [corpus.path for corpus in self.corpora],
                **({} if first.label_separator is None else {"label_separator": first.label_separator}),
            },
        )

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many documents each column occurs: the sum of the corpora's."""
        return np.asarray(np.sum([corpus.document_frequency for corpus in self.corpora], axis=0, dtype=np.int64))

    @cached_property
    def _firsts(self) -> list[int]:
        """Number of the first shard of each corpus."""
        return list(accumulate((len(corpus.header.shards) for corpus in self.corpora), initial=0))

    def _owner(self, shard: int) -> tuple[Corpus, int]:
        """Return the corpus that a shard is of, and its number there."""
        corpus = bisect_right(self._firsts, self._stored(shard)) - 1
        return self.corpora[corpus], shard - self._firsts[corpus]

    def _place_of(self, shard: int) -> tuple[Group, Header, int, str]:
        corpus, number = self._owner(shard)
        return corpus._place_of(number)

    def labels(self) -> np.ndarray | None:
        """Read the labels of all documents."""
        found = [labels for corpus in self.corpora if (labels := corpus.labels()) is not None]
        return np.concatenate(found) if found else None

    @cached_property
    def weights(self) -> np.ndarray | None:
        """The weights of all documents."""
        found = [weights for corpus in self.corpora if (weights := corpus.weights) is not None]
        return np.concatenate(found) if found else None

    def place(self, document: int) -> str:
        """Return where a document is, for people."""
        shard = int(np.searchsorted(self.header.shard_starts, document, side="right")) - 1
        corpus, number = self._owner(shard)
        return corpus.place(int(corpus.header.shard_starts[number]) + document - int(self.header.shard_starts[shard]))

    def vocabulary(self) -> list[str] | None:
        """Read the words, which all share."""
        return self.corpora[0].vocabulary()

    def bytes_on_disk(self) -> int:
        """Return the bytes of all."""
        return sum(corpus.bytes_on_disk() for corpus in self.corpora)
