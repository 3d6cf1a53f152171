"""A corpus without its damaged shards."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sdem_dist.corpus.layout import Header
from sdem_dist.corpus.reader import Corpus
from sdem_dist.errors import CorpusError, UnreadableError


class Finding(NamedTuple):
    """What reading a shard has shown."""

    shard: int
    problem: str  # what is wrong with it; empty: nothing
    class_counts: tuple[int, ...]  # its documents of each class, where nothing is wrong


def look_at(corpus: Corpus, shard: int) -> Finding:
    """Read one shard and compare it with its checksums.

    Raises UnreadableError: the storage cannot be read at the moment; the shard may be sound.
    """
    try:
        documents = corpus.read_shard(shard)
    except UnreadableError:
        raise
    except CorpusError as error:
        return Finding(shard, str(error), ())
    if documents.labels is None:
        return Finding(shard, "", ())
    counts = np.bincount(documents.labels[documents.labels >= 0], minlength=len(corpus.header.classes))
    return Finding(shard, "", tuple(counts.tolist()))


class SoundShards(Corpus):
    """The shards of a corpus that are sound, as a corpus: its documents are numbered through them.

    `shards`: which to keep, ascending.
    `class_counts`: their documents of each class.
    """

    def __init__(self, path: str, shards: Sequence[int], class_counts: Sequence[int]) -> None:
        super().__init__(path)
        self._kept, self._class_counts = tuple(shards), tuple(class_counts)

    def __reduce__(self) -> tuple[Callable[..., Corpus], tuple[object, ...]]:
        return SoundShards, (self.path, self._kept, self._class_counts)

    @cached_property
    def header(self) -> Header:
        """The manifest that a corpus of these shards alone would have."""
        whole = self._parts[1]
        shards = tuple(whole.shards[i] for i in self._kept)
        return replace(
            whole,
            n_documents=sum(s.n_documents for s in shards),
            n_nonzeros=sum(s.n_nonzeros for s in shards),
            class_counts=self._class_counts,
            shards=shards,
        )

    def _stored(self, shard: int) -> int:
        return self._kept[super()._stored(shard)]


def without_damaged(corpus: Corpus, findings: Sequence[Finding]) -> Corpus:
    """Return the sound shards of a corpus as a corpus, or the corpus itself if all are.

    `findings`: one for every shard, in order.
    Raises CorpusError: no document is left.
    """
    sound = [f for f in findings if not f.problem]
    if len(sound) == len(findings):
        return corpus
    if type(corpus) is not Corpus:
        problem = next(f.problem for f in findings if f.problem)
        raise CorpusError(f"{corpus!r} has a damaged shard: {problem}; of parts and joined corpora none is left out")
    if not any(corpus.header.shards[f.shard].n_documents for f in sound):
        raise CorpusError(f"{corpus.path}: every shard is damaged, the first: {findings[0].problem}")
    counts = np.array([f.class_counts for f in sound], np.int64).sum(axis=0)
    return SoundShards(corpus.path, [f.shard for f in sound], [int(c) for c in counts])
