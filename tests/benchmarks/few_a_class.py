"""Which loss a few documents of each class want, by how even the classes are: training parts only, test parts unseen.

Run: ``SDEM_CORPORA=... python tests/benchmarks/few_a_class.py [--names webkb,r8] [--sizes 5 10 20] [--draws 4]``.
Documents are drawn from a training part, so many a class in the mean: at random ("random"), or so that class sizes go evenly
from 1 to a ratio in logarithms (1: equal, but for classes that have too few). Up to 4,000 others are the test. Words are
those of the drawn documents; with ``--all-words`` those of the whole training part keep their columns. ``--files`` takes
other corpora, lines of a label, a tab and a text.

Columns: largest class over the median, accuracy, macro-F1 and log-loss by NCLL and by hinge. At the end, for bounds of the
first column under which NCLL is taken, the mean over all draws of what accuracy and macro-F1 lose to the better loss, and by
how many percent log-loss is above the lower one; then the same where two classes always get the hinge loss.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import corpora
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score, log_loss

from sdem_dist import MultinomialNB

NAMES = "webkb,r8,r52,20ng,imdb words,blitzer"
LOSSES = ("ncll", "hinge")
TEST = 4_000
BOUNDS = (0.0, 1.1, 1.25, 1.5, 2.0, np.inf)
"""Largest class over the median, up to which NCLL is taken."""


def training_part(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return counts and classes, numbered."""
    if Path(name).is_file():
        labels, _, texts = zip(
            *(line.partition("\t") for line in Path(name).read_text("utf-8").splitlines()), strict=True
        )
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
    p = model.predict_proba(X)
    found, known = model.classes_[p.argmax(axis=1)], np.isin(true, model.classes_)
    f1 = f1_score(true, found, average="macro", zero_division=0)
    return (found == true).mean(), f1, log_loss(true[known], p[known], labels=model.classes_)


def regret(found: np.ndarray, ncll: np.ndarray) -> np.ndarray:
    """Return the means of what is lost if NCLL is taken there: accuracy, macro-F1, percent of log-loss."""
    chosen = found[np.arange(len(found)), np.where(ncll, 0, 1)]
    lost = found.max(axis=1) - chosen
    lost[:, 2] = 100 * (chosen[:, 2] / found[:, :, 2].min(axis=1) - 1)
    return lost.mean(axis=0)


def main() -> None:
    """Print a row for each corpus, size and kind of draw, and one for each rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default=NAMES)
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--kinds", nargs="+", default=["random", "1", "1.5"])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--all-words", action="store_true")
    o = parser.parse_args()
    largest, several, found = list[float](), list[bool](), list[list[tuple[float, ...]]]()
    print(f"{'':34} {'largest':>7}   {'accuracy':13}   {'macro-F1':11}   log-loss, NCLL and hinge")
    for name in [*filter(None, o.names.split(",")), *o.files]:
        X, y = training_part(name)
        for size in o.sizes:
            for kind in o.kinds:
                first = len(found)
                for seed in range(o.draws):
                    train, test = drawn(y, kind, size, seed)
                    counts = np.unique(y[train], return_counts=True)[1]
                    if len(counts) < 2:
                        continue
                    largest.append(counts.max() / np.median(counts))
                    several.append(len(counts) > 2)
                    seen = np.ones(X.shape[1], bool) if o.all_words else np.asarray((X[train] > 0).sum(axis=0))[0] > 0
                    parts = (X[train][:, seen], y[train]), X[test][:, seen], y[test]
                    found.append([scores(loss, *parts) for loss in LOSSES])
                a, f, v = np.mean(found[first:], axis=0).T
                print(
                    f"{Path(name).stem + f', {size} a class, {kind}':34} {np.mean(largest[first:]):7.2f}   {a[0]:.4f} {a[1]:.4f}   "
                    f"{f[0]:.3f} {f[1]:.3f}   {v[0]:.3f} {v[1]:.3f}",
                    flush=True,
                )
    print("\nNCLL up to: lost accuracy, macro-F1, log-loss; where two classes always get the hinge loss")
    for bound in BOUNDS:
        even = np.array(largest) <= bound
        rules = (regret(np.array(found), ncll) for ncll in (even, even & np.array(several)))
        print(f"{bound:5g}   " + "   ".join(f"{a:.4f} {f:.4f} {v:4.1f} %" for a, f, v in rules))


if __name__ == "__main__":
    main()
