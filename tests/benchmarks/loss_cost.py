"""What losses cost in the kernel of naive Bayes of words, beside the plain hinge loss: asked at most 1.3 times.

CPU seconds of one pass of one lane over the same documents from the same state, so that all take about as many steps; the
least of several runs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp

from sdem_dist import MultinomialNB
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Loss

ASKED = 1.3


def drawn(
    n_documents: int, n_words: int, n_classes: int, length: int, seed: int = 0
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return documents of words that are a little more frequent in one class than in others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_documents)
    usual = rng.zipf(1.3, (n_documents, length)) % n_words
    own = (rng.zipf(1.3, (n_documents, length)) + 37 * y[:, None]) % n_words
    words = np.where(rng.random((n_documents, length)) < 0.2, own, usual)
    rows = np.repeat(np.arange(n_documents), length)
    return sp.csr_matrix((np.ones(rows.size), (rows, words.ravel())), shape=(n_documents, n_words)), y


def losses(n_classes: int) -> dict[str, str | Loss]:
    """Return the losses by name, plain hinge first."""
    costs = tuple(tuple(float(k != y) for k in range(n_classes)) for y in range(n_classes))
    return {
        "hinge": "hinge",
        "Hinge(0)": Hinge(0.0),
        "Hinge(2)": Hinge(2.0),
        "CostSensitiveHinge": CostSensitiveHinge(costs),
        "Blend(Hinge(), 0.1)": Blend(Hinge(), 0.1),
    }


def seconds(model: MultinomialNB, X: sp.csr_matrix, y: np.ndarray) -> float:
    """Return the CPU seconds of a fit."""
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def ratios(X: sp.csr_matrix, y: np.ndarray, n_classes: int, n_epochs: int, runs: int) -> dict[str, float]:
    """Return the time of each loss over that of plain hinge: the difference of two numbers of epochs is the kernel's.

    Losses take turns, and the first turn, which compiles and fills caches, does not count.
    """
    models = {
        (name, n): MultinomialNB(loss=loss, n_epochs=n, validation_fraction=0, n_jobs=1)
        for name, loss in losses(n_classes).items()
        for n in (1, 1 + n_epochs)
    }
    turns = [{key: seconds(model, X, y) for key, model in models.items()} for _ in range(1 + runs)]
    least = {key: min(turn[key] for turn in turns[1:]) for key in models}
    found = {name: max(least[name, 1 + n_epochs] - least[name, 1], 1e-9) for name in losses(n_classes)}
    return {name: value / found["hinge"] for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 20])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    for n_classes in args.classes:
        X, y = drawn(args.documents, args.words, n_classes, args.length)
        print(f"{n_classes} classes, {args.documents:,} documents")
        for name, ratio in ratios(X, y, n_classes, args.epochs, args.runs).items():
            print(f"  {name:<22}{ratio:6.2f}{'  over' if ratio > ASKED else ''}", flush=True)


if __name__ == "__main__":
    main()
