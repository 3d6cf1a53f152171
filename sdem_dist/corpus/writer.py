"""Writing a corpus: documents are shuffled once, cut into shards, and published in one step."""

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
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus import labels, manifest
from sdem_dist.corpus.manifest import DENSE, DOCUMENT_FREQUENCY, MANIFEST, SHARDS, SPARSE, VOCABULARY, Header
from sdem_dist.corpus.reader import Corpus, open_corpus
from sdem_dist.corpus.shuffle import Shards, SortedDocuments
from sdem_dist.counted import is_count
from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage import arrays, buckets
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import JsonObject, crc32c, encode_strings
from sdem_dist.storage.publish import REPLACE, WRITER, contents_of, publish_contents, publish_directory

if TYPE_CHECKING:
    from distributed import Client

SHARD_DOCUMENTS = 32_768
SMALL_SHARD_DOCUMENTS = 2048
SHARD_NONZEROS = 1 << 20
MEMORY_LIMIT = 256 * 2**20
WriteShards = Callable[[Path, list[int]], Shards]
"""Function of the folder of shards and the sizes of shards; it writes them."""


def plain_json(document: Mapping[str, object] | None, name: str) -> JsonObject | None:
    try:
        plain: JsonObject | None = json.loads(json.dumps(document and dict(document), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CorpusError(f"{name} must be JSON serializable: {error}") from error
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
    groups: ArrayLike | None = None,
    vectorizer: Mapping[str, object] | None = None,
    made_by: JsonObject | None = None,
    weighted: bool | None = None,
    dense: bool = False,
    unlabelled: object = None,
    shuffle: bool = True,
    random_state: int = 0,
    shard_documents: int | None = None,
    overwrite: bool = False,
    n_jobs: int | None = None,
    client: Client | None = None,
) -> Corpus:
    """Write documents as a corpus.

    Parameters
    ----------
    path : str or Path
        Directory to create, or a URL such as ``s3://bucket/corpus``; it appears when the corpus is complete.
    X : sparse matrix, ndarray, dask array or DataFrame of shape (n_documents, n_features), or iterable of batches
        Nonnegative counts or weights (but see `dense`). A batch of documents is a tuple ``(X, y)``, optionally followed
        by ids, targets, sample_weight and groups, in this order. With `dense`, columns of a DataFrame that contain
        text, categories or booleans are encoded as numbers, for `MixedNB`.
    y : array-like of shape (n_documents,), optional
        Labels: strings, numbers or booleans. With several labels, a collection per document, or an indicator matrix
        of shape (n_documents, n_labels), dense or sparse.
    classes : sequence, optional
        The class labels, in order. Default: the sorted labels in `y`.
    vocabulary : sequence of str of length n_features, optional
        The words. Omit it for hashed words.
    ids : sequence of int or str, optional
        An ID for each document. Default: its position in `X`.
    targets : array-like of shape (n_documents,) or (n_documents, n_targets), optional
        Finite numbers to predict, for regression on sparse documents.
    sample_weight : array-like of shape (n_documents,), optional
        Nonnegative weights of documents, for training and evaluation. Weight 0 excludes a document.
    groups : array-like of shape (n_documents,), optional
        The group of each document, such as its author: folds keep groups together. Only a hash of the name is stored.
    vectorizer, made_by : dict, optional
        JSON values to store: the tokenization, and the origin of the corpus. For a DataFrame, pass the
        ``corpus.header.vectorizer`` of another corpus to encode categories in the same way.
    weighted : bool, optional
        Whether entries are weights (float32) instead of counts. Default: True if any entry is not an integer.
    dense : bool, default False
        Store a table of real numbers, with NaN for missing values.
    unlabelled : label, optional
        Value that marks a missing label, such as -1. None and NaN are then missing labels, too.
    shuffle : bool, default True
        Store documents in random order. Use False for test sets.
    random_state : int, default 0
        Seed of the random order.
    shard_documents : int, optional
        Maximum number of documents per shard. Default: 2048 to 32768, or fewer for long documents.
    overwrite : bool, default False
        Replace the corpus at `path`.
    n_jobs : int, optional
        Number of threads. Default: one per core.
    client : distributed.Client, optional
        Dask client whose workers compute and write the partitions of a dask array, DataFrame or bag of batches. The
        workers need access to the folder of `path`. `y` and other columns may be partitioned like `X`.

    Raises
    ------
    CorpusError
        The input is invalid (the message names the document), `path` exists, or writing fails.
    """
    from sdem_dist.corpus.collect import batches, collect, collect_by_tasks, is_frame, parts_of

    if labels.are_label_sets(y):
        y = labels.column_of(labels.sets_of(y))
    elif isinstance(y, list | tuple) and 0 < sum(isinstance(label, str) for label in y) < len(y):
        y = np.asarray(y, object)  # otherwise NumPy would convert numbers and NaN to strings
    for name, number in (("shard_documents", shard_documents), ("n_jobs", n_jobs)):
        if number is not None and not is_count(number):
            raise CorpusError(f"{name} must be an integer of at least 1, got {number!r}")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise CorpusError(f"random_state must be an integer, got {random_state!r}")
    if dense and targets is not None:
        raise CorpusError("targets apply to sparse corpora only; in a dense corpus, the target is the last column")
    columns, seed = (y, ids, targets, sample_weight, groups), int(random_state) if shuffle else None
    vectorizer, made_by = plain_json(vectorizer, "vectorizer"), plain_json(made_by, "made_by")
    options: dict[str, Any] = {"classes": classes, "weighted": weighted, "dense": dense, "unlabelled": unlabelled}
    categories, names = labels.numbering(vectorizer), None
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor
        from sdem_dist.engine.executor import in_order

        executor, parts = DaskExecutor(client), parts_of(X, columns)
        if is_frame(X):
            names = list(cast(Any, X).columns)
            if categories is None:
                frames = ((client.compute(frame),) for frame in cast(Any, X).to_delayed())
                categories = labels.joined_categories(
                    list(in_order(executor, labels.categories_by_column, frames)), names
                )
    elif labels.is_table(X := labels.as_pandas(X)):
        X, names, categories = labels.encoded_table(cast(Any, X), categories)
    if names is not None:
        if vectorizer is not None and vectorizer.get("kind") != labels.TABLE:
            raise CorpusError("vectorizer does not apply to pandas tables: set it to None")
        if categories and not dense:
            of_text = ", ".join(str(names[i]) for i in categories)
            raise CorpusError(f"columns of text, categories or booleans ({of_text}) need dense=True, for MixedNB")
        named = names if all(isinstance(name, str) for name in names) else None
        if vectorizer is not None and vectorizer["columns"] != named:
            raise CorpusError(f"the table has columns {names}, but vectorizer was made for {vectorizer['columns']}")
        vocabulary = cast("list[str] | None", named) if vocabulary is None else vocabulary
        codes = {str(i): of_column.tolist() for i, of_column in (categories or {}).items()}
        vectorizer = {"kind": labels.TABLE, "columns": named, "categories": codes} if dense else None
    try:
        words = None if vocabulary is None else encode_strings(vocabulary)
    except (TypeError, UnicodeEncodeError) as error:
        raise CorpusError(f"the vocabulary cannot be stored: {error}") from error
    with destination(path, overwrite, shared=client is not None) as (root, scratch):
        write_shards: WriteShards
        if client is not None:
            documents = collect_by_tasks(executor, client, parts, categories, scratch, seed, options)
            write_shards = partial(documents.write, executor=executor)
        else:
            documents = collect(batches(X, columns), scratch / "rows", MEMORY_LIMIT, seed=seed, **options)
            write_shards = partial(documents.write, n_jobs=n_jobs)
        header = write_contents(root, documents, write_shards, words, vectorizer, made_by, shard_documents)
    return reopened(path, header)


def reopened(path: str | Path, header: Header) -> Corpus:
    """Return the corpus that was just written to `path`; CorpusError if another corpus has replaced it."""
    try:
        corpus = open_corpus(path)
        if corpus.header.uid == header.uid:
            return corpus
    except CorpusError:  # another process is replacing it
        if is_url(path):
            raise
    raise CorpusError(f"{path}: another process has replaced the corpus that was just written")


def write_contents(
    root: Path,
    documents: SortedDocuments,
    write_shards: WriteShards,
    words: manifest.Encoded | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    shard_documents: int | None,
) -> Header:
    """Write vocabulary, shards and, last, the manifest to a folder; return the manifest."""
    n_features = documents.kind.features
    if not documents.n_documents or not n_features:
        what = "the documents have no features" if documents.n_documents else "there are no documents"
        raise CorpusError(f"{what}; a corpus needs at least one")
    if words is not None:
        if (n_words := len(words[1]) - 1) != n_features:
            raise CorpusError(f"the vocabulary has {n_words} words, but the documents have {n_features} features")
        arrays.write_group(root / VOCABULARY, {}, {"bytes": words[0], "offsets": words[1]})
    arrays.write_group(root / SHARDS, {})
    n, n_nonzeros = documents.n_documents, documents.n_nonzeros
    if shard_documents is None:
        # A small corpus has smaller shards, so that several workers can share it, although reading takes longer.
        by_documents = min(SHARD_DOCUMENTS, max(SMALL_SHARD_DOCUMENTS, math.ceil(n / 16)))
        shard_documents = max(1, min(by_documents, SHARD_NONZEROS * n // max(1, n_nonzeros)))
    n_shards = math.ceil(n / shard_documents)  # of almost equal sizes
    borders = [shard * n // n_shards for shard in range(n_shards + 1)]
    shards, frequency = write_shards(root / SHARDS, [stop - start for start, stop in pairwise(borders)])
    names = ("n_documents", "n_nonzeros", "classes", "class_counts")
    header = Header(
        **{name: getattr(documents, name) for name in names},
        n_features=n_features,
        shards=shards,
        vocabulary_hash=manifest.vocabulary_hash(n_features, words),
        weighted=documents.weighted,
        vectorizer=vectorizer,
        made_by=made_by or {},
        document_frequency_checksum=None if frequency is None else crc32c(frequency),
        layout=DENSE if documents.dense else SPARSE,
        n_targets=documents.kind.targets,
    )
    if frequency is not None:
        arrays.write_array(root / DOCUMENT_FREQUENCY, frequency)
    arrays.write_group(root, {MANIFEST: header.to_json()})
    return header


@contextmanager
def destination(path: str | Path, overwrite: bool, *, shared: bool = False) -> Iterator[tuple[Path, Path]]:
    """Yield a folder for the corpus, and a folder for temporary files; `shared`: workers have access to the latter."""
    refuse_taken([path], overwrite)
    if not is_url(path):
        # The temporary folder is inside the new corpus: on the same disk, and removed with it.
        with (
            publish_directory(path, overwrite=overwrite) as new,
            # after a failure of one worker, another may still write to the folder
            tempfile.TemporaryDirectory(prefix="spill-", dir=new, ignore_cleanup_errors=True) as folder,
        ):
            yield new, Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="sdem-") as folder, publish_contents(str(place(path))) as new:
        # Inside the new corpus, so that the next writer removes it after an interruption.
        scratch = new / "scratch" if shared else Path(folder)
        yield new, scratch
        if shared:
            buckets.remove(str(scratch))


def refuse_taken(paths: Sequence[str | Path], overwrite: bool) -> None:
    """Raise CorpusError if a path has a corpus (unless `overwrite`), or something else that is not an empty folder."""
    existing = []
    for path in paths:
        location, attributes = place(path), dict[str, Any]()
        try:
            if not (location / "zarr.json" if is_url(path) else location).exists():
                continue
            attributes = arrays.read_attributes(location)
        except UnreadableError:
            raise
        except CorpusError:
            pass
        except OSError as error:
            raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from error
        if MANIFEST in attributes or contents_of(attributes) is not None:
            existing.append(str(path))
        elif is_url(path) and WRITER in attributes:
            continue  # an incomplete corpus, of an interrupted or running writer
        elif is_url(path) or not (overwrite and location.is_dir() and not any(location.iterdir())):
            raise CorpusError(f"{path} exists and is not a corpus; choose another name, or remove it")
    if existing and not overwrite:
        exist = "exists" if len(existing) == 1 else "exist"
        raise CorpusError(f"{' and '.join(existing)} already {exist}", hint=REPLACE)
