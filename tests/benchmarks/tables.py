"""Tables of numbers: safe steps and regression, beside scikit-learn.

Run: ``python tests/benchmarks/tables.py [steps|regression] [NAME...]``.

steps: Gaussian naive Bayes, raw and standardised: loss of training and accuracy in 10 x 5-fold CV;
regression: R2 of a joint Gaussian against ridge regression: small tables in 5-fold CV, stars of 25,000 reviews (leading
singular vectors of their tf-idf) on their standard split; ``--removed`` shares of the test features are removed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import harness
import numpy as np
import sklearn.naive_bayes as reference
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold, RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdem_dist import GaussianNB, GaussianRegressor

TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def folds(name: str, repeats: int, standardised: bool = False) -> Iterator[tuple[np.ndarray, ...]]:
    X, y = TABLES[name](return_X_y=True)
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(X, y):
        A, B = X[train], X[test]
        if standardised:
            scaler = StandardScaler().fit(A)
            A, B = scaler.transform(A), scaler.transform(B)
        yield A, y[train], B, y[test]


def compare(name: str, standardised: bool, loss: str, merge: str, repeats: int) -> tuple[list[object], bool]:
    theirs, ours, start, end, seconds = [], [], [], [], []
    for A, a, B, b in folds(name, repeats, standardised):
        model = GaussianNB(loss=loss, merge=merge, n_jobs=1)
        seconds.append(harness.seconds(lambda model=model, A=A, a=a: model.fit(A, a)))
        start.append(GaussianNB(loss="nll", n_jobs=1).fit(A, a).history_[-1][loss])
        end.append(model.history_[-1][loss])
        theirs.append(reference.GaussianNB().fit(A, a).score(B, b))
        ours.append(model.score(B, b))
    falls = all(e <= s * (1 + 1e-12) for e, s in zip(end, start, strict=True))
    safe = bool(falls and np.mean(ours) >= np.mean(theirs) - 0.01)
    means = [float(np.mean(values)) for values in (start, end, theirs, ours)]
    columns = "standardised" if standardised else "raw"
    return [name, columns, loss, merge, *means, f"{np.mean(seconds):.2f}", "yes" if safe else "NO"], safe


def steps(names: tuple = tuple(TABLES), merges: tuple = ("sum", "mean"), repeats: int = 10) -> None:
    losses = "generative fit's loss", "ended at"
    harness.head("table", "columns", "loss", "merge", *losses, "scikit-learn", "ours", "s a fit", "safe")
    for name in names:
        for standardised in (False, True):
            for loss in ("ncll", "hinge"):
                for merge in merges:
                    harness.row(*compare(name, standardised, loss, merge, repeats)[0])


def regression_parts(table: str, components: int = 50) -> Iterator[tuple[np.ndarray, ...]]:
    if table == "reviews":
        from corpora import imdb

        train, test = imdb()
        reduction = harness.on_tfidf(TruncatedSVD(components, random_state=0))
        yield reduction.fit_transform(train.X), train.stars, reduction.transform(test.X), test.stars
        return
    X, y = {"diabetes": load_diabetes, "digits": load_digits}[table](return_X_y=True)
    for train, test in KFold(5).split(X):
        yield X[train], y[train], X[test], y[test]


def regressors() -> dict[str, Any]:
    """Return what is compared; the peers have features that are not known replaced by means."""
    return {
        "Ridge()": make_pipeline(SimpleImputer(keep_empty_features=True), Ridge()),
        "RidgeCV": make_pipeline(SimpleImputer(keep_empty_features=True), RidgeCV(np.logspace(-3, 5, 33))),
        "GaussianRegressor()": GaussianRegressor(n_jobs=1),
        "alpha=1": GaussianRegressor(alpha=1.0, n_jobs=1),
    }


def explained(parts: list[tuple[np.ndarray, ...]], shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean R2 for each share of the test features removed at random and each model, and mean seconds of a fit."""
    scores, seconds = np.zeros((len(shares), len(regressors()))), np.zeros(len(regressors()))
    for i, (X, y, X_test, y_test) in enumerate(parts):
        uniform = np.random.default_rng(i).random(X_test.shape)
        for j, model in enumerate(regressors().values()):
            seconds[j] += harness.seconds(lambda model=model, X=X, y=y: model.fit(X, y))
            scores[:, j] += [model.score(np.where(uniform < share, np.nan, X_test), y_test) for share in shares]
    return scores / len(parts), seconds / len(parts)


def regression(names: tuple = ("diabetes", "digits", "reviews"), components: int = 50, removed: tuple = (0.0, 0.3)):
    harness.head("table", "removed", *regressors())
    for name in names:
        parts = list(regression_parts(name, components))
        scores, seconds = explained(parts, removed)
        for share, r2 in zip(removed, scores.tolist(), strict=True):
            harness.row(f"{name}, {' x '.join(map(str, parts[0][0].shape))}", f"{share:.0%}", *r2)
        harness.row(name, "s a fit", *(f"{s:.2f}" for s in seconds))


if __name__ == "__main__":
    harness.run(__doc__, steps, regression)
