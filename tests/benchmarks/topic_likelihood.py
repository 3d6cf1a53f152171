"""BP-LDA against scikit-learn's online variational LDA on IMDB: held-out words, and what topics say of the stars.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topic_likelihood.py [--documents 200]``.  Both by the left-to-right
estimator with 10 particles, each at its own alpha, on test reviews of at most 300 words; then linear regression on topic
proportions, with the ridge that is best by
leave-one-out on the training reviews.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from reviews import Reviews, imdb
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.linear_model import RidgeCV

from sdem_dist import LatentDirichletAllocation
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.models.supervised_lda import log_probability


def word_likelihood(topics: np.ndarray, X: Any, alpha: float) -> float:
    """Return the mean log-likelihood of a word."""
    documents = MemoryCorpus(X, None, (), shuffle=False).read(0, X.shape[0])
    return float(log_probability(topics, documents, alpha).sum() / X.sum())


def row(name: str, model: Any, alpha: float, train: Reviews, test: Reviews, held_out: Any) -> str:
    """Return a line about one model."""
    started = time.perf_counter()
    model.fit(train.X)
    seconds = time.perf_counter() - started
    topics = model.components_ / model.components_.sum(axis=1)[:, None]
    ridge = RidgeCV(np.logspace(-4, 3, 8)).fit(model.transform(train.X), train.stars)
    explained = ridge.score(model.transform(test.X), test.stars)
    found = word_likelihood(topics.T, held_out, alpha)
    return f"{name}: {found:.4f} a word, R2 of the stars {explained:.4f}, {seconds:.0f} s"


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--topics", default="20,50")
    options = parser.parse_args()
    train, test = imdb()
    held_out = test.X[np.flatnonzero(np.asarray(test.X.sum(axis=1)).ravel() <= 300)[: options.documents]]
    for k in map(int, options.topics.split(",")):
        ours = LatentDirichletAllocation(n_components=k, evaluate_every=0, n_jobs=1)
        print(row(f"BP-LDA, {k} topics", ours, ours.alpha, train, test, held_out), flush=True)
        peer = Peer(k, learning_method="online", max_iter=5, random_state=0)
        print(row(f"scikit-learn, {k} topics", peer, 1 / k, train, test, held_out), flush=True)


if __name__ == "__main__":
    main()
