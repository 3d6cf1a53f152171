"""Reviews with their polarity and their stars, as counts of the most frequent words."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from corpora import _lines, folder


class Reviews(NamedTuple):
    """Counts, 1 for positive, and stars."""

    X: sp.csr_matrix
    y: np.ndarray
    stars: np.ndarray

    def take(self, rows: np.ndarray) -> Reviews:
        """Return some of the reviews."""
        return Reviews(*(part[rows] for part in self))

    def logs(self) -> Reviews:
        """Return ln(1 + x) of the counts."""
        return self._replace(X=self.X.log1p().tocsr())


def halves(n: int, share: float = 0.8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a training and of a validation part."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(share * n)], order[int(share * n) :]


@cache
def imdb(n_words: int | None = 5000) -> tuple[Reviews, Reviews]:
    """Return the standard split, with the training part's most frequent words, or all of them."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer, found = CountVectorizer(max_features=n_words), []
    for part in ("train", "test"):
        rows = [line.split("\t") for line in _lines(folder() / "imdb" / f"imdb-{part}.tsv.xz")]
        texts = [row[3].replace("<br />", " ") for row in rows]
        X = vectorizer.transform(texts) if found else vectorizer.fit_transform(texts)
        found.append(Reviews(X, np.array([int(r[0] == "pos") for r in rows]), np.array([float(r[1]) for r in rows])))
    return found[0], found[1]


@cache
def blitzer() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the texts of the multi-domain sentiment reviews with a label, 1 for positive, and stars."""
    rows = [line.split("\t") for line in _lines(folder() / "blitzer" / "blitzer-mds-labeled.tsv.xz")]
    stars = np.array([float(row[1]) for row in rows])
    return [f"{row[3]} {row[4]}" for row in rows], np.array([int(row[0] == "positive") for row in rows]), stars


def blitzer_fold(train: np.ndarray, test: np.ndarray, n_words: int = 1000) -> tuple[Reviews, Reviews]:
    """Return two parts of the multi-domain reviews, with the first one's most frequent words."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts, y, stars = blitzer()
    vectorizer = CountVectorizer(max_features=n_words).fit([texts[i] for i in train])
    a, b = (Reviews(vectorizer.transform([texts[i] for i in rows]), y[rows], stars[rows]) for rows in (train, test))
    return a, b


@cache
def nsmc(n_words: int = 5000) -> tuple[Reviews, Reviews]:
    """Return Korean film reviews as 1- and 2-grams of characters, with ratings as stars, other films for testing."""
    from lanes import part_of
    from sklearn.feature_extraction.text import CountVectorizer

    texts: dict[bool, list[str]] = {True: [], False: []}
    stars: dict[bool, list[float]] = {True: [], False: []}
    for line in _lines(folder() / "nsmc" / "nsmc-raw-ratings.tsv.xz"):
        rating, movie, _, text = line.split("\t", 3)
        testing = part_of(movie) == "test"
        texts[testing].append(text)
        stars[testing].append(float(rating))
    vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, 2), max_features=n_words).fit(texts[False][::4])
    parts = []
    for testing in (False, True):
        ratings = np.array(stars[testing])
        parts.append(Reviews(vectorizer.transform(texts[testing]), (ratings > 5).astype(int), ratings))
    return parts[0], parts[1]
