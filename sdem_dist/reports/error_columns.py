"""The errors of a report as columns: ids, texts, and the words for and against each answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from sdem_dist.corpus import Corpus
from sdem_dist.counted import joined
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import ModelError
from sdem_dist.fitting.scoring import AnyCorpus, documents_in_pieces
from sdem_dist.inputs.raw_text import are_texts
from sdem_dist.inputs.validation import is_dask
from sdem_dist.reports.explaining import explanations
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.report import Columns, ErrorReport

BLOCK = 1000  # errors that are explained at a time
GATHERED = 50_000  # errors that one pass over a corpus brings together


@dataclass(frozen=True)
class DocumentRows:
    rows: Any  # as the user gave them; of a corpus a CSR matrix, or a table
    ids: list[Any]
    texts: list[str] | None  # None where nobody kept them

    def __getitem__(self, part: slice) -> DocumentRows:
        rows = self.rows[part] if isinstance(self.rows, DenseDocuments) else _safe_indexing(self.rows, part)
        return DocumentRows(rows, self.ids[part], None if self.texts is None else self.texts[part])

    def explained(self, estimator: Any, **how: Any) -> list[Explanation] | None:
        """Return explanations of the documents, see `explanations`; None for a model that has none."""
        try:
            return explanations(estimator, self.rows, texts=self.texts, **how) if self.ids else []
        except ModelError:
            return None


def documents_at(corpus: AnyCorpus, positions: np.ndarray) -> DocumentRows:
    """Return documents of a corpus in the order of `positions`; every shard is read once."""
    order = np.argsort(positions, kind="stable")
    wanted, parts, listed = positions[order], [], positions.tolist()
    for start, documents in documents_in_pieces(corpus) if listed else ():
        inside = wanted[(wanted >= start) & (wanted < start + documents.n_documents)] - start
        if len(inside):
            parts.append((documents.values if isinstance(documents, DenseDocuments) else documents.to_csr())[inside])
    back, rows = np.argsort(order, kind="stable"), None
    if parts:
        dense = isinstance(parts[0], np.ndarray)
        rows = DenseDocuments(np.concatenate(parts)[back]) if dense else sp.vstack(parts, format="csr")[back]
    if not isinstance(corpus, Corpus):
        return DocumentRows(rows, listed, None)
    return DocumentRows(rows, corpus.ids_at(listed), corpus.texts_at(listed) if corpus.has_texts else None)


def error_blocks(estimator: Any, documents: AnyCorpus | DocumentRows, report: ErrorReport) -> Iterator[Columns]:
    """Yield the errors of a report as columns of some rows each, the worst first: also their ids, texts and words.

    Words are those for and against the prediction, or of several labels the label that is most wrong.

    `documents`: a corpus that the report is of, or its errors alone, in their order.
    """
    for begin in range(0, max(len(report.errors), 1), GATHERED):
        several = slice(begin, begin + GATHERED)
        if isinstance(documents, DocumentRows):
            gathered = documents[several]
        else:
            gathered = documents_at(documents, report.positions[report.errors[several]])
        for start in range(0, max(len(gathered.ids), 1), BLOCK):
            errors = report.errors[several][start : start + BLOCK]
            block = gathered[start : start + BLOCK] if len(errors) else gathered
            columns: Columns = {"id": block.ids} | report.error_columns(errors)
            how = report.explained(errors)
            if how is not None and (explained := block.explained(estimator, **how)) is not None:
                columns["words_for"] = [" ".join(e.distinctive()) for e in explained]
                columns["words_against"] = [" ".join(e.distinctive(of_the_prediction=False)) for e in explained]
            yield columns | ({} if block.texts is None else {"text": block.texts})


def mistakes(estimator: Any, report: Any, corpus: AnyCorpus) -> Iterator[Columns]:
    """Yield `error_blocks` for a file: several labels are one text."""
    for block in error_blocks(estimator, corpus, report):
        yield {k: [joined(v) if isinstance(v, tuple) else v for v in values] for k, values in block.items()}


def with_errors(report: ErrorReport, estimator: Any, texts: Any, X: Any) -> ErrorReport:
    """Return a report whose errors have words and texts; it can be pickled. Those of Dask collections have none.

    Of documents in memory it keeps the errors alone; a corpus is read when it is asked.

    `texts`, `X`: the documents as they came, and with texts as counts.
    """
    if is_dask(X):
        return report
    documents = X
    if not isinstance(X, AnyCorpus):
        positions = report.positions[report.errors]
        rows = _safe_indexing(sp.csr_matrix(X) if sp.issparse(X) else X, positions)
        own = [str(text) for text in _safe_indexing(texts, positions)] if are_texts(texts) else None
        documents = DocumentRows(rows, positions.tolist(), own)
    report.blocks = partial(error_blocks, estimator, documents)
    return report
