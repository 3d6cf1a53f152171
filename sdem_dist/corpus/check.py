"""A corpus as a whole: what is wrong with it, and what it holds."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from sdem_dist.corpus.layout import DENSE
from sdem_dist.corpus.reader import Corpus
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError


@dataclass(frozen=True)
class Problem:
    """Something wrong with a corpus: in which shard (None: the corpus as a whole), and what."""

    shard: int | None
    message: str


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
    readers_of_shards: list[Callable[[int], object]] = [corpus.read_shard, corpus.ids]
    if corpus.has_texts:
        readers_of_shards.append(corpus.texts)
    for shard, record in enumerate(header.shards):
        groups = [corpus.groups] if "groups" in record.checksums else []
        for read in [*readers_of_shards, *groups]:
            try:
                found = read(shard)
            except CorpusError as error:
                damaged = True
                yield Problem(shard, str(error))
                continue
            labels = getattr(found, "labels", None)
            if labels is not None:
                counts += np.bincount(labels[labels >= 0], minlength=len(counts))
    if not damaged and counts.tolist() != list(header.class_counts):
        yield Problem(None, f"{corpus.path}: the labels do not add up to the manifest's class_counts")
    readers: list[Callable[[], object]] = [corpus.vocabulary]
    if header.layout != DENSE:
        readers.append(lambda: corpus.document_frequency)
    for read_part in readers:
        try:
            read_part()
        except CorpusError as error:
            yield Problem(None, str(error))


def missing_values(corpus: Corpus) -> np.ndarray:
    """Return how many values each column of a dense corpus misses, in the shards that can be read; reads all of it."""
    missing = np.zeros(corpus.header.n_features, np.int64)
    for shard in range(len(corpus.header.shards)):
        with suppress(CorpusError):  # `check_corpus` names it
            missing += np.isnan(cast(DenseDocuments, corpus.read_shard(shard)).values).sum(axis=0)
    return missing
