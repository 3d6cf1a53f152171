"""What the defaults reach: accuracy, macro-F1, log-loss, calibration and seconds, beside the neighbours, from the same counts.

Run: ``SDEM_CORPORA=... python tests/benchmarks/defaults.py [--only r8,imdb] [--draws 10] [--rows 'ours;LinearSVC']``, with one
thread: set OMP_NUM_THREADS=1.  Every row starts from the same counts; neighbours get sublinear tf-idf of norm 1, and
weighting counts in everyone's seconds.  Vowpal Wabbit and fastText take part where they are installed.  Nothing is set by
corpus.  ``--slow`` adds LogisticRegression with its C by cross-validation, ``--draws`` is of the cuts.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
import scipy.sparse as sp
from corpora import CUTS, NAMES, Split, cut, splits_of
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB
from sdem_dist.calibration import N_BINS

Scores = tuple[np.ndarray, np.ndarray | None]
"""Predictions, and probabilities where there are any."""
Predict = Callable[[sp.csr_matrix], Scores]
Fit = Callable[[sp.csr_matrix, np.ndarray], Predict]


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


def measured(split: Split, fit: Fit) -> Row:
    """Fit on the training part, with labels as numbers, and score the test part."""
    X, y, X_test, y_test = split.numbered()
    started = time.perf_counter()
    predict = fit(X, y)
    seconds = time.perf_counter() - started
    labels, p = predict(X_test)
    accuracy, f1 = float((labels == y_test).mean()), float(f1_score(y_test, labels, average="macro"))
    if p is None:
        return Row(accuracy, f1, np.nan, np.nan, seconds)
    p = np.clip(p, 1e-15, 1.0)
    loss = -np.log(p[np.arange(len(y_test)), y_test] / p.sum(axis=1)).mean()
    return Row(accuracy, f1, float(loss), calibration_error(p, y_test), seconds)


def estimator(make: Callable[[], Any]) -> Fit:

    def fit(X: sp.csr_matrix, y: np.ndarray) -> Predict:
        model = make().fit(X, y)

        def predict(T: sp.csr_matrix) -> Scores:
            if not hasattr(model, "predict_proba"):
                return model.predict(T), None
            p = model.predict_proba(T)
            return model.classes_[p.argmax(axis=1)], p

        return predict

    return fit


def ours(**settings: Any) -> Fit:
    return estimator(lambda: MultinomialNB(n_jobs=1, **settings))


def on_tfidf(make: Callable[..., Any], **settings: Any) -> Fit:
    return estimator(lambda: harness.on_tfidf(make(**settings)))


def nbsvm(beta: float) -> Fit:
    """Return NBSVM of binary counts, one against the rest (Wang and Manning 2012): ratios, and a part of the mean weight."""

    def fit(X: sp.csr_matrix, y: np.ndarray) -> Predict:
        ones, n = (X > 0).astype(np.float64).tocsr(), int(y.max()) + 1
        weights, biases = [], []
        for k in range(n if n > 2 else 1):
            chosen = y == (k if n > 2 else 1)
            p, q = 1 + np.asarray(ones[chosen].sum(axis=0)).ravel(), 1 + np.asarray(ones[~chosen].sum(axis=0)).ravel()
            ratio = np.log(p / p.sum()) - np.log(q / q.sum())
            model = LinearSVC(C=0.1).fit(ones.multiply(ratio).tocsr(), chosen)
            w = model.coef_.ravel()
            weights.append(ratio * ((1 - beta) * np.abs(w).mean() + beta * w))
            biases.append(model.intercept_[0])

        def predict(T: sp.csr_matrix) -> Scores:
            scores = (T > 0).astype(np.float64) @ np.array(weights).T + np.array(biases)
            return (scores[:, 0] > 0).astype(int) if n == 2 else scores.argmax(axis=1), None

        return predict

    return fit


def vowpal(X: sp.csr_matrix, y: np.ndarray) -> Predict:
    """Train Vowpal Wabbit on tf-idf: logistic loss, one against all, three passes over shuffled examples."""
    from vowpalwabbit import Workspace

    weighting, n = TfidfTransformer(sublinear_tf=True), int(y.max()) + 1
    A = weighting.fit_transform(X)
    learner = Workspace(f"--oaa {n} --loss_function logistic -b 22 --probabilities --quiet")

    def lines(M: sp.csr_matrix) -> Iterator[str]:
        for d in range(M.shape[0]):
            part = slice(M.indptr[d], M.indptr[d + 1])
            yield "| " + " ".join(f"{w}:{x:.4f}" for w, x in zip(M.indices[part], M.data[part], strict=True))

    examples = list(lines(A))
    for seed in range(3):
        for d in np.random.default_rng(seed).permutation(len(y)):
            learner.learn(f"{y[d] + 1} {examples[d]}")

    def predict(T: sp.csr_matrix) -> Scores:
        p = np.array([learner.predict(line) for line in lines(weighting.transform(T))])
        return p.argmax(axis=1), p

    return predict


def fasttext(X: sp.csr_matrix, y: np.ndarray) -> Predict:
    """Train fastText as its tutorial ends up (25 epochs, rate .5; as it comes it learns little from these), on one thread."""
    from fasttext import train_supervised

    def lines(M: sp.csr_matrix) -> list[str]:
        parts = (slice(a, b) for a, b in pairwise(M.indptr))
        return [" ".join(np.repeat(M.indices[part], M.data[part]).astype(str)) for part in parts]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        order = np.random.default_rng(0).permutation(len(y))  # it takes documents as they stand: by class
        path.write_text("".join(f"__label__{k} {line}\n" for k, line in zip(y[order], lines(X[order]), strict=True)))
        model = train_supervised(str(path), epoch=25, lr=0.5, thread=1, verbose=0)

    def predict(T: sp.csr_matrix) -> Scores:
        p = harness.fasttext_probabilities(model, lines(T), int(y.max()) + 1)
        return p.argmax(axis=1), p

    return predict


CLASSIFIERS: dict[str, Fit] = {
    "ours": ours(),
    "ours, ncll": ours(loss="ncll"),
    "ours, hinge": ours(loss="hinge"),
    "ours, nll": ours(loss="nll"),
    "LinearSVC": on_tfidf(LinearSVC),
    "LogisticRegression, CV": on_tfidf(
        LogisticRegressionCV,
        Cs=(1, 10, 100),
        cv=3,
        scoring="neg_log_loss",
        max_iter=200,
        use_legacy_attributes=False,
        l1_ratios=(0,),
    ),
    "LogisticRegression, C = 10": on_tfidf(LogisticRegression, C=10, max_iter=200),
    "SGDClassifier": on_tfidf(SGDClassifier, loss="log_loss", max_iter=10, tol=None, random_state=0),
    "ComplementNB": on_tfidf(ComplementNB),
    "NBSVM, beta 1": nbsvm(1.0),
    "NBSVM, beta .25": nbsvm(0.25),
}
GUESTS = {"Vowpal Wabbit": ("vowpalwabbit", vowpal), "fastText": ("fasttext", fasttext)}
CLASSIFIERS |= {name: fit for name, (package, fit) in GUESTS.items() if find_spec(package)}


def rows_of(splits: list[Split], slow: bool, only: Sequence[str] = ()) -> dict[str, Row]:
    """Return the mean of each classifier over splits; the slowest one, or only some, where asked for."""
    names = [name for name in only or CLASSIFIERS if slow or name != "LogisticRegression, CV"]
    means = {name: np.mean([measured(split, CLASSIFIERS[name]) for split in splits], axis=0) for name in names}
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
