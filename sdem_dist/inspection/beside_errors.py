"""Columns beside wrong predictions: the deciding words, and the texts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from sdem_dist.fitting.scoring import AnyCorpus
from sdem_dist.inputs.raw_text import are_texts
from sdem_dist.inputs.validation import is_dask
from sdem_dist.inspection.examined import BLOCK, Examined, telling_words
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.text.texts import texts_of_strings

Beside = Callable[[np.ndarray, list[object]], dict[str, list[str]]]


def beside_errors(estimator: Any, given: Any, X: Any, report: ClassificationReport) -> Beside | None:
    """Return a function from positions of errors and their labels to the columns; it can be pickled.

    Of documents in memory it keeps the errors alone; a corpus is read when it is asked. Dask collections have none.

    `given`, `X`: as they came, and with texts as counts.
    """
    if is_dask(X):
        return None
    if isinstance(X, AnyCorpus):
        return partial(_beside, estimator, Examined(X), None)
    kept = np.sort(report.positions[report.errors])
    rows = _safe_indexing(sp.csr_matrix(X) if sp.issparse(X) else X, kept)
    texts = [texts_of_strings([str(text) for text in _safe_indexing(given, kept)])] if are_texts(given) else []
    return partial(_beside, estimator, Examined(rows, texts=texts), kept)


def _beside(
    estimator: Any, examined: Examined, kept: np.ndarray | None, positions: np.ndarray, labels: list[object]
) -> dict[str, list[str]]:
    """Return telling words and texts of errors; no words of a model whose scores are not a sum over them.

    `kept`: the positions that `examined` holds, ascending; None: all.
    """
    found = examined.gathered(positions if kept is None else np.searchsorted(kept, positions))
    places, columns = np.arange(len(positions)), telling_words([])
    for start in range(0, len(places), BLOCK):
        block = slice(start, start + BLOCK)
        told = found.explained(estimator, places[block], labels[block])
        if told is None:
            columns = {}
            break
        for name, words in telling_words(told).items():
            columns[name] += words
    return columns | ({"text": found.texts_of(places)} if found.has_texts else {})
