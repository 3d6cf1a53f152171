"""Where a corpus is put: written beside its place, cut into shards, published in one step, and opened again."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from sdem_dist.corpus.manifest import (
    DENSE,
    DOCUMENT_FREQUENCY,
    MANIFEST,
    SHARDS,
    SPARSE,
    VOCABULARY,
    Header,
    ShardInfo,
    vocabulary_hash,
)
from sdem_dist.corpus.reader import Corpus, open_corpus
from sdem_dist.corpus.shuffle import SortedDocuments
from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage import buckets
from sdem_dist.storage.encoding import JsonObject, crc32c, encode_strings
from sdem_dist.storage.publish import publish_directory
from sdem_dist.storage.urls import is_url
from sdem_dist.storage.urls import place as to_place

SHARD_DOCUMENTS = 32_768
SMALL_SHARD_DOCUMENTS = 2048
SHARD_NONZEROS = 1 << 20
MEMORY_LIMIT = 256 * 2**20
WriteShards = Callable[[Path, list[int]], tuple[tuple[ShardInfo, ...], "np.ndarray | None"]]
"""Takes the folder of shards and their sizes; returns their entries in the manifest, and the document frequencies."""


def reopened(path: str | Path, header: Header) -> Corpus:
    """Return the corpus at `path` that was just written; CorpusError where another has taken its place."""
    replaced = f"{path}: another process has put a corpus of its own in the place of the one that was just written"
    try:
        corpus = open_corpus(path)
    except CorpusError as error:
        if is_url(path):
            raise
        raise CorpusError(replaced) from error  # it is at it just now
    if corpus.header.uid != header.uid:
        raise CorpusError(replaced)
    return corpus


def write_contents(
    place: str | Path,
    documents: SortedDocuments,
    write_shards: WriteShards,
    *,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    shard_documents: int | None,
) -> Header:
    """Write vocabulary, shards and, last, the manifest to a place; return the manifest."""
    from sdem_dist.storage import arrays

    root, n_features = to_place(place), documents.kind.features
    if not documents.n_documents or not n_features:
        what = "the documents have no features" if documents.n_documents else "there are no documents"
        raise CorpusError(f"{what}; a corpus has one or more")
    if vocabulary is not None and len(vocabulary) != n_features:
        raise CorpusError(f"the vocabulary has {len(vocabulary)} words and the documents have {n_features} features")
    try:
        words = None if vocabulary is None else encode_strings(vocabulary)
    except (TypeError, UnicodeEncodeError) as error:
        raise CorpusError(f"the vocabulary cannot be stored: {error}") from error
    identity = vocabulary_hash(n_features, words)
    if words is not None:
        arrays.write_group(root / VOCABULARY)
        arrays.write_arrays(root / VOCABULARY, {"bytes": words[0], "offsets": words[1]})
        del words  # with many n-grams they are as large as the documents
    arrays.write_group(root / SHARDS)
    sizes = shard_sizes(documents.n_documents, documents.n_nonzeros, shard_documents)
    shards, frequency = write_shards(root / SHARDS, sizes)
    header = Header(
        documents.n_documents,
        n_features,
        documents.n_nonzeros,
        documents.classes,
        documents.class_counts,
        shards,
        identity,
        documents.weighted,
        vectorizer,
        made_by or {},
        None if frequency is None else crc32c(frequency),
        DENSE if documents.dense else SPARSE,
        documents.kind.targets,
    )
    if frequency is not None:
        arrays.write_array(root / DOCUMENT_FREQUENCY, frequency)
    arrays.write_group(root, {MANIFEST: header.to_json()})
    return header


def shard_sizes(n_documents: int, n_nonzeros: int, shard_documents: int | None) -> list[int]:
    """Return the numbers of documents of the shards, as equal as can be, none above `shard_documents`.

    By default a shard holds 32768 documents, or about a million entries if that is fewer documents. A small corpus is
    cut finer, down to 2048 documents, so that several workers have something to do; each of its entries takes about
    twice as long to read.
    """
    if shard_documents is None:
        by_documents = min(SHARD_DOCUMENTS, max(SMALL_SHARD_DOCUMENTS, math.ceil(n_documents / 16)))
        by_nonzeros = SHARD_NONZEROS * n_documents // max(1, n_nonzeros)
        shard_documents = max(1, min(by_documents, by_nonzeros))
    n_shards = math.ceil(n_documents / shard_documents)
    borders = [shard * n_documents // n_shards for shard in range(n_shards + 1)]
    return [stop - start for start, stop in pairwise(borders)]


@contextmanager
def destination(path: str | Path, overwrite: bool, *, shared: bool = False) -> Iterator[tuple[str | Path, Path]]:
    """Yield where to write the corpus, and a folder for intermediate files; publish when the block succeeds.

    `shared`: workers see the folder, too.
    """
    from sdem_dist.storage.contents import publish_contents

    refuse_taken([path], overwrite)
    if is_url(path):
        with (
            tempfile.TemporaryDirectory(prefix="sdem-") as folder,
            publish_contents(str(to_place(path)), CorpusError) as contents,
        ):
            # Inside the corpus to be, so that the next writer removes it after a kill.
            scratch = to_place(contents) / "scratch" if shared else Path(folder)
            try:
                yield contents, scratch
            except OSError as error:
                if is_url(str(error.filename)):
                    raise CorpusError(f"cannot write {path}: {error.strerror}") from error
                raise
            if shared:
                buckets.remove(str(scratch))
        return
    # The folder lies inside the new corpus: on the same disk, and removed with it.
    with (
        publish_directory(path, overwrite=overwrite) as new,
        # a worker may still write into it after another worker failed
        tempfile.TemporaryDirectory(prefix="spill-", dir=new, ignore_cleanup_errors=True) as folder,
    ):
        yield new, Path(folder)


def refuse_taken(paths: Sequence[str | Path], overwrite: bool) -> None:
    """Raise CorpusError if corpora at `paths` must be kept, or if something there is not a corpus."""
    existing = [str(path) for path in paths if _holds_corpus(path, overwrite)]
    if existing and not overwrite:
        exist, them = ("exists", "it") if len(existing) == 1 else ("exist", "them")
        raise CorpusError(
            f"{' and '.join(existing)} {exist} already",
            hint=f"choose another name, or replace {them}: {{overwrite=True}}",
        )


def _holds_corpus(path: str | Path, overwrite: bool) -> bool:
    """Say whether there is a corpus; raise CorpusError for anything else, except empty folders that may be replaced."""
    from sdem_dist.storage.arrays import read_attributes
    from sdem_dist.storage.contents import WRITER, contents_of

    location = to_place(path)
    try:
        if not (location / "zarr.json" if is_url(path) else location).exists():
            return False
        attributes = read_attributes(location)
        if MANIFEST in attributes or contents_of(attributes) is not None:
            return True
        if is_url(path) and WRITER in attributes:
            return False  # left by a process that died, or in use by one that writes now
    except UnreadableError:
        raise
    except CorpusError:
        pass
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    if not is_url(path) and overwrite and location.is_dir() and not any(location.iterdir()):
        return False
    raise CorpusError(f"{path} exists and is not a corpus: it is left alone; choose another name, or remove it")
