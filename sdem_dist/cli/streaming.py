"""Predicting a stream of raw texts in parallel, in order, with a few blocks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.cli.shown import visible
from sdem_dist.errors import ModelError
from sdem_dist.estimators.persistence import load_model
from sdem_dist.text.analysis import in_threads
from sdem_dist.text.texts import Texts
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.estimators.base import EngineEstimator


def predict_lines(
    model: str | Path, texts: Iterable[Texts], *, probabilities: bool, n_jobs: int | None
) -> Iterator[str]:
    """Yield lines of predictions, a block of documents at a time, in the order of the texts.

    Parameters
    ----------
    model : path
        A saved model that was trained on text.
    texts : iterable of Texts
        Blocks of documents.
    probabilities : bool
        Add TAB ``class=probability`` for every class or cluster after the label; regressors give numbers alone.
    n_jobs : int, optional
        Threads; None: one a core.

    Yields
    ------
    str
        As many lines as the block has texts.

    Raises
    ------
    ModelError
        The model cannot be loaded, or was not trained on text.
    """
    estimator = load_model(model)
    if estimator.spec.predicts is None:
        raise ModelError(
            f"{model} is a {type(estimator).__name__}, which predicts nothing: its transform(X) describes documents"
        )
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    transformer = TextTransformer(VectorizerSettings.from_json(estimator.vectorizer_ or {}), estimator.vocabulary_)

    def worker() -> Callable[[Texts], str]:
        count = transformer.counter()
        return lambda block: _predicted(estimator, count(block), probabilities)

    with closing(in_threads(texts, worker, n_jobs)) as blocks:
        yield from blocks


def _predicted(estimator: EngineEstimator, documents: sp.csr_matrix, probabilities: bool) -> str:
    if estimator.spec.predicts == "number":
        found = np.asarray(estimator.predict(documents), np.float64).reshape(documents.shape[0], -1)
        return "".join("\t".join(f"{value:.6g}" for value in row) + "\n" for row in found.tolist())
    rows = estimator.predict_proba(documents)
    classes = estimator.classes_ if estimator.spec.predicts == "class" else range(rows.shape[1])
    names = [visible(str(c).replace("\t", " ").replace("\n", " ")) for c in classes]
    best = rows.argmax(axis=1).tolist()
    if not probabilities:
        return "".join([f"{names[k]}\n" for k in best])
    numbers = "".join(f"\t{name.replace('%', '%%')}=%.6g" for name in names) + "\n"
    return "".join([names[k] + numbers % tuple(row) for k, row in zip(best, rows.tolist(), strict=True)])
