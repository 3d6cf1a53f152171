"""Files to ingest, in every format and compression, and what a corpus holds."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.corpus import open_corpus

DOCUMENTS = [
    ("acq", "shares of the bank were bought"),
    ("earn", "the bank earned more, the shares rose"),
    ("acq", ""),
    ("earn", 'naïve café "quoted", 東京 bank'),
    ("crude", "oil oil oil and a tanker"),
    ("acq", "the merger was called off"),
]


@pytest.fixture
def documents():
    return list(DOCUMENTS)


@pytest.fixture(scope="session")
def compressed():
    """Return the function that compresses bytes as a suffix says."""
    return _compressed


@pytest.fixture(scope="session")
def rows_in_source_order():
    """Return the function that reads a corpus back."""
    return _rows_in_source_order


@pytest.fixture
def write_source(tmp_path):
    """Return a function that writes documents as a file of a format, compressed by suffix."""

    def write(name: str, documents, folder: Path = tmp_path) -> Path:
        path = folder / name
        plain = name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst")
        content = _content(plain.rsplit(".", 1)[1], documents, tmp_path)
        path.write_bytes(_compressed(content, path.suffix))
        return path

    return write


def _compressed(content: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(content)
    if suffix == ".xz":
        return lzma.compress(content)
    if suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        half = len(content) // 2
        frame = zstandard.ZstdCompressor(write_checksum=True).compress
        return frame(content[:half]) + frame(content[half:])  # files joined by cat have two frames
    return content


def _content(form: str, documents, tmp_path: Path) -> bytes:
    if form == "tsv":
        return "".join(f"{label}\t{text}\n" for label, text in documents).encode()
    if form == "jsonl":
        return "".join(json.dumps({"text": t, "label": label}) + "\n" for label, t in documents).encode()
    if form == "csv":
        table = tmp_path / "scratch.csv"
        with table.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "label", "text"])
            writer.writerows((i, label, text) for i, (label, text) in enumerate(documents))
        return table.read_bytes()
    raise AssertionError(form)


def _rows_in_source_order(path) -> tuple[sp.csr_matrix, list]:
    """Return the documents of a corpus as a matrix, and their class names, in the order of their ids."""
    corpus = open_corpus(path)
    documents = corpus.read(0, corpus.n_documents)
    ids = np.concatenate([np.asarray(corpus.ids(s)) for s in range(len(corpus.header.shards))])
    order = np.argsort(ids)
    return documents.to_csr()[order], [corpus.header.classes[documents.labels[i]] for i in order]


@pytest.fixture
def corpora() -> Path:
    """The folder of real corpora that SDEM_CORPORA names."""
    if "SDEM_CORPORA" not in os.environ:
        pytest.skip("set SDEM_CORPORA to the folder of the real corpora")
    return Path(os.environ["SDEM_CORPORA"])
