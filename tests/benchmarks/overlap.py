"""Hinge loss or NCLL: where classes are apart, and where three or more overlap; training parts alone.

Run: ``SDEM_CORPORA=... python tests/benchmarks/overlap.py``.  Accuracy and log-loss on held-out fourths of each training
part (`choose_defaults.py`), of large ones on one fourth.  Reviews in 3 and 4 steps are those of Pang and Lee (2005).
"""

from __future__ import annotations

import lzma

import numpy as np
from choose_defaults import cross_validated, training_part
from corpora import Split, folder
from reviews import blitzer, imdb
from sklearn.feature_extraction.text import CountVectorizer

CORPORA = ("r52", "20ng", "webkb", "20ng 50 a class")


def counted(texts: list[str], y: np.ndarray) -> Split:
    """Return texts as counts, all of them for training."""
    X = CountVectorizer().fit_transform(texts)
    return Split(X, y, X[:0], y[:0])


def steps(column: int) -> Split:
    """Return film reviews with their opinion in 3 steps (column 1) or 4 (column 2)."""
    with lzma.open(folder() / "scale" / "scale_data.tsv.xz", "rt", encoding="utf-8", newline="\n") as stream:
        rows = [line.rstrip("\n").split("\t", 5) for line in stream]
    return counted([row[5] for row in rows], np.array([row[column] for row in rows]))


def main() -> None:
    """Print a row for each corpus."""
    found = {name: training_part(name) for name in CORPORA}
    found |= {"film reviews in 3 steps": steps(1), "film reviews in 4 steps": steps(2)}
    texts, _, stars = blitzer()
    found["stars of product reviews"] = counted(texts, stars)
    train = imdb(None)[0]
    found["stars of IMDB"] = Split(train.X, train.stars, train.X[:0], train.stars[:0])
    print("| corpus | classes | hinge | NCLL |\n| --- | --- | --- | --- |")
    for name, split in found.items():
        cells = [f"{a:.4f}, {b:.3f}" for a, b in (cross_validated(split, loss=loss) for loss in ("hinge", "ncll"))]
        print(f"| {name} | {len(np.unique(split.y))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
