"""Writing a corpus: documents from anywhere, shuffled once, cut into shards, published whole."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.layout import (
    DENSE,
    DOCUMENT_FREQUENCY,
    MANIFEST,
    SHARDS,
    SPARSE,
    VOCABULARY,
    ClassLabel,
    Header,
    ShardInfo,
    vocabulary_hash,
)
from sdem_dist.corpus.reader import Corpus, open_corpus
from sdem_dist.corpus.tables import corpus_of_table, is_table
from sdem_dist.counted import is_count
from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import is_url
from sdem_dist.storage.places import place as to_place

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.corpus.collect import Collected
    from sdem_dist.corpus.shards import TextsAt
    from sdem_dist.storage.arrays import Group

SHARD_DOCUMENTS = 32_768
SMALL_SHARD_DOCUMENTS = 2048
SHARD_NONZEROS = 1 << 20
MEMORY_LIMIT = 256 * 2**20


def write_corpus(
    path: str | Path,
    X: object,
    y: ArrayLike | None = None,
    *,
    classes: Sequence[object] | None = None,
    vocabulary: Sequence[str] | None = None,
    ids: Sequence[int | str] | np.ndarray | None = None,
    targets: ArrayLike | None = None,
    vectorizer: Mapping[str, object] | None = None,
    made_by: JsonObject | None = None,
    weighted: bool | None = None,
    dense: bool = False,
    unlabelled: object = None,
    shuffle: bool = True,
    random_state: int = 0,
    shard_documents: int | None = None,
    overwrite: bool = False,
    before_publishing: Callable[[], object] | None = None,
    texts: TextsAt | None = None,
    client: Client | None = None,
) -> Corpus:
    """Write documents as a corpus.

    Parameters
    ----------
    path : str or Path
        Directory to create, or a URL such as ``s3://bucket/corpus``. The corpus appears under its name only when complete.
    X : sparse matrix, ndarray, dask array or DataFrame of shape (n_documents, n_features), or iterable of batches
        Counts or weights, never negative (but see `dense`). A batch is a pair ``(X, y)``, a triple ``(X, y, ids)`` or
        ``(X, y, ids, targets)``, of any length; the corpus does not depend on how the documents are cut into batches.
        Columns of a DataFrame that hold text, categories or booleans are numbered (with `dense`), for `MixedNB`.
    y : array-like of shape (n_documents,), optional
        Labels: strings, integers, floats or booleans. Leave out for documents without labels, and with batches.
    classes : sequence, optional
        The class labels in the order to keep. By default those that occur, sorted.
    vocabulary : sequence of str of length n_features, optional
        The words. Leave out for hashed words.
    ids : sequence of int or str, optional
        An id for each document. By default its position in `X`.
    targets : array-like of shape (n_documents,) or (n_documents, n_targets), optional
        Real numbers to be predicted, finite, for regression from sparse documents; labels may stand beside them.
    vectorizer, made_by : dict, optional
        JSON values to keep in the manifest: how text became numbers, and who made the corpus from what. For a DataFrame
        ``corpus.header.vectorizer`` of another one, whose numbering of categories is to be kept: that of the training
        documents for test documents.
    weighted : bool, optional
        The entries are weights, stored as float32, rather than counts. By default they are if one is not whole.
    dense : bool, default False
        Store a table of real numbers, whatever their sign, NaN for missing ones, for models of dense features.
    unlabelled : label, optional
        The label, such as -1, of documents whose class is not known; of dense corpora only.
    shuffle : bool, default True
        Store the documents in random order. Leave them in the order given for test sets.
    random_state : int, default 0
        Seed of that order.
    shard_documents : int, optional
        Largest number of documents of a shard. By default from 2048 to 32768, fewer if they are long.
    overwrite : bool, default False
        Replace the corpus at `path`.
    before_publishing : callable, optional
        Called when all is written, just before the directory appears; if it raises, the corpus does not appear.
    texts : callable, optional
        From the ids of documents to the UTF-8 bytes of their texts, joined, and the offsets of each: stored too.
    client : distributed.Client, optional
        Its workers compute the blocks of a dask array and write them; all see the folder of `path`. The corpus is the same.

    Returns
    -------
    Corpus

    Raises
    ------
    CorpusError
        The input is not a corpus (the message names the document), `path` is taken, or the disk refuses.
    """
    from sdem_dist.corpus.batches import batches
    from sdem_dist.corpus.collect import collect

    if shard_documents is not None and not is_count(shard_documents):
        raise CorpusError(f"shard_documents is {shard_documents!r}; a shard holds one document or more")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise CorpusError(f"random_state is {random_state!r}, not an integer")
    if unlabelled is not None and not dense:
        raise CorpusError("documents without labels beside others are for dense corpora: dense=True")
    if dense and targets is not None:
        raise CorpusError("targets are for sparse corpora; a dense corpus has its target as a column")
    if client is not None:
        if dense or not (ids is None and targets is None and before_publishing is None and texts is None):
            raise CorpusError(
                "a client's workers write counts or weights with labels: leave client out for anything more"
            )
        from sdem_dist.corpus.by_tasks import write_dask_array

        return write_dask_array(
            path,
            X,
            y,
            client,
            classes=classes,
            vocabulary=vocabulary,
            vectorizer=plain_json(vectorizer, "vectorizer"),
            made_by=plain_json(made_by, "made_by"),
            weighted=weighted,
            seed=int(random_state) if shuffle else None,
            shard_documents=shard_documents,
            overwrite=overwrite,
        )
    if is_table(X):
        X, vocabulary, vectorizer = corpus_of_table(X, dense, vocabulary, vectorizer)
    vectorizer, made_by = plain_json(vectorizer, "vectorizer"), plain_json(made_by, "made_by")
    with destination(path, overwrite) as (place, scratch):
        collected = collect(
            batches(X, y, ids, targets),
            scratch,
            MEMORY_LIMIT,
            classes,
            weighted,
            seed=int(random_state) if shuffle else None,
            dense=dense,
            unlabelled=unlabelled,
        )
        header = write_contents(
            place,
            collected,
            partial(_write_shards, collected, texts),
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
        if before_publishing is not None:
            before_publishing()
    return reopened(path, header)


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


class Facts(Protocol):
    """What is known of documents before they are in shards; see `Header`."""

    @property
    def n_documents(self) -> int: ...  # noqa: D102
    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def n_nonzeros(self) -> int: ...  # noqa: D102
    @property
    def classes(self) -> tuple[ClassLabel, ...]: ...  # noqa: D102
    @property
    def class_counts(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def weighted(self) -> bool: ...  # noqa: D102
    @property
    def dense(self) -> bool: ...  # noqa: D102
    @property
    def n_targets(self) -> int: ...  # noqa: D102


WriteShards = Callable[["Group", list[int]], tuple[tuple[ShardInfo, ...], "np.ndarray | None"]]
"""From the group of shards and their sizes to what the manifest says of them, and the document frequencies."""


def write_contents(
    place: str | Path,
    facts: Facts,
    write_shards: WriteShards,
    *,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    shard_documents: int | None,
) -> Header:
    """Write vocabulary, shards and, last, the manifest to a place; return the manifest."""
    from sdem_dist.storage import arrays
    from sdem_dist.storage.checksum import crc32c

    n_features = facts.n_features
    words = _encoded_vocabulary(vocabulary, n_features)
    group = arrays.create_group(place)
    identity = vocabulary_hash(n_features, words)
    if words is not None:
        parent = arrays.add_group(group, VOCABULARY)
        arrays.write_arrays(parent, {"bytes": words[0], "offsets": words[1]})
        del words  # of many n-grams, as much as the documents
    sizes = shard_sizes(facts.n_documents, facts.n_nonzeros, shard_documents)
    shards, frequency = write_shards(arrays.add_group(group, SHARDS), sizes)
    header = Header(
        n_documents=facts.n_documents,
        n_features=n_features,
        n_nonzeros=facts.n_nonzeros,
        classes=facts.classes,
        class_counts=facts.class_counts,
        shards=shards,
        vocabulary_hash=identity,
        weighted=facts.weighted,
        vectorizer=vectorizer,
        made_by=made_by or {},
        layout=DENSE if facts.dense else SPARSE,
        n_targets=facts.n_targets,
        document_frequency_checksum=None if frequency is None else crc32c(frequency),
    )
    if frequency is not None:
        arrays.write_array(group, DOCUMENT_FREQUENCY, frequency)
    arrays.set_attributes(group, {MANIFEST: header.to_json()})
    return header


def shard_sizes(n_documents: int, n_nonzeros: int, shard_documents: int | None) -> list[int]:
    """Return the numbers of documents of the shards, as equal as can be, none above `shard_documents`.

    By default a shard holds 32768 documents, or about a million entries if that is fewer documents: opening and reading
    an array costs zarr about a millisecond however short it is. A small corpus is cut finer, down to 2048 documents, so
    that several workers have something to do, and reads about half as fast an entry for it.
    """
    if shard_documents is None:
        by_documents = min(SHARD_DOCUMENTS, max(SMALL_SHARD_DOCUMENTS, math.ceil(n_documents / 16)))
        by_nonzeros = SHARD_NONZEROS * n_documents // max(1, n_nonzeros)
        shard_documents = max(1, min(by_documents, by_nonzeros))
    n_shards = math.ceil(n_documents / shard_documents)
    borders = [shard * n_documents // n_shards for shard in range(n_shards + 1)]
    return [stop - start for start, stop in pairwise(borders)]


def _write_shards(
    collected: Collected, texts: TextsAt | None, parent: Group, sizes: list[int]
) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
    """Write all documents; return what the manifest says of the shards, and the document frequencies of counts."""
    from sdem_dist.corpus.rows import cut
    from sdem_dist.corpus.shards import write_shard

    kind = {"dense": collected.dense, "labelled": bool(collected.classes)}
    frequency = None if collected.dense else np.zeros(collected.n_features, np.int64)
    shards = []
    for shard, rows in enumerate(cut(collected.rows(), sizes)):
        shards.append(write_shard(parent, shard, rows, collected.n_features, **kind, texts=texts))
        if frequency is not None:
            np.add.at(frequency, rows.indices[rows.data != 0], 1)  # a sum of its own would be as long
    return tuple(shards), frequency


@contextmanager
def destination(path: str | Path, overwrite: bool) -> Iterator[tuple[str | Path, Path]]:
    """Yield where to write the corpus, and a folder for intermediate files; publish when the block succeeds."""
    from sdem_dist.storage.contents import publish_contents
    from sdem_dist.storage.publish import publish_directory

    refuse_taken([path], overwrite)
    if is_url(path):
        with (
            tempfile.TemporaryDirectory(prefix="sdem-") as folder,
            publish_contents(str(to_place(path)), CorpusError) as contents,
        ):
            try:
                yield contents, Path(folder)
            except OSError as error:
                if is_url(str(error.filename)):
                    raise CorpusError(f"cannot write {path}: {error.strerror}") from error
                raise
        return
    # The folder lies in the corpus to be, so that a disk with room for the one has room for the other, and goes with it.
    with (
        publish_directory(path, overwrite=overwrite) as new,
        tempfile.TemporaryDirectory(prefix="spill-", dir=new) as folder,
    ):
        yield new, Path(folder)


def refuse_taken(paths: Sequence[str | Path], overwrite: bool) -> None:
    """Raise CorpusError if corpora at `paths` must be kept, or if what is there is no corpus."""
    taken = [str(path) for path in paths if _holds_corpus(path, overwrite)]
    if taken and not overwrite:
        exist, what, them = ("exists", "a corpus", "it") if len(taken) == 1 else ("exist", "corpora", "them")
        raise CorpusError(
            f"{' and '.join(taken)} {exist} already: {what}; choose another name, or replace {them} (overwrite=True, or "
            "--overwrite)"
        )


def _holds_corpus(path: str | Path, overwrite: bool) -> bool:
    """Say whether there is a corpus; raise CorpusError for other things, but for empty folders to be replaced."""
    from sdem_dist.storage import arrays
    from sdem_dist.storage.contents import WRITER, contents_of

    there = to_place(path)
    try:
        if not (there / "zarr.json" if is_url(path) else there).exists():
            return False
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        attributes = arrays.get_attributes(arrays.open_group(path))
        present = MANIFEST in attributes or contents_of(attributes) is not None
        if is_url(path) and not present and WRITER in attributes:
            return False  # of a process that died, or one that writes there now
    except UnreadableError:
        raise
    except CorpusError:
        present = False
    if not present and (is_url(path) or not (overwrite and there.is_dir() and not any(there.iterdir()))):
        raise CorpusError(f"{path} exists and is not a corpus: it is left alone; choose another name, or remove it")
    return present


def plain_json(document: Mapping[str, object] | None, name: str) -> JsonObject | None:
    """Return a document as reading it back will give it; raise CorpusError if it is not JSON."""
    if document is None:
        return None
    try:
        plain: JsonObject = json.loads(json.dumps(dict(document), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CorpusError(f"{name} is not JSON: {error}") from error
    return plain


def _encoded_vocabulary(vocabulary: Sequence[str] | None, n_features: int) -> tuple[np.ndarray, np.ndarray] | None:
    from sdem_dist.storage.strings import Strings, encode_strings

    if vocabulary is None:
        return None
    if len(vocabulary) != n_features:
        raise CorpusError(f"the vocabulary has {len(vocabulary)} words and the documents have {n_features} features")
    if isinstance(vocabulary, Strings):
        return encode_strings(vocabulary)
    try:
        return encode_strings([str(w) if isinstance(w, np.str_) else w for w in vocabulary])
    except (TypeError, UnicodeEncodeError) as error:
        raise CorpusError(f"the vocabulary cannot be stored: {error}") from error
