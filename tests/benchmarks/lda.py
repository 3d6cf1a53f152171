"""LDAClassifier: accuracy over random starts, the sampler's speed, many topics from disk.

Run: ``SDEM_CORPORA=... python tests/benchmarks/lda.py {accuracy,slda,choose,sampler,twenty}``.  Peers from tomotopy are
measured where it is installed.  Settings are the defaults except for what a row names; the defaults were chosen by
cross-validation on the training documents of R8 and WebKB (``choose``).  ``--rows 'NCLL-LDA;LinearSVC'`` names rows of
accuracy or of choose.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Split, load
from scale import peak_memory
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from sdem_dist import LDAClassifier, MultinomialNB, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.lda import Inference, LdaClasses

NAMES = ("r8", "webkb")
GIBBS = {"inference": "gibbs"}
ROWS: dict[str, Callable[[int], Any]] = {
    "NCLL-LDA": lambda s: LDAClassifier(random_state=s),
    "hinge-LDA": lambda s: LDAClassifier(loss="hinge", random_state=s),
    "NLL-LDA": lambda s: LDAClassifier(loss="nll", random_state=s),
    "NCLL-LDA, Gibbs": lambda s: LDAClassifier(**GIBBS, random_state=s),
    "NCLL-LDA, Gibbs, each occurrence": lambda s: LDAClassifier(**GIBBS, occurrences="each", random_state=s),
    "NCLL-LDA, Gibbs, left to right": lambda s: LDAClassifier(**GIBBS, n_particles=1, random_state=s),
    "NLL-LDA, Gibbs": lambda s: LDAClassifier(loss="nll", **GIBBS, random_state=s),
    "naive Bayes of counts, NCLL": lambda s: MultinomialNB(loss="ncll", weighting="counts", random_state=s),
    "naive Bayes, NLL": lambda s: MultinomialNB(loss="nll"),
    "LinearSVC": lambda s: LinearSVC(random_state=s),
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "step=3, one lane": {"step": 3.0, "n_lanes": 1},
    "one lane": {"n_lanes": 1},
    "step=3": {"step": 3.0},
    "topic_word_prior=0.1": {"topic_word_prior": 0.1},
    "topic_word_prior=3": {"topic_word_prior": 3.0},
    "doc_topic_prior=5": {"doc_topic_prior": 5.0},
    "init_noise=0.3": {"init_noise": 0.3},
    "init_noise=1": {"init_noise": 1.0},
    "n_components=4": {"n_components": 4},
    "hinge": {"loss": "hinge"},
    "Gibbs": GIBBS,
    "Gibbs, paper": {**GIBBS, "occurrences": "paper"},
    "Gibbs, each": {**GIBBS, "occurrences": "each"},
    "Gibbs, left to right": {**GIBBS, "n_particles": 1},
}


def spread(values: list[float]) -> str:
    """Return mean, smallest and largest."""
    return f"{np.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def accuracies(split: Split, make: Callable[[int], Any], starts: int) -> list[float]:
    """Return the test accuracy of several random starts."""
    return [float(make(s).fit(split.X, split.y).score(split.X_test, split.y_test)) for s in range(starts)]


def slda_accuracy(split: Split, start: int, n_topics: int = 50, iterations: int = 500) -> float:
    """Return the test accuracy of tomotopy's supervised LDA, a logistic output for each class."""
    import tomotopy

    classes = np.unique(split.y)
    model = tomotopy.SLDAModel(k=n_topics, vars="b" * len(classes), seed=start)
    for words, label in zip(_words(split.X), split.y, strict=True):
        if words:
            model.add_doc(words, y=(classes == label).astype(float).tolist())
    model.train(iterations, workers=1)
    documents = [model.make_doc(words or ["0"], y=[float("nan")] * len(classes)) for words in _words(split.X_test)]
    model.infer(documents, workers=1)
    outputs = np.array([model.estimate(d) for d in documents])
    return float((classes[outputs.argmax(axis=1)] == split.y_test).mean())


def _words(X: Any) -> Iterator[list[str]]:
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield [str(w) for w, c in zip(X.indices[a:b], X.data[a:b], strict=True) for _ in range(int(c))]


def cross_validated(split: Split, settings: dict[str, Any], folds: int = 4) -> tuple[float, float]:
    """Return the mean accuracy and log-loss over folds of the training documents."""
    scores = []
    for i, (a, b) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=3).split(split.X, split.y)):
        model = LDAClassifier(random_state=i, evaluate_every=0, **settings).fit(split.X[a], split.y[a])
        scores.append(harness.scores_of(model, split.X[b], split.y[b]))
    accuracy, loss = np.mean(scores, axis=0)
    return round(float(accuracy), 4), round(float(loss), 3)


def sampler_rates(split: Split, n_topics: int, repeats: int, sweeps: int = 20) -> dict[str, float]:
    """Return millions of tokens x topics a second of our sampler and of tomotopy's LDA, on one core."""
    n = split.X.shape[0]
    corpus = MemoryCorpus(split.X, np.zeros(n, np.int32), ("all",), random_state=0)
    gibbs = Inference("gibbs", "each", 1.0 / n_topics, sweeps, sweeps - 1)
    learner = SdEM(
        LdaClasses(split.X.shape[1], Classes(1), 0.1, n_topics=n_topics, inference=gibbs), float(n), Merge(local=False)
    )
    documents, lane = learner.prepare(corpus.read(0, n)), Lane(0, 0, 0, 0, n, n)
    state = learner.init()
    state = learner.update(state, learner.map(state, documents, lane))
    calls: dict[str, Callable[[], object]] = {"ours": lambda: learner.map(state, documents, lane)}
    if find_spec("tomotopy"):
        import tomotopy

        peer = tomotopy.LDAModel(k=n_topics, seed=0)
        for words in filter(None, _words(split.X)):
            peer.add_doc(words)
        peer.train(5, workers=1)
        calls["tomotopy"] = lambda: peer.train(sweeps, workers=1)
    work = float(split.X.sum()) * n_topics * sweeps / 1e6
    return {name: work / median(times) for name, times in harness.in_turns(calls, repeats).items()}


def accuracy(names: tuple = NAMES, rows: tuple = tuple(ROWS), starts: int = 10) -> None:
    """Print test accuracies over starts."""
    for name in names:
        for title in rows:
            n = 1 if title in ("LinearSVC", "naive Bayes, NLL") else starts
            print(name, title, spread(accuracies(load(name), ROWS[title], n)), flush=True)


def slda(names: tuple = NAMES, starts: int = 10) -> None:
    """Print test accuracies of tomotopy's supervised LDA."""
    for name in names:
        accuracies = [slda_accuracy(load(name), start) for start in range(starts)]
        print(name, "tomotopy SLDA, 50 topics", spread(accuracies), flush=True)


def choose(names: tuple = NAMES, rows: tuple = tuple(CANDIDATES)) -> None:
    """Print what candidates of defaults reach."""
    for title in rows:
        print(title, {name: cross_validated(load(name), CANDIDATES[title]) for name in names}, flush=True)


def sampler(repeats: int = 5) -> None:
    """Print the sampler's speed."""
    for n_topics in (2, 20, 100):
        rates = {name: round(rate) for name, rate in sampler_rates(load("r8"), n_topics, repeats).items()}
        print(f"{n_topics} topics, million tokens x topics a second: {rates}", flush=True)


def twenty(topics: int = 4, epochs: int = 10) -> None:
    """Say how long many classes of some topics train on two Dask workers from disk, and what memory they take."""
    split = load("20ng")
    with tempfile.TemporaryDirectory() as folder, connected(n_workers=2) as client:
        corpus = write_corpus(Path(folder, "corpus.zarr"), split.X, split.y)
        model = LDAClassifier(n_components=topics, n_epochs=epochs, evaluate_every=0)
        seconds = harness.seconds(lambda: model.fit(corpus, client=client))
        memory = max(client.run(peak_memory).values()) / 2**20
    accuracy = model.score(split.X_test, split.y_test)
    print(
        f"{len(model.classes_)} classes x {topics} topics, {epochs} epochs on two Dask workers: {seconds:.1f} s, "
        f"peak of a worker {memory:.0f} MiB, test accuracy {accuracy:.4f}"
    )


if __name__ == "__main__":
    harness.run(__doc__, accuracy, slda, choose, sampler, twenty)
