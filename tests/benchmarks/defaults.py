"""What the defaults reach: accuracy, macro-F1, log-loss, calibration and seconds, beside the neighbours, from the same counts.

Run: ``SDEM_CORPORA=... python tests/benchmarks/defaults.py [--only r8,imdb] [--draws 10] [--rows 'ours;LinearSVC']``, with one
thread: set OMP_NUM_THREADS=1. Every row starts from the same counts; neighbours get sublinear tf-idf of norm 1, and
weighting counts in everyone's seconds. Vowpal Wabbit and fastText take part where they are installed. Nothing is set by
corpus. ``--slow`` adds LogisticRegression with its C by cross-validation, ``--draws`` is of the cuts.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from shutil import which
from typing import Any, NamedTuple

import guests
import harness
import numpy as np
import scipy.sparse as sp
from corpora import CUTS, NAMES, Split, cut, splits_of
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB
from sdem_dist.evaluation import N_BINS


class Row(NamedTuple):
    """What one classifier reaches."""

    accuracy: float
    f1: float
    log_loss: float
    ece: float
    seconds: float


def calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Return the expected calibration error over equal bins of the top class's probability."""
    top, hit = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    return float(np.abs(np.bincount(bins, top, N_BINS) - np.bincount(bins, hit, N_BINS)).sum() / len(y))


def measured(split: Split, model: Any) -> Row:
    """Fit on the training part, with labels as numbers, and score the test part."""
    X, y, X_test, y_test = split.numbered()
    seconds = harness.seconds(lambda: model.fit(X, y))
    if not hasattr(model, "predict_proba"):
        labels, loss, error = model.predict(X_test), np.nan, np.nan
    else:
        p = np.clip(model.predict_proba(X_test), 1e-15, 1.0)
        labels, error = model.classes_[p.argmax(axis=1)], calibration_error(p, y_test)
        loss = float(-np.log(p[np.arange(len(y_test)), y_test] / p.sum(axis=1)).mean())
    return Row(float((labels == y_test).mean()), float(f1_score(y_test, labels, average="macro")), loss, error, seconds)


class NBSVM:
    """NBSVM of binary counts, one against the rest (Wang and Manning 2012): ratios, and a part of the mean weight."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def fit(self, X: sp.csr_matrix, y: np.ndarray) -> None:
        ones, n = (X > 0).astype(np.float64).tocsr(), int(y.max()) + 1
        self.weights, self.biases = [], []
        for k in range(n if n > 2 else 1):
            chosen = y == (k if n > 2 else 1)
            p, q = 1 + np.asarray(ones[chosen].sum(axis=0)).ravel(), 1 + np.asarray(ones[~chosen].sum(axis=0)).ravel()
            ratio = np.log(p / p.sum()) - np.log(q / q.sum())
            model = LinearSVC(C=0.1).fit(ones.multiply(ratio).tocsr(), chosen)
            w = model.coef_.ravel()
            self.weights.append(ratio * ((1 - self.beta) * np.abs(w).mean() + self.beta * w))
            self.biases.append(model.intercept_[0])

    def predict(self, T: sp.csr_matrix) -> np.ndarray:
        scores = (T > 0).astype(np.float64) @ np.array(self.weights).T + np.array(self.biases)
        return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


def by_folds() -> LogisticRegressionCV:
    how = {"max_iter": 200, "use_legacy_attributes": False, "l1_ratios": (0,)}
    return LogisticRegressionCV(Cs=(1, 10, 100), cv=3, scoring="neg_log_loss", **how)


ON_TFIDF: dict[str, Callable[[], Any]] = {
    "LinearSVC": LinearSVC,
    "LogisticRegression, CV": by_folds,
    "LogisticRegression, C = 10": lambda: LogisticRegression(C=10, max_iter=200),
    "SGDClassifier": lambda: SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0),
    "ComplementNB": ComplementNB,
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "ours": lambda: MultinomialNB(n_jobs=1),
    **{f"ours, {loss}": lambda loss=loss: MultinomialNB(loss=loss, n_jobs=1) for loss in ("ncll", "hinge", "nll")},
    **{name: lambda make=make: harness.on_tfidf(make()) for name, make in ON_TFIDF.items()},
    "NBSVM, beta 1": lambda: NBSVM(1.0),
    "NBSVM, beta .25": lambda: NBSVM(0.25),
    **({"Vowpal Wabbit": guests.VowpalWabbit} if find_spec("vowpalwabbit") else {}),
    **({"fastText": guests.FastText} if which("fasttext") else {}),
}


def rows_of(splits: list[Split], slow: bool, only: Sequence[str] = ()) -> dict[str, Row]:
    """Return the mean of each classifier over splits; the slowest one, or only some, where asked for."""
    names = [name for name in only or CLASSIFIERS if slow or name != "LogisticRegression, CV"]
    means = {name: np.mean([measured(split, CLASSIFIERS[name]()) for split in splits], axis=0) for name in names}
    return {name: Row(*mean.tolist()) for name, mean in means.items()}


def table(name: str, rows: dict[str, Row]) -> str:
    lines = [f"{name:28}{'accuracy':>9}{'F1':>7}{'log-loss':>10}{'ECE':>7}{'seconds':>9}"]
    for classifier, r in rows.items():
        figures = f"{r.accuracy:>9.4f}{r.f1:>7.3f}{r.log_loss:>10.3f}{r.ece:>7.3f}{r.seconds:>9.3f}"
        lines.append(f"  {classifier:26}{figures}")
    return "\n".join(lines)


def compare(only: tuple = (*NAMES, *CUTS), draws: int = 10, slow: bool = False, rows: tuple = ()) -> None:
    rng = np.random.default_rng(0)
    for loss in ("hinge", "ncll", "nll"):  # compiles
        small = sp.csr_matrix(rng.poisson(1.0, (300, 50)).astype(np.int64))
        MultinomialNB(loss=loss).fit(small, rng.integers(3, size=300)).predict_proba(small)
    ratios, gains = [], []
    for name in only:
        of_corpus = rows_of(cut(name, draws) if name in CUTS else splits_of(name), slow, rows)
        print(table(name, of_corpus), flush=True)
        ratios.append(of_corpus["ours"].seconds / of_corpus["LinearSVC"].seconds)
        gains.append(of_corpus["ours"].accuracy - of_corpus["LinearSVC"].accuracy)
    print(
        f"default against LinearSVC: accuracy {np.mean(gains):+.4f} in the mean, {min(gains):+.4f} at worst; "
        f"time {np.exp(np.mean(np.log(ratios))):.2f} of it in the geometric mean, {max(ratios):.2f} at most"
    )


if __name__ == "__main__":
    harness.run(__doc__, compare)
