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
        "nll": GaussianRegressor(loss="nll", n_jobs=1),
        "ncll": GaussianRegressor(n_jobs=1),
        "ncll, alpha=1": GaussianRegressor(alpha=1.0, n_jobs=1),
    }


def compare(cuts: list[Part], removed: float = 0.0) -> dict[str, tuple[float, float]]:
    """Return for each model mean R2 and seconds of a fit, a share of the test features removed at random."""
    rng, found = np.random.default_rng(0), {name: [] for name in models()}
    for X, y, X_test, y_test in cuts:
        known = np.where(rng.random(X_test.shape) < removed, np.nan, X_test)
        for name, model in models().items():
            started = time.perf_counter()
            model.fit(X, y)
            found[name].append((time.perf_counter() - started, model.score(known, y_test)))
    return {name: (float(np.mean([s for _, s in f])), float(np.mean([t for t, _ in f]))) for name, f in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--components", type=int, default=50, help="columns of the reviews")
    parser.add_argument(
        "--removed", nargs="*", type=float, default=[0.0, 0.3], help="shares of the test features removed"
    )
    options = parser.parse_args()
    print("| table | removed | " + " | ".join(f"{name} | s" for name in models()) + " |")
    print("| --- " * (2 + 2 * len(models())) + "|")
    for table in options.tables:
        cuts = list(parts(table, options.components))
        for removed in options.removed:
            found = compare(cuts, removed)
            shown = " | ".join(f"{r2:.4f} | {seconds:.2f}" for r2, seconds in found.values())
            print(f"| {table}, {cuts[0][0].shape[0]:,} x {cuts[0][0].shape[1]} | {removed:.0%} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
