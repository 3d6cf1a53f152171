"""R2 of regression by a joint Gaussian against ridge regression: small tables in 5-fold CV, stars of 25,000 reviews on their standard split."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from sdem_dist import GaussianRegressor

Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
TABLES = ("diabetes", "digits", "reviews")
GRID = np.logspace(-3, 5, 33)


def parts(table: str, components: int = 50) -> Iterator[Part]:
    """Yield training and test rows with their targets."""
    if table == "reviews":
        yield _reviews(components)
        return
    X, y = {"diabetes": load_diabetes, "digits": load_digits}[table](return_X_y=True)
    for train, test in KFold(5).split(X):
        yield X[train], y[train], X[test], y[test]


def _reviews(components: int) -> Part:
    """Return the leading singular vectors of the reviews' tf-idf, and their stars."""
    from reviews import imdb
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    train, test = imdb()
    reduction = make_pipeline(TfidfTransformer(sublinear_tf=True), TruncatedSVD(components, random_state=0))
    return reduction.fit_transform(train.X), train.stars, reduction.transform(test.X), test.stars


def models() -> dict[str, object]:
    """Return what is compared; the peers have features that are not known replaced by means."""
    return {
        "Ridge()": make_pipeline(SimpleImputer(keep_empty_features=True), Ridge()),
        "RidgeCV": make_pipeline(SimpleImputer(keep_empty_features=True), RidgeCV(GRID)),
        "GaussianRegressor()": GaussianRegressor(n_jobs=1),
        "alpha=1": GaussianRegressor(alpha=1.0, n_jobs=1),
    }


def compare(cuts: list[Part], shares: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean R2 for each share of the test features removed at random and each model, and mean seconds of a fit."""
    scores, seconds = np.zeros((len(shares), len(models()))), np.zeros(len(models()))
    for i, (X, y, X_test, y_test) in enumerate(cuts):
        uniform = np.random.default_rng(i).random(X_test.shape)
        for j, model in enumerate(models().values()):
            started = time.perf_counter()
            model.fit(X, y)
            seconds[j] += time.perf_counter() - started
            scores[:, j] += [model.score(np.where(uniform < share, np.nan, X_test), y_test) for share in shares]
    return scores / len(cuts), seconds / len(cuts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--components", type=int, default=50, help="columns of the reviews")
    parser.add_argument(
        "--removed", nargs="*", type=float, default=[0.0, 0.3], help="shares of the test features removed"
    )
    options = parser.parse_args()
    print("| table | removed | " + " | ".join(models()) + " |")
    print("| --- " * (2 + len(models())) + "|")
    for table in options.tables:
        cuts = list(parts(table, options.components))
        shape = " x ".join(map(str, cuts[0][0].shape))
        scores, seconds = compare(cuts, options.removed)
        for removed, row in zip(options.removed, scores, strict=True):
            print(f"| {table}, {shape} | {removed:.0%} | " + " | ".join(f"{r2:.4f}" for r2 in row) + " |")
        print(f"| {table} | s a fit | " + " | ".join(f"{s:.2f}" for s in seconds) + " |", flush=True)


if __name__ == "__main__":
    main()
