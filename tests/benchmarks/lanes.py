"""From how many documents a lane and round on lanes do not change the result.

Run: ``SDEM_CORPORA=... python tests/benchmarks/lanes.py [NAME...] --folder FOLDER``.  Means over draws of a fifth of the
training part, which is held out: how far several lanes are from one, and how far one lane with another seed is.  Of "nsmc"
the validation movies are held out: reviews rated 1-4 against 9-10, character 1- and 2-grams of two reviews or more.
"""

from __future__ import annotations

import argparse
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from corpora import folder, splits_of

from sdem_dist import MultinomialNB
from sdem_dist.estimators.parameters import plan_of

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


def halves(name: str, where: Path, draw: int, most: int) -> tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]:
    """Return what is trained on, `most` documents at most, and what is held out."""
    rng = np.random.default_rng(draw)
    if name == "nsmc":
        parts = matrices(where)
        (X, y), held_out = parts["train"], parts["validation"]
        rows = rng.permutation(X.shape[0])[:most]
        return (X[rows], y[rows]), held_out
    split = splits_of(name)[0]
    order = rng.permutation(split.X.shape[0])
    out, rows = order[: len(order) // 5], order[len(order) // 5 :][:most]
    return (split.X[rows], split.y[rows]), (split.X[out], split.y[out])


def reached(
    train: tuple[Any, np.ndarray], held_out: tuple[Any, np.ndarray], seed: int, lanes: int | None
) -> tuple[float, float]:
    """Return accuracy and log-loss on held-out documents."""
    found = MultinomialNB(n_jobs=1, n_lanes=lanes, random_state=seed).fit(*train).evaluate(*held_out)
    return found["accuracy"], found["ncll"]


def line(name: str, found: np.ndarray, one: np.ndarray) -> str:
    """Return how results are from those of one lane, for people: means, and standard errors over draws."""
    gain, cost = found[:, 0] - one[:, 0], 100 * (found[:, 1] / one[:, 1] - 1)
    errors = (np.nan, np.nan) if len(gain) < 2 else (x.std(ddof=1) / len(x) ** 0.5 for x in (gain, cost))
    said = [
        f"{mean:+.{n}f} ({error:.{n}f})"
        for mean, error, n in zip((gain.mean(), cost.mean()), errors, (4, 1), strict=True)
    ]
    return f"  {name:34} accuracy {said[0]}, log-loss {said[1]} %"


def main() -> None:
    """Print a line for each number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["webkb", "r8", "r52", "20ng"])
    parser.add_argument("--folder", type=Path, default=Path("lanes"), help="of the matrices of nsmc")
    parser.add_argument("--lanes", default="4,16,64")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--documents", type=int, default=10**9, help="most that are trained on")
    o = parser.parse_args()
    for name in o.names:
        parts = [halves(name, o.folder, draw, o.documents) for draw in range(o.draws)]
        n = parts[0][0][0].shape[0]

        def all_of(lanes: int | None, first: int = 0, parts: Any = parts) -> np.ndarray:
            return np.array([reached(*both, first + draw, lanes) for draw, both in enumerate(parts)])

        one = all_of(1)
        print(f"{name}: {n:,} documents, one lane {one[:, 0].mean():.4f}, {one[:, 1].mean():.4f}", flush=True)
        print(line("another seed", all_of(1, first=100), one), flush=True)
        for lanes in map(int, o.lanes.split(",")):
            plan = plan_of(MultinomialNB(n_lanes=lanes), n, 1, 0)
            print(line(f"{lanes} lanes, {plan.lane_documents:,} documents a round", all_of(lanes), one), flush=True)


if __name__ == "__main__":
    main()
