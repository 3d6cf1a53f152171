"""What is wrong with a corpus, and the corpus without its damaged shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

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


def problem_of(read: Callable[[], object]) -> str:
    """Return what keeps something from being read, or an empty text.

    Raises UnreadableError: the storage cannot be read at the moment; the corpus may be sound.
    """
    try:
        read()
    except UnreadableError:
        raise
    except CorpusError as error:
        return str(error)
    return ""


def verify_shard(corpus: Corpus, shard: int) -> str:
    """Compare the documents of one shard with its checksums; return and raise as `problem_of`."""
    return problem_of(partial(corpus.read_shard, shard))


def without_damaged(corpus: Corpus, problems: Sequence[str]) -> Corpus:
    """Return the sound shards of a corpus as a corpus, or the corpus itself if all are.

    `problems`: of every shard, in order, see `verify_shard`.
    Raises CorpusError: no document is left.
    """
    undamaged = [shard for shard, problem in enumerate(problems) if not problem]
    if len(undamaged) == len(problems):
        return corpus
    if len(corpus.paths) > 1 or corpus.name:
        problem = next(filter(None, problems))
        raise CorpusError(f"{corpus!r} has a damaged shard: {problem}; of parts and joined corpora none is left out")
    if not any(corpus.header.shards[shard].n_documents for shard in undamaged):
        raise CorpusError(f"{corpus.path}: every shard is damaged, the first: {problems[0]}")
    return corpus.of_shards(undamaged)


def check_corpus(corpus: Corpus) -> Iterator[Problem]:
    """Read all of a corpus and yield what is wrong with it; nothing, if it is sound.

    Raises
    ------
    CorpusError
        The manifest cannot be read.
    """
    header, damaged = corpus.header, False
    counts = np.zeros(len(header.classes), np.int64)

    def count(shard: int) -> None:
        labels = corpus.read_shard(shard).labels
        if labels is not None:
            counts[:] += np.bincount(labels[labels >= 0], minlength=len(counts))

    for shard, info in enumerate(header.shards):
        optional = {"texts_bytes": corpus.texts, "groups": corpus.groups}
        readers = [count, corpus.ids, *(read for name, read in optional.items() if name in info.checksums)]
        problems = list(filter(None, (problem_of(partial(read, shard)) for read in readers)))
        damaged |= bool(problems)
        yield from (Problem(shard, problem) for problem in problems)
    if not damaged and counts.tolist() != list(header.class_counts):
        yield Problem(None, f"{corpus.path}: the labels do not add up to the manifest's class_counts")
    tables = [corpus.vocabulary] if header.layout == DENSE else [corpus.vocabulary, lambda: corpus.document_frequency]
    yield from (Problem(None, problem) for problem in map(problem_of, tables) if problem)


def missing_values(corpus: Corpus) -> np.ndarray:
    """Return how many values each column of a dense corpus misses, in the shards that can be read; reads all of it."""
    missing = np.zeros(corpus.header.n_features, np.int64)
    for shard in range(len(corpus.header.shards)):
        with suppress(CorpusError):  # `check_corpus` names it
            missing += np.isnan(cast(DenseDocuments, corpus.read_shard(shard)).values).sum(axis=0)
    return missing
