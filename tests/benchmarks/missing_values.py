"""Values removed at random: naive Bayes that sums them out against imputers and logistic regression, and boosted trees."""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdem_dist import GaussianNB

TABLES = {"breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris, "digits": load_digits}


def peers() -> dict[str, object]:
    def logistic(imputer: object) -> object:
        return make_pipeline(StandardScaler(), imputer, LogisticRegression(max_iter=2000))

    return {
        "mean + logistic": logistic(SimpleImputer()),
        "kNN + logistic": logistic(KNNImputer()),
        "boosted trees": HistGradientBoostingClassifier(max_iter=60),
        "GaussianNB nll": GaussianNB(loss="nll"),
        "GaussianNB ncll": GaussianNB(),
        "GaussianNB hinge": GaussianNB(loss="hinge"),
    }


def accuracies(name: str, share: float, repeats: int) -> dict[str, float]:
    X, y = TABLES[name](return_X_y=True)
    found: dict[str, list[float]] = {p: [] for p in peers()}
    for i, (train, test) in enumerate(
        RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(X, y)
    ):
        gaps = X.astype(float)
        gaps[np.random.default_rng(i).random(X.shape) < share] = np.nan
        for peer, model in peers().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[peer].append(model.fit(gaps[train], y[train]).score(gaps[test], y[test]))
    return {peer: float(np.mean(values)) for peer, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=["breast cancer", "wine"])
    options = parser.parse_args()
    print("| table | removed |", " | ".join(peers()), "|")
    print("| --- " * (2 + len(peers())) + "|")
    for name in options.tables:
        for share in (0.1, 0.3, 0.5):
            row = accuracies(name, share, options.repeats)
            print(f"| {name} | {share:.0%} |", " | ".join(f"{v:.4f}" for v in row.values()), "|", flush=True)


if __name__ == "__main__":
    main()
