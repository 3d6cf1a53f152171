"""Rows of counts come out in the order of their columns, however the columns lie."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.kernels.spelling import arrange

N_COLUMNS = 1 << 20
COLUMNS = {
    "spread": lambda random, n: random.permutation(N_COLUMNS)[:n],
    "neighbours": lambda random, n: random.permutation(n),  # all have the same first bits
    "both ends": lambda random, n: np.where(random.random(n) < 0.5, 0, N_COLUMNS - n) + random.permutation(n),
    "some left out": lambda random, n: np.where(random.random(n) < 0.3, -1, random.permutation(N_COLUMNS)[:n]),
    "the same": lambda random, n: random.integers(0, 3, n),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("size", [0, 1, 33, 3000])
def test_rows_are_arranged(name, size):
    random = np.random.default_rng(size)
    columns = COLUMNS[name](random, size).astype(np.int32)
    indptr = np.array([0, size, size, 2 * size])
    nodes = np.concatenate([random.permutation(size), random.permutation(size)]).astype(np.int32)
    counts = random.integers(1, 9, 2 * size).astype(np.int32)
    rows = np.empty(4, np.int64), np.empty(2 * size, np.int32), np.empty(2 * size, np.int64)
    n = arrange(indptr, nodes, counts, columns, rows)
    found = sp.csr_matrix((rows[2][:n], rows[1][:n], rows[0]), shape=(3, N_COLUMNS))
    kept = columns[nodes] >= 0
    expected = sp.csr_matrix(
        (counts[kept], (np.repeat([0, 2], size)[kept], columns[nodes][kept])), shape=(3, N_COLUMNS)
    )  # it adds up equal columns
    expected.sort_indices()
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)


def test_no_columns():
    rows = np.empty(2, np.int64), np.empty(1, np.int32), np.empty(1, np.int64)
    nothing = np.zeros(1, np.int32)
    assert arrange(np.array([0, 1]), nothing, nothing, np.array([-1], np.int32), rows) == 0
