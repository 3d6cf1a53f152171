"""Predicting a stream of raw texts in parallel, in order, with a few blocks in memory."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.cli.shown import visible
from sdem_dist.errors import ModelError
from sdem_dist.estimators.persistence import load_model
from sdem_dist.text.analysis import n_cores

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator


def predict_lines(
    model: str | Path, texts: Iterable[str], *, probabilities: bool, n_jobs: int | None, block: int
) -> Iterator[str]:
    """Yield lines of predictions, a block of documents at a time, in the order of the texts.

    Parameters
    ----------
    model : path
        A saved model that was trained on text.
    texts : iterable of str
    probabilities : bool
        Add TAB ``class=probability`` for every class or cluster after the label; regressors give numbers alone.
    n_jobs : int, optional
        Processes; None: all cores. Fewer texts than two blocks are done in this process.
    block : int
        Documents of a task.

    Yields
    ------
    str
        `block` lines.

    Raises
    ------
    ModelError
        The model cannot be loaded, or was not trained on text; or a process died.
    """
    _model.cache_clear()  # the file may have been replaced
    _model(str(model))  # an error in it is reported before any process starts
    blocks = _blocks(iter(texts), block)
    first = list(islice(blocks, 2))
    n_jobs = n_jobs or n_cores()
    if len(first) < 2 or n_jobs == 1:
        for texts_ in chain(first, blocks):
            yield _predict_block(str(model), texts_, probabilities)
        return
    pending: deque[Future[str]] = deque()
    try:
        with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for texts_ in chain(first, blocks):
                pending.append(pool.submit(_predict_block, str(model), texts_, probabilities))
                if len(pending) > 2 * n_jobs:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise ModelError(
            f"a process that predicted with {model} died, perhaps for want of memory: try fewer (--jobs 1)"
        ) from error


def _blocks(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    while block := list(islice(texts, size)):
        yield block


@lru_cache(maxsize=1)
def _model(path: str) -> EngineEstimator:
    model = load_model(path)
    if model.spec.predicts is None:
        raise ModelError(
            f"{path} is a {type(model).__name__}, which predicts nothing: its transform(X) describes documents"
        )
    return model


def _predict_block(model: str, texts: list[str], probabilities: bool) -> str:
    estimator = _model(model)
    documents = estimator.vectorize(texts)
    if estimator.spec.predicts == "number":
        found = np.asarray(estimator.predict(documents), np.float64).reshape(len(texts), -1)
        return "".join("\t".join(f"{value:.6g}" for value in row) + "\n" for row in found.tolist())
    rows = estimator.predict_proba(documents)
    classes = estimator.classes_ if estimator.spec.predicts == "class" else range(rows.shape[1])
    names = [visible(str(c).replace("\t", " ").replace("\n", " ")) for c in classes]
    best = rows.argmax(axis=1)
    if not probabilities:
        return "".join(f"{names[k]}\n" for k in best)
    return "".join(
        names[k] + "".join(f"\t{name}={p:.6g}" for name, p in zip(names, row, strict=True)) + "\n"
        for k, row in zip(best, rows.tolist(), strict=True)
    )
