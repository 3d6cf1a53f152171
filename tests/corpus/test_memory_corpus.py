"""A matrix in memory reads like a corpus on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.corpus import MemoryCorpus
from sdem_dist.errors import CorpusError

RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.integers(0, 5, (40, 12)) * (RNG.random((40, 12)) < 0.4))
Y = RNG.integers(0, 3, 40)
CLASSES = ("a", "b", "c")


def test_documents_labels_and_weights_move_together():
    weights, targets = np.arange(40.0), RNG.normal(size=(40, 2))
    corpus = MemoryCorpus(X, Y, CLASSES, weights=weights, targets=targets, random_state=2)
    documents = corpus.read(0, 40)
    assert sorted(corpus.order) == list(range(40))
    assert (documents.to_csr() != X[corpus.order]).nnz == 0
    np.testing.assert_array_equal(documents.labels, Y[corpus.order])
    np.testing.assert_array_equal(documents.weights, weights[corpus.order])
    np.testing.assert_array_equal(documents.targets, targets[corpus.order])
    part = corpus.read(7, 19)
    assert (part.to_csr() != X[corpus.order[7:19]]).nnz == 0
    np.testing.assert_array_equal(part.weights, weights[corpus.order[7:19]])
    assert corpus.vocabulary() is None


def test_document_frequencies_pass_over_explicit_zeros():
    counted = sp.csr_matrix((np.array([1, 0, 2]), np.array([3, 1, 3]), np.array([0, 2, 3])), shape=(2, 5))
    assert MemoryCorpus(counted, None, ()).document_frequency.tolist() == [0, 0, 0, 2, 0]


def test_header():
    header = MemoryCorpus(X, Y, CLASSES).header
    assert (header.n_documents, header.n_features, header.n_nonzeros) == (40, 12, X.nnz)
    assert header.class_counts == tuple(np.bincount(Y))
    assert header.shard_starts.tolist() == [0, 40]
    assert not header.weighted
    assert header.uid == MemoryCorpus(X, Y, CLASSES).header.uid
    others = [
        MemoryCorpus(X, Y, CLASSES, random_state=1),
        MemoryCorpus(X, Y, CLASSES, weights=np.full(40, 2)),
        MemoryCorpus(X, Y, CLASSES, targets=np.ones(40)),
        MemoryCorpus(X, Y, ("a", "b", "d")),
        MemoryCorpus(X[:, :11], Y, CLASSES),
    ]
    assert len({header.uid, *(c.header.uid for c in others)}) == 6


def test_same_documents_without_labels():
    corpus = MemoryCorpus(X, None, (), shuffle=False)
    assert (corpus.read(0, 40).to_csr() != X).nnz == 0 and corpus.read(0, 3).labels is None
    assert corpus.header.class_counts == ()


@pytest.mark.parametrize(
    ("values", "dtype", "weighted"),
    [
        ([1, 2, 300], np.uint16, False),
        ([1.0, 2.0, 3.0], np.float32, False),
        ([0.5, 1.0, 2.0], np.float32, True),
        ([0.1, 1.0, 2.0], np.float64, True),
        ([2.0**24 + 1, 1.0, 2.0], np.float64, False),
        ([2**40, 1, 2], np.float64, False),
        ([True, True, True], np.uint8, False),
    ],
)
def test_values_are_kept_exactly(values, dtype, weighted):
    corpus = MemoryCorpus(np.array([values]), None, ())
    documents = corpus.read(0, 1)
    assert documents.data.dtype == dtype
    assert documents.data.tolist() == values
    assert corpus.header.weighted == weighted


def test_the_callers_matrix_is_left_alone():
    ragged = sp.csr_matrix((np.array([1, 2, 3]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6))
    for shuffle in (True, False):
        documents = MemoryCorpus(ragged, None, (), shuffle=shuffle).read(0, 1)
        assert documents.indices.tolist() == [1, 4]
        assert documents.data.tolist() == [2, 4]
    assert ragged.indices.tolist() == [4, 1, 4]


@pytest.mark.parametrize(
    ("matrix", "labels", "weights", "message"),
    [
        (-X, Y, None, "the matrix: document 0 .* holds the entry -"),
        (X * -0.5, Y, None, "not negative"),
        (X * np.nan, Y, None, "holds the entry nan: .* are finite"),
        (X, Y + 1, None, "outside -1 to 2"),
        (X, Y[:9], None, "labels have shape"),
        (X, Y, np.ones(3), "weights of shape"),
        (X, Y, np.full(40, -1.0), "the weight"),
        (X, Y, np.full(40, np.nan), "the weight"),
        (X * 1e300, Y, None, r"holds the entry .*e\+300: .* at most 3\.4e\+38"),
        (X, Y, np.full(40, 1e300), "the weight"),
        (X[:0], Y[:0], None, "no documents"),
    ],
)
def test_bad_input(matrix, labels, weights, message):
    with pytest.raises(CorpusError, match=message):
        MemoryCorpus(matrix, labels, CLASSES, weights=weights)


def test_ranges_outside_are_refused():
    with pytest.raises(IndexError, match="not within"):
        MemoryCorpus(X, Y, CLASSES).read(0, 41)
