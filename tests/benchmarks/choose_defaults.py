"""The search that chose the defaults of `MultinomialNB`: cross-validation on training parts, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_defaults.py``.  Prints, for every combination, the accuracy on
held-out thirds of each training part (all three thirds for the small corpora, one for 20 Newsgroups and IMDB).
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

import numpy as np
from corpora import STEMMED, load, tfidf
from sklearn.model_selection import KFold

from sdem_dist import MultinomialNB

ONE_FOLD = ("20ng", "imdb")


def cross_validated(split: Any, one_fold: bool, **settings: Any) -> float:
    """Return the mean accuracy on held-out thirds of the training part."""
    folds = list(KFold(3, shuffle=True, random_state=0).split(split.X))[: 1 if one_fold else 3]
    scores = []
    for train, held_out in folds:
        model = MultinomialNB(evaluate_every=0, **settings).fit(split.X[train], split.y[train])
        scores.append(model.score(split.X[held_out], split.y[held_out]))
    return float(np.mean(scores))


def main() -> None:
    """Print one line a combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--norm", type=float, default=0.0, help="tf-idf rows of this norm; 0: raw counts")
    parser.add_argument("--losses", default="ncll,hinge")
    parser.add_argument("--lanes", default="16,64,128")
    parser.add_argument("--rounds", default="4,8")
    parser.add_argument("--absence-classes", default="1,3,10,100", help="c of absence = min(1, c / n_classes)")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--names", default="")
    o = parser.parse_args()
    names = o.names.split(",") if o.names else [*STEMMED, *([] if o.norm else ["imdb"])]
    splits = {n: tfidf(load(n), o.norm) if o.norm else load(n) for n in names}
    grid = product(
        o.losses.split(","), *([float(v) for v in v.split(",")] for v in (o.lanes, o.rounds, o.absence_classes))
    )
    for loss, lanes, rounds, c in grid:
        scores = {
            name: cross_validated(
                split,
                name in ONE_FOLD,
                loss=loss,
                n_lanes=int(lanes),
                rounds_per_epoch=int(rounds),
                absence=min(1.0, c / len(np.unique(split.y))),
                n_epochs=o.epochs,
            )
            for name, split in splits.items()
        }
        shown = "  ".join(f"{name} {score:.4f}" for name, score in scores.items())
        print(
            f"{loss} lanes {lanes:g} rounds {rounds:g} absence {c:g}/K: {shown}  mean {np.mean(list(scores.values())):.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
