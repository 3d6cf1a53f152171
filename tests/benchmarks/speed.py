"""Speed on one core against scikit-learn's linear classifiers, on 20 Newsgroups, in one run on one matrix.

Run: ``SDEM_CORPORA=... python tests/benchmarks/speed.py [--repeats 7]``.  Times are medians and include everything
between the matrix and the fitted model: copying, shuffling and renumbering words too; compilation is apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

from corpora import Split, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB

ONE_STAGE: dict[str, Any] = {"n_lanes": 1, "n_jobs": 1, "validation_fraction": 0.0}
"""One lane on one core, for as many epochs as are asked for."""


def median_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the median wall time of a call."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def epochs_to_reach(split: Split, accuracy: float, most: int = 10) -> int | None:
    """Return the smallest number of epochs after which our default loss has the given test accuracy."""
    for n in range(1, most + 1):
        if MultinomialNB(n_epochs=n, **ONE_STAGE).fit(split.X, split.y).score(split.X_test, split.y_test) >= accuracy:
            return n
    return None


def against(name: str, peer: Any, split: Split, repeats: int) -> str:
    """Return a line on how long a peer's test accuracy takes us."""
    seconds = median_seconds(lambda: peer.fit(split.X, split.y), repeats)
    accuracy = peer.score(split.X_test, split.y_test)
    n = epochs_to_reach(split, accuracy)
    if n is None:
        return f"{name}: {seconds:.3f} s, test accuracy {accuracy:.4f}; not reached"
    ours = median_seconds(lambda: MultinomialNB(n_epochs=n, **ONE_STAGE).fit(split.X, split.y), repeats)
    return f"{name}: {seconds:.3f} s, test accuracy {accuracy:.4f}; reached after {n} epoch(s), {ours:.3f} s: 1/{seconds / ours:.1f}"


def sequential_epoch(split: Split, repeats: int) -> str:
    """Return a line on one epoch of the sequential algorithm with NCLL against one of SGDClassifier."""
    sgd = SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0)
    ours = MultinomialNB(loss="ncll", n_epochs=10, **ONE_STAGE)
    peer, epoch = [], []
    for _ in range(repeats):
        peer.append(median_seconds(lambda: sgd.fit(split.X, split.y), 1) / 10)
        epoch.append(statistics.fmean(h["seconds"] for h in ours.fit(split.X, split.y).history_))
    a, b = statistics.median(epoch), statistics.median(peer)
    return f"one sequential NCLL epoch {a:.4f} s, one SGDClassifier epoch {b:.4f} s: ratio {a / b:.2f}"


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--name", default="20ng")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    split = load(options.name)
    started = time.perf_counter()
    for loss in ("hinge", "ncll"):  # compiled here, or loaded from the cache
        MultinomialNB(loss=loss, n_epochs=1, **ONE_STAGE).fit(split.X, split.y)
    print(f"first fits, with compilation: {time.perf_counter() - started:.2f} s")
    print(against("LinearSVC", LinearSVC(), split, max(options.repeats // 2, 1)), flush=True)
    sgd = SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0)
    print(against("SGDClassifier, 10 epochs", sgd, split, options.repeats), flush=True)
    print(sequential_epoch(split, options.repeats), flush=True)


if __name__ == "__main__":
    main()
