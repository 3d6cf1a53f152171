"""Documents with several labels: `MultiLabelNB` and topics of documents beside one LinearSVC a label on tf-idf.

Run: ``SDEM_CORPORA=... python tests/benchmarks/several_labels.py [models|classes|suspects] [NAME...]``, with one thread: set
OMP_NUM_THREADS=1.  Labels of blitzer's reviews are their domain and their sentiment (five folds); those of 20 Newsgroups,
stemmed, the group and the part of the hierarchy that it is in (standard split).  CPU seconds of the fit, weighting included.

classes: classes of one label a document told apart all at once, one-vs-all, all-vs-all;
suspects: whether wrong labels are found, beside cleanlab with LogisticRegression's probabilities. Of 20 % of the training
documents (of blitzer's first fold), one label of all is turned round. Average precision of the entries (a document and a
label) that were turned round, of the documents that have one, and CPU seconds of one process. Without cleanlab, its rows are
left out.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import corpora
import harness
import numpy as np
import scipy.sparse as sp
from choose import CLEANLAB
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from sdem_dist import MultiLabelNB, MultinomialNB, SupervisedLDAClassifier, label_suspects

MEASURES = ("micro F1", "macro F1", "all right", "precision at 1", "precision at 2", "seconds")
MODELS: dict[str, Callable[[], Any]] = {
    "MultiLabelNB": lambda: MultiLabelNB(n_jobs=1),
    "MultiLabelNB, no thresholds": lambda: MultiLabelNB(n_jobs=1, calibrate=False),
    "SupervisedLDAClassifier, 20 topics": lambda: SupervisedLDAClassifier(n_jobs=1, evaluate_every=0),
    "LinearSVC, one against the rest": lambda: harness.on_tfidf(OneVsRestClassifier(LinearSVC())),
}


def newsgroups() -> list[corpora.Split]:
    """Return 20 Newsgroups with two labels per document: its group, and the part of the hierarchy."""
    split = corpora.load("20ng")
    labels = [[[str(group), str(group).split(".")[0]] for group in part] for part in (split.y, split.y_test)]
    encoder = MultiLabelBinarizer().fit(labels[0])
    return [split._replace(y=encoder.transform(labels[0]), y_test=encoder.transform(labels[1]))]


def reviews() -> list[corpora.Split]:
    """Return five folds of blitzer's reviews, with the domain and the sentiment as labels."""
    rows = list(corpora.rows_of("blitzer/blitzer-mds-labeled.tsv.xz"))
    texts, y = [f"{row[3]} {row[4]}" for row in rows], MultiLabelBinarizer().fit_transform([(r[0], r[2]) for r in rows])
    splits = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(texts):
        counts = CountVectorizer(min_df=2)
        X = counts.fit_transform([texts[i] for i in train])
        splits.append(corpora.Split(X, y[train], counts.transform([texts[i] for i in test]), y[test]))
    return splits


CORPORA: dict[str, Callable[[], list[corpora.Split]]] = {"blitzer": reviews, "20ng": newsgroups}


def measured(make: Callable[[], Any], split: corpora.Split) -> tuple[float, ...]:
    model = make()
    seconds = harness.seconds(lambda: model.fit(sp.csr_matrix(split.X), split.y), time.process_time)
    labels, scores = model.predict(split.X_test), model.decision_function(split.X_test)
    right = np.take_along_axis(split.y_test, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    micro, macro = (f1_score(split.y_test, labels, average=kind, zero_division=0) for kind in ("micro", "macro"))
    exact = float((labels == split.y_test).all(axis=1).mean())
    return micro, macro, exact, float(right[:, :1].mean()), float(right[:, :2].mean()), seconds


def models(names: tuple = tuple(CORPORA)) -> None:
    for name in names:
        splits = CORPORA[name]()
        print(f"{name}: {splits[0].y.shape[1]} labels, {splits[0].X.shape[0]:,} documents", flush=True)
        harness.head("", *MEASURES)
        measured(MODELS["MultiLabelNB"], splits[0])  # compiles, and fills caches
        for model, make in MODELS.items():
            *values, seconds = np.mean([measured(make, split) for split in splits], axis=0).tolist()
            harness.row(model, *values, f"{seconds:.2f}")


def classes_apart(split: corpora.Split) -> dict[str, tuple[float, float]]:
    """Return accuracy and CPU seconds of telling classes apart all at once, each against the rest, and in pairs."""
    settings = {"loss": "hinge", "n_epochs": 6, "validation_fraction": 0, "n_jobs": 1}
    weighted = corpora.tfidf(split, norm=10.0)
    ways = {
        "all at once (MultinomialNB)": MultinomialNB(**settings),
        "one-vs-all (MultiLabelNB)": MultiLabelNB(**settings),
        "all-vs-all (OneVsOneClassifier)": OneVsOneClassifier(MultinomialNB(**settings)),
    }
    results = {}
    for name, model in ways.items():
        seconds = harness.seconds(lambda model=model: model.fit(weighted.X, weighted.y), time.process_time)
        results[name] = float((model.predict(weighted.X_test) == weighted.y_test).mean()), seconds
    return results


def classes(names: tuple = ("webkb", "r8", "20ng")) -> None:
    for name in names:
        for way, (accuracy, seconds) in classes_apart(corpora.load(name)).items():
            harness.row(name, way, accuracy, f"{seconds:.2f}")


def turned_round(y: np.ndarray, share: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of which one is wrong in some documents, and which entries are wrong, both (n_documents, n_labels)."""
    rng = np.random.default_rng(0)
    wrong = np.zeros(y.shape, bool)
    rows = np.flatnonzero(rng.random(len(y)) < share)
    wrong[rows, rng.integers(0, y.shape[1], len(rows))] = True
    return np.where(wrong, 1 - y, y), wrong


def precisions(split: corpora.Split, cv: int = 5) -> Iterator[tuple[str, float, float, float]]:
    """Yield who finds wrong labels of training documents: average precision of entries and of documents, CPU seconds."""
    X, (labels, wrong) = sp.csr_matrix(split.X), turned_round(np.asarray(split.y))

    def precision(of_entries: np.ndarray, of_documents: np.ndarray | None = None) -> tuple[float, float]:
        of_documents = of_entries.max(axis=1) if of_documents is None else of_documents
        entries = average_precision_score(wrong.ravel(), of_entries.ravel())
        return float(entries), float(average_precision_score(wrong.any(axis=1), of_documents))

    label_suspects(X[:300], labels[:300], cv=2, n_jobs=1)  # compiles
    started = time.process_time()
    ours = label_suspects(X, labels, n=None, cv=cv, n_jobs=1)
    seconds = time.process_time() - started
    doubt = np.zeros(labels.shape)
    doubt[ours.documents, ours.labels] = ours.doubt
    yield "label_suspects", *precision(doubt), seconds
    started = time.process_time()
    peer = harness.on_tfidf(OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    folds = KFold(cv, shuffle=True, random_state=0)
    proba = cross_val_predict(peer, X, labels, cv=folds, method="predict_proba")
    seconds = time.process_time() - started
    yield "LogisticRegression, the same score", *precision(np.where(labels > 0, 1.0 - proba, proba)), seconds
    try:
        from cleanlab.multilabel_classification import get_label_quality_scores
        from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class
    except ImportError:
        return
    positive = [np.flatnonzero(row).tolist() for row in labels]
    for method in CLEANLAB:
        started = time.process_time()
        of_entries = get_label_quality_scores_per_class(positive, proba, method=method)
        of_documents = get_label_quality_scores(positive, proba, method=method)
        more = time.process_time() - started
        yield f"cleanlab {method}", *precision(-of_entries, -of_documents), seconds + more


def suspects(names: tuple = tuple(CORPORA)) -> None:
    for name in names:
        split = CORPORA[name]()[0]
        print(f"{name}: {split.y.shape[1]} labels, {split.X.shape[0]:,} documents", flush=True)
        for method, entries, documents, seconds in precisions(split):
            print(f"  {method:<40} entries {entries:.4f}  documents {documents:.4f}  {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, models, classes, suspects)
