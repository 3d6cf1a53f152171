"""Writing a corpus: documents from anywhere, shuffled once, cut into shards, published whole."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.folds import groups_at
from sdem_dist.corpus.manifest import (
    DENSE,
    DOCUMENT_FREQUENCY,
    MANIFEST,
    SHARDS,
    SPARSE,
    VOCABULARY,
    CorpusStats,
    Header,
    ShardInfo,
    vocabulary_hash,
)
from sdem_dist.corpus.reader import Corpus, open_corpus
from sdem_dist.corpus.shards import GroupsAt, TextsAt, ids_of_rows, write_shard
from sdem_dist.corpus.tables import corpus_of_table, is_table
from sdem_dist.counted import is_count
from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage.encoding import JsonObject, Strings, encode_strings
from sdem_dist.storage.publish import publish_directory
from sdem_dist.storage.urls import is_url
from sdem_dist.storage.urls import place as to_place

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.corpus.collect import Collected
    from sdem_dist.corpus.rows import KeyedRows
    from sdem_dist.storage.arrays import Group


SHARD_DOCUMENTS = 32_768
SMALL_SHARD_DOCUMENTS = 2048
SHARD_NONZEROS = 1 << 20
MEMORY_LIMIT = 256 * 2**20


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


WriteShards = Callable[["Group", list[int]], tuple[tuple[ShardInfo, ...], "np.ndarray | None"]]
"""Takes the group of shards and their sizes; returns their entries in the manifest, and the document frequencies."""


def write_contents(
    place: str | Path,
    facts: CorpusStats,
    write_shards: WriteShards,
    *,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    shard_documents: int | None,
) -> Header:
    """Write vocabulary, shards and, last, the manifest to a place; return the manifest."""
    from sdem_dist.storage import arrays
    from sdem_dist.storage.encoding import crc32c

    n_features = facts.n_features
    words = _encoded_vocabulary(vocabulary, n_features)
    group = arrays.create_group(place)
    identity = vocabulary_hash(n_features, words)
    if words is not None:
        parent = arrays.add_group(group, VOCABULARY)
        arrays.write_arrays(parent, {"bytes": words[0], "offsets": words[1]})
        del words  # with many n-grams they are as large as the documents
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
    an array costs zarr about a millisecond however short it is. A small corpus is cut finer, down to 2048 documents,
    so that several workers have something to do; each of its entries takes about twice as long to read.
    """
    if shard_documents is None:
        by_documents = min(SHARD_DOCUMENTS, max(SMALL_SHARD_DOCUMENTS, math.ceil(n_documents / 16)))
        by_nonzeros = SHARD_NONZEROS * n_documents // max(1, n_nonzeros)
        shard_documents = max(1, min(by_documents, by_nonzeros))
    n_shards = math.ceil(n_documents / shard_documents)
    borders = [shard * n_documents // n_shards for shard in range(n_shards + 1)]
    return [stop - start for start, stop in pairwise(borders)]


@contextmanager
def destination(path: str | Path, overwrite: bool) -> Iterator[tuple[str | Path, Path]]:
    """Yield where to write the corpus, and a folder for intermediate files; publish when the block succeeds."""
    from sdem_dist.storage.contents import publish_contents

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
    # The folder lies inside the new corpus: on the same disk, and removed with it.
    with (
        publish_directory(path, overwrite=overwrite) as new,
        # a worker may still write into it after another worker failed
        tempfile.TemporaryDirectory(prefix="spill-", dir=new, ignore_cleanup_errors=True) as folder,
    ):
        yield new, Path(folder)


def refuse_taken(paths: Sequence[str | Path], overwrite: bool) -> None:
    """Raise CorpusError if corpora at `paths` must be kept, or if something there is not a corpus."""
    taken = [str(path) for path in paths if _holds_corpus(path, overwrite)]
    if taken and not overwrite:
        exist, them = ("exists", "it") if len(taken) == 1 else ("exist", "them")
        raise CorpusError(
            f"{' and '.join(taken)} {exist} already", hint=f"choose another name, or replace {them}: {{overwrite=True}}"
        )


def _holds_corpus(path: str | Path, overwrite: bool) -> bool:
    """Say whether there is a corpus; raise CorpusError for anything else, except empty folders that may be replaced."""
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
            return False  # left by a process that died, or in use by one that writes now
    except UnreadableError:
        raise
    except CorpusError:
        present = False
    if not present and (is_url(path) or not (overwrite and there.is_dir() and not any(there.iterdir()))):
        raise CorpusError(f"{path} exists and is not a corpus: it is left alone; choose another name, or remove it")
    return present


def _encoded_vocabulary(vocabulary: Sequence[str] | None, n_features: int) -> tuple[np.ndarray, np.ndarray] | None:
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


def plain_json(document: Mapping[str, object] | None, name: str) -> JsonObject | None:
    """Return a document as reading it back will give it; raise CorpusError if it is not JSON."""
    if document is None:
        return None
    try:
        plain: JsonObject = json.loads(json.dumps(dict(document), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CorpusError(f"{name} is not JSON: {error}") from error
    return plain


def write_corpus(
    path: str | Path,
    X: object,
    y: ArrayLike | None = None,
    *,
    classes: Sequence[object] | None = None,
    vocabulary: Sequence[str] | None = None,
    ids: Sequence[int | str] | np.ndarray | None = None,
    targets: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | GroupsAt | None = None,
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
    n_jobs: int | None = None,
    client: Client | None = None,
) -> Corpus:
    """Write documents as a corpus.

    Parameters
    ----------
    path : str or Path
        Directory to create, or a URL such as ``s3://bucket/corpus``. The corpus appears there only when complete.
    X : sparse matrix, ndarray, dask array or DataFrame of shape (n_documents, n_features), or iterable of batches
        Counts or weights, never negative (but see `dense`). A batch is a pair ``(X, y)``, a triple ``(X, y, ids)``,
        ``(X, y, ids, targets)`` or ``(X, y, ids, targets, sample_weight)``, of any length; the corpus does not depend
        on how the documents are cut into batches.
        Columns of a DataFrame that hold text, categories or booleans are numbered (with `dense`), for `MixedNB`.
    y : array-like of shape (n_documents,), optional
        Labels: strings, integers, floats or booleans. Where documents have several labels a collection of them for
        each, such as a list, or an indicator matrix of shape (n_documents, n_labels), dense or sparse. Leave out for
        documents without labels, and with batches.
    classes : sequence, optional
        The class labels in the order to keep. By default those that occur, sorted.
    vocabulary : sequence of str of length n_features, optional
        The words. Leave out for hashed words.
    ids : sequence of int or str, optional
        An id for each document. By default its position in `X`.
    targets : array-like of shape (n_documents,) or (n_documents, n_targets), optional
        Real numbers to be predicted, finite, for regression from sparse documents; labels may stand beside them.
    sample_weight : array-like of shape (n_documents,), optional
        Weights of documents, never negative, which training and evaluation use. Document frequencies
        leave out documents of weight 0.
    groups : array-like of shape (n_documents,), optional
        The group of each document of a matrix, such as its author: folds keep groups together. Only a hash of a name is
        stored. Or a function from ids to such hashes.
    vectorizer, made_by : dict, optional
        JSON values to keep in the manifest: how text became numbers, and who made the corpus from what. For a DataFrame
        ``corpus.header.vectorizer`` of another one, whose numbering of categories is to be kept: that of the training
        documents for test documents.
    weighted : bool, optional
        The entries are weights, stored as float32, rather than counts. By default they are if one is not whole.
    dense : bool, default False
        Store a table of real numbers, whatever their sign, NaN for missing ones, for models of dense features.
    unlabelled : label, optional
        The label, such as -1, of documents whose class is not known. Once it is set, None and NaN are such labels, too.
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
    n_jobs : int, optional
        Threads that compress and write. Default: one per core.
    client : distributed.Client, optional
        Its workers compute the parts of a dask array, DataFrame or bag of batches, and write them; all
        see the folder of `path`. `y`, `ids`, `targets` and `sample_weight` may be cut as `X`. The corpus is the same.

    Returns
    -------
    Corpus

    Raises
    ------
    CorpusError
        The input is not a corpus (the message names the document), `path` is taken, or the disk refuses.
    """
    from sdem_dist.corpus.collect import batches, collect
    from sdem_dist.corpus.labels import as_column

    y = cast("ArrayLike | None", as_column(y))
    if shard_documents is not None and not is_count(shard_documents):
        raise CorpusError(f"shard_documents is {shard_documents!r}; a shard holds one document or more")
    if n_jobs is not None and not is_count(n_jobs):
        raise CorpusError(f"n_jobs is {n_jobs!r}; one thread or more writes")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise CorpusError(f"random_state is {random_state!r}, not an integer")
    if dense and targets is not None:
        raise CorpusError("targets are for sparse corpora; a dense corpus has its target as a column")
    if client is not None:
        if groups is not None or before_publishing is not None or texts is not None:
            raise CorpusError(
                "a client's workers write no groups and no texts, and call nothing before publishing: leave client out"
            )
        from sdem_dist.corpus.by_tasks import Storing, write_collection

        return write_collection(
            path,
            X,
            (y, ids, targets, sample_weight),
            client,
            Storing(None if classes is None else tuple(classes), weighted, dense, unlabelled),
            vocabulary=vocabulary,
            vectorizer=plain_json(vectorizer, "vectorizer"),
            made_by=plain_json(made_by, "made_by"),
            seed=int(random_state) if shuffle else None,
            shard_documents=shard_documents,
            overwrite=overwrite,
        )
    if is_table(X):
        X, vocabulary, vectorizer = corpus_of_table(X, dense, vocabulary, vectorizer)
    vectorizer, made_by = plain_json(vectorizer, "vectorizer"), plain_json(made_by, "made_by")
    with destination(path, overwrite) as (place, scratch):
        collected = collect(
            batches(X, y, ids, targets, sample_weight),
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
            partial(_write_shards, collected, texts, groups_at(groups, ids, collected.n_documents), n_jobs),
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
        if before_publishing is not None:
            before_publishing()
    return reopened(path, header)


def _write_shards(
    collected: Collected,
    texts: TextsAt | None,
    groups: GroupsAt | None,
    n_jobs: int | None,
    parent: Group,
    sizes: list[int],
) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
    """Write all documents; return the shards' entries in the manifest, and the document frequencies of counts."""
    from sdem_dist.kernels.csr import add_each  # numba comes with it
    from sdem_dist.storage.threads import in_threads

    kind = {"dense": collected.dense, "labelled": bool(collected.classes), "weights": collected.has_weights}
    frequency, counting = None if collected.dense else np.zeros(collected.n_features, np.int64), Lock()

    def write(job: tuple[int, Callable[[], KeyedRows]]) -> ShardInfo:
        shard, rows = job[0], job[1]()
        if frequency is not None:
            with counting:
                add_each(frequency, rows.counted_words(collected.has_weights))
        found = None if groups is None else groups(ids_of_rows(rows))
        return write_shard(parent, shard, rows, collected.n_features, **kind, texts=texts, groups=found)

    with closing(in_threads(enumerate(collected.parts(sizes)), lambda: write, n_jobs)) as shards:
        return tuple(shards), frequency
