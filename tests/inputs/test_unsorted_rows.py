"""Matrices whose rows are not in order, as CountVectorizer gives them, or that name a column twice."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB

X, Y = random_counts(300, 200, 3, seed=3, length=60.0)


def shuffled(matrix: sp.csr_matrix, *, twice: bool = False) -> sp.csr_matrix:
    """Return the same matrix with entries of each row in any order; with `twice` each is two entries."""
    coo = (matrix - matrix.sign()).tocoo() if twice else matrix.tocoo()
    row, column, data = coo.row, coo.col, coo.data
    if twice:
        ones = matrix.sign().tocoo()
        row, column, data = (
            np.concatenate(pair) for pair in zip((row, column, data), (ones.row, ones.col, ones.data), strict=True)
        )
        row, column, data = row[data > 0], column[data > 0], data[data > 0]
    order = np.random.default_rng(0).permutation(len(data))
    order = order[np.argsort(row[order], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=matrix.shape[0]))])
    return sp.csr_matrix((data[order].astype(matrix.dtype), column[order], indptr), shape=matrix.shape)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64])
def test_the_order_of_a_rows_entries_changes_nothing(dtype, twice):
    given = shuffled(X.astype(dtype), twice=twice)
    assert not given.has_canonical_format
    before = given.indices.copy()
    model, plain = MultinomialNB().fit(given, Y), MultinomialNB().fit(X.astype(dtype), Y)
    np.testing.assert_array_equal(model.state_.words, plain.state_.words)
    np.testing.assert_array_equal(model.predict_proba(given), plain.predict_proba(X.astype(dtype)))
    np.testing.assert_array_equal(given.indices, before)


def test_counts_beyond_32_bits_are_sorted_too():
    large = sp.csr_matrix(([2**33, 1, 2, 1], [1, 0, 0, 1], [0, 2, 4]), shape=(2, 2))
    ordered = sp.csr_matrix(([1, 2**33, 2, 1], [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    models = [MultinomialNB(loss="nll").fit(M, [0, 1]) for M in (large, ordered)]
    np.testing.assert_array_equal(*(model.state_.words for model in models))
