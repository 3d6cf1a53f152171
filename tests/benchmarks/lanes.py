"""What lanes and rounds cost in accuracy on a large corpus: NSMC, movies dealt into training, validation and test.

Run: ``SDEM_CORPORA=... python tests/benchmarks/lanes.py --folder FOLDER``.  Reviews rated 1-4 against 9-10, character
1- and 2-grams that occur in two reviews or more.  Accuracy on the validation movies (``--test``: on the test movies).
"""

from __future__ import annotations

import argparse
import lzma
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from corpora import folder

from sdem_dist import MultinomialNB

PARTS = ("train", "validation", "test")


def part_of(movie: str) -> str:
    """Return the part that a movie's reviews go to: a tenth of the movies each to validation and test."""
    bucket = zlib.crc32(movie.encode()) % 10
    return {0: "test", 1: "validation"}.get(bucket, "train")


def matrices(where: Path) -> dict[str, tuple[Any, np.ndarray]]:
    """Return the three parts as counts and labels, made once in a folder."""
    where.mkdir(parents=True, exist_ok=True)
    paths = {part: where / f"nsmc-{part}.npz" for part in PARTS}
    if not all(path.exists() for path in paths.values()):
        from sklearn.feature_extraction.text import CountVectorizer

        texts: dict[str, list[str]] = {part: [] for part in PARTS}
        labels: dict[str, list[bool]] = {part: [] for part in PARTS}
        with lzma.open(folder() / "nsmc" / "nsmc-raw-ratings.tsv.xz", "rt", encoding="utf-8", newline="\n") as stream:
            for line in stream:
                rating, movie, _, text = line.rstrip("\n").split("\t", 3)
                if int(rating) <= 4 or int(rating) >= 9:
                    texts[part_of(movie)].append(text)
                    labels[part_of(movie)].append(int(rating) >= 9)
        vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, 2), min_df=2).fit(texts["train"])
        for part in PARTS:
            sp.save_npz(paths[part], vectorizer.transform(texts[part]))
            np.save(paths[part].with_suffix(".labels.npy"), np.array(labels[part]))
    return {
        part: (sp.load_npz(path), np.load(path.with_suffix(".labels.npy"), allow_pickle=False))
        for part, path in paths.items()
    }


def main() -> None:
    """Print one line a combination, and naive Bayes and a linear classifier beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--lanes", default="16,64,256,1024")
    parser.add_argument("--rounds", default="1,2,8")
    parser.add_argument("--losses", default="ncll,hinge")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--peers", action="store_true", help="also MultinomialNB and SGDClassifier of scikit-learn")
    parser.add_argument("--test", action="store_true", help="score the test movies, once everything is chosen")
    o = parser.parse_args()
    parts = matrices(o.folder)
    (X, y), held_out = parts["train"], parts["test" if o.test else "validation"]
    print(f"{X.shape[0]:,} documents, {X.shape[1]:,} words; {held_out[0].shape[0]:,} held out")
    if o.peers:
        from sklearn.linear_model import SGDClassifier
        from sklearn.naive_bayes import MultinomialNB as Peer

        for peer in (Peer(), SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=10, tol=None, random_state=0)):
            print(f"{type(peer).__name__}: {peer.fit(X, y).score(*held_out):.4f}", flush=True)
    for loss, lanes, rounds in product(o.losses.split(","), *(v.split(",") for v in (o.lanes, o.rounds))):
        model = MultinomialNB(
            loss=loss,
            n_lanes=int(lanes),
            rounds_per_epoch=int(rounds),
            n_epochs=o.epochs,
            validation_fraction=0.0,
        ).fit(X, y)
        accuracy = model.score(*held_out)
        seconds = np.median([h["seconds"] for h in model.history_])
        print(f"{loss:5s} lanes {lanes:>4s} rounds {rounds:>2s}: {accuracy:.4f}  {seconds:.2f} s an epoch", flush=True)


if __name__ == "__main__":
    main()
