"""Runs of fits and predictions: the executor, validation, callbacks, and prediction range by range."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from sdem_dist.corpus import Corpus, MemoryCorpus, write_corpus
from sdem_dist.corpus.collect import is_frame
from sdem_dist.documents import prepared_cache
from sdem_dist.engine.events import Callback
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.engine.trainer import Trainer
from sdem_dist.errors import ClusterError, CorpusError, reraise_interrupt
from sdem_dist.fitting.defaults import SMALL_ENTRIES
from sdem_dist.inputs.source import check_layout, described, source_of
from sdem_dist.inputs.spec import Estimator, Source
from sdem_dist.inputs.validation import is_dask, refuse_no_documents, seed_of
from sdem_dist.storage import buckets

if TYPE_CHECKING:
    import distributed

Client: TypeAlias = "distributed.Client"
AnyCorpus = Corpus | MemoryCorpus
OfRows = Callable[[Any], np.ndarray]  # takes rows or documents in memory, and returns an array with a row for each


def notify(estimator: Estimator, callbacks: Sequence[Callback], error: object, *_: object) -> None:
    """Call the methods `fitted` of callbacks at the end of a fit, or `failed` if it fails or is interrupted."""
    name, arguments = ("fitted", (estimator,)) if error is None else ("failed", ())
    for callback in callbacks:
        getattr(callback, name, lambda *_: None)(*arguments)


@contextmanager
def executor_for(client: Client | None, n_jobs: int | None, source: Source) -> Iterator[Executor]:
    """Yield the executor: the client's cluster, or threads of this process."""
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        yield DaskExecutor(client)
        return
    n_jobs = n_jobs if source.corpus.header.n_nonzeros >= SMALL_ENTRIES else 1
    with one_blas_thread(), Executor(n_jobs) as executor, forgetting(source):
        yield executor


@contextmanager
def forgetting(source: Source) -> Iterator[Source]:
    """Drop the prepared documents of a source in memory from the cache at the end: no later run can use them."""
    try:
        yield source
    finally:
        if not isinstance(source.corpus, Corpus) and source.corpus.packed_mask is None:  # a part: its whole is in use
            # The cache keys of transformed documents continue this name after a space.
            name = f"{source.corpus.cache_key} "
            prepared_cache.discard(lambda key: f"{key[0]} ".startswith(name))


def validation_source(estimator: Estimator, validation: object, client: Client | None) -> Source:
    """Return the source of validation documents, a corpus or (X, y), with the checks of `score`."""
    if not isinstance(validation, tuple | Corpus):
        raise ValueError(f"validation must be a corpus or a tuple (X, y), got {validation!r}")
    X, y = validation if isinstance(validation, tuple) else (validation, None)
    return source_of(estimator, X, y, client=client, use="score")


def evaluate_source(estimator: Estimator, source: Source, client: Client | None) -> dict[str, float]:
    with executor_for(client, estimator.n_jobs, source) as executor, Trainer(executor, source.documents) as trainer:
        return trainer.score("score", estimator.scorer(estimator.learner_), estimator.state_)


@contextmanager
def corpus_in_scratch(estimator: Estimator, X: Any, y: Any, sample_weight: Any, client: Client) -> Iterator[Corpus]:
    """Yield a Dask collection as a corpus in a scratch folder that all workers must see; remove it at the end."""
    from sdem_dist.engine.dask import DaskExecutor

    target, dense = estimator.spec.target, estimator._layout == "dense"
    if dense and target == "numbers":
        raise ValueError("a Dask table with a target must be converted to a corpus: use sdem_dist.write_corpus")
    scratch = (executor := DaskExecutor(client)).scratch
    with ExitStack() as stack:
        if scratch is not None and buckets.is_url(scratch):
            folder = f"{scratch.rstrip('/')}/sdem-{secrets.token_hex(8)}"
            stack.callback(buckets.remove, folder)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdem-", dir=scratch))
            if not all(executor.run_on_all_workers(os.path.isdir, folder)):
                raise ClusterError(
                    f"not all workers can access {folder} on this machine: set sdem-dist.scratch in Dask's configuration "
                    "(DASK_SDEM_DIST__SCRATCH) to a folder that they share, or to a URL such as s3://bucket/scratch"
                )
        columns = {"labels": {"y": y, "unlabelled": estimator.unlabelled}, "numbers": {"targets": y}}.get(target, {})
        options = {"sample_weight": sample_weight, "random_state": seed_of(estimator.random_state), "client": client}
        yield write_corpus(f"{folder}/corpus", X, **columns, **options, dense=dense)


def over_blocks(estimator: Estimator, X: Any, function: OfRows, n_columns: int | None, client: Client | None) -> Any:
    """Return ``function(X)``, lazy for Dask collections; the result has `n_columns` columns, or is 1-D if None."""
    check_is_fitted(estimator)
    if not is_dask(X):
        with reraise_interrupt():
            return over_corpus(estimator, X, function, client)
    classes = getattr(estimator, "classes_", None)
    empty: Any = np.empty((0, n_columns or 0))
    if n_columns is None:  # without classes: targets or numbers of clusters
        numbers = np.empty(0, float if estimator.spec.predicts == "number" else np.int64)
        empty = numbers if classes is None else np.asarray(classes[:0])
    if not is_frame(X):
        refuse_no_documents(X)
        shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
        return X.rechunk({1: -1}).map_blocks(function, dtype=empty.dtype, meta=empty, **shape)
    import pandas as pd

    names = np.arange(n_columns or 0) if classes is None or len(classes) != n_columns else classes
    sparse = estimator._layout == "sparse"

    def of_partition(frame: Any) -> Any:
        values = function(frame.to_numpy() if sparse else frame) if len(frame) else empty
        if n_columns is None:
            return pd.Series(values, index=frame.index)
        return pd.DataFrame(values, index=frame.index, columns=names)

    return X.map_partitions(of_partition, meta=of_partition(X._meta))


def over_corpus(estimator: Estimator, X: Any, function: OfRows, client: Client | None = None) -> np.ndarray:
    """Return ``function(X)``; a corpus is processed in ranges of bounded size, by the workers of a client if passed."""
    check_is_fitted(estimator)
    if client is not None and not isinstance(X, Corpus):
        raise ValueError("client needs a corpus that the workers can read: write one with write_corpus, or omit client")
    if not isinstance(X, AnyCorpus):
        return function(X)
    check_columns(estimator, X)
    mask = X.mask
    parts = [(a, b, None if mask is None else np.flatnonzero(mask[a:b])) for a, b in X.ranges()]
    parts = [part for part in parts if part[2] is None or len(part[2])]
    blocks: Iterable[np.ndarray] = (_apply(function, X, *part) for part in parts)
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
        shared = executor.put(function)  # contains the model; sent once per worker
        blocks = in_order(executor, _apply, ((shared, X, *part) for part in parts))
    output, n_done = np.empty(0), 0
    for block in blocks:
        if not n_done:
            n_rows = X.n_documents if mask is None else int(np.count_nonzero(mask))
            output = np.empty((n_rows, *block.shape[1:]), block.dtype)
        output[n_done : n_done + len(block)] = block
        n_done += len(block)
    return output


def _apply(function: OfRows, corpus: AnyCorpus, start: int, stop: int, rows: np.ndarray | None) -> np.ndarray:
    """Return the result for the documents at positions `rows` of a range; None: all."""
    try:
        documents = corpus.read(start, stop)
        return function(documents if rows is None else documents[rows])
    except ValueError as error:
        raise CorpusError(f"documents {start} to {stop} (counting from 0) of {corpus!r}: {error}") from error


def check_columns(estimator: Estimator, corpus: AnyCorpus) -> None:
    """Raise CorpusError if the columns of a corpus are not the model's."""
    check_layout(estimator, corpus)
    estimator._check_columns(described(corpus))  # documents carry no names of columns


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread: the bits of inverses of wide covariances depend on the number of threads."""
    # Libraries are searched only after new imports: a search takes as long as a small fit.
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


_controller = lru_cache(maxsize=1)(lambda n_modules: ThreadpoolController())
# The limit of BLAS holds for the whole process: if two threads set it at once, one would restore it too early.
_limiting = Lock()


class LazyParameters:
    """The parameters for prediction, computed at first use, and kept apart: predicting must not change attributes."""

    owner = ""  # the model's file, which errors of its text settings name; empty for a model trained in this process

    def __init__(self, learner: Any, state: Any) -> None:
        self._learner, self._state = learner, state
        self._value, self._cache = cast(Any, None), dict[str, tuple[tuple[object, ...], Any]]()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": {}}

    def cached(self, name: str, make: Callable[[], Any], *sources: object) -> Any:
        """Return ``make()``, or its earlier result if the name and the objects `sources` are the same."""
        saved = self._cache.get(name)
        if saved is None or any(a is not b for a, b in zip(saved[0], sources, strict=True)):
            saved = self._cache[name] = sources, make()
        return saved[1]

    @property
    def value(self) -> Any:
        """The parameters; their bits do not depend on the number of BLAS threads."""
        if self._value is None:
            with _limiting, one_blas_thread():
                if self._value is None:
                    self._value = self._learner.parameters(self._state)
        return self._value
