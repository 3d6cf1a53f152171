"""What mixtures reach: passes saved by acceleration, time of a pass, clusters of 20 Newsgroups, components on sparse text.

Run: ``SDEM_CORPORA=... python tests/benchmarks/mixtures.py acceleration --folder FOLDER`` (or ``times``, ``defaults``,
``clusters``, ``text``, ``temperature``).  Features of digits are written to the folder.  The table of errors is printed by
``examples/mixtures_table_1.py``.
"""

import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import corpora
import harness
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import TfidfTransformer

from sdem_dist import (
    EMMixtureClassifier,
    MultinomialMixture,
    MultinomialNB,
    MultiplicativeMixtureClassifier,
    SdemMixtureClassifier,
    cluster_scores,
)
from sdem_dist.engine.events import RoundEnded


def digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return features of MNIST's training digits, and which digit each is."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    import mnist_digits

    training = mnist_digits.cached(folder)[0]
    return training.X, training.y


def passes_to_reach(X: np.ndarray, y: np.ndarray, m: int, passes: int) -> str:
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

        def path(n: int, settings: dict[str, Any] = settings, **more: Any) -> np.ndarray:
            return MultiplicativeMixtureClassifier(m, n_epochs=n, **settings, **more).fit(X, y).log_likelihood_path_

        fast = path(passes)
        plain = {
            "joint": path(passes, accelerate=False),
            "in turn": path(2 * passes, accelerate=False, schedule="alternate"),
        }
        for name, slow in plain.items():
            goal = slow[-1]
            needed = int(np.argmax(fast >= goal)) + 1 if fast[-1] >= goal else passes
            line.append(f"{scaling or 'raw'}, {name}: L {goal:.4f} after {needed} of {passes}, 1/{passes / needed:.1f}")
    return f"M={m}: " + "; ".join(line)


def acceleration(folder: Path, components: tuple = (1, 4, 8), passes: int = 1000) -> None:
    for m in components:
        print(passes_to_reach(*digits(folder), m, passes), flush=True)


def time_of_passes(X: np.ndarray, y: np.ndarray, m: int, dtype: str, passes: int = 10) -> str:
    """Compare passes by one thread with the matrix products that they need, by NumPy in float32, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    rounds: list[float] = []

    def listen(event: Any) -> None:
        if isinstance(event, RoundEnded):
            rounds.append(event.seconds)

    settings: dict[str, Any] = {"n_epochs": passes + 2, "evaluate_every": 0, "validation_fraction": 0}
    MultiplicativeMixtureClassifier(m, dtype=dtype, n_jobs=1, **settings).fit(X, y, callbacks=[listen])
    rows, n_columns = X.astype(np.float32), len(np.unique(y)) * m
    theta = np.ones((X.shape[1], n_columns), np.float32)
    posteriors = np.full((len(X), n_columns), 0.5, np.float32)
    with threadpool_limits(1):
        started = time.perf_counter()
        for _, first in product(range(passes), range(0, len(X), 4096)):
            block, of_block = rows[first : first + 4096], posteriors[first : first + 4096]
            _ = block @ theta, of_block.T @ block, of_block[:, :m].T @ block  # logits, free sums, clamped sums
        products = time.perf_counter() - started
    ours = sum(rounds[2:])
    return f"M={m}, {dtype}: {passes} passes {ours:.3f} s, products {products:.3f} s, ratio {ours / products:.2f}"


def times(folder: Path, components: tuple = (1, 4, 8)) -> None:
    for m, dtype in product(components, ("float32", "float64")):
        print(time_of_passes(*digits(folder), m, dtype), flush=True)


def errors_of_settings(X: np.ndarray, y: np.ndarray, m: int) -> str:
    """Compare settings on a sixth of the training digits, held out: what the defaults were chosen by."""
    held = np.random.default_rng(0).random(len(y)) < 1 / 6
    errors = []
    for scaling, schedule, accelerate in product(("rows", None), ("joint", "alternate"), (True, False)):
        settings = {"scaling": scaling, "schedule": schedule, "accelerate": accelerate}
        model = MultiplicativeMixtureClassifier(m, **settings, dtype="float32", evaluate_every=0)
        error = 100 * (1 - model.fit(X[~held], y[~held]).score(X[held], y[held]))
        errors.append(f"{scaling or 'raw'}, {schedule}{', accelerated' * accelerate}: {error:.2f}")
    return f"M={m}, error on held-out training digits: " + "; ".join(errors)


def defaults(folder: Path, components: tuple = (1, 4, 8)) -> None:
    for m in components:
        print(errors_of_settings(*digits(folder), m), flush=True)


def cluster_lines(split: corpora.Split, n_clusters: int, n_init: int, seeds: int = 3) -> list[str]:
    """Return NMI, adjusted Rand index and purity of clusters of the training documents, each kind over some seeds."""
    weighted = TfidfTransformer().fit_transform(split.X)
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "MiniBatchKMeans on tf-idf": (MiniBatchKMeans, weighted, {}),
        "MultinomialMixture": (MultinomialMixture, split.X, {}),
        "MultinomialMixture, online": (MultinomialMixture, split.X, {"em": "online"}),
        "MultinomialMixture, from examples": (MultinomialMixture, split.X, {"init": "examples"}),
    }
    lines = []
    for name, (cls, X, settings) in kinds.items():
        started = time.perf_counter()
        models = [cls(n_clusters, n_init=n_init, random_state=seed, **settings).fit(X) for seed in range(seeds)]
        scores = [cluster_scores(split.y, model.labels_) for model in models]
        means = ", ".join(f"{np.mean([of[kind] for of in scores]):.3f}" for kind in ("nmi", "ari", "purity"))
        lines.append(f"{name}: NMI, ARI, purity {means} ({(time.perf_counter() - started) / seeds:.1f} s)")
    return lines


def clusters() -> None:
    print("\n".join(cluster_lines(corpora.load("20ng"), 20, 10)))


def text_accuracies(split: corpora.Split, components: tuple[int, ...], seeds: int = 2) -> list[float]:
    """Return test accuracies of multinomial mixtures beside naive Bayes, counted and discriminative."""

    def mean_accuracy(cls: Any, *arguments: Any, **settings: Any) -> float:
        models = [cls(*arguments, random_state=s, evaluate_every=0, **settings) for s in range(seeds)]
        return float(np.mean([m.fit(split.X, split.y).score(split.X_test, split.y_test) for m in models]))

    accuracies = [float(MultinomialNB(loss="nll").fit(split.X, split.y).score(split.X_test, split.y_test))]
    for loss in ("ncll", "hinge"):
        accuracies.append(mean_accuracy(MultinomialNB, loss=loss))
        accuracies += [mean_accuracy(SdemMixtureClassifier, m, components="multinomial", loss=loss) for m in components]
    return accuracies


def text(components: tuple = (2, 4)) -> None:
    harness.head("corpus", "counted", *(f"{loss}, {m}" for loss in ("ncll", "hinge") for m in (1, *components)))
    for name in corpora.STEMMED:
        harness.row(name, *text_accuracies(corpora.load(name), components))


def temperature() -> None:
    """Print test log-losses of two multinomial components a class, without and with a temperature, and test accuracy."""
    harness.head("corpus", "EM, none", "temperature", "accuracy", "sdEM, none", "temperature", "accuracy")
    for name in corpora.STEMMED:
        split, cells = corpora.load(name), []
        for kind in (EMMixtureClassifier, SdemMixtureClassifier):
            for share in (0.0, 0.1):
                model = kind(2, components="multinomial", validation_fraction=share).fit(split.X, split.y)
                accuracy, loss = harness.scores_of(model, split.X_test, split.y_test)
                cells.append(f"{loss:.3f}")
            cells.append(f"{accuracy:.4f}")
        harness.row(name, *cells)


if __name__ == "__main__":
    harness.run(__doc__, acceleration, times, defaults, clusters, text, temperature)
