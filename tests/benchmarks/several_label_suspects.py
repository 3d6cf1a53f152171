"""Whether wrong labels are found among several a document, beside cleanlab with LogisticRegression's probabilities.

    SDEM_CORPORA=FOLDER python tests/benchmarks/several_label_suspects.py [blitzer] [20ng]

Of 20 % of the documents, one label of all is turned round: there where it is missing, missing where it is there. Corpora are
those of `several_labels.py`; of blitzer the training part of the first fold. Average precision of the entries (a document
and a label) that were turned round, of the documents that have one, and CPU seconds of one process, in one run. Without
cleanlab, its rows are left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from corpora import Split
from several_labels import CORPORA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from sdem_dist import label_suspects

SHARE = 0.2
"""Of the documents have a wrong label."""
Row = tuple[str, float, float, float]
"""Who finds them, average precision of entries and of documents, CPU seconds."""


def turned_round(y: np.ndarray, share: float = SHARE) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of which one is wrong in some documents, and which entries are wrong, both (n_documents, n_labels)."""
    rng = np.random.default_rng(0)
    wrong = np.zeros(y.shape, bool)
    rows = np.flatnonzero(rng.random(len(y)) < share)
    wrong[rows, rng.integers(0, y.shape[1], len(rows))] = True
    return np.where(wrong, 1 - y, y), wrong


def found(split: Split, cv: int = 5) -> Iterator[Row]:
    """Yield how well each finds the wrong labels of a split's training documents."""
    X, (given, wrong) = sp.csr_matrix(split.X), turned_round(np.asarray(split.y))
    label_suspects(X[:300], given[:300], cv=2, n_jobs=1)  # compiles
    started = time.process_time()
    ours = label_suspects(X, given, n=None, cv=cv, n_jobs=1)
    seconds = time.process_time() - started
    doubt = np.zeros(given.shape)
    doubt[ours.documents, ours.labels] = ours.doubt
    yield "label_suspects", *_precisions(wrong, doubt, doubt.max(axis=1)), seconds
    started = time.process_time()
    peer = make_pipeline(TfidfTransformer(sublinear_tf=True), OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    folds = KFold(cv, shuffle=True, random_state=0)
    proba = cross_val_predict(peer, X, given, cv=folds, method="predict_proba")
    seconds = time.process_time() - started
    doubt = np.where(given > 0, 1.0 - proba, proba)
    yield "LogisticRegression, the same score", *_precisions(wrong, doubt, doubt.max(axis=1)), seconds
    try:
        from cleanlab.multilabel_classification import get_label_quality_scores
        from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class
    except ImportError:
        return
    labels = [np.flatnonzero(row).tolist() for row in given]
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        started = time.process_time()
        of_entries = get_label_quality_scores_per_class(labels, proba, method=method)
        of_documents = get_label_quality_scores(labels, proba, method=method)
        more = time.process_time() - started
        yield f"cleanlab {method}", *_precisions(wrong, -of_entries, -of_documents), seconds + more


def _precisions(wrong: np.ndarray, of_entries: np.ndarray, of_documents: np.ndarray) -> tuple[float, float]:
    return (
        float(average_precision_score(wrong.ravel(), of_entries.ravel())),
        float(average_precision_score(wrong.any(axis=1), of_documents)),
    )


def main(names: list[str]) -> None:
    for name in names or list(CORPORA):
        split = CORPORA[name]()[0]
        print(f"{name}: {split.y.shape[1]} labels, {split.X.shape[0]:,} documents", flush=True)
        for who, entries, documents, seconds in found(split):
            print(f"  {who:<40} entries {entries:.4f}  documents {documents:.4f}  {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
