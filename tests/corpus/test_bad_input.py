"""Input that no corpus holds is refused with its place, before SciPy or a kernel uses it, on disk and in memory."""

import os

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.corpus import MemoryCorpus, write_corpus
from sdem_dist.errors import CorpusError

FAR = 1 << 40


def dense(*change) -> np.ndarray:
    matrix = np.ones((4, 3))
    if change:
        row, column, value = change
        matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(("X", "options", "message"), [
    (dense(2, 1, -1), {}, r"document 2 .* contains the value -1"),
    (dense(3, 0, np.nan), {}, r"document 3 .* contains the value nan"),
    (dense(1, 2, np.inf), {}, r"document 1 .* contains the value inf"),
    (dense(1, 2, 1e300), {}, r"document 1 .* contains the value 1e"),
    (iter([(dense(), None), (dense(2, 0, -3), None)]), {}, r"document 6 .* contains the value -3"),
    (dense(), {"y": [0, 1]}, "labels have shape"),
    (dense(), {"y": [0, 1, 0, 1, 0]}, "4 documents, but y has 5"),
    (dense(), {"y": [0, 1, 0, None]}, "document 3: None cannot be a class label"),
    (dense(), {"y": [0, 1, 0, np.nan]}, "nan cannot be a class label"),
    (dense(), {"y": list("abca"), "classes": ["a", "b"]}, r"document 2 \(counting from 0\) has the label 'c'"),
    (dense(), {"y": list("abca"), "classes": ["a", "a"]}, "contains 'a' twice"),
    (dense(), {"classes": ["a"]}, "classes can only be passed with labels"),
    (dense(), {"y": np.array(["a", 1, 2, 3], object)}, "cannot be sorted"),
    (iter([(dense(), [1] * 4), (dense()[:, :2], [1] * 4)]), {}, "starts at document 4 .* features is 2, but was 3"),
    (iter([(dense(), [1] * 4), (dense(), None)]), {}, "labels is False, but was True"),
    (iter([(dense(), None, list("abcd")), (dense(), None)]), {}, "ids is positions, but was strings"),
    (iter([dense()]), {}, "batch 0 of X must be a tuple"),
    (iter([(dense(), None)]), {"y": [1]}, "contain their own"),
    (["a text", "more"], {"y": [0, 1]}, "a list of texts, but write_corpus needs numbers: for text files, use sdem ingest"),
    (iter([]), {}, "no documents"),
    (np.zeros((0, 3)), {}, "no documents"),
    (np.zeros((3, 0)), {}, "no features"),
    (np.array([["a"]]), {}, "must be a numeric matrix"),
    (np.ones(3), {}, "dimensions"),
    (3, {}, "got a int"),
    (dense() * 0.1, {"weighted": False}, "weighted=False"),
    (dense(), {"vocabulary": ["a", "b"]}, "vocabulary has 2 words, but the documents have 3"),
    (dense(), {"vocabulary": ["a", "b", 3]}, "vocabulary cannot be stored"),
    (dense(), {"ids": [1, 2, 3]}, "3 IDs"),
    (dense(), {"ids": [1, 2, 3, "x"]}, "cannot be stored"),
    (dense(), {"ids": [1, 2, 3, 2**63]}, "cannot be stored"),
    (dense(), {"made_by": {"x": float("nan")}}, "made_by must be JSON"),
    (dense(), {"vectorizer": {"x": object()}}, "vectorizer must be JSON"),
    (dense(), {"shard_documents": 0}, "shard_documents must be an integer of at least 1, got 0"),
    (dense(3, 2, np.inf), {"dense": True}, "document 3 .* contains an infinite value"),
    (dense(), {"targets": [1.0] * 3}, "has 4 documents, but the targets have shape"),
    (dense(), {"targets": [1, 1, 1, np.nan]}, "not finite; the first is at document 3"),
    (dense(), {"targets": ["x", 1, 1, 1]}, r"such as 'x' at document 0 \(counting from 0\)"),
    (dense(), {"targets": [[1, 2]] * 3 + [[None, "7 stars"]]}, r"'7 stars' at document 3 \(counting from 0\), column 1"),
    (dense(), {"targets": ["1__0"] * 4}, "targets that are not numbers"),
    (dense(), {"targets": np.ones((4, 0))}, "targets have shape"),
    (dense(), {"targets": [1.0] * 4, "dense": True}, "to sparse corpora only"),
    (iter([(dense(), None, None, [1] * 4), (dense(), None)]), {}, "starts at document 4 .* targets is 0, but was 1"),
    (dense(), {"sample_weight": [1, -1, 1, 1]}, "has sample_weight -1.0 for document 1"),
    (dense(), {"sample_weight": [np.nan] * 4}, "has sample_weight nan for document 0"),
    (dense(), {"sample_weight": [1, 1]}, "4 documents, but sample_weight has shape"),
    (dense(), {"groups": [1, 1]}, "groups"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_what_cannot_be_written(tmp_path, X, options, message):
    np.testing.assert_raises_regex(CorpusError, message, write_corpus, tmp_path / "c", X, **options)
    assert os.listdir(tmp_path) == []


def csr(indices=(0, 2, 3, 1, 4, 5), indptr=(0, 3, 6), n_entries=6):
    matrix = sp.csr_matrix(np.ones((2, 30)))
    matrix.data, matrix.indices, matrix.indptr = np.ones(n_entries), np.array(indices), np.array(indptr)
    return matrix


def changed(matrix, position: int, value: int):
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indices[position] = value
    return matrix


def coo(row: int, column: int):
    matrix = sp.coo_matrix((np.ones(2), ([0, 1], [0, 2])), shape=(2, 3))
    matrix.coords = np.array([0, row]), np.array([0, column])
    return matrix


def lil():
    matrix = sp.lil_matrix(np.eye(3))
    matrix.rows[1] = [70_000]
    return matrix


BROKEN = {
    "beyond uint16": (lambda: csr([0, 2, 65536 + 3, 1, 4, 131072 + 5]), r"column index 65539, .* 0 to 29"),
    "negative": (lambda: csr([0, 2, 3, 1, -4, 5]), r"column index -4, .* 0 to 29"),
    "falling": (lambda: csr(indptr=(0, 7, 6)), r"decreases at position 1"),
    "too far": (lambda: csr(indptr=(0, 3, 9)), r"but there are only"),
    "far": (lambda: csr(indptr=(0, 3, FAR)), r"but there are only"),
    "a late start": (lambda: csr(indptr=(1, 3, 6)), r"indptr must have 3"),
    "a row too many": (lambda: csr(indptr=(0, 3, 6, 6)), r"indptr must have 3"),
    "too few values": (lambda: csr(n_entries=4), r"but there are only"),
    "csc": (lambda: changed(sp.csc_matrix(np.eye(3)), 1, FAR), rf"row index {FAR}, .* 0 to 2"),
    "bsr": (lambda: changed(sp.bsr_matrix(np.ones((4, 4)), blocksize=(2, 2)), 3, 2), r"column index 2, .* 0 to 1"),
    "coo, row": (lambda: coo(FAR, 2), r"entry 1 has row"),
    "coo, column": (lambda: coo(1, -1), r"entry 1 has column index -1, .* 0 to 2"),
    "lil": (lil, r"entry 0 has column index 70000"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_matrices_whose_arrays_do_not_fit_together(name, tmp_path):
    make, message = BROKEN[name]
    blocks = da.from_array(np.ones((2, 30)), chunks=(2, 30)).map_blocks(lambda _: make())
    for X in (make(), iter([(make(), None)]), *([blocks] if name == "negative" else [])):
        np.testing.assert_raises_regex(CorpusError, message, write_corpus, tmp_path / "c", X)
    np.testing.assert_raises_regex(CorpusError, message, MemoryCorpus, make(), None, ())
    assert not list(tmp_path.iterdir())
