"""Writing sources in every form, and reading back what a corpus holds."""

import csv
import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sdem_dist import open_corpus

DOCUMENTS = [
    ("acq", "shares of the bank were bought"),
    ("earn", "the bank earned more, the shares rose"),
    ("acq", ""),
    ("earn", 'naïve café "quoted", 東京 bank'),
    ("crude", "oil oil oil and a tanker"),
    ("acq", "the merger was called off"),
]


def compressed(content: bytes, suffix: str) -> bytes:
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


def table(path: Path, rows, delimiter=",", end="\n", encoding="utf-8") -> None:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)


def written(path: Path, rows) -> Path:
    """Write labels and texts in the form that the name of the file says; None is a missing one."""
    path = Path(path)
    form = path.suffixes[0] if path.suffixes else "folder"
    if form in (".tsv", ".txt"):
        path.write_text("".join(f"{label or ''}\t{text or ''}\n" for label, text in rows), encoding="utf-8")
    elif form == ".csv":
        table(path, [("label", "text"), *rows])
    elif form == ".jsonl":
        path.write_text("".join(json.dumps({"label": a, "text": b}) + "\n" for a, b in rows))
    elif form == ".parquet":
        pq.write_table(pa.table({"label": [a for a, _ in rows], "text": [b for _, b in rows]}), path)
    else:
        for i, (label, text) in enumerate(rows):
            (path / label / "deeper").mkdir(parents=True, exist_ok=True)
            (path / label / "deeper" / f"{i}.txt").write_text(text or "", encoding="utf-8")
    if path.suffix in (".gz", ".xz", ".zst"):
        path.write_bytes(compressed(path.read_bytes(), path.suffix))
    return path


def rows_in_source_order(path) -> tuple[sp.csr_matrix, list[str]]:
    """Return the documents of a corpus as a matrix, and their class names, in the order of their ids."""
    corpus = open_corpus(path)
    documents = corpus.read(0, corpus.n_documents)
    order = np.argsort(np.asarray(corpus.ids_of(0, corpus.n_documents)))
    return documents.to_csr()[order], [corpus.header.classes[documents.labels[i]] for i in order]


def texts_in_source_order(path) -> list[tuple[str, str]]:
    """Return labels and texts of a corpus that keeps texts, in the order of their ids."""
    corpus = open_corpus(path)
    order = np.argsort(np.asarray(corpus.ids_of(0, corpus.n_documents)))
    return [(corpus[int(i)].label, corpus.text(int(i))) for i in order]
