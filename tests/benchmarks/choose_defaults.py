"""The search that chose the steps and pseudo-counts of `MultinomialNB`: training parts only, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_defaults.py``.  Accuracy and log-loss of held-out fourths of each training
part, all four of small corpora, one of large ones; training time and temperature come from documents held out again.
"""

from itertools import product

import corpora
import harness
import numpy as np
from corpora import Split
from sklearn.model_selection import KFold

from sdem_dist import MultinomialNB
from sdem_dist.fitting import defaults

NAMES = ("webkb", "r8", "r52", "r52 unstemmed", "20ng", "20ng unstemmed", "imdb words", "blitzer", "20ng 20 a class")


def cross_validated(split: Split, **settings: object) -> tuple[float, float]:
    """Return the mean accuracy and log-loss on held-out fourths of the training part."""
    folds = list(KFold(4, shuffle=True, random_state=0).split(split.X))
    scores = []
    for train, held_out in folds[: 1 if split.X.shape[0] > 10_000 else 4]:
        model = MultinomialNB(**settings).fit(split.X[train], split.y[train])
        scores.append(harness.scores_of(model, split.X[held_out], split.y[held_out]))
    accuracy, loss = np.mean(scores, axis=0)
    return float(accuracy), float(loss)


def grid(
    losses: tuple = ("hinge",),
    steps: tuple = (0.15, 0.2, 0.3, 0.45),
    norms: tuple = (10.0,),
    powers: tuple = (0.0, 0.0625, 0.125, 0.25),
    names: tuple = NAMES,
) -> None:
    """Print a line for each combination; powers are of document frequencies, for pseudo-counts."""
    splits = {name: corpora.training_part(name) for name in names}
    for loss, step, norm, power in product(losses, steps, norms, powers):
        defaults.PRIOR_POWER = power
        scores = {name: cross_validated(split, loss=loss, step=step, norm=norm) for name, split in splits.items()}
        of_names = "  ".join(f"{name} {accuracy:.4f}/{value:.3f}" for name, (accuracy, value) in scores.items())
        accuracy, value = np.mean(list(scores.values()), axis=0)
        setting = f"{loss} c {step:g} norm {norm:g} power {power:g}"
        print(f"{setting}: mean {accuracy:.4f}/{value:.3f}  {of_names}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, grid)
