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


def _stemmed(name: str, part: str) -> tuple[list[str], list[str]]:
    derived = ".derived" if name in ("r52", "20ng") else ""
    lines = _lines(folder() / "cachopo" / f"{name}-{part}-stemmed{derived}.txt.xz")
    labels, _, texts = zip(*(line.partition("\t") for line in lines), strict=True)
    return list(texts), list(labels)


def _imdb(part: str) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in _lines(folder() / "imdb" / f"imdb-{part}.tsv.xz")]
    return [row[3].replace("<br />", " ") for row in rows], [row[0] for row in rows]


def _lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream]
