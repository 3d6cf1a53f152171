"""Sparse matrices whose arrays do not fit together are refused before SciPy uses them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.corpus import MemoryCorpus, write_corpus
from sdem_dist.corpus.manifest import check_structure
from sdem_dist.errors import CorpusError

FAR = 1 << 40


def csr(indices=(0, 2, 3, 1, 4, 5), indptr=(0, 3, 6), kind=sp.csr_matrix, n_entries=6):
    matrix = kind(np.ones((2, 30)))
    matrix.data, matrix.indices = np.ones(n_entries), np.array(indices)
    matrix.indptr = np.array(indptr)
    return matrix


def with_changed(matrix, name: str, position: int, value: int):
    array = getattr(matrix, name).astype(np.int64)
    array[position] = value
    setattr(matrix, name, array)
    return matrix


def coo(name: str, value: int):
    row, column = np.array([0, 1]), np.array([0, 2])
    matrix = sp.coo_matrix((np.ones(2), (row, column)), shape=(2, 3))
    (row if name == "row" else column)[1] = value
    matrix.coords = row, column
    return matrix


def lil():
    matrix = sp.lil_matrix(np.eye(3))
    matrix.rows[1] = [70_000]
    return matrix


BROKEN = {
    "beyond uint16": (lambda: csr([0, 2, 65536 + 3, 1, 4, 131072 + 5]), r"column 65539 of 30"),
    "negative": (lambda: csr([0, 2, 3, 1, -4, 5]), r"column -4 of 30"),
    "falling": (lambda: csr(indptr=(0, 7, 6)), r"falls at 1"),
    "too far": (lambda: csr(indptr=(0, 3, 9)), r"too few"),
    "far": (lambda: csr(indptr=(0, 3, FAR)), r"too few"),
    "a late start": (lambda: csr(indptr=(1, 3, 6)), r"indptr is not 3"),
    "a row too many": (lambda: csr(indptr=(0, 3, 6, 6)), r"indptr is not 3"),
    "too few values": (lambda: csr(n_entries=4), r"too few"),
    "csc": (lambda: with_changed(sp.csc_matrix(np.eye(3)), "indices", 1, FAR), rf"row {FAR} of 3"),
    "bsr": (lambda: with_changed(sp.bsr_matrix(np.ones((4, 4)), blocksize=(2, 2)), "indices", 3, 2), r"column 2 of 2"),
    "coo, row": (lambda: coo("row", FAR), r"entry 1 lies in row"),
    "coo, column": (lambda: coo("column", -1), r"entry 1 lies in column -1 of 3"),
    "lil": (lil, r"entry 0 lies in column 70000"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_way_into_a_corpus(name, tmp_path):
    make, message = BROKEN[name]
    for X in (make(), iter([(make(), None)])):
        with pytest.raises(CorpusError, match=message):
            write_corpus(tmp_path / "c", X)
    with pytest.raises(CorpusError, match=message):
        MemoryCorpus(make(), None, ())
    assert not list(tmp_path.iterdir())


def test_a_dask_array_of_broken_blocks(tmp_path):
    import dask.array as da

    broken = da.from_array(np.ones((2, 30)), chunks=(2, 30)).map_blocks(lambda _: BROKEN["negative"][0]())
    with pytest.raises(CorpusError, match="column -4"):
        write_corpus(tmp_path / "c", broken)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_sound_matrices_pass(form):
    X = np.random.default_rng(0).poisson(0.5, (6, 8))
    for matrix in (
        sp.csr_matrix(X).asformat(form),
        sp.csr_array(X).asformat(form),
        sp.csr_matrix((3, 4)).asformat(form),
    ):
        check_structure(matrix, "X")
