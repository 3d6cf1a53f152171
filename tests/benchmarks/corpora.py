"""The corpora of the benchmarks as matrices, found through the environment variable SDEM_CORPORA."""

from __future__ import annotations

import lzma
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

STEMMED = ("r8", "r52", "webkb", "20ng")
NAMES = (
    "webkb",
    "r8",
    "r52",
    "r52 unstemmed",
    "20ng",
    "20ng unstemmed",
    "imdb words",
    "imdb bigrams",
    "blitzer",
    "nsmc",
)
CUTS = {f"20ng {n} a class": n for n in (5, 10, 20, 50, 200)} | {
    f"{corpus} {n} a class": n for corpus in ("r8", "r52", "webkb") for n in (5, 10, 20)
}
"""Training parts with so many documents of each class, or all of it."""


class Split(NamedTuple):
    """A standard split."""

    X: sp.csr_matrix
    y: np.ndarray
    X_test: sp.csr_matrix
    y_test: np.ndarray


def folder() -> Path:
    """Return the folder of corpora.

    Raises
    ------
    FileNotFoundError
        SDEM_CORPORA is not set or names no folder.
    """
    path = os.environ.get("SDEM_CORPORA")
    if not path or not Path(path).is_dir():
        raise FileNotFoundError("set SDEM_CORPORA to the folder of corpora (cachopo/, imdb/, nsmc/)")
    return Path(path)


@cache
def load(name: str) -> Split:
    """Return raw counts: a stemmed corpus by its name, or "imdb" (words of two documents or more)."""
    from sklearn.feature_extraction.text import CountVectorizer

    if name == "imdb":
        (train, y), (test, y_test) = (_imdb(part) for part in ("train", "test"))
        vectorizer = CountVectorizer(min_df=2)
    else:
        (train, y), (test, y_test) = (_stemmed(name, part) for part in ("train", "test"))
        vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    X = vectorizer.fit_transform(train)
    return Split(X, np.array(y), vectorizer.transform(test), np.array(y_test))


def tfidf(split: Split, norm: float) -> Split:
    """Return sublinear tf-idf with rows of the given Euclidean length."""
    from sklearn.feature_extraction.text import TfidfTransformer

    transformer = TfidfTransformer(sublinear_tf=True).fit(split.X)
    X, X_test = ((transformer.transform(m) * norm).astype(np.float32).tocsr() for m in (split.X, split.X_test))
    return Split(X, split.y, X_test, split.y_test)


def splits_of(name: str) -> list[Split]:
    """Return the standard split of one of `NAMES` as counts; of blitzer five, of nsmc one by movies."""
    if name == "blitzer":
        return _blitzer()
    if name == "nsmc":
        return [_nsmc()]
    (train, y), (test, y_test) = texts_of(name)
    if name.startswith("imdb"):
        return [_counted(train, y, test, y_test, ngram_range=(1, 2) if "bigrams" in name else (1, 1))]
    return [_counted(train, y, test, y_test, token_pattern=r"\S+", lowercase=False)]


def texts_of(name: str) -> tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]:
    """Return texts and labels of the training part and of the test part of a corpus with a standard split."""
    if name.startswith("imdb"):
        return _imdb("train"), _imdb("test")
    corpus, _, form = name.partition(" ")
    return _stemmed(corpus, "train", form == "unstemmed"), _stemmed(corpus, "test", form == "unstemmed")


@cache
def cut(name: str, n_draws: int) -> list[Split]:
    """Return a corpus with few documents of each class, drawn so many times."""
    (train, y), (test, y_test) = (_stemmed(name.partition(" ")[0], part) for part in ("train", "test"))
    labels, found = np.array(y), []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[: CUTS[name]] for k in np.unique(labels)])
        rows.sort()
        texts = [train[row] for row in rows]
        found.append(_counted(texts, labels[rows], test, y_test, token_pattern=r"\S+", lowercase=False))
    return found


def _counted(train: list[str], y: object, test: list[str], y_test: object, **settings: object) -> Split:
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(**settings)
    X = vectorizer.fit_transform(train)
    return Split(X, np.array(y), vectorizer.transform(test), np.array(y_test))


def _blitzer() -> list[Split]:
    from sklearn.model_selection import StratifiedKFold

    rows = [line.split("\t") for line in _lines(folder() / "blitzer" / "blitzer-mds-labeled.tsv.xz")]
    texts, labels = [f"{row[3]} {row[4]}" for row in rows], np.array([row[0] for row in rows])
    return [
        _counted([texts[i] for i in train], labels[train], [texts[i] for i in test], labels[test])
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(texts, labels)
    ]


def _nsmc() -> Split:
    """Return ratings up to 4 against those from 9 on; a tenth of the movies, by a hash of their number, is the test part."""
    from zlib import crc32

    parts: tuple[tuple[list[str], list[str]], ...] = (([], []), ([], []))
    for line in _lines(folder() / "nsmc" / "nsmc-raw-ratings.tsv.xz"):
        rating, movie, _, text = line.split("\t")
        if not 4 < int(rating) < 9:
            texts, labels = parts[crc32(movie.encode()) % 10 == 0]
            texts.append(text)
            labels.append("positive" if int(rating) >= 9 else "negative")
    return _counted(*parts[0], *parts[1], analyzer="char", ngram_range=(1, 2))


def _stemmed(name: str, part: str, unstemmed: bool = False) -> tuple[list[str], list[str]]:
    derived = ".derived" if name in ("r52", "20ng") else ""
    form = "all-terms" if unstemmed else f"stemmed{derived}"
    lines = _lines(folder() / "cachopo" / f"{name}-{part}-{form}.txt.xz")
    labels, _, texts = zip(*(line.partition("\t") for line in lines), strict=True)
    return list(texts), list(labels)


def _imdb(part: str) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in _lines(folder() / "imdb" / f"imdb-{part}.tsv.xz")]
    return [row[3].replace("<br />", " ") for row in rows], [row[0] for row in rows]


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream]
