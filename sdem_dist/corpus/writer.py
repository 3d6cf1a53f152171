"""Writing a corpus: documents from anywhere, shuffled once, cut into shards, published whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.publishing import MEMORY_LIMIT, WriteShards, destination, reopened, write_contents
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.tables import encoded_table, facts_of_table, is_table, numbering
from sdem_dist.counted import is_count
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.urls import place as to_place

if TYPE_CHECKING:
    from distributed import Client


def plain_json(document: Mapping[str, object] | None, name: str) -> JsonObject | None:
    try:
        plain: JsonObject | None = json.loads(json.dumps(document and dict(document), allow_nan=False))
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
    before_publishing: Callable[[], object] | None = None,
    texts: Callable[[np.ndarray | list[str]], tuple[np.ndarray, np.ndarray]] | None = None,
    n_jobs: int | None = None,
    client: Client | None = None,
) -> Corpus:
    """Write documents as a corpus.

    Parameters
    ----------
    path : str or Path
        Directory to create, or a URL such as ``s3://bucket/corpus``. The corpus appears there only when complete.
    X : sparse matrix, ndarray, dask array or DataFrame of shape (n_documents, n_features), or iterable of batches
        Counts or weights, never negative (but see `dense`). A batch is a tuple ``(X, y)``, ``(X, y, ids)`` and so on up
        to ``(X, y, ids, targets, sample_weight, groups)``, of any length; the corpus does not depend on how the
        documents are cut into batches.
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
        The group of each document, such as its author: folds keep groups together. Only a hash of a name is stored.
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
        see the folder of `path`. `y`, `ids`, `targets`, `sample_weight` and `groups` may be cut as `X`. The corpus is
        the same.

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
    for name, number in (("shard_documents", shard_documents), ("n_jobs", n_jobs)):
        if number is not None and not is_count(number):
            raise CorpusError(f"{name} is {number!r}, not a whole number of 1 or more")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise CorpusError(f"random_state is {random_state!r}, not an integer")
    if dense and targets is not None:
        raise CorpusError("targets are for sparse corpora; a dense corpus has its target as a column")
    columns, seed = (y, ids, targets, sample_weight, groups), int(random_state) if shuffle else None
    vectorizer, made_by = plain_json(vectorizer, "vectorizer"), plain_json(made_by, "made_by")
    options: dict[str, Any] = {"classes": classes, "weighted": weighted, "dense": dense, "unlabelled": unlabelled}
    if client is not None:
        if texts is not None:
            raise CorpusError("a client's workers write no texts: leave client out")
        from sdem_dist.corpus.by_tasks import categories_of, collect_by_tasks, is_frame, parts_of
        from sdem_dist.engine.dask import DaskExecutor

        executor, parts, categories = DaskExecutor(client), parts_of(X, columns), numbering(vectorizer)
        if is_frame(X):
            categories = categories_of(X, client, executor) if categories is None else categories
            names: list[object] = list(cast(Any, X).columns)
            vocabulary, vectorizer = facts_of_table(names, categories, dense, vocabulary, vectorizer)
    elif is_table(X):
        table = encoded_table(cast(Any, X), numbering(vectorizer))
        X, facts = table.values, (table.names, table.categories, dense, vocabulary, vectorizer)
        vocabulary, vectorizer = facts_of_table(*facts)
    with destination(path, overwrite, shared=client is not None) as (place, scratch):
        write_shards: WriteShards
        if client is not None:
            documents = collect_by_tasks(executor, client, parts, categories, scratch, seed, options)
            write_shards = partial(documents.write_by_tasks, executor, to_place(place))
        else:
            documents = collect(batches(X, columns), scratch / "rows", MEMORY_LIMIT, seed=seed, **options)
            texts_of = None if texts is None else lambda rows: texts(rows.plain_ids)
            write_shards = partial(documents.write_in_threads, n_jobs=n_jobs, texts=texts_of)
        header = write_contents(
            place,
            documents,
            write_shards,
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
        if before_publishing is not None:
            before_publishing()
    return reopened(path, header)
