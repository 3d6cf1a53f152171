"""Documents with several labels: `MultiLabelNB` and topics of documents beside one LinearSVC a label on tf-idf.

Run: ``SDEM_CORPORA=... python tests/benchmarks/several_labels.py [NAME...]``, with one thread: set
OMP_NUM_THREADS=1.  Labels of blitzer's reviews are their domain and their sentiment (five folds); those of 20 Newsgroups,
stemmed, the group and the part of the hierarchy that it is in (standard split).  CPU seconds of the fit, weighting included.
"""

import time
from collections.abc import Callable
from typing import Any

import corpora
import harness
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from sdem_dist import MultiLabelNB, SupervisedLDAClassifier

MEASURES = ("micro F1", "macro F1", "all right", "precision at 1", "precision at 2", "seconds")
MODELS: dict[str, Callable[[], Any]] = {
    "MultiLabelNB": lambda: MultiLabelNB(n_jobs=1),
    "MultiLabelNB, no thresholds": lambda: MultiLabelNB(n_jobs=1, calibrate=False),
    "SupervisedLDAClassifier, 20 topics": lambda: SupervisedLDAClassifier(n_jobs=1, evaluate_every=0),
    "LinearSVC, one against the rest": lambda: harness.on_tfidf(OneVsRestClassifier(LinearSVC())),
}


def newsgroups() -> list[corpora.Split]:
    split = corpora.load("20ng")
    labels = [[[str(group), str(group).split(".")[0]] for group in part] for part in (split.y, split.y_test)]
    encoder = MultiLabelBinarizer().fit(labels[0])
    return [split._replace(y=encoder.transform(labels[0]), y_test=encoder.transform(labels[1]))]


def reviews() -> list[corpora.Split]:
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


if __name__ == "__main__":
    harness.run(__doc__, models)
