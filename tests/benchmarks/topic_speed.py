"""Speed of supervised LDA on one core: against automatic differentiation, against SGDClassifier, and how time grows.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topic_speed.py [--documents 25000]``.  One epoch on IMDB, 5,000 words, 20
topics, 10 layers, batches of 100, in one run.  The peer is Algorithm 2 written down plainly with JAX, jitted, in double
precision, over dense batches of documents by words; it is left out where JAX is not installed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from reviews import Reviews, imdb

from sdem_dist import SupervisedLDAClassifier

ONE_LANE: dict[str, Any] = {"n_lanes": 1, "batch_size": 100, "n_jobs": 1, "evaluate_every": 0}


def epoch_seconds(reviews: Reviews, n_epochs: int = 3, **settings: Any) -> float:
    """Return the median seconds of an epoch."""
    model = SupervisedLDAClassifier(n_epochs=n_epochs, **(ONE_LANE | settings)).fit(reviews.X, reviews.y)
    return statistics.median(h["seconds"] for h in model.history_)


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


def sgd_seconds(reviews: Reviews) -> float:
    """Return the seconds of one epoch of SGDClassifier."""
    from sklearn.linear_model import SGDClassifier

    started = time.perf_counter()
    SGDClassifier(loss="log_loss", max_iter=3, tol=None, random_state=0).fit(reviews.X, reviews.y)
    return (time.perf_counter() - started) / 3


def growth(measure: Callable[..., float], train: Reviews) -> None:
    """Print seconds over topics and over documents."""
    n = len(train.y)
    order = np.random.default_rng(0).permutation(n)
    for k in (5, 10, 20, 50, 100):
        print(f"{k} topics: {measure(train, 2, n_components=k):.3f} s an epoch", flush=True)
    for share in (8, 4, 2, 1):
        print(f"{n // share} documents: {measure(train.take(order[: n // share]), 2):.3f} s an epoch", flush=True)


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=25_000)
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    train = train.take(order[: parser.parse_args().documents])
    epoch_seconds(train.take(order[order < len(train.y)][:200]), 1)  # compiles
    ours = epoch_seconds(train)
    print(f"one epoch: {ours:.3f} s", flush=True)
    peer = sgd_seconds(train)
    print(f"one SGDClassifier epoch: {peer:.3f} s, ratio {ours / peer:.1f}", flush=True)
    if find_spec("jax") is None:
        print("automatic differentiation: JAX is not installed")
    else:
        auto = automatic(train)
        print(f"one epoch by automatic differentiation: {auto:.2f} s, ratio {auto / ours:.1f}", flush=True)
    growth(epoch_seconds, train)


if __name__ == "__main__":
    main()
