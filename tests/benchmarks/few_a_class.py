"""Which loss a few documents of each class want, by how even the classes are: training parts only, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/few_a_class.py [webkb,r8] [--sizes 5 10 20] [--draws 4]``.
Documents are drawn from a training part, so many a class in the mean: at random ("random"), or so that class sizes go evenly
from 1 to a ratio in logarithms (1: equal, but for classes that have too few). Up to 4,000 others are the test. Words are
those of the drawn documents; with ``--all-words`` those of the whole training part keep their columns. ``--files`` takes
other corpora, lines of a label, a tab and a text.

Columns: largest class over the median, accuracy, macro-F1 and log-loss by NCLL and by hinge. At the end, for bounds of the
first column under which NCLL is taken, the mean over all draws of what accuracy and macro-F1 lose to the better loss, and by
how many percent log-loss is above the lower one; then the same where two classes always get the hinge loss.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import corpora
import harness
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score

from sdem_dist import MultinomialNB

NAMES = ("webkb", "r8", "r52", "20ng", "imdb words", "blitzer")
LOSSES = ("ncll", "hinge")
TEST = 4_000
BOUNDS = (0.0, 1.1, 1.25, 1.5, 2.0, np.inf)
"""Largest class over the median, up to which NCLL is taken."""


def training_part(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return counts and classes, numbered."""
    if Path(name).is_file():
        lines = Path(name).read_text("utf-8").splitlines()
        labels, _, texts = zip(*(line.partition("\t") for line in lines), strict=True)
        X, y = CountVectorizer().fit_transform(texts), np.array(labels)
    else:
        X, y = corpora.splits_of(name)[0][:2]
    return X.tocsr(), np.unique(y, return_inverse=True)[1]


def drawn(y: np.ndarray, kind: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those to test on."""
    rng, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    if kind == "random":
        rows = rng.permutation(len(y))[: size * n_classes]
    else:
        spread = float(kind) ** np.linspace(0, 1, n_classes)
        sizes = rng.permutation(np.maximum(1, np.round(size * spread / spread.mean())).astype(int))
        rows = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:n] for k, n in enumerate(sizes)])
    others = np.setdiff1d(np.arange(len(y)), rows)
    return np.sort(rows), np.sort(rng.permutation(others)[:TEST])


def scores(loss: str, train: tuple[sp.csr_matrix, np.ndarray], X: sp.csr_matrix, true: np.ndarray) -> tuple[float, ...]:
    """Return accuracy, macro-F1, and log-loss of the classes that were drawn."""
    model = MultinomialNB(loss=loss, n_jobs=1).fit(*train)
    accuracy, value = harness.scores_of(model, X, true)
    return accuracy, f1_score(true, model.predict(X), average="macro", zero_division=0), value


def regret(results: np.ndarray, ncll: np.ndarray) -> np.ndarray:
    """Return the means of what is lost if NCLL is taken there: accuracy, macro-F1, percent of log-loss."""
    chosen = results[np.arange(len(results)), np.where(ncll, 0, 1)]
    lost = results.max(axis=1) - chosen
    lost[:, 2] = 100 * (chosen[:, 2] / results[:, :, 2].min(axis=1) - 1)
    return lost.mean(axis=0)


def compare(
    names: tuple = NAMES,
    files: tuple = (),
    sizes: tuple = (5, 10, 20),
    kinds: tuple = ("random", "1", "1.5"),
    draws: int = 4,
    all_words: bool = False,
) -> None:
    """Print a row for each corpus, size and kind of draw, and one for each rule."""
    largest, several, results = list[float](), list[bool](), list[list[tuple[float, ...]]]()
    print(f"{'':34} {'largest':>7}   {'accuracy':13}   {'macro-F1':11}   log-loss, NCLL and hinge")
    for name in [*names, *files]:
        X, y = training_part(name)
        for size, kind in product(sizes, kinds):
            first = len(results)
            for seed in range(draws):
                train, test = drawn(y, kind, size, seed)
                counts = np.unique(y[train], return_counts=True)[1]
                if len(counts) < 2:
                    continue
                largest.append(counts.max() / np.median(counts))
                several.append(len(counts) > 2)
                words = np.ones(X.shape[1], bool) if all_words else np.asarray((X[train] > 0).sum(axis=0))[0] > 0
                parts = (X[train][:, words], y[train]), X[test][:, words], y[test]
                results.append([scores(loss, *parts) for loss in LOSSES])
            a, f, v = np.mean(results[first:], axis=0).T
            title = f"{Path(name).stem}, {size} a class, {kind}"
            figures = f"{a[0]:.4f} {a[1]:.4f}   {f[0]:.3f} {f[1]:.3f}   {v[0]:.3f} {v[1]:.3f}"
            print(f"{title:34} {np.mean(largest[first:]):7.2f}   {figures}", flush=True)
    print("\nNCLL up to: lost accuracy, macro-F1, log-loss; where two classes always get the hinge loss")
    for bound in BOUNDS:
        even = np.array(largest) <= bound
        rules = (regret(np.array(results), ncll) for ncll in (even, even & np.array(several)))
        print(f"{bound:5g}   " + "   ".join(f"{a:.4f} {f:.4f} {v:4.1f} %" for a, f, v in rules))


if __name__ == "__main__":
    harness.run(__doc__, compare)
