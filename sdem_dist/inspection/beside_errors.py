"""Columns beside wrong predictions: the deciding words, and the texts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from sdem_dist.errors import ModelError
from sdem_dist.fitting.scoring import AnyCorpus
from sdem_dist.inputs.raw_text import are_texts
from sdem_dist.inputs.validation import is_dask
from sdem_dist.inspection.examined import BLOCK, Examined, telling_words
from sdem_dist.inspection.explaining import explanations
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.explanation import Explanation

Beside = Callable[[np.ndarray, list[object]], dict[str, list[str]]]


def beside_errors(estimator: Any, given: Any, X: Any, report: ClassificationReport) -> Beside | None:
    """Return a function from positions of errors and their labels to the columns; it can be pickled.

    Of documents in memory it keeps the errors alone; a corpus is read when it is asked. Dask collections have none.

    `given`, `X`: as they came, and with texts as counts.
    """
    if isinstance(X, AnyCorpus):
        return partial(_of_corpus, estimator, Examined(X))
    if is_dask(X):
        return None
    kept = np.sort(report.positions[report.errors])
    rows = _safe_indexing(sp.csr_matrix(X) if sp.issparse(X) else X, kept)
    texts = None
    if are_texts(given):
        texts = [str(text) for text in _safe_indexing(given, kept)]
    return partial(_in_memory, estimator, kept, rows, texts)


def _in_memory(
    estimator: Any, kept: np.ndarray, rows: Any, texts: list[str] | None, positions: np.ndarray, labels: list[object]
) -> dict[str, list[str]]:
    places = np.searchsorted(kept, positions)

    def explained(start: int) -> list[Explanation]:
        block = slice(start, start + BLOCK)
        return explanations(estimator, _safe_indexing(rows, places[block]), labels[block])

    beside = {} if texts is None else {"text": [texts[place] for place in places.tolist()]}
    return _told(explained, len(labels)) | beside


def _of_corpus(estimator: Any, examined: Examined, positions: np.ndarray, labels: list[object]) -> dict[str, list[str]]:
    found = examined.gathered(positions)
    places = np.arange(len(positions))

    def explained(start: int) -> list[Explanation] | None:
        block = slice(start, start + BLOCK)
        return found.explained(estimator, places[block], labels[block])

    beside = {"text": found.texts_of(places)} if examined.has_texts else {}
    return _told(explained, len(labels)) | beside


def _told(explained: Callable[[int], list[Explanation] | None], n: int) -> dict[str, list[str]]:
    """Return columns of telling words of all errors; none for a model whose scores are not a sum over words."""
    columns = telling_words([])
    try:
        for start in range(0, n, BLOCK):
            told = explained(start)
            if told is None:
                return {}
            for name, words in telling_words(told).items():
                columns[name] += words
    except ModelError:
        return {}
    return columns
