"""Documents with several labels: `MultiLabelNB` and topics of documents beside one LinearSVC a label on tf-idf.

Run: ``SDEM_CORPORA=... python tests/benchmarks/several_labels.py [--only blitzer,20ng]``, with one thread: set
OMP_NUM_THREADS=1.  Labels of blitzer's reviews are their domain and their sentiment (five folds); those of 20 Newsgroups,
stemmed, the group and the part of the hierarchy that it is in (standard split).  CPU seconds of the fit, weighting included.
With ``--classes webkb,r8,20ng`` classes of one label a document: all at once, one-vs-all, all-vs-all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import corpora
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from sdem_dist import MultiLabelNB, MultinomialNB, SupervisedLDAClassifier

MEASURES = ("micro F1", "macro F1", "all right", "precision at 1", "precision at 2", "seconds")
MODELS: dict[str, Callable[[], Any]] = {
    "MultiLabelNB": lambda: MultiLabelNB(n_jobs=1),
    "MultiLabelNB, no thresholds": lambda: MultiLabelNB(n_jobs=1, calibrate=False),
    "SupervisedLDAClassifier, 20 topics": lambda: SupervisedLDAClassifier(n_jobs=1, evaluate_every=0),
    "LinearSVC, one against the rest": lambda: make_pipeline(
        TfidfTransformer(sublinear_tf=True), OneVsRestClassifier(LinearSVC())
    ),
}


def newsgroups() -> list[corpora.Split]:
    """Return 20 Newsgroups with two labels per document: its group, and the part of the hierarchy."""
    split = corpora.load("20ng")
    encoder = MultiLabelBinarizer().fit([names_of(group) for group in split.y])
    y, y_test = (encoder.transform([names_of(group) for group in part]) for part in (split.y, split.y_test))
    return [corpora.Split(split.X, y, split.X_test, y_test)]


def names_of(group: str) -> list[str]:
    """Return a group and the part of the hierarchy that it is in."""
    return [str(group), str(group).split(".")[0]]


def reviews() -> list[corpora.Split]:
    """Return five folds of blitzer's reviews, with the domain and the sentiment as labels."""
    path = corpora.folder() / "blitzer" / "blitzer-mds-labeled.tsv.xz"
    rows = [line.split("\t") for line in corpora._lines(path)]
    texts, y = [f"{row[3]} {row[4]}" for row in rows], MultiLabelBinarizer().fit_transform([(r[0], r[2]) for r in rows])
    found = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(texts):
        counts = CountVectorizer(min_df=2)
        X = counts.fit_transform([texts[i] for i in train])
        found.append(corpora.Split(X, y[train], counts.transform([texts[i] for i in test]), y[test]))
    return found


CORPORA: dict[str, Callable[[], list[corpora.Split]]] = {"blitzer": reviews, "20ng": newsgroups}


def measured(make: Callable[[], Any], split: corpora.Split) -> tuple[float, ...]:
    """Return the measures of a model on a split."""
    model, started = make(), time.process_time()
    model.fit(sp.csr_matrix(split.X), split.y)
    seconds = time.process_time() - started
    given, scores = model.predict(split.X_test), model.decision_function(split.X_test)
    best = np.argsort(-scores, axis=1, kind="stable")
    right = np.take_along_axis(split.y_test, best, axis=1)
    micro, macro = (f1_score(split.y_test, given, average=kind, zero_division=0) for kind in ("micro", "macro"))
    exact = float((given == split.y_test).all(axis=1).mean())
    return micro, macro, exact, float(right[:, :1].mean()), float(right[:, :2].mean()), seconds


def classes_apart(split: corpora.Split) -> dict[str, tuple[float, float]]:
    """Return accuracy and CPU seconds of telling classes apart all at once, each against the rest, and in pairs."""
    settings = {"loss": "hinge", "n_epochs": 6, "validation_fraction": 0, "n_jobs": 1}
    X, y, X_test, y_test = corpora.tfidf(split, norm=10.0)
    models = {
        "all at once (MultinomialNB)": MultinomialNB(**settings),
        "one-vs-all (MultiLabelNB)": MultiLabelNB(**settings),
        "all-vs-all (OneVsOneClassifier)": OneVsOneClassifier(MultinomialNB(**settings)),
    }
    found = {}
    for name, model in models.items():
        started = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - started
        found[name] = float((model.predict(X_test) == y_test).mean()), seconds
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CORPORA))
    parser.add_argument("--classes", help="corpora of one label a document, to compare ways to tell classes apart")
    options = parser.parse_args()
    if options.classes:
        for name in options.classes.split(","):
            for way, (accuracy, seconds) in classes_apart(corpora.load(name)).items():
                print(f"| {name} | {way} | {accuracy:.4f} | {seconds:.2f} |", flush=True)
        return
    for name in options.only.split(","):
        splits = CORPORA[name]()
        print(f"{name}: {splits[0].y.shape[1]} labels, {splits[0].X.shape[0]:,} documents", flush=True)
        print(f"| | {' | '.join(MEASURES)} |\n| --- |{' --- |' * len(MEASURES)}")
        measured(MODELS["MultiLabelNB"], splits[0])  # compiles, and fills caches
        for model, make in MODELS.items():
            values = np.mean([measured(make, split) for split in splits], axis=0)
            print(f"| {model} | {' | '.join(f'{value:.4f}' for value in values[:-1])} | {values[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
