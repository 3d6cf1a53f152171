"""The left-to-right estimator against sums over all topics of all words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from kernels.small_topics import exact_topics

from sdem_dist.documents import Documents
from sdem_dist.models.lda import log_probability

TOPICS = np.array([[0.7, 0.1, 0.2], [0.2, 0.1, 0.5], [0.1, 0.8, 0.3]])


def exact(counts, alpha):
    words = np.repeat(np.arange(3), counts)
    return exact_topics(TOPICS[words], np.ones(len(words)), alpha)[0]


def of(table) -> Documents:
    csr = sp.csr_array(np.asarray(table))
    return Documents(csr.data, csr.indices, csr.indptr.astype(np.int64), csr.shape[1])


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0, np.array([0.2, 3.0, 1.0])])
def test_it_is_the_sum_over_topics(alpha):
    tables = [[3, 1, 2], [0, 5, 1], [1, 0, 0], [0, 0, 0]]
    found = np.mean([log_probability(TOPICS, of(tables), alpha, 5_000, seed) for seed in range(5)], axis=0)
    np.testing.assert_allclose(found, [exact(t, alpha) for t in tables], atol=0.03)


def test_the_seed_alone_decides():
    a, b, c = (log_probability(TOPICS, of([[4, 4, 4]]), 0.5, 3, seed) for seed in (0, 0, 1))
    assert a == b != c


def test_a_fraction_of_a_word_counts_as_an_occurrence_of_that_weight():
    whole, half, next_whole = (log_probability(TOPICS, of([[1.0, n, 0.0]]), 1.0, 5_000)[0] for n in (1.0, 1.5, 2.0))
    assert whole > half > next_whole
