"""Speed of training on one core, and what losses cost.

Run: ``SDEM_CORPORA=... python tests/benchmarks/speed.py [training|losses] [--repeats 7]``.

training: against scikit-learn's linear classifiers, on 20 Newsgroups, in one run on one matrix.  Times are medians and include
everything between the matrix and the fitted model: copying, shuffling and renumbering words too; compilation is apart;
losses: in the kernel of naive Bayes of words, beside the plain hinge loss: asked at most 1.3 times.  CPU seconds of the second
pass of one lane over the same documents; losses take turns, the least of several turns.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any

import harness
import numpy as np
import scipy.sparse as sp
from corpora import Split, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from sdem_dist import MultinomialNB
from sdem_dist.inputs.source import source_of
from sdem_dist.learners.protocol import Lane
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Loss

ONE_STAGE: dict[str, Any] = {"n_lanes": 1, "n_jobs": 1, "validation_fraction": 0.0}
"""One lane on one core, for as many epochs as are asked for."""


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    return median(harness.seconds(call) for _ in range(repeats))


def against(name: str, peer: Any, split: Split, repeats: int, most: int = 10) -> str:
    """Return a line on how many epochs, and seconds, our default loss takes to a peer's test accuracy."""
    seconds = median_seconds(lambda: peer.fit(split.X, split.y), repeats)
    accuracy = peer.score(split.X_test, split.y_test)
    for n in range(1, most + 1):
        model = MultinomialNB(n_epochs=n, **ONE_STAGE).fit(split.X, split.y)
        if model.score(split.X_test, split.y_test) >= accuracy:
            ours = median_seconds(lambda model=model: model.fit(split.X, split.y), repeats)
            reached = f"reached after {n} epoch(s), {ours:.3f} s: 1/{seconds / ours:.1f}"
            break
    else:
        reached = "not reached"
    return f"{name}: {seconds:.3f} s, test accuracy {accuracy:.4f}; {reached}"


def training(names: tuple = ("20ng",), repeats: int = 7) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in names:
        split = load(name)
        for loss in ("hinge", "ncll"):  # compiles
            MultinomialNB(loss=loss, n_epochs=1, **ONE_STAGE).fit(split.X, split.y)
        print(against("LinearSVC", LinearSVC(), split, max(repeats // 2, 1)), flush=True)
        sgd = SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0)
        print(against("SGDClassifier, 10 epochs", sgd, split, repeats), flush=True)
        ours, epoch, peer = MultinomialNB(loss="ncll", n_epochs=10, **ONE_STAGE), list[float](), list[float]()
        for _ in range(repeats):
            peer.append(harness.seconds(lambda sgd=sgd, split=split: sgd.fit(split.X, split.y)) / 10)
            epoch.append(fmean(h["seconds"] for h in ours.fit(split.X, split.y).history_))
        a, b = median(epoch), median(peer)
        print(f"one sequential NCLL epoch {a:.4f} s, one SGDClassifier epoch {b:.4f} s: ratio {a / b:.2f}", flush=True)


def drawn(n_documents: int, n_words: int, n_classes: int, length: int) -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_documents)
    usual = rng.zipf(1.3, (n_documents, length)) % n_words
    own = (rng.zipf(1.3, (n_documents, length)) + 37 * y[:, None]) % n_words
    words = np.where(rng.random((n_documents, length)) < 0.2, own, usual)
    rows = np.repeat(np.arange(n_documents), length)
    return sp.csr_matrix((np.ones(rows.size), (rows, words.ravel())), shape=(n_documents, n_words)), y


def second_pass(X: sp.csr_matrix, y: np.ndarray, loss: str | Loss) -> Callable[[], object]:
    model = MultinomialNB(loss=loss)
    source = model._weighed(source_of(model, X, y))
    candidate = model._candidate(source, model.loss)
    learner, start = candidate.learner, candidate.initial
    documents = learner.prepare(source.documents.read(0, len(y)))
    first, second = (Lane(epoch, 0, 0, 0, len(y), len(y)) for epoch in (0, 1))
    state = start.block(0, 1)
    state = learner.update(state, learner.map(state, documents, first))
    return partial(learner.map, state, documents, second)


def losses(documents: int = 10_000, words: int = 20_000, length: int = 80, classes: tuple = (2, 20), runs: int = 15):
    """Print the time of each loss over that of plain hinge."""
    for n_classes in classes:
        X, y = drawn(documents, words, n_classes, length)
        costs = tuple(tuple(float(k != y) for k in range(n_classes)) for y in range(n_classes))
        kinds: dict[str, str | Loss] = {"hinge": "hinge", "Hinge(0)": Hinge(0.0), "Hinge(2)": Hinge(2.0)}
        kinds |= {"CostSensitiveHinge": CostSensitiveHinge(costs), "Blend(Hinge(), 0.1)": Blend(Hinge(), 0.1)}
        passes = {name: second_pass(X, y, loss) for name, loss in kinds.items()}
        least = {name: min(times) for name, times in harness.in_turns(passes, runs, time.process_time).items()}
        print(f"{n_classes} classes, {documents:,} documents")
        for name, value in least.items():
            ratio = value / least["hinge"]
            print(f"  {name:<22}{ratio:6.2f}{'  over' if ratio > 1.3 else ''}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, training, losses)
