"""Topics: of classes (`LDAClassifier`), and by mirror descent: accuracy, likelihood of words, and speed.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topics.py {accuracy,likelihood,speed}``. Settings are the defaults but
for what a row names.

accuracy: `LDAClassifier` over random starts (``--rows 'NCLL-LDA;LinearSVC'`` names rows);
likelihood: LatentDirichletAllocation against scikit-learn's: held-out words of documents of at most 300 words, both by the
left-to-right estimator with 10 particles, each at its own alpha;
speed: an epoch of supervised LDA on one core against one of SGDClassifier: 20 topics, 10 layers, batches of 100.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Reviews, imdb, load
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.linear_model import SGDClassifier
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


def likelihood(names: tuple = ("imdb", "r8", "webkb", "20ng"), documents: int = 4_000, topics: int = 20) -> None:
    """Print ln p of a held-out word; but for imdb few documents are trained on, without a fifth of them."""
    for name in names:
        X = (imdb()[0] if name == "imdb" else load(name)).X
        X = X[np.random.default_rng(0).permutation(X.shape[0])[: None if name == "imdb" else documents]]
        train, rest = X[: X.shape[0] * 4 // 5], X[X.shape[0] * 4 // 5 :]
        held_out = rest[np.flatnonzero(np.asarray(rest.sum(axis=1)).ravel() <= 300)[:200]]
        without_priors = LatentDirichletAllocation(topics, alpha=1.001, topic_word_prior=0.0)
        for model in (LatentDirichletAllocation(topics), without_priors, Peer(topics, random_state=0)):
            seconds = harness.seconds(lambda model=model, train=train: model.fit(train))
            if isinstance(model, Peer):
                topic_words = (model.components_ / model.components_.sum(axis=1)[:, None]).T
                batch = MemoryCorpus(held_out, None, (), shuffle=False).read(0, held_out.shape[0])
                of_word = log_probability(topic_words, batch, 1 / topics).sum() / held_out.sum()
            else:
                of_word = model.score(held_out)
            print(f"{name}, {model}: {of_word:.4f} a word, {seconds:.1f} s", flush=True)


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
