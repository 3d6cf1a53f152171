"""Topics by mirror descent: ways of inference, likelihood of words, and speed, on IMDB with 5,000 words.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topics.py {inference,likelihood,speed}``.

inference: mirror descent, accelerated, by line search; alpha given and learned.  20 topics; train and held-out reviews are
parts of the training half.  AUC of the polarity of BP-sLDA; ln p of a held-out word of BP-LDA by the left-to-right estimator,
on reviews of at most 120 words; seconds of CPU of each fit;
likelihood: BP-LDA against scikit-learn's online variational LDA: held-out words, and what topics say of the stars.  Both by the
left-to-right estimator with 10 particles, each at its own alpha, on test reviews of at most 300 words; then linear regression
on topic proportions, with the ridge that is best by leave-one-out on the training reviews;
speed: supervised LDA on one core, against automatic differentiation, against SGDClassifier, and how time grows.  One epoch, 20
topics, 10 layers, batches of 100.  The peer is Algorithm 2 written down plainly with JAX, jitted, in double precision, over
dense batches of documents by words; it is left out where JAX is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

import harness
import numpy as np
from corpora import Reviews, imdb
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.linear_model import RidgeCV, SGDClassifier
from sklearn.metrics import roc_auc_score

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.models.lda import log_probability
from sdem_dist.models.topics import METHODS

ONE_LANE: dict[str, Any] = {"n_lanes": 1, "batch_size": 100, "n_jobs": 1, "evaluate_every": 0}


def short_reviews(part: Reviews, most_words: int, n: int) -> Any:
    return part.X[np.flatnonzero(np.asarray(part.X.sum(axis=1)).ravel() <= most_words)[:n]]


def inference_line(settings: dict[str, Any], part: Reviews, other: Reviews, held_out: Any) -> str:
    """Return what a setting reaches, and how long its fits take."""
    plain: dict[str, Any] = {"n_components": 20, "evaluate_every": 0, "n_jobs": 1}
    supervised, words = SupervisedLDAClassifier(**plain, **settings), LatentDirichletAllocation(**plain, **settings)
    first = harness.seconds(lambda: supervised.fit(part.X, part.y), time.process_time)
    second = harness.seconds(lambda: words.fit(part.X), time.process_time)
    auc = roc_auc_score(other.y, supervised.predict_proba(other.X)[:, 1])
    return f"{settings}: AUC {auc:.4f} in {first:.1f} s; {words.score(held_out):.4f} a word in {second:.1f} s"


def inference(documents: int = 10_000) -> None:
    """Print a line for each setting."""
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    part, other = train.take(order[:documents]), train.take(order[documents : 2 * documents])
    short = short_reviews(other, 120, 100)
    inference_line({}, part.take(np.arange(50)), other, short[:1])  # compiles
    settings = [{"inference": name, "n_layers": layers} for layers in (10, 5) for name in METHODS]
    for given in [*settings, {"alpha": 1.1}, {"alpha": "learned"}]:
        print(inference_line(given, part, other, short), flush=True)


def likelihood_line(name: str, model: Any, alpha: float, train: Reviews, test: Reviews, held_out: Any) -> str:
    """Return the mean log-likelihood of a word, and R2 of the stars."""
    seconds = harness.seconds(lambda: model.fit(train.X))
    topics = model.components_ / model.components_.sum(axis=1)[:, None]
    ridge = RidgeCV(np.logspace(-4, 3, 8)).fit(model.transform(train.X), train.stars)
    explained = ridge.score(model.transform(test.X), test.stars)
    documents = MemoryCorpus(held_out, None, (), shuffle=False).read(0, held_out.shape[0])
    of_word = float(log_probability(topics.T, documents, alpha).sum() / held_out.sum())
    return f"{name}: {of_word:.4f} a word, R2 of the stars {explained:.4f}, {seconds:.0f} s"


def likelihood(documents: int = 200, topics: tuple = (20, 50)) -> None:
    """Print a line for each model and number of topics."""
    train, test = imdb()
    held_out = short_reviews(test, 300, documents)
    for k in topics:
        ours = LatentDirichletAllocation(n_components=k, evaluate_every=0, n_jobs=1)
        print(likelihood_line(f"BP-LDA, {k} topics", ours, ours.alpha, train, test, held_out), flush=True)
        peer = Peer(k, learning_method="online", max_iter=5, random_state=0)
        print(likelihood_line(f"scikit-learn, {k} topics", peer, 1 / k, train, test, held_out), flush=True)


def epoch_seconds(reviews: Reviews, n_epochs: int = 3, **settings: Any) -> float:
    """Return the median seconds of an epoch."""
    model = SupervisedLDAClassifier(n_epochs=n_epochs, **(ONE_LANE | settings)).fit(reviews.X, reviews.y)
    return median(h["seconds"] for h in model.history_)


def automatic(reviews: Reviews, n_topics: int = 20, n_layers: int = 10, batch: int = 100, n_batches: int = 20) -> float:
    """Return the seconds that an epoch takes by automatic differentiation, from some batches of it."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    n, n_words = reviews.X.shape
    rng = np.random.default_rng(0)
    topics = np.asarray(reviews.X.sum(axis=0)).T * np.exp(0.1 * rng.standard_normal((n_words, n_topics)))
    phi, u = jnp.asarray(topics / topics.sum(axis=0)), jnp.asarray(rng.standard_normal((2, n_topics)))

    def loss(phi: Any, u: Any, x: Any, y: Any) -> Any:
        theta = jnp.full((len(x), n_topics), 1.0 / n_topics)
        for _ in range(n_layers):
            pull = (x / (theta @ phi.T)) @ phi + 0.001 / theta
            p = theta * jnp.exp(pull / x.sum(axis=1, keepdims=True))
            theta = p / p.sum(axis=1, keepdims=True)
        return -jax.nn.log_softmax(theta @ u.T)[jnp.arange(len(x)), y].mean()

    @jax.jit
    def step(phi: Any, u: Any, squares: Any, t: Any, x: Any, y: Any) -> Any:
        by_phi, by_u = jax.grad(loss, argnums=(0, 1))(phi, u, x, y)
        squares = squares + (by_phi**2).sum(axis=0)
        moved = phi * jnp.exp(jnp.clip(-0.03 / (jnp.sqrt(squares / (t * n_words)) + 1e-12) * by_phi, -1, 1))
        return moved / moved.sum(axis=0), u - 3.0 * by_u, squares

    squares, started = jnp.zeros(n_topics), 0.0
    for t in range(n_batches + 1):
        if t == 1:  # the first compiles
            phi.block_until_ready()
            started = time.perf_counter()
        rows = slice(t * batch, (t + 1) * batch)
        x = np.asarray(reviews.X[rows].todense(), np.float64)
        phi, u, squares = step(phi, u, squares, t + 1.0, x, reviews.y[rows])
    phi.block_until_ready()
    return (time.perf_counter() - started) / n_batches * n / batch


def growth(measure: Callable[..., float], train: Reviews) -> None:
    """Print seconds over topics and over documents."""
    n = len(train.y)
    order = np.random.default_rng(0).permutation(n)
    for k in (5, 10, 20, 50, 100):
        print(f"{k} topics: {measure(train, 2, n_components=k):.3f} s an epoch", flush=True)
    for share in (8, 4, 2, 1):
        print(f"{n // share} documents: {measure(train.take(order[: n // share]), 2):.3f} s an epoch", flush=True)


def speed(documents: int = 25_000) -> None:
    """Print seconds of an epoch, ours and the peers'."""
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    train = train.take(order[:documents])
    epoch_seconds(train.take(order[order < len(train.y)][:200]), 1)  # compiles
    ours = epoch_seconds(train)
    print(f"one epoch: {ours:.3f} s", flush=True)
    sgd = SGDClassifier(loss="log_loss", max_iter=3, tol=None, random_state=0)
    peer = harness.seconds(lambda: sgd.fit(train.X, train.y)) / 3
    print(f"one SGDClassifier epoch: {peer:.3f} s, ratio {ours / peer:.1f}", flush=True)
    if find_spec("jax") is None:
        print("automatic differentiation: JAX is not installed")
    else:
        auto = automatic(train)
        print(f"one epoch by automatic differentiation: {auto:.2f} s, ratio {auto / ours:.1f}", flush=True)
    growth(epoch_seconds, train)


if __name__ == "__main__":
    harness.run(__doc__, inference, likelihood, speed)
