"""Looking at a corpus as a whole: is it sound, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from sdem_dist.corpus.layout import ClassLabel, index_dtype
from sdem_dist.corpus.reader import Corpus
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
    for shard in range(len(header.shards)):
        for read in (corpus.read_shard, corpus.ids):
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
    for part in (corpus.vocabulary, corpus.idf):
        try:
            part()
        except CorpusError as error:
            yield Problem(None, str(error))


def missing_values(corpus: Corpus) -> np.ndarray:
    """Return how many values of each column of a dense corpus are missing, in the shards that can be read; reads all of it."""
    missing = np.zeros(corpus.header.n_features, np.int64)
    for shard in range(len(corpus.header.shards)):
        with suppress(CorpusError):  # `check_corpus` names it
            missing += np.isnan(corpus.read_shard(shard).values).sum(axis=0)
    return missing


@dataclass(frozen=True)
class Description:
    """What is in a corpus, in numbers.

    Attributes
    ----------
    path, uid : str
    n_documents, n_features, n_nonzeros, n_shards : int
    class_shares : dict of class label to float
        Share of the documents, in the order of the classes.
    layout : {"sparse", "dense"}
    has_vocabulary, has_idf, weighted : bool
    bytes_on_disk : int
        Of all files or objects; compare `n_nonzeros`.
    data_dtypes : tuple of str
        Those that occur, narrow to wide.
    index_dtype : str
    """

    path: str
    uid: str
    n_documents: int
    n_features: int
    n_nonzeros: int
    n_shards: int
    class_shares: dict[ClassLabel, float]
    layout: str
    has_vocabulary: bool
    has_idf: bool
    weighted: bool
    bytes_on_disk: int
    data_dtypes: tuple[str, ...]
    index_dtype: str

    @property
    def bytes_per_nonzero(self) -> float:
        """Bytes on disk for each stored entry, everything included; NaN without entries."""
        return self.bytes_on_disk / self.n_nonzeros if self.n_nonzeros else float("nan")


def describe(corpus: Corpus) -> Description:
    """Return what is in a corpus, from its manifest and the sizes of its files."""
    from sdem_dist.corpus.layout import vocabulary_hash
    from sdem_dist.storage.arrays import stored_bytes

    header = corpus.header
    dtypes = {s.data_dtype for s in header.shards}
    return Description(
        path=corpus.path,
        uid=header.uid,
        n_documents=header.n_documents,
        n_features=header.n_features,
        n_nonzeros=header.n_nonzeros,
        n_shards=len(header.shards),
        class_shares={c: n / header.n_documents for c, n in zip(header.classes, header.class_counts, strict=True)},
        layout=header.layout,
        has_vocabulary=header.vocabulary_hash != vocabulary_hash(header.n_features, None),
        has_idf=header.idf_checksum is not None,
        weighted=header.weighted,
        bytes_on_disk=stored_bytes(corpus.path),
        data_dtypes=tuple(d for d in ("uint8", "uint16", "uint32", "float32", "float64") if d in dtypes),
        index_dtype=str(index_dtype(header.n_features)),
    )
