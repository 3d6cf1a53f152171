"""Very many classes: `ManyClassNB` beside the dense `MultinomialNB` and scikit-learn's, where their tables fit.

Run: ``python tests/benchmarks/many_classes.py [--classes 1000,10000,100000] [--documents 100000]``, with one thread: set
OMP_NUM_THREADS=1. Documents have 50 words of 50,000: a share of them of 30 words that are the class's own, the rest of a
Zipf distribution that all classes share. Each model runs in a process of its own: CPU seconds of the fit and of 2,000
predictions, and the most memory that the process ever held.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import scipy.sparse as sp
from sklearn import naive_bayes

import sdem_dist as sd

WORDS, LENGTH, OWN, SHARE, TESTED = 50_000, 50, 30, 0.15, 2_000
MODELS: dict[str, Callable[[], Any]] = {
    "ManyClassNB": lambda: sd.ManyClassNB(n_jobs=1),
    "ManyClassNB nll": lambda: sd.ManyClassNB(loss="nll", n_jobs=1),
    "MultinomialNB hinge": lambda: sd.MultinomialNB(loss="hinge", n_jobs=1),
    "sklearn MultinomialNB": lambda: naive_bayes.MultinomialNB(),
    "sklearn ComplementNB": lambda: naive_bayes.ComplementNB(),
}


def drawn(n: int, n_classes: int, seed: int, share: float = SHARE) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return counts of documents, and their classes: all occur as often, if `n_classes` divides `n`."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    shared = 1.0 / np.arange(1, WORDS + 1)
    words = np.searchsorted(np.cumsum(shared) / shared.sum(), rng.random((n, LENGTH)))
    of_class = np.random.default_rng(0).integers(0, WORDS, (n_classes, OWN), dtype=np.int32)
    own = of_class[y[:, None], rng.integers(0, OWN, (n, LENGTH))]
    words = np.where(rng.random((n, LENGTH)) < share, own, np.minimum(words, WORDS - 1))
    rows = np.repeat(np.arange(n), LENGTH)
    return sp.csr_matrix((np.ones(n * LENGTH, np.int64), (rows, words.ravel())), shape=(n, WORDS)), y


def compare(classes: tuple = (1_000, 10_000, 100_000), documents: int = 100_000, only: tuple = tuple(MODELS)) -> None:
    print(f"{'classes':>9} {'model':24} {'fit s':>8} {'predict s':>9} {'GiB':>6} {'accuracy':>8}")
    for n_classes in classes:
        for name in only:
            if "ManyClass" not in name and n_classes * WORDS * 8 > 1 << 30:  # two or three tables of float64
                print(f"{n_classes:>9,} {name:24} its tables do not fit")
                continue
            command = [sys.executable, __file__, "one", "--model", name, "--classes", str(n_classes)]
            command += ["--documents", str(documents)]
            r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            figures = f"{r['fit']:8.2f} {r['predict']:9.2f} {r['GiB']:6.2f} {r['accuracy']:8.4f}"
            print(f"{n_classes:>9,} {name:24} {figures}", flush=True)


def one(model: str, classes: int = 1_000, documents: int = 100_000) -> None:
    """Print what one model does, as JSON."""
    (X, y), (X_test, y_test) = drawn(documents, classes, 1), drawn(max(TESTED, classes), classes, 2)
    estimator, warm = MODELS[model](), drawn(300, 3, 3)
    MODELS[model]().fit(*warm).predict(warm[0])  # compiles
    fit = harness.seconds(lambda: estimator.fit(X, y), time.process_time)
    predict = harness.seconds(lambda: estimator.predict(X_test[:TESTED]), time.process_time)
    memory, right = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, estimator.predict(X_test) == y_test
    print(json.dumps({"fit": fit, "predict": predict, "GiB": memory, "accuracy": float(right[:TESTED].mean())}))


if __name__ == "__main__":
    harness.run(__doc__, compare, one)
