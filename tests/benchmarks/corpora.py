"""The corpora of the benchmarks, found through the environment variable SDEM_CORPORA."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold

from sdem_dist import open_corpus, write_corpus

STEMMED = ("r8", "r52", "webkb", "20ng")
NAMES = (*STEMMED, "r52 unstemmed", "20ng unstemmed", "imdb words", "imdb bigrams", "blitzer", "nsmc")
CUTS = {f"20ng {n} a class": n for n in (5, 10, 20, 50, 200)}
CUTS |= {f"{corpus} {n} a class": n for corpus in ("r8", "r52", "webkb") for n in (5, 10, 20)}
"""Training parts with so many documents of each class, or all of it."""
STEMS: dict[str, Any] = {"token_pattern": r"\S+", "lowercase": False}
BIGRAMS_OF_CHARACTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 2)}


class Split(NamedTuple):
    """A standard split."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray

    def numbered(self) -> Split:
        classes, y = np.unique(self.y, return_inverse=True)
        return self._replace(y=y, y_test=np.searchsorted(classes, self.y_test))


class Reviews(NamedTuple):
    """Counts, 1 for positive, and stars."""

    X: Any
    y: np.ndarray
    stars: np.ndarray

    def take(self, rows: np.ndarray) -> Reviews:
        return Reviews(*(part[rows] for part in self))

    def logs(self) -> Reviews:
        """Return ln(1 + x) of the counts."""
        return self._replace(X=self.X.log1p().tocsr())


def folder() -> Path:
    """Return the folder of corpora, or raise FileNotFoundError."""
    path = os.environ.get("SDEM_CORPORA")
    if not path or not Path(path).is_dir():
        raise FileNotFoundError("set SDEM_CORPORA to the folder of corpora (cachopo/, imdb/, nsmc/)")
    return Path(path)


def rows_of(path: str, n_columns: int = -1) -> Iterator[list[str]]:
    """Yield the fields of a compressed file of the folder."""
    with lzma.open(folder() / path, "rt", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            yield line.rstrip("\n").split("\t", n_columns)


@cache
def load(name: str) -> Split:
    """Return raw counts: a stemmed corpus by its name, or "imdb" (words of two documents or more)."""
    return _counted(*texts_of(name), **({"min_df": 2} if name == "imdb" else STEMS))


def splits_of(name: str) -> list[Split]:
    """Return the standard split of one of `NAMES` as counts; of blitzer five, of nsmc one by movies."""
    if name == "blitzer":
        texts, y, _ = blitzer()
        labels = np.where(y, "positive", "negative")
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(texts, labels)
        return [_counted(*(([texts[i] for i in part], labels[part]) for part in fold)) for fold in folds]
    if name == "nsmc":  # ratings up to 4 against those from 9 on
        parts: dict[str, tuple[list[str], list[str]]] = {"train": ([], []), "test": ([], [])}
        for rating, movie, text in _ratings():
            if not 4 < rating < 9:
                texts, names = parts["test" if part_of(movie) == "test" else "train"]
                texts.append(text)
                names.append("positive" if rating >= 9 else "negative")
        return [_counted(*parts.values(), **BIGRAMS_OF_CHARACTERS)]
    settings = {"ngram_range": (1, 2) if "bigrams" in name else (1, 1)} if name.startswith("imdb") else STEMS
    return [_counted(*texts_of(name), **settings)]


def texts_of(name: str) -> list[tuple[list[str], list[str]]]:
    """Return texts and labels of the training part and of the test part of a corpus with a standard split."""
    parts = []
    for part in ("train", "test"):
        if name.startswith("imdb"):
            rows = [(row[3].replace("<br />", " "), row[0]) for row in rows_of(f"imdb/imdb-{part}.tsv.xz")]
        else:
            corpus, _, form = name.partition(" ")
            derived = ".derived" if corpus in ("r52", "20ng") else ""
            ending = "all-terms" if form == "unstemmed" else f"stemmed{derived}"
            rows = [(text, y) for y, text in rows_of(f"cachopo/{corpus}-{part}-{ending}.txt.xz", 1)]
        texts, labels = zip(*rows, strict=True)
        parts.append((list(texts), list(labels)))
    return parts


@cache
def cut(name: str, n_draws: int) -> list[Split]:
    """Return a corpus with few documents of each class, drawn so many times."""
    (train, y), test = texts_of(name.partition(" ")[0])
    labels, splits = np.array(y), []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[: CUTS[name]] for k in np.unique(labels)])
        rows.sort()
        splits.append(_counted(([train[row] for row in rows], labels[rows]), test, **STEMS))
    return splits


def _counted(train: tuple[list[str], Any], test: tuple[list[str], Any], **settings: Any) -> Split:
    vectorizer = CountVectorizer(**settings)
    X = vectorizer.fit_transform(train[0])
    return Split(X, np.array(train[1]), vectorizer.transform(test[0]), np.array(test[1]))


def halves(n: int, share: float = 0.8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a training and of a validation part."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(share * n)], order[int(share * n) :]


@cache
def imdb(n_words: int | None = 5000) -> tuple[Reviews, Reviews]:
    """Return the standard split, with the training part's most frequent words, or all of them."""
    vectorizer, parts = CountVectorizer(max_features=n_words), []
    for part in ("train", "test"):
        rows = list(rows_of(f"imdb/imdb-{part}.tsv.xz"))
        texts = [row[3].replace("<br />", " ") for row in rows]
        X = vectorizer.transform(texts) if parts else vectorizer.fit_transform(texts)
        parts.append(Reviews(X, np.array([int(r[0] == "pos") for r in rows]), np.array([float(r[1]) for r in rows])))
    return parts[0], parts[1]


@cache
def blitzer() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the texts of the multi-domain sentiment reviews with a label, 1 for positive, and stars."""
    rows = list(rows_of("blitzer/blitzer-mds-labeled.tsv.xz"))
    y = np.array([int(row[0] == "positive") for row in rows])
    return [f"{row[3]} {row[4]}" for row in rows], y, np.array([float(row[1]) for row in rows])


def part_of(movie: str) -> str:
    """Return the part that a movie's reviews go to: a tenth of the movies each to validation and test."""
    return {0: "test", 1: "validation"}.get(crc32(movie.encode()) % 10, "train")


def _ratings() -> Iterator[tuple[int, str, str]]:
    for rating, movie, _, text in rows_of("nsmc/nsmc-raw-ratings.tsv.xz", 3):
        yield int(rating), movie, text


def all_ratings(where: Path) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return all reviews of NSMC as counts, in three classes, 1- and 2-grams of five reviews or more; kept in a folder."""
    path = where / "nsmc.npz"
    if not path.exists():
        rows = list(_ratings())
        names = ["negative" if r <= 4 else "neutral" if r <= 8 else "positive" for r, _, _ in rows]
        vectorizer = CountVectorizer(**BIGRAMS_OF_CHARACTERS, min_df=5, dtype=np.uint8)
        np.save(where / "nsmc-labels.npy", np.array(names))
        sp.save_npz(path, vectorizer.fit_transform([text for _, _, text in rows]))
    return sp.load_npz(path), np.load(where / "nsmc-labels.npy", allow_pickle=False)


def batches(where: Path, n_documents: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield reviews, then copies that lack every tenth nonzero, until there are `n_documents`."""
    X, y = all_ratings(where)
    rng = np.random.default_rng(0)
    done = 0
    while done < n_documents:
        start = done % X.shape[0]
        rows = X[start : start + min(20_000, n_documents - done)].copy()
        if done >= X.shape[0]:
            rows.data[rng.random(rows.nnz) < 0.1] = 0
            rows.eliminate_zeros()
        yield rows, y[start : start + rows.shape[0]]
        done += rows.shape[0]


def corpus_of(where: Path, n_documents: int) -> Any:
    """Return the corpus of so many reviews in a folder, written where it is absent."""
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"nsmc-{n_documents}.zarr"
    return open_corpus(path) if path.exists() else write_corpus(path, batches(where, n_documents))
