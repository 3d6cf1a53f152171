"""The search behind the defaults of supervised LDA: validation parts of IMDB's and the multi-domain training reviews.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_topic_defaults.py [--topic-rates .025,.05,.1] ...``.  No test review
is looked at: the fifth of the multi-domain reviews that is left over is in neither part.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from reviews import Reviews, blitzer, blitzer_fold, halves, imdb
from supervised_lda import auc, ours, r2


def parts() -> dict[str, tuple[Reviews, Reviews]]:
    """Return training and validation parts by corpus."""
    train = imdb()[0]
    rows, held_out = halves(len(train.y))
    order = np.random.default_rng(1).permutation(len(blitzer()[1]))
    kept = order[: int(0.8 * len(order))]
    cut = int(0.8 * len(kept))
    return {"imdb": (train.take(rows), train.take(held_out)), "blitzer": blitzer_fold(kept[:cut], kept[cut:])}


def numbers(text: str) -> list[float]:
    """Return numbers between commas."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Print a line for each combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic-rates", default=".012,.025,.05,.1")
    parser.add_argument("--output-rates", default=".3,1,3")
    parser.add_argument("--epochs", default="2,4,8")
    options = parser.parse_args()
    corpora = parts()
    grids = map(numbers, (options.topic_rates, options.output_rates, options.epochs))
    for topic_rate, output_rate, n_epochs in product(*grids):
        settings = {"topic_rate": topic_rate, "output_rate": output_rate, "n_epochs": int(n_epochs)}
        found = {
            f"{name} {task}": round(ours(measure, *pair, seeds=1, **settings), 4)
            for name, pair in corpora.items()
            for task, measure in (("AUC", auc), ("R2", r2))
        }
        print(settings, found, flush=True)


if __name__ == "__main__":
    main()
