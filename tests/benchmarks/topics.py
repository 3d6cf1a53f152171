"""Topics: of classes (`LDAClassifier`), and by mirror descent: accuracy, likelihood of words, and speed.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topics.py {accuracy,likelihood,speed}``. Settings are the defaults but
for what a row names.

accuracy: `LDAClassifier` over random starts (``--rows 'NCLL-LDA;LinearSVC'`` names rows);
likelihood: BP-LDA against scikit-learn's online variational LDA: held-out words, and what topics say of the stars. Both by the
left-to-right estimator with 10 particles, each at its own alpha, on test reviews of at most 300 words; then linear regression
on topic proportions, with the ridge that is best by leave-one-out on the training reviews;
speed: an epoch of supervised LDA on one core against one of SGDClassifier: 20 topics, 10 layers, batches of 100.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Reviews, imdb, load
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.linear_model import RidgeCV, SGDClassifier
from sklearn.svm import LinearSVC

from sdem_dist import LatentDirichletAllocation, LDAClassifier, MultinomialNB, SupervisedLDAClassifier
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.models.lda import log_probability

NAMES, GIBBS = ("r8", "webkb"), {"inference": "gibbs"}
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
ONE_LANE: dict[str, Any] = {"n_lanes": 1, "batch_size": 100, "n_jobs": 1, "evaluate_every": 0}


def accuracy(names: tuple = NAMES, rows: tuple = tuple(ROWS), starts: int = 10) -> None:
    """Print mean, smallest and largest over starts."""
    for name in names:
        X, y, X_test, y_test = load(name)
        for title in rows:
            n = 1 if title in ("LinearSVC", "naive Bayes, NLL") else starts
            found = [float(ROWS[title](s).fit(X, y).score(X_test, y_test)) for s in range(n)]
            print(name, title, f"{np.mean(found):.4f} ({min(found):.4f} to {max(found):.4f})", flush=True)


def likelihood_line(name: str, model: Any, alpha: float, train: Reviews, test: Reviews, held_out: Any) -> str:
    seconds = harness.seconds(lambda: model.fit(train.X))
    topics = model.components_ / model.components_.sum(axis=1)[:, None]
    ridge = RidgeCV(np.logspace(-4, 3, 8)).fit(model.transform(train.X), train.stars)
    explained = ridge.score(model.transform(test.X), test.stars)
    documents = MemoryCorpus(held_out, None, (), shuffle=False).read(0, held_out.shape[0])
    of_word = float(log_probability(topics.T, documents, alpha).sum() / held_out.sum())
    return f"{name}: {of_word:.4f} a word, R2 of the stars {explained:.4f}, {seconds:.0f} s"


def likelihood(documents: int = 200, topics: tuple = (20, 50)) -> None:
    train, test = imdb()
    held_out = test.X[np.flatnonzero(np.asarray(test.X.sum(axis=1)).ravel() <= 300)[:documents]]
    for k in topics:
        ours = LatentDirichletAllocation(n_components=k, evaluate_every=0, n_jobs=1)
        print(likelihood_line(f"BP-LDA, {k} topics", ours, ours.alpha, train, test, held_out), flush=True)
        peer = Peer(k, learning_method="online", max_iter=5, random_state=0)
        print(likelihood_line(f"scikit-learn, {k} topics", peer, 1 / k, train, test, held_out), flush=True)


def epoch_seconds(reviews: Reviews, n_epochs: int = 3, **settings: Any) -> float:
    model = SupervisedLDAClassifier(n_epochs=n_epochs, **(ONE_LANE | settings)).fit(reviews.X, reviews.y)
    return median(h["seconds"] for h in model.history_)


def speed(documents: int = 25_000) -> None:
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    train = train.take(order[:documents])
    epoch_seconds(train.take(order[order < len(train.y)][:200]), 1)  # compiles
    ours = epoch_seconds(train)
    print(f"one epoch: {ours:.3f} s", flush=True)
    sgd = SGDClassifier(loss="log_loss", max_iter=3, tol=None, random_state=0)
    peer = harness.seconds(lambda: sgd.fit(train.X, train.y)) / 3
    print(f"one SGDClassifier epoch: {peer:.3f} s, ratio {ours / peer:.1f}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, accuracy, likelihood, speed)
