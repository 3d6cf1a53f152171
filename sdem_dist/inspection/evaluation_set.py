"""Documents that a model is evaluated on, with the id, the text and the deciding words of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, cast

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
from sdem_dist.inputs.spec import Estimator
from sdem_dist.inputs.validation import is_dask
from sdem_dist.inspection.explaining import explanations
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.labels import LabelReport
from sdem_dist.storage.encoding import crc32c
from sdem_dist.text.texts import Texts, texts_of_strings

BLOCK = 1000  # errors that are explained at a time
GATHERED = 50_000  # errors that one pass over a corpus brings together


@dataclass(frozen=True)
class EvaluationSet:
    """Documents in their order."""

    documents: Any  # corpus, or CSR matrix
    labels: list[object] | None = None  # of a matrix; a corpus has its own
    texts: Sequence[Texts] = ()  # blocks of what the documents of a source were
    unknown_share: float | None = None  # share of the words of a source that the model does not know
    ids: Sequence[object] = ()
    """Of the documents of a source: of its column of ids, or places in it. Without any they are positions."""

    @property
    def has_texts(self) -> bool:
        """Whether the texts were kept, by the reader of a source or in the corpus."""
        return bool(self.texts) or (isinstance(self.documents, Corpus) and self.documents.has_texts)

    def texts_of(self, positions: Iterable[int]) -> list[str]:
        """Return what some documents were; every shard of a corpus is read once."""
        wanted = [int(p) for p in positions]
        if self.texts:
            starts = [0, *accumulate(map(len, self.texts))]
            blocks = [bisect_right(starts, p) - 1 for p in wanted]
            of = (self.texts[block].bytes_of(p - starts[block]) for block, p in zip(blocks, wanted, strict=True))
            return [text.decode("utf-8", "replace") for text in of]
        return self.documents.texts_at(wanted)

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
                parts.append(
                    documents.values[inside] if isinstance(documents, DenseDocuments) else documents.to_csr()[inside]
                )
        back = np.argsort(order, kind="stable")
        if parts and isinstance(parts[0], np.ndarray):
            return DenseDocuments(np.concatenate(parts)[back])
        return sp.vstack(parts, format="csr")[back]

    def gathered(self, positions: np.ndarray) -> EvaluationSet:
        """Return some documents, in the order asked for, in memory; a corpus is read once."""
        if not len(positions):
            return self
        texts = [texts_of_strings(self.texts_of(positions))] if self.has_texts else []
        return EvaluationSet(self.rows(positions), None, texts, None, self.ids_of(positions))

    def explained(self, estimator: Any, positions: np.ndarray, against: list[object]) -> list[Explanation] | None:
        """Return explanations of some documents against a class for each; None for a model that has none."""
        return self._words_told(estimator, positions, against, None)

    def of_labels(self, estimator: Any, positions: np.ndarray, labels: np.ndarray) -> list[Explanation] | None:
        """Return why some documents have a label each, given by position, or not; None for a model without words."""
        return self._words_told(estimator, positions, None, labels)

    def _words_told(
        self, estimator: Any, positions: np.ndarray, against: list[object] | None, labels: np.ndarray | None
    ) -> list[Explanation] | None:
        texts = self.texts_of(positions) if self.has_texts else None
        try:
            return explanations(estimator, self.rows(positions), against, texts, labels)
        except ModelError:
            return None


def mistakes(estimator: Estimator, report: Any, examined: EvaluationSet) -> Iterator[dict[str, list[Any]]]:
    """Yield the documents that a report calls errors, as columns of some rows each, the worst first.

    `report`: ClassificationReport, LabelReport or RegressionReport.
    `examined`: the documents of the report.
    """
    errors = report.errors
    for begin in range(0, max(len(errors), 1), GATHERED):
        together = errors[begin : begin + GATHERED]
        found = examined.gathered(report.positions[together])
        for start in range(0, max(len(together), 1), BLOCK):
            rows = together[start : start + BLOCK]
            places = np.arange(start, start + len(rows))
            if isinstance(report, ClassificationReport):
                yield _of_classes(estimator, report, found, rows, places)
            elif isinstance(report, LabelReport):
                yield _of_labels(estimator, report, found, rows, places)
            else:
                yield _of_numbers(report, found, rows, places)


def _ids_and_texts(examined: EvaluationSet, positions: np.ndarray) -> dict[str, list[Any]]:
    """Return ids and texts."""
    columns: dict[str, list[Any]] = {"id": examined.ids_of(positions)}
    if examined.has_texts:
        columns["text"] = examined.texts_of(positions)
    return columns


def _of_classes(
    estimator: Estimator,
    report: ClassificationReport,
    examined: EvaluationSet,
    rows: np.ndarray,
    positions: np.ndarray,
) -> dict[str, list[Any]]:
    classes = report.classes
    labels = classes[report.labels[rows]].tolist()
    columns = _ids_and_texts(examined, positions) | {
        "label": labels,
        "prediction": classes[report.predictions[rows]].tolist(),
        "probability": report.confidence[rows].tolist(),
        "probability_of_label": report.probabilities[rows, report.labels[rows]].tolist(),
    }
    return columns | words_of_errors(examined.explained(estimator, positions, labels) if len(rows) else [])


def _of_labels(
    estimator: Estimator, report: LabelReport, examined: EvaluationSet, rows: np.ndarray, positions: np.ndarray
) -> dict[str, list[Any]]:
    """Return the wrong and missing labels of documents, and the words for and against the label that is most wrong."""
    about = report.errors_columns(rows)
    for name in ("labels", "predictions"):
        about[name] = [joined(labels) for labels in cast("list[tuple[object, ...]]", about[name])]
    wrong = report.wrong_labels(rows)
    explanations = examined.of_labels(estimator, positions, wrong) if len(rows) else []
    words = dict(zip(("words_for_it", "words_against_it"), words_of_errors(explanations).values(), strict=False))
    return _ids_and_texts(examined, positions) | about | words


def words_of_errors(told: Sequence[Explanation] | None) -> dict[str, list[str]]:
    """Return columns of the words that speak for the predictions and for the labels; none without explanations."""
    if told is None:
        return {}
    return {
        "words_for_prediction": [" ".join(e.distinctive()) for e in told],
        "words_for_label": [" ".join(e.distinctive(of_the_prediction=False)) for e in told],
    }


def _of_numbers(report: Any, examined: EvaluationSet, rows: np.ndarray, positions: np.ndarray) -> dict[str, list[Any]]:
    columns, n = _ids_and_texts(examined, positions), report.targets.shape[1]
    for k in range(n):
        number = f"_{k}" if n > 1 else ""
        columns[f"target{number}"] = report.targets[rows, k].tolist()
        columns[f"prediction{number}"] = report.predictions[rows, k].tolist()
        columns[f"error{number}"] = (report.predictions - report.targets)[rows, k].tolist()
    return columns


ErrorColumns = Callable[[np.ndarray, list[object]], dict[str, list[str]]]


def error_columns(estimator: Any, given: Any, X: Any, report: ClassificationReport) -> ErrorColumns | None:
    """Return a function from positions of errors and their labels to the columns; it can be pickled.

    Of documents in memory it keeps the errors alone; a corpus is read when it is asked. Dask collections have none.

    `given`, `X`: as they came, and with texts as counts.
    """
    if is_dask(X):
        return None
    if isinstance(X, AnyCorpus):
        return partial(_columns_of_errors, estimator, EvaluationSet(X), None)
    sorted_errors = np.sort(report.positions[report.errors])
    rows = _safe_indexing(sp.csr_matrix(X) if sp.issparse(X) else X, sorted_errors)
    texts = [texts_of_strings([str(text) for text in _safe_indexing(given, sorted_errors)])] if are_texts(given) else []
    return partial(_columns_of_errors, estimator, EvaluationSet(rows, texts=texts), sorted_errors)


def _columns_of_errors(
    estimator: Any, examined: EvaluationSet, kept: np.ndarray | None, positions: np.ndarray, labels: list[object]
) -> dict[str, list[str]]:
    """Return distinctive words and texts of errors; no words of a model whose scores are not a sum over them.

    `kept`: the positions that `examined` holds, ascending; None: all.
    """
    gathered = examined.gathered(positions if kept is None else np.searchsorted(kept, positions))
    places, columns = np.arange(len(positions)), words_of_errors([])
    for start in range(0, len(places), BLOCK):
        block = slice(start, start + BLOCK)
        explanations = gathered.explained(estimator, places[block], labels[block])
        if explanations is None:
            columns = {}
            break
        for name, words in words_of_errors(explanations).items():
            columns[name] += words
    return columns | ({"text": gathered.texts_of(places)} if gathered.has_texts else {})


def taught(model: Any, documents: Any) -> bool:
    """Return whether a model was trained on documents, by how many of them have each word.

    This can be told for models that weigh words by these numbers; for others the answer is False.

    `model`: fitted estimator.
    `documents`: Corpus, MemoryCorpus or CSR matrix: all that it was trained on, or, if it learned from documents
    without a label, those with one. Of anything else the answer is False: parts of a corpus share its frequencies.
    """
    frequency = model.document_frequency_
    is_unmasked = isinstance(documents, Corpus | MemoryCorpus) and documents.mask is None
    if frequency is None or not (is_unmasked or isinstance(documents, sp.csr_matrix)):
        return False
    if isinstance(documents, Corpus):
        if documents.header.document_frequency_checksum == crc32c(frequency):
            return True
    elif np.array_equal(_frequency(documents), frequency):
        return True
    if model.kept_.get("unlabelled_weight") is None:
        return False
    # Words were weighed by the labelled documents; those that only others have count as words of one of them.
    labelled = documents if isinstance(documents, sp.csr_matrix) else documents.labelled()
    n_documents = labelled.shape[0] if isinstance(labelled, sp.csr_matrix) else labelled.n_documents
    if n_documents != model.weighting_.n_documents:
        return False
    return np.array_equal(np.where(frequency > 0, np.maximum(_frequency(labelled), 1), 0), frequency)


def _frequency(documents: Any) -> np.ndarray:
    """Return in how many documents each column occurs."""
    if isinstance(documents, sp.csr_matrix):
        return document_frequency(documents.indices, documents.data, documents.shape[1])
    return np.asarray(documents.document_frequency)
