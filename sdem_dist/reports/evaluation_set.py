"""Documents that a model is evaluated on, with the id, the text and the deciding words of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.checks import document_frequency
from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.counted import joined
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import ModelError
from sdem_dist.fitting.scoring import AnyCorpus, documents_in_pieces
from sdem_dist.inputs.raw_text import are_texts
from sdem_dist.inputs.validation import is_dask
from sdem_dist.reports.explaining import explanations
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.report import Columns, ErrorReport
from sdem_dist.storage.encoding import crc32c
from sdem_dist.text.texts import Texts, texts_of_strings

BLOCK = 1000  # errors that are explained at a time
GATHERED = 50_000  # errors that one pass over a corpus brings together


@dataclass(frozen=True)
class EvaluationSet:
    """Documents in their order."""

    documents: Any  # corpus, or rows of any kind
    labels: list[object] | None = None  # of a matrix; a corpus has its own
    texts: Sequence[Texts] = ()  # blocks of what the documents of a source were
    unknown_share: float | None = None  # share of the words of a source that the model does not know
    ids: Sequence[object] = ()
    """Of the documents of a source: of its column of ids, or places in it. Without any they are positions."""
    positions: np.ndarray | None = None
    """Which documents these are, ascending, where they are a few of those that are asked for. None: all."""

    @property
    def has_texts(self) -> bool:
        """Whether the texts were kept, by the reader of a source or in the corpus."""
        return bool(self.texts) or (isinstance(self.documents, Corpus) and self.documents.has_texts)

    def texts_of(self, positions: Iterable[int]) -> list[str]:
        """Return what some documents were; every shard of a corpus is read once."""
        wanted = [int(p) for p in positions]
        if not self.texts:
            return self.documents.texts_at(wanted)  # type: ignore[no-any-return]
        starts = [0, *accumulate(map(len, self.texts))]
        blocks = [bisect_right(starts, p) - 1 for p in wanted]
        encoded = (self.texts[block].bytes_of(p - starts[block]) for block, p in zip(blocks, wanted, strict=True))
        return [text.decode("utf-8", "replace") for text in encoded]

    def ids_of(self, positions: Iterable[int]) -> list[object]:
        """Return the ids of some documents: those of the corpus or the source, or positions, from 0."""
        wanted = [int(p) for p in positions]
        if isinstance(self.documents, Corpus):
            return self.documents.ids_at(wanted)
        return [self.ids[p] for p in wanted] if self.ids else list(wanted)

    def rows(self, positions: np.ndarray) -> Any:
        """Return some documents in the order asked: as they were given, of a corpus a CSR matrix or rows of a table."""
        if isinstance(self.documents, DenseDocuments):
            return self.documents[positions]
        if not isinstance(self.documents, AnyCorpus):
            return _safe_indexing(self.documents, positions)
        order = np.argsort(positions, kind="stable")
        wanted, parts = positions[order], []
        for start, documents in documents_in_pieces(self.documents):
            inside = wanted[(wanted >= start) & (wanted < start + documents.n_documents)] - start
            if len(inside):
                rows = documents.values if isinstance(documents, DenseDocuments) else documents.to_csr()
                parts.append(rows[inside])
        back = np.argsort(order, kind="stable")
        if parts and isinstance(parts[0], np.ndarray):
            return DenseDocuments(np.concatenate(parts)[back])
        return sp.vstack(parts, format="csr")[back]

    def gathered(self, positions: np.ndarray) -> EvaluationSet:
        """Return some documents, in the order asked for, in memory; a corpus is read once."""
        if not len(positions):
            return self
        places = positions if self.positions is None else np.searchsorted(self.positions, positions)
        texts = [texts_of_strings(self.texts_of(places))] if self.has_texts else []
        return EvaluationSet(self.rows(places), None, texts, None, self.ids_of(places))

    def explained(self, estimator: Any, positions: np.ndarray, **how: Any) -> list[Explanation] | None:
        """Return explanations of some documents, see `explanations`; None for a model that has none."""
        texts = self.texts_of(positions) if self.has_texts else None
        try:
            return explanations(estimator, self.rows(positions), texts=texts, **how)
        except ModelError:
            return None


def error_blocks(estimator: Any, examined: EvaluationSet, report: ErrorReport) -> Iterator[Columns]:
    """Yield the errors of a report as columns of some rows each, the worst first: also their ids, texts and words.

    Words are those for and against the prediction, or of several labels the label that is most wrong.

    `examined`: the documents of the report.
    """
    errors = report.errors
    for begin in range(0, max(len(errors), 1), GATHERED):
        together = errors[begin : begin + GATHERED]
        documents = examined.gathered(report.positions[together])
        for start in range(0, max(len(together), 1), BLOCK):
            rows = together[start : start + BLOCK]
            places = np.arange(start, start + len(rows))
            columns: Columns = {"id": documents.ids_of(places)} | report.error_columns(rows)
            if (how := report.explained(rows)) is not None:
                explained = documents.explained(estimator, places, **how) if len(rows) else []
                if explained is not None:
                    columns["words_for"] = [" ".join(e.distinctive()) for e in explained]
                    columns["words_against"] = [" ".join(e.distinctive(of_the_prediction=False)) for e in explained]
            yield columns | ({"text": documents.texts_of(places)} if documents.has_texts else {})


def mistakes(estimator: Any, report: Any, examined: EvaluationSet) -> Iterator[Columns]:
    """Yield `error_blocks` for a file: several labels are one text."""
    for block in error_blocks(estimator, examined, report):
        yield {k: [joined(v) if isinstance(v, tuple) else v for v in values] for k, values in block.items()}


def with_errors(report: ErrorReport, estimator: Any, given: Any, X: Any) -> ErrorReport:
    """Return a report whose errors have words and texts; it can be pickled. Those of Dask collections have none.

    Of documents in memory it keeps the errors alone; a corpus is read when it is asked.

    `given`, `X`: as they came, and with texts as counts.
    """
    if is_dask(X):
        return report
    examined = EvaluationSet(X)
    if not isinstance(X, AnyCorpus):
        kept = np.sort(report.positions[report.errors])
        rows = _safe_indexing(sp.csr_matrix(X) if sp.issparse(X) else X, kept)
        texts = [texts_of_strings([str(text) for text in _safe_indexing(given, kept)])] if are_texts(given) else []
        examined = EvaluationSet(rows, texts=texts, ids=kept.tolist(), positions=kept)
    report.blocks = partial(error_blocks, estimator, examined)
    return report


def was_trained_on(model: Any, documents: Any) -> bool:
    """Return whether a model was trained on documents, by how many of them have each word.

    Models that weigh words keep these numbers; for others the answer is False.

    `model`: fitted estimator.
    `documents`: Corpus, MemoryCorpus or CSR matrix: all that it was trained on, or, if it learned from documents
    without a label, those with one. Of anything else the answer is False: parts of a corpus share its frequencies.
    """
    frequency, in_memory = model.document_frequency_, isinstance(documents, sp.csr_matrix)
    if frequency is None or not (
        in_memory or (isinstance(documents, Corpus | MemoryCorpus) and documents.mask is None)
    ):
        return False
    if isinstance(documents, Corpus):
        same = documents.header.document_frequency_checksum == crc32c(frequency)
    else:
        same = np.array_equal(_frequency(documents), frequency)
    if same or model.best_entry_.get("unlabelled_weight") is None:
        return bool(same)
    # Words were weighed by the labelled documents; those that only others have count as words of one of them.
    labelled = documents if in_memory else documents.labelled()
    if (labelled.shape[0] if in_memory else labelled.n_documents) != model.weighting_.n_documents:
        return False
    return np.array_equal(np.where(frequency > 0, np.maximum(_frequency(labelled), 1), 0), frequency)


def _frequency(documents: Any) -> np.ndarray:
    """Return in how many documents each column occurs."""
    if isinstance(documents, sp.csr_matrix):
        return document_frequency(documents.indices, documents.data, documents.shape[1])
    return np.asarray(documents.document_frequency)
