"""Reports of fitted estimators: predictions of documents in order, and the wrongly predicted documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import log_softmax
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import are_label_sets, array_of
from sdem_dist.counted import joined
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import ModelError
from sdem_dist.fitting.running import AnyCorpus, over_corpus
from sdem_dist.inputs.source import source_of
from sdem_dist.inputs.validation import are_texts, text_column
from sdem_dist.reports.classification import ClassificationReport, LabelReport
from sdem_dist.reports.explaining import explanations
from sdem_dist.reports.explanation import Explanation
from sdem_dist.reports.report import ClusterReport, Labels, RegressionReport, Report, TopicReport, agreement_of
from sdem_dist.reports.top_words import word_weights
from sdem_dist.storage.encoding import crc32c

if TYPE_CHECKING:
    from distributed import Client

BLOCK = 1000  # number of errors that are explained together
GATHERED = 50 * BLOCK  # number of errors that are collected in one pass over a corpus


def report_of(estimator: Any, X: object, y: object = None) -> Report:
    """Return a report of the model on documents: metrics and tables, for terminals and notebooks.

    Returns : ClassificationReport, LabelReport, RegressionReport, ClusterReport or TopicReport -- See
        `sdem_dist.reports`: each has ``figures``, ``to_frame()`` and ``to_dict()``.
    Raises ValueError, CorpusError -- The model does not accept the documents, or a label is unknown.
    """
    check_is_fitted(estimator)
    raw: Any = text_column(X) if estimator._layout == "sparse" else X
    X = estimator.vectorize(raw) if estimator._layout == "sparse" and are_texts(raw) else raw
    predicts = estimator.spec.predicts
    if predicts == "cluster":
        words = [" ".join(of_cluster) for of_cluster in word_weights(estimator).values()]
        hard = not hasattr(estimator, "predict_proba")
        probabilities = np.eye(estimator.n_clusters)[estimator.predict(X)] if hard else estimator.predict_proba(X)
        n = len(probabilities)
        return ClusterReport(probabilities, words, _labels_of(X, y, n), _positions(X, n))
    if predicts not in ("class", "number"):
        if estimator.spec.topics is None:
            raise ModelError(f"{type(estimator).__name__} does not make predictions, so there is nothing to report")
        return of_topics(estimator, X, y)
    source: Any = source_of(estimator, X, y, use="score")  # raises an error without targets
    corpus, columns = source.corpus, list[Any]()
    for part in corpus.ranges():
        documents = corpus.read(*part)
        column = documents.labels
        if predicts == "number":  # a dense corpus has its targets as the last column
            column = documents.values[:, -1] if isinstance(documents, DenseDocuments) else documents.targets
        columns.append(column)
    positions = _positions(corpus, len(truth := np.concatenate(columns)))
    truth, n = truth[positions], len(positions)
    if predicts == "number":
        predictions = np.asarray(estimator.predict(X), np.float64)
        return RegressionReport(truth.reshape(n, -1), predictions.reshape(n, -1), positions)
    scores, report = over_corpus(estimator, corpus, estimator._class_scores), cast(Any, None)
    if estimator.several_labels:
        members = source.members[truth].toarray() > 0
        report = LabelReport(estimator.classes_, members, scores, estimator.thresholds_, positions)
    else:
        report = ClassificationReport(estimator.classes_, truth, log_softmax(scores, axis=1), positions)
    if not isinstance(X, AnyCorpus):  # a corpus is read again; other inputs are reduced to their errors
        wrong = report.positions[report.errors]
        corpus = documents_at(corpus, wrong)
        if are_texts(raw):
            corpus = replace(corpus, texts=[str(text) for text in _safe_indexing(list(raw), wrong)])
    report.blocks = partial(error_blocks, estimator, corpus)
    return report


def _positions(X: Any, n_documents: int) -> np.ndarray:
    """Return the positions of the reported documents: those in a subset of a corpus, or all."""
    mask = getattr(X, "mask", None)
    return np.arange(n_documents) if mask is None else np.flatnonzero(mask)


def agreement(estimator: Any, X: object, y: object = None, client: Client | None = None) -> dict[str, float]:
    """Return the agreement of clusters with labels: purity, NMI and ARI; empty if no document has a label."""
    X = estimator.vectorize(X) if estimator._layout == "sparse" and are_texts(X) else X
    clusters = np.asarray(estimator.predict(X, client))
    return agreement_of(_labels_of(X, y, len(clusters))[0], clusters)


def of_topics(estimator: Any, X: object, y: object = None) -> TopicReport:
    n = len(proportions := np.asarray(estimator.transform(X)))
    return TopicReport(estimator.topics(), proportions, _labels_of(X, y, n), _positions(X, n))


def _labels_of(X: object, y: object, n_documents: int) -> Labels:
    """Return labels and classes. In `y`, -1, None and NaN mean no label; label sets and fractions are not classes."""
    if isinstance(X, AnyCorpus):
        if not X.header.classes or X.header.label_sets is not None:
            return None, np.empty(0)
        pieces = (X.read(*part).labels for part in X.ranges())
        codes = np.concatenate([labels for labels in pieces if labels is not None])
        return codes if X.mask is None else codes[X.mask], array_of(X.header.classes)
    if y is None or are_label_sets(y):
        return None, np.empty(0)
    labels = np.asarray(y)
    labels = labels.ravel() if labels.ndim == 2 else labels  # one column
    check_consistent_length(np.empty(n_documents), labels)
    is_labelled = np.array([label is not None and label == label and label != -1 for label in labels.tolist()], bool)
    if not is_labelled.any() or any(isinstance(v, float) and not v.is_integer() for v in labels[is_labelled].tolist()):
        return None, np.empty(0)
    codes = np.full(n_documents, -1)
    classes, codes[is_labelled] = np.unique(labels[is_labelled], return_inverse=True)
    return codes, classes


def was_trained_on(model: Any, documents: AnyCorpus) -> bool:
    """Return whether a model was trained on these documents, judged by document frequencies.

    Only models that weight words store document frequencies; the result is False for other models, and for subsets.
    A model that also learned from unlabelled documents is recognised by the labelled documents, too.
    """
    frequency = model.document_frequency_
    if frequency is None or documents.mask is not None:
        return False
    if isinstance(documents, Corpus):
        same = documents.header.document_frequency_checksum == crc32c(frequency)
    else:
        same = np.array_equal(documents.document_frequency, frequency)
    if same or model.best_entry_.get("unlabelled_weight") is None:
        return bool(same)
    # Weights are from labelled documents; words that occur only in unlabelled ones have a document frequency of 1.
    labelled = documents.labelled()
    if labelled.n_documents != model.weighting_.n_documents:
        return False
    return np.array_equal(np.where(frequency > 0, np.maximum(labelled.document_frequency, 1), 0), frequency)


@dataclass(frozen=True)
class DocumentRows:
    rows: Any  # Documents or DenseDocuments; None if there are none
    ids: list[Any]
    texts: list[str] | None  # None if texts are not stored

    def __getitem__(self, part: slice) -> DocumentRows:
        rows = None if self.rows is None else self.rows[part]
        return DocumentRows(rows, self.ids[part], None if self.texts is None else self.texts[part])

    def explained(self, estimator: Any, report: Report, errors: np.ndarray) -> list[Explanation] | None:
        """Return explanations of these errors of a report; None if the model, or the report, has no explanations."""
        compared: dict[str, Any]
        if isinstance(report, LabelReport):
            compared = {"of_labels": report.wrong_labels(errors)}
        elif isinstance(report, ClassificationReport):
            compared = {"against": report.classes[report.labels[errors]].tolist()}
        else:
            return None
        try:
            return explanations(estimator, self.rows, texts=self.texts, **compared) if self.ids else []
        except ModelError:
            return None


def documents_at(corpus: AnyCorpus, positions: np.ndarray) -> DocumentRows:
    """Return the documents of a corpus at `positions`, in this order."""
    rows, listed = corpus.rows_at(positions), positions.tolist()
    if not isinstance(corpus, Corpus):
        return DocumentRows(rows, listed, None)
    return DocumentRows(rows, corpus.ids_at(listed), corpus.texts_at(listed) if corpus.has_texts else None)


def error_blocks(estimator: Any, documents: AnyCorpus | DocumentRows, report: Any) -> Iterator[dict[str, list[Any]]]:
    """Yield the errors of a report, worst first, in blocks of columns, with ids, texts and words.

    The words are those for and against the prediction; with several labels, the label with the largest error.
    `documents`: the corpus of the report, or only its errors, in the same order.
    """
    for start in range(0, max(len(report.errors), 1), BLOCK):
        errors = report.errors[start : start + BLOCK]
        if isinstance(documents, DocumentRows):
            block = documents[start : start + BLOCK]
        elif (first := start % GATHERED) == 0:
            gathered = documents_at(documents, report.positions[report.errors[start : start + GATHERED]])
            block = gathered[:BLOCK]
        else:
            block = gathered[first : first + BLOCK]
        columns = {"id": block.ids} | report.error_columns(errors)
        if (explained := block.explained(estimator, report, errors)) is not None:
            columns["words_for"] = [" ".join(e.distinctive()) for e in explained]
            columns["words_against"] = [" ".join(e.distinctive(of_the_prediction=False)) for e in explained]
        yield columns | ({} if block.texts is None else {"text": block.texts})


def mistakes(estimator: Any, report: Any, corpus: AnyCorpus) -> Iterator[dict[str, list[Any]]]:
    """Yield `error_blocks` for a file: several labels are joined to one text."""
    for block in error_blocks(estimator, corpus, report):
        yield {k: [joined(v) if isinstance(v, tuple) else v for v in values] for k, values in block.items()}
