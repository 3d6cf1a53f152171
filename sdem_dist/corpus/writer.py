"""Writing a corpus: documents from anywhere, shuffled once, cut into shards, published whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.folds import GroupsAt, groups_at
from sdem_dist.corpus.publishing import MEMORY_LIMIT, destination, reopened, write_contents
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.shards import TextsAt, ids_of_rows
from sdem_dist.corpus.tables import corpus_of_table, is_table
from sdem_dist.counted import is_count
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject

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
            scratch / "rows",
            MEMORY_LIMIT,
            classes,
            weighted,
            seed=int(random_state) if shuffle else None,
            dense=dense,
            unlabelled=unlabelled,
        )
        hashes = groups_at(groups, ids, collected.n_documents)
        header = write_contents(
            place,
            collected,
            partial(
                collected.write_in_threads,
                n_jobs=n_jobs,
                texts=None if texts is None else lambda rows: texts(ids_of_rows(rows)),
                groups=None if hashes is None else lambda rows: hashes(ids_of_rows(rows)),
            ),
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
        if before_publishing is not None:
            before_publishing()
    return reopened(path, header)
