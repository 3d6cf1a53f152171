"""How topics are inferred, and their prior: mirror descent, accelerated, by line search; alpha given and learned; on IMDB.

Run: ``SDEM_CORPORA=... python tests/benchmarks/topic_inference.py [--documents 10000]``.  20 topics, 5,000 words; train and
held-out reviews are parts of the training half.  AUC of the polarity of BP-sLDA; ln p of a held-out word of BP-LDA by the
left-to-right estimator, on reviews of at most 120 words; seconds of CPU of each fit.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from reviews import imdb
from sklearn.metrics import roc_auc_score

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier
from sdem_dist.models.supervised_lda import METHODS

KEPT: dict[str, Any] = {"n_components": 20, "evaluate_every": 0, "n_jobs": 1}


def seconds(model: Any, *given: Any) -> float:
    """Return the seconds of CPU of a fit."""
    started = time.process_time()
    model.fit(*given)
    return time.process_time() - started


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    n = parser.parse_args().documents
    train, _ = imdb()
    order = np.random.default_rng(0).permutation(len(train.y))
    part, other = train.take(order[:n]), train.take(order[n : 2 * n])
    short = np.flatnonzero(np.asarray(other.X.sum(axis=1)).ravel() <= 120)[:100]
    seconds(SupervisedLDAClassifier(**KEPT), part.X[:50], part.y[:50])
    seconds(LatentDirichletAllocation(**KEPT), part.X[:50])  # these compile
    settings = [{"inference": name, "n_layers": layers} for layers in (10, 5) for name in METHODS]
    for given in [*settings, {"alpha": 1.1}, {"alpha": "learned"}]:
        supervised = SupervisedLDAClassifier(**KEPT, **given)
        words = LatentDirichletAllocation(**KEPT, **given)
        times = seconds(supervised, part.X, part.y), seconds(words, part.X)
        auc = roc_auc_score(other.y, supervised.predict_proba(other.X)[:, 1])
        print(
            f"{given}: AUC {auc:.4f} in {times[0]:.1f} s; {words.score(other.X[short]):.4f} a word in {times[1]:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
