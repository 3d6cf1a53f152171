"""What mixtures reach: passes saved by acceleration, time of a pass, clusters of 20 Newsgroups, components on sparse text.

Run: ``SDEM_CORPORA=... python tests/benchmarks/mixtures.py acceleration --folder FOLDER`` (or ``time``, ``defaults``, ``clusters``,
``text``, ``temperature``).  Features of digits are kept in the folder.  The table of errors is printed by ``examples/mixtures_table_1.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import corpora
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import mnist_digits

from sdem_dist import (
    EMMixtureClassifier,
    MultinomialMixture,
    MultinomialNB,
    MultiplicativeMixtureClassifier,
    SdemMixtureClassifier,
    cluster_scores,
)


def acceleration(X: np.ndarray, y: np.ndarray, m: int, passes: int) -> str:
    """Compare the plain updates with accelerated ones, from one start, on the rows as they are and on scaled ones.

    A plain pass is joint, or an iteration of the paper's: an update of W, and one of theta, which are two passes here.
    """
    line = []
    for scaling in (None, "rows"):
        settings: dict[str, Any] = {
            "scaling": scaling,
            "evaluate_every": 0,
            "dtype": "float32",
            "validation_fraction": 0,
        }
        paths = {
            "joint": MultiplicativeMixtureClassifier(m, accelerate=False, n_epochs=passes, **settings),
            "in turn": MultiplicativeMixtureClassifier(
                m, accelerate=False, schedule="alternate", n_epochs=2 * passes, **settings
            ),
        }
        fast = MultiplicativeMixtureClassifier(m, n_epochs=passes, **settings).fit(X, y).log_likelihood_path_
        for name, plain in paths.items():
            goal = plain.fit(X, y).log_likelihood_path_[-1]
            needed = int(np.argmax(fast >= goal)) + 1 if fast[-1] >= goal else passes
            line.append(f"{scaling or 'raw'}, {name}: L {goal:.4f} after {needed} of {passes}, 1/{passes / needed:.1f}")
    return f"M={m}: " + "; ".join(line)


class RoundTimes:
    """A callback that keeps the seconds of rounds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, event: Any) -> None:
        if type(event).__name__ == "RoundEnded":
            self.seconds.append(event.seconds)


def time_of_passes(X: np.ndarray, y: np.ndarray, m: int, dtype: str, passes: int = 10) -> str:
    """Compare passes by one thread with the matrix products that they need, by NumPy in float32, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    times = RoundTimes()
    settings: dict[str, Any] = {"n_epochs": passes + 2, "evaluate_every": 0, "validation_fraction": 0}
    model = MultiplicativeMixtureClassifier(m, dtype=dtype, n_jobs=1, **settings)
    model.fit(X, y, callbacks=[times])
    rows = X.astype(np.float32)
    n_classes = len(np.unique(y))
    theta = np.ones((X.shape[1], n_classes * m), np.float32)
    posteriors = np.full((len(X), n_classes * m), 0.5, np.float32)
    with threadpool_limits(1):
        started = time.perf_counter()
        for _ in range(passes):
            for first in range(0, len(X), 4096):
                block, of_block = rows[first : first + 4096], posteriors[first : first + 4096]
                _ = block @ theta, of_block.T @ block, of_block[:, :m].T @ block  # logits, free sums, clamped sums
        products = time.perf_counter() - started
    ours = sum(times.seconds[2:])
    return f"M={m}, {dtype}: {passes} passes {ours:.3f} s, products {products:.3f} s, ratio {ours / products:.2f}"


def defaults(X: np.ndarray, y: np.ndarray, m: int) -> str:
    """Compare settings on a sixth of the training digits, held out: what the defaults were chosen by."""
    rng = np.random.default_rng(0)
    held = rng.random(len(y)) < 1 / 6
    found = []
    for scaling in ("rows", None):
        for schedule in ("joint", "alternate"):
            for accelerate in (True, False):
                model = MultiplicativeMixtureClassifier(
                    m, scaling=scaling, schedule=schedule, accelerate=accelerate, dtype="float32", evaluate_every=0
                ).fit(X[~held], y[~held])
                error = 100 * (1 - model.score(X[held], y[held]))
                found.append(f"{scaling or 'raw'}, {schedule}{', accelerated' * accelerate}: {error:.2f}")
    return f"M={m}, error on held-out training digits: " + "; ".join(found)


def clusters(split: corpora.Split, n_clusters: int, n_init: int, seeds: int = 3) -> list[str]:
    """Return NMI, adjusted Rand index and purity of clusters of the training documents, each kind over some seeds."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = TfidfTransformer().fit_transform(split.X)
    makers = {
        "MiniBatchKMeans on tf-idf": lambda s: (
            MiniBatchKMeans(n_clusters, n_init=n_init, random_state=s).fit(weighted).labels_
        ),
        "MultinomialMixture": lambda s: (
            MultinomialMixture(n_clusters, n_init=n_init, random_state=s).fit(split.X).labels_
        ),
        "MultinomialMixture, online": lambda s: (
            MultinomialMixture(n_clusters, n_init=n_init, em="online", random_state=s).fit(split.X).labels_
        ),
        "MultinomialMixture, from examples": lambda s: (
            MultinomialMixture(n_clusters, n_init=n_init, init="examples", random_state=s).fit(split.X).labels_
        ),
    }
    lines = []
    for name, make in makers.items():
        started = time.perf_counter()
        found = [cluster_scores(split.y, make(seed)) for seed in range(seeds)]
        scores = [[f[kind] for kind in ("nmi", "ari", "purity")] for f in found]
        means = ", ".join(f"{v:.3f}" for v in np.mean(scores, axis=0))
        lines.append(f"{name}: NMI, ARI, purity {means} ({(time.perf_counter() - started) / seeds:.1f} s)")
    return lines


def text(name: str, split: corpora.Split, components: tuple[int, ...], seeds: int = 2) -> str:
    """Return test accuracies of multinomial mixtures beside naive Bayes, counted and discriminative."""
    cells = [f"{MultinomialNB(loss='nll').fit(split.X, split.y).score(split.X_test, split.y_test):.4f}"]
    for loss in ("ncll", "hinge"):
        models: list[Any] = [lambda s, loss=loss: MultinomialNB(loss=loss, random_state=s, evaluate_every=0)]
        models += [
            lambda s, m=m, loss=loss: SdemMixtureClassifier(
                m, components="multinomial", loss=loss, random_state=s, evaluate_every=0
            )
            for m in components
        ]
        for make in models:
            scores = [make(s).fit(split.X, split.y).score(split.X_test, split.y_test) for s in range(seeds)]
            cells.append(f"{np.mean(scores):.4f}")
    return f"| {name} | " + " | ".join(cells) + " |"


def temperature(name: str, split: corpora.Split) -> str:
    """Return test log-losses of two multinomial components a class, without and with a temperature, and test accuracy."""
    cells, rows = [], np.arange(len(split.y_test))
    for kind in (EMMixtureClassifier, SdemMixtureClassifier):
        for share in (0.0, 0.1):
            model = kind(2, components="multinomial", validation_fraction=share).fit(split.X, split.y)
            log_p = model.predict_log_proba(split.X_test)
            cells.append(f"{-log_p[rows, np.searchsorted(model.classes_, split.y_test)].mean():.3f}")
        cells.append(f"{model.score(split.X_test, split.y_test):.4f}")
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=("acceleration", "time", "defaults", "clusters", "text", "temperature"))
    parser.add_argument("--folder", type=Path, help="where features of digits are kept")
    parser.add_argument("--components", type=int, nargs="*")
    parser.add_argument("--passes", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.figure == "clusters":
        print("\n".join(clusters(corpora.load("20ng"), 20, 10)))
        return
    if arguments.figure == "temperature":
        print("| corpus | EM, none | temperature | accuracy | sdEM, none | temperature | accuracy |")
        for name in corpora.STEMMED:
            print(temperature(name, corpora.load(name)), flush=True)
        return
    if arguments.figure == "text":
        components = tuple(arguments.components or (2, 4))
        print(
            "| corpus | counted | ncll, 1 | "
            + " | ".join(map(str, components))
            + " | hinge, 1 | "
            + " | ".join(map(str, components))
            + " |"
        )
        for name in corpora.STEMMED:
            print(text(name, corpora.load(name), components), flush=True)
        return
    if arguments.folder is None:
        parser.error("--folder is needed")
    digits = mnist_digits.cached(arguments.folder)[0]
    for m in arguments.components or (1, 4, 8):
        if arguments.figure == "acceleration":
            print(acceleration(digits.X, digits.y, m, arguments.passes), flush=True)
        elif arguments.figure == "defaults":
            print(defaults(digits.X, digits.y, m), flush=True)
        else:
            for dtype in ("float32", "float64"):
                print(time_of_passes(digits.X, digits.y, m, dtype), flush=True)


if __name__ == "__main__":
    main()
