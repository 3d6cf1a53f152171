"""What losses cost in the kernel of naive Bayes of words, beside the plain hinge loss: asked at most 1.3 times.

CPU seconds of the second pass of one lane over the same documents; losses take turns, the least of several turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from sdem_dist import MultinomialNB
from sdem_dist.inputs.source import source_of
from sdem_dist.learners.protocol import Lane
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


def passes(X: sp.csr_matrix, y: np.ndarray, loss: str | Loss) -> Callable[[], object]:
    """Return the second pass of one lane over all documents, to be run again and again."""
    model = MultinomialNB(loss=loss)
    source = model._weighed(source_of(model, X, y))
    learner, start = model._learner(source)
    assert start is not None
    state = start.block(0, 1)
    documents = learner.prepare(source.documents.read(0, len(y)))
    first, second = (Lane(epoch, 0, 0, 0, len(y), len(y)) for epoch in (0, 1))
    state = learner.update(state, learner.map(state, documents, first))
    return partial(learner.map, state, documents, second)


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU seconds of a pass."""
    start = time.process_time()
    run()
    return time.process_time() - start


def ratios(X: sp.csr_matrix, y: np.ndarray, n_classes: int, runs: int) -> dict[str, float]:
    """Return the time of each loss over that of plain hinge: losses take turns, and the least of the turns counts."""
    ready = {name: passes(X, y, loss) for name, loss in losses(n_classes).items()}
    turns = [{name: seconds(run) for name, run in ready.items()} for _ in range(runs)]
    least = {name: min(turn[name] for turn in turns) for name in ready}
    return {name: value / least["hinge"] for name, value in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 20])
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    for n_classes in args.classes:
        X, y = drawn(args.documents, args.words, n_classes, args.length)
        print(f"{n_classes} classes, {args.documents:,} documents")
        for name, ratio in ratios(X, y, n_classes, args.runs).items():
            print(f"  {name:<22}{ratio:6.2f}{'  over' if ratio > ASKED else ''}", flush=True)


if __name__ == "__main__":
    main()
