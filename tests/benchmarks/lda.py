"""LDAClassifier: accuracy over random starts, what skipped classes save, the sampler's speed, many topics from disk.

Run: ``SDEM_CORPORA=... python tests/benchmarks/lda.py {accuracy,sampler,twenty}``.  Peers from tomotopy are
measured where it is installed.  Settings are the defaults except for what a row names; the defaults were chosen by
cross-validation on the training documents of R8 and WebKB (``choose``).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from corpora import Split, load
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from sdem_dist import LDAClassifier, MultinomialNB, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.lda import Inference, LdaClasses

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


def slda(split: Split, start: int, n_topics: int = 50, iterations: int = 500) -> float:
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
    found = np.array([model.estimate(d) for d in documents])
    return float((classes[found.argmax(axis=1)] == split.y_test).mean())


def _words(X: Any) -> Iterator[list[str]]:
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield [str(w) for w, c in zip(X.indices[a:b], X.data[a:b], strict=True) for _ in range(int(c))]


def cross_validated(split: Split, settings: dict[str, Any], folds: int = 4) -> tuple[float, float]:
    """Return the mean accuracy and log-loss over folds of the training documents."""
    made = []
    for i, (a, b) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=3).split(split.X, split.y)):
        model = LDAClassifier(random_state=i, evaluate_every=0, **settings).fit(split.X[a], split.y[a])
        p = model.predict_proba(split.X[b])
        made.append((model.score(split.X[b], split.y[b]), log_loss(split.y[b], p, labels=model.classes_)))
    accuracy, loss = np.mean(made, axis=0)
    return round(float(accuracy), 4), round(float(loss), 3)


def sampler(split: Split, n_topics: int, repeats: int, sweeps: int = 20) -> dict[str, float]:
    """Return millions of tokens x topics a second of our sampler and of tomotopy's LDA, on one core."""
    tokens = float(split.X.sum())
    corpus = MemoryCorpus(split.X, np.zeros(split.X.shape[0], np.int32), ("all",), random_state=0)
    inference = Inference("gibbs", "each", 1.0 / n_topics, sweeps, sweeps - 1)
    model = LdaClasses(split.X.shape[1], Classes(1), n_topics, 0.1, inference=inference)
    learner = SdEM(model, float(split.X.shape[0]), Merge(local=False))
    n = split.X.shape[0]
    documents, lane = learner.prepare(corpus.read(0, n)), Lane(0, 0, 0, 0, n, n)
    state = learner.init()
    state = learner.update(state, learner.map(state, documents, lane))
    found: dict[str, list[float]] = {"ours": []}
    peer = None
    try:
        import tomotopy

        peer = tomotopy.LDAModel(k=n_topics, seed=0)
        for words in _words(split.X):
            if words:
                peer.add_doc(words)
        peer.train(5, workers=1)
        found["tomotopy"] = []
    except ImportError:
        pass
    for _ in range(repeats):
        started = time.perf_counter()
        learner.map(state, documents, lane)
        found["ours"].append(tokens * n_topics * sweeps / (time.perf_counter() - started) / 1e6)
        if peer is not None:
            started = time.perf_counter()
            peer.train(sweeps, workers=1)
            found["tomotopy"].append(tokens * n_topics * sweeps / (time.perf_counter() - started) / 1e6)
    return {name: median(values) for name, values in found.items()}


def twenty(split: Split, n_topics: int, n_epochs: int, folder: Path) -> str:
    """Say how long many classes of some topics train on two Dask workers from disk, and what memory they take."""
    from distributed import Client

    corpus = write_corpus(folder / "corpus.zarr", split.X, split.y)

    def peak() -> float:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as client:
        started = time.perf_counter()
        model = LDAClassifier(n_components=n_topics, n_epochs=n_epochs, evaluate_every=0).fit(corpus, client=client)
        seconds = time.perf_counter() - started
        memory = max(client.run(peak).values())
    accuracy = model.score(split.X_test, split.y_test)
    return (
        f"{len(model.classes_)} classes x {n_topics} topics, {n_epochs} epochs on two Dask workers: {seconds:.1f} s, "
        f"peak of a worker {memory:.0f} MiB, test accuracy {accuracy:.4f}"
    )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["accuracy", "slda", "choose", "sampler", "twenty"])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--names", default="r8,webkb")
    parser.add_argument("--rows", help="rows of accuracy or of choose, with ; between them")
    options = parser.parse_args()
    names = options.names.split(",")
    if options.what == "accuracy":
        for name in names:
            for title in ROWS if options.rows is None else options.rows.split(";"):
                make = ROWS[title]
                once = title in ("LinearSVC", "naive Bayes, NLL")
                print(name, title, spread(accuracies(load(name), make, 1 if once else options.starts)), flush=True)
    elif options.what == "slda":
        for name in names:
            found = [slda(load(name), start) for start in range(options.starts)]
            print(name, "tomotopy SLDA, 50 topics", spread(found), flush=True)
    elif options.what == "choose":
        for title in CANDIDATES if options.rows is None else options.rows.split(";"):
            print(title, {name: cross_validated(load(name), CANDIDATES[title]) for name in names}, flush=True)
    elif options.what == "sampler":
        for n_topics in (2, 20, 100):
            found = sampler(load("r8"), n_topics, options.repeats)
            print(
                n_topics,
                "topics, million tokens x topics a second:",
                {k: round(v) for k, v in found.items()},
                flush=True,
            )
    else:
        with tempfile.TemporaryDirectory() as folder:
            print(twenty(load("20ng"), 4, 10, Path(folder)))


if __name__ == "__main__":
    main()
