"""The searches that chose the defaults of `MultinomialNB`: cross-validation on training parts, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/choose_defaults.py [grid|overlap|indifferent]``.  Accuracy and log-loss are of
held-out fourths of each training part: all four of small corpora, one of large ones.  Everything else is as users get it:
training time and temperature come from documents held out again.

grid: every combination of settings, on every corpus and in the mean;
overlap: hinge loss or NCLL, where classes are apart, and where three or more overlap; reviews in 3 and 4 steps are those of
Pang and Lee (2005);
indifferent: what should hardly matter, the norm of weighted rows and alpha; accuracy and log-loss of test documents, and how
far the accuracies of a row are apart: at most .003 for the norm, .005 for alpha.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import harness
import numpy as np
from corpora import Split, blitzer, imdb, rows_of, splits_of, tfidf, training_part
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold

from sdem_dist import MultinomialNB
from sdem_dist.fitting import defaults

NAMES = ("webkb", "r8", "r52", "r52 unstemmed", "20ng", "20ng unstemmed", "imdb words", "blitzer", "20ng 20 a class")
LARGE = 10_000
"""Documents from which one part is enough."""


def cross_validated(split: Split, **settings: object) -> tuple[float, float]:
    """Return the mean accuracy and log-loss on held-out fourths of the training part."""
    folds = list(KFold(4, shuffle=True, random_state=0).split(split.X))
    scores = []
    for train, held_out in folds[: 1 if split.X.shape[0] > LARGE else 4]:
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
    splits = {name: training_part(name) for name in names}
    for loss, step, norm, power in product(losses, steps, norms, powers):
        defaults.PRIOR_POWER = power
        scores = {name: cross_validated(split, loss=loss, step=step, norm=norm) for name, split in splits.items()}
        of_names = "  ".join(f"{name} {accuracy:.4f}/{value:.3f}" for name, (accuracy, value) in scores.items())
        accuracy, value = np.mean(list(scores.values()), axis=0)
        setting = f"{loss} c {step:g} norm {norm:g} power {power:g}"
        print(f"{setting}: mean {accuracy:.4f}/{value:.3f}  {of_names}", flush=True)


def counted(texts: list[str], y: np.ndarray) -> Split:
    """Return texts as counts, all of them for training."""
    X = CountVectorizer().fit_transform(texts)
    return Split(X, y, X[:0], y[:0])


def overlap(names: tuple = ("r52", "20ng", "webkb", "20ng 50 a class")) -> None:
    """Print a row for each corpus."""
    splits = {name: training_part(name) for name in names}
    films = list(rows_of("scale/scale_data.tsv.xz", 5))
    for column, steps in ((1, 3), (2, 4)):
        y = np.array([film[column] for film in films])
        splits[f"film reviews in {steps} steps"] = counted([film[5] for film in films], y)
    texts, _, stars = blitzer()
    splits["stars of product reviews"] = counted(texts, stars)
    train = imdb(None)[0]
    splits["stars of IMDB"] = Split(train.X, train.stars, train.X[:0], train.stars[:0])
    harness.head("corpus", "classes", "hinge", "NCLL")
    for name, split in splits.items():
        cells = [f"{a:.4f}, {b:.3f}" for a, b in (cross_validated(split, loss=loss) for loss in ("hinge", "ncll"))]
        harness.row(name, len(np.unique(split.y)), *cells)


def reached(split: Split, **settings: object) -> tuple[float, float]:
    """Return accuracy and log-loss on test documents."""
    metrics = MultinomialNB(n_jobs=1, **settings).fit(split.X, split.y).evaluate(split.X_test, split.y_test)
    return metrics["accuracy"], metrics["ncll"]


def hardly_matter(split: Split) -> dict[str, Mapping[float, tuple[float, float]]]:
    """Return what is reached by each norm and each alpha."""
    return {
        "norm": {norm: reached(tfidf(split, norm)) for norm in (1.0, 3.0, 10.0, 100.0)},
        "alpha": {alpha: reached(split, alpha=alpha) for alpha in (0.1, 0.3, 1.0, 3.0)},
    }


def indifferent(names: tuple = ("webkb", "r8", "r52", "20ng", "imdb words")) -> None:
    """Print two rows a corpus."""
    for name in names:
        print(name)
        for setting, values in hardly_matter(splits_of(name)[0]).items():
            cells = "  ".join(f"{value:g}: {accuracy:.4f}/{loss:.3f}" for value, (accuracy, loss) in values.items())
            accuracies = [accuracy for accuracy, _ in values.values()]
            print(f"  {setting:6} {cells}  apart {max(accuracies) - min(accuracies):.4f}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, grid, overlap, indifferent)
