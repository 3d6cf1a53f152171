"""Test accuracy on the standard splits, beside scikit-learn's classifiers on the same matrices.

Run: ``SDEM_CORPORA=... python tests/benchmarks/accuracy.py [--seeds 3] [--names r8,webkb]``.  Ours are means over
seeds; settings are the defaults except for what a column names.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from corpora import STEMMED, Split, load, tfidf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB as GenerativeNB
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB

NORM = 3.0
PAPER = {"steps": "paper", "n_lanes": 1}

PEERS: dict[str, Callable[[], Any]] = {
    "MultinomialNB": GenerativeNB,
    "LinearSVC": LinearSVC,
    "SGD log": lambda: SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0),
}
OURS: dict[str, dict[str, Any]] = {
    "NCLL mean": {"loss": "ncll"},
    "hinge mean": {"loss": "hinge"},
    "NCLL sum": {"loss": "ncll", "merge": "sum"},
    "hinge sum": {"loss": "hinge", "merge": "sum"},
    "NCLL paper": {"loss": "ncll", **PAPER},
    "hinge paper": {"loss": "hinge", **PAPER},
}


def row(split: Split, seeds: Sequence[int], n_epochs: int | None = None) -> dict[str, float]:
    """Return the test accuracy of every classifier on one split."""
    accuracy = {}
    for name, make in PEERS.items():
        accuracy[name] = make().fit(split.X, split.y).score(split.X_test, split.y_test)
    for name, settings in OURS.items():
        extra = {} if n_epochs is None else {"n_epochs": n_epochs}
        fits = [MultinomialNB(random_state=s, **settings, **extra).fit(split.X, split.y) for s in seeds]
        accuracy[name] = float(np.mean([m.score(split.X_test, split.y_test) for m in fits]))
    return accuracy


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return the rows as a Markdown table."""
    columns = list(next(iter(rows.values())))
    lines = ["| corpus | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    lines += [
        "| " + " | ".join([name, *(f"{r[c]:.4f}".lstrip("0") for c in columns)]) + " |" for name, r in rows.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the tables of raw counts and of weighted counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--names", default=",".join((*STEMMED, "imdb")))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names, seeds = options.names.split(","), range(options.seeds)
    print("raw counts\n\n" + table({n: row(load(n), seeds) for n in names}), flush=True)
    weighted = [n for n in names if n != "imdb"]
    rows = {n: row(tfidf(load(n), NORM), seeds) for n in weighted}
    if rows:
        print(f"\nsublinear tf-idf, rows of norm {NORM:g}\n\n" + table(rows), flush=True)


if __name__ == "__main__":
    main()
