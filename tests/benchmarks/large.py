"""Corpora of any size: all reviews of NSMC, then copies of which every tenth nonzero is dropped at random.

Three classes (ratings 1-4, 5-8, 9-10), character 1- and 2-grams of five reviews or more.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from corpora import folder

from sdem_dist import open_corpus, write_corpus

DROPPED = 0.1
BATCH = 20_000


def reviews(where: Path) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return all reviews as counts, and their classes; made once in a folder."""
    path = where / "nsmc.npz"
    if not path.exists():
        from sklearn.feature_extraction.text import CountVectorizer

        labels, texts = [], []
        with lzma.open(folder() / "nsmc" / "nsmc-raw-ratings.tsv.xz", "rt", encoding="utf-8", newline="\n") as stream:
            for line in stream:
                rating, _, _, text = line.rstrip("\n").split("\t", 3)
                labels.append("negative" if int(rating) <= 4 else "neutral" if int(rating) <= 8 else "positive")
                texts.append(text)
        X = CountVectorizer(analyzer="char", ngram_range=(1, 2), min_df=5, dtype=np.uint8).fit_transform(texts)
        np.save(where / "nsmc-labels.npy", np.array(labels))
        sp.save_npz(path, X)
    return sp.load_npz(path), np.load(where / "nsmc-labels.npy", allow_pickle=False)


def batches(where: Path, n_documents: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield reviews, then perturbed copies, until there are `n_documents`."""
    X, y = reviews(where)
    rng = np.random.default_rng(0)
    done = 0
    while done < n_documents:
        start = done % X.shape[0]
        rows = X[start : start + min(BATCH, n_documents - done)].copy()
        if done >= X.shape[0]:
            rows.data[rng.random(rows.nnz) < DROPPED] = 0
            rows.eliminate_zeros()
        yield rows, y[start : start + rows.shape[0]]
        done += rows.shape[0]


def corpus_of(where: Path, n_documents: int) -> Any:
    """Return the corpus of so many documents in a folder, made where it is absent."""
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"nsmc-{n_documents}.zarr"
    if not path.exists():
        write_corpus(path, batches(where, n_documents))
    return open_corpus(path)


def describe(corpus: Any) -> str:
    """Return one line about a corpus."""
    h = corpus.header
    return f"{h.n_documents:,} documents, {h.n_features:,} words, {h.n_nonzeros:,} nonzeros, {len(h.shards)} shards"


def forget_pages(path: str | Path) -> None:
    """Ask the system to drop a corpus's files from its page cache."""
    for file in Path(path).rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
