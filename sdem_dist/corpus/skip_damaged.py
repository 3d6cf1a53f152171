"""What is wrong with a corpus, and the corpus without its damaged shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from sdem_dist.corpus.manifest import DENSE
from sdem_dist.corpus.reader import Corpus
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError, UnreadableError


@dataclass(frozen=True)
class Problem:
    """Something wrong with a corpus: in which shard (None: the corpus as a whole), and what."""

    shard: int | None
    message: str


class ShardStatus(NamedTuple):
    shard: int
    problem: str  # what is wrong with it; empty: nothing
    class_counts: tuple[int, ...]  # its documents of each class, where nothing is wrong


def verify_shard(corpus: Corpus, shard: int) -> ShardStatus:
    """Read one shard and compare it with its checksums.

    Raises UnreadableError: the storage cannot be read at the moment; the shard may be sound.
    """
    try:
        labels = corpus.read_shard(shard).labels
    except UnreadableError:
        raise
    except CorpusError as error:
        return ShardStatus(shard, str(error), ())
    labels = np.zeros(0, np.int32) if labels is None else labels[labels >= 0]
    return ShardStatus(shard, "", tuple(np.bincount(labels, minlength=len(corpus.header.classes)).tolist()))


def without_damaged(corpus: Corpus, statuses: Sequence[ShardStatus]) -> Corpus:
    """Return the sound shards of a corpus as a corpus, or the corpus itself if all are.

    `statuses`: one for every shard, in order.
    Raises CorpusError: no document is left.
    """
    undamaged = [status for status in statuses if not status.problem]
    if len(undamaged) == len(statuses):
        return corpus
    if len(corpus.paths) > 1 or corpus.name:
        problem = next(status.problem for status in statuses if status.problem)
        raise CorpusError(f"{corpus!r} has a damaged shard: {problem}; of parts and joined corpora none is left out")
    if not any(corpus.header.shards[status.shard].n_documents for status in undamaged):
        raise CorpusError(f"{corpus.path}: every shard is damaged, the first: {statuses[0].problem}")
    counts = np.array([status.class_counts for status in undamaged], np.int64).sum(axis=0)
    return corpus.of_shards([status.shard for status in undamaged], counts.tolist())


def check_corpus(corpus: Corpus) -> Iterator[Problem]:
    """Read all of a corpus and yield what is wrong with it; nothing, if it is sound.

    Raises
    ------
    CorpusError
        The manifest cannot be read.
    """
    header = corpus.header
    counts = np.zeros(len(header.classes), np.int64)
    damaged = False
    for shard, record in enumerate(header.shards):
        columns = {"texts_bytes": corpus.texts, "groups": corpus.groups}
        readers = [corpus.ids, *(read for name, read in columns.items() if name in record.checksums)]
        status = verify_shard(corpus, shard)
        damaged |= bool(status.problem)
        counts += status.class_counts or 0
        problems = [status.problem, *(_problem_of(partial(read, shard)) for read in readers)]
        yield from (Problem(shard, problem) for problem in problems if problem)
    if not damaged and counts.tolist() != list(header.class_counts):
        yield Problem(None, f"{corpus.path}: the labels do not add up to the manifest's class_counts")
    tables = [corpus.vocabulary] if header.layout == DENSE else [corpus.vocabulary, lambda: corpus.document_frequency]
    yield from (Problem(None, problem) for problem in map(_problem_of, tables) if problem)


def _problem_of(read: Callable[[], object]) -> str:
    try:
        read()
    except CorpusError as error:
        return str(error)
    return ""


def missing_values(corpus: Corpus) -> np.ndarray:
    """Return how many values each column of a dense corpus misses, in the shards that can be read; reads all of it."""
    missing = np.zeros(corpus.header.n_features, np.int64)
    for shard in range(len(corpus.header.shards)):
        with suppress(CorpusError):  # `check_corpus` names it
            missing += np.isnan(cast(DenseDocuments, corpus.read_shard(shard)).values).sum(axis=0)
    return missing
