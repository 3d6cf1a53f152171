"""Applying a fitted model to documents in memory or, piece by piece, to a dask array or a corpus."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus.collect import is_frame
from sdem_dist.documents import Documents
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import CorpusError, reraise_interrupt
from sdem_dist.inputs.source import check_layout, described
from sdem_dist.inputs.validation import is_dask, refuse_address, refuse_no_documents

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.inputs.spec import Estimator

BATCH_DOCUMENTS = 16_384  # most documents of a corpus that are read at a time
BATCH_ENTRIES = 1 << 22  # about the most entries that are read at a time, where documents are long
AnyCorpus = Corpus | MemoryCorpus
OfRows = Callable[[Any], np.ndarray]  # takes rows in memory, also as documents, and returns an array with as many rows


def over_blocks(
    estimator: Estimator, X: Any, function: OfRows, n_columns: int | None, client: Client | None = None
) -> Any:
    """Return ``function(X)``, lazily for a dask array or DataFrame, piece by piece for a corpus, see `over_corpus`.

    `n_columns`: columns of the result; None for one value per row.
    """
    check_is_fitted(estimator)
    if not is_dask(X):
        with reraise_interrupt():
            return over_corpus(estimator, X, function, client)
    classes = getattr(estimator, "classes_", None)
    none: Any = np.empty((0, n_columns or 0))
    if n_columns is None:  # clusters have numbers
        numbers = np.empty(0, float if estimator.spec.predicts == "number" else np.int64)
        none = numbers if classes is None else np.asarray(classes[:0])
    if not is_frame(X):
        refuse_no_documents(X)
        shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
        return X.rechunk({1: -1}).map_blocks(function, dtype=none.dtype, meta=none, **shape)
    import pandas as pd

    names = np.arange(n_columns or 0) if classes is None or len(classes) != n_columns else classes
    sparse = estimator._layout == "sparse"

    def of_partition(frame: Any) -> Any:
        values = function(frame.to_numpy() if sparse else frame) if len(frame) else none
        if n_columns is None:
            return pd.Series(values, index=frame.index)
        return pd.DataFrame(values, index=frame.index, columns=names)

    return X.map_partitions(of_partition, meta=of_partition(X._meta))


def over_corpus(estimator: Estimator, X: Any, function: OfRows, client: Client | None = None) -> np.ndarray:
    """Return ``function(X)``; a corpus, or a part of it, is read a bounded number at a time, by a client's workers."""
    check_is_fitted(estimator)
    if client is not None and not isinstance(X, Corpus):
        raise ValueError(
            "a client's workers read a corpus on disk: write one with write_corpus or sdem ingest, or leave client out; the "
            "predictions of a dask array are one themselves"
        )
    if not isinstance(X, AnyCorpus):
        return function(X)
    check_columns(estimator, X)
    parts = [(a, b, None if X.mask is None else np.flatnonzero(X.mask[a:b])) for a, b in ranges_of(X)]
    parts = [part for part in parts if part[2] is None or len(part[2])]
    blocks: Iterable[np.ndarray] = (_apply(function, X, *part) for part in parts)
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        refuse_address(client)
        executor = DaskExecutor(client)
        shared = executor.put(function)  # with the model, once a worker
        blocks = in_order(executor, _apply, ((shared, X, *part) for part in parts))
    output, n_done = np.empty(0), 0
    for block in blocks:
        if not n_done:
            n_rows = X.n_documents if X.mask is None else int(np.count_nonzero(X.mask))
            output = np.empty((n_rows, *block.shape[1:]), block.dtype)
        output[n_done : n_done + len(block)] = block
        n_done += len(block)
    return output


def _apply(function: OfRows, corpus: AnyCorpus, start: int, stop: int, rows: np.ndarray | None) -> np.ndarray:
    """Return the result for some documents of a piece, by their positions in it; None: for all."""
    try:
        documents = corpus.read(start, stop)
        if rows is not None:
            documents = documents.taken(rows) if isinstance(documents, Documents) else documents[rows]
        return function(documents)
    except ValueError as error:
        raise CorpusError(f"documents {start} to {stop} (counted from 0) of {corpus!r}: {error}") from error


def check_columns(estimator: Estimator, corpus: AnyCorpus) -> None:
    """Raise CorpusError if the columns of a corpus are not the model's."""
    check_layout(estimator, corpus)
    estimator._check_columns(described(corpus))  # pieces do not say which words their columns are


def ranges_of(corpus: AnyCorpus, most: int | None = None) -> list[tuple[int, int]]:
    """Return the first document of each piece of a corpus, and the one after its last; of `most` documents or fewer."""
    n, entries = corpus.n_documents, corpus.header.n_nonzeros
    step = max(1, min(BATCH_DOCUMENTS, most or BATCH_DOCUMENTS, BATCH_ENTRIES * n // max(1, entries)))
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def one_blas_thread() -> AbstractContextManager[object]:
    # Libraries are looked for only after new imports: a search takes as long as a small fit.
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


_controller = lru_cache(maxsize=1)(lambda n_modules: ThreadpoolController())
# BLAS has one number of threads a process: of two threads that limit it at once, one would restore it too early.
_limiting = Lock()


class LazyParameters:
    """What predicting takes, made when first asked for, apart: predicting may not change an estimator's attributes."""

    owner = ""  # the model's file, which errors of its text settings name; empty for one that was trained here

    def __init__(self, learner: Any, state: Any, trained: LazyParameters | None = None) -> None:
        self._learner, self._state, self.trained = learner, state, trained  # `trained`: what `with_prior` began with
        self._value, self._cache = cast(Any, None), dict[str, tuple[tuple[object, ...], Any]]()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}}

    def cached(self, name: str, make: Callable[[], Any], *sources: object) -> Any:
        """Return ``make()``, or what it returned before under this name from the same sources."""
        saved = self._cache.get(name)
        if saved is None or any(a is not b for a, b in zip(saved[0], sources, strict=True)):
            saved = self._cache[name] = sources, make()
        return saved[1]

    @property
    def value(self) -> Any:
        """The parameters: the same bits whatever the number of threads that BLAS has."""
        if self._value is None:
            # Inverses of wide covariances have other bits with more threads.
            with _limiting, one_blas_thread():
                if self._value is None:
                    self._value = self._learner.parameters(self._state)
        return self._value

    def with_prior(self, log_prior: np.ndarray) -> LazyParameters:
        other = LazyParameters(None, None, trained := self.trained or self)
        other._value = trained.value._replace(log_prior=log_prior)
        return other
