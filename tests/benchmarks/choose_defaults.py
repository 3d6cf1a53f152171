"""The search that chose the defaults of `MultinomialNB`: cross-validation on training parts, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_defaults.py``.  Prints, for every combination of settings, the
accuracy and the log-loss on held-out parts of each training part (all four for small corpora, one for large ones), and
their means.  Everything else is as users get it: training time and temperature come from documents held out again.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from corpora import CUTS, Split, cut, splits_of
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold

from sdem_dist import MultinomialNB
from sdem_dist.fitting import mixture_starts as prior_start

NAMES = ("webkb", "r8", "r52", "r52 unstemmed", "20ng", "20ng unstemmed", "imdb words", "blitzer", "20ng 20 a class")
LARGE = 10_000
"""Documents from which one part is enough."""


def training_part(name: str) -> Split:
    """Return a corpus of which only the training part is used."""
    return cut(name, 1)[0] if name in CUTS else splits_of(name)[0]


def cross_validated(split: Split, **settings: object) -> tuple[float, float]:
    """Return the mean accuracy and log-loss on held-out fourths of the training part."""
    folds = list(KFold(4, shuffle=True, random_state=0).split(split.X))
    scores = []
    for train, held_out in folds[: 1 if split.X.shape[0] > LARGE else 4]:
        model = MultinomialNB(**settings).fit(split.X[train], split.y[train])
        p = model.predict_proba(split.X[held_out])
        known = np.isin(split.y[held_out], model.classes_)
        hit = model.classes_[p.argmax(axis=1)] == split.y[held_out]
        scores.append((hit.mean(), log_loss(split.y[held_out][known], p[known], labels=model.classes_)))
    accuracy, loss = np.mean(scores, axis=0)
    return float(accuracy), float(loss)


def main() -> None:
    """Print one line for each combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", default="hinge")
    parser.add_argument("--steps", default=".15,.2,.3,.45")
    parser.add_argument("--norms", default="10")
    parser.add_argument("--powers", default="0,.0625,.125,.25", help="of document frequencies, for pseudo-counts")
    parser.add_argument("--names", default="")
    o = parser.parse_args()
    splits = {name: training_part(name) for name in (o.names.split(",") if o.names else NAMES)}
    numbers = ([float(v) for v in values.split(",")] for values in (o.steps, o.norms, o.powers))
    for loss, step, norm, power in product(o.losses.split(","), *numbers):
        prior_start.PRIOR_POWER = power
        found = {name: cross_validated(split, loss=loss, step=step, norm=norm) for name, split in splits.items()}
        shown = "  ".join(f"{name} {accuracy:.4f}/{value:.3f}" for name, (accuracy, value) in found.items())
        means = np.mean(list(found.values()), axis=0)
        print(
            f"{loss} c {step:g} norm {norm:g} power {power:g}: mean {means[0]:.4f}/{means[1]:.4f}  {shown}", flush=True
        )


if __name__ == "__main__":
    main()
