"""What one pass finds out before a mixture is trained."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.corpus import MemoryCorpus
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.surveys import Survey, examples_of
from sdem_dist.models.mixture import RowTransform, row_sums, scale_of

RNG = np.random.default_rng(0)
X = RNG.poisson(1.0, (90, 5)).astype(float)
X[3] = 0.0
Y = np.arange(90) % 3
WEIGHTS = np.where(np.arange(90) < 30, 0.0, 1.0)
DENSE = MemoryCorpus(X, Y, (0, 1, 2), weights=WEIGHTS, shuffle=False, dense=True)
SPARSE = MemoryCorpus(sp.csr_matrix(X), Y, (0, 1, 2), weights=WEIGHTS, shuffle=False)


def surveyed(corpus, n_examples=4, **settings):
    survey = Survey(5, 3, n_examples, **settings)
    spans = [(i, (30 * i, 30 * i + 30)) for i in range(3)]
    parts = [survey.map(survey.init(), corpus.read(*s), Lane(0, 0, i, *s, 90)) for i, s in spans]
    joined = survey.combine([survey.combine(parts[:2]), parts[2]])
    for a, b in zip(joined, survey.combine(parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    return survey.update(survey.init(), joined)


def test_examples_are_distinct_documents_of_their_class_that_weigh_something():
    for found in (surveyed(DENSE), surveyed(SPARSE)):
        for k, positions in enumerate(examples_of(found, (4, 4, 4))):
            assert (Y[positions] == k).all() and (positions >= 30).all() and len(set(positions)) == 4
    assert not np.array_equal(surveyed(DENSE, seed=1).positions, surveyed(DENSE).positions)
    again = examples_of(surveyed(DENSE, n_examples=50), (50, 1, 1))[0]  # a class of 20 such documents
    assert len(again) == 50 and len(set(again)) == 20
    anywhere = examples_of(surveyed(DENSE, labelled=False), (4,))[0]
    assert len(set(anywhere)) == 4


def test_examples_are_drawn_in_proportion_to_their_weights():
    weights = np.where(np.arange(90) == 7, 60.0, 1.0)  # of 30 documents of its class
    corpus = MemoryCorpus(X, Y, (0, 1, 2), weights=weights, shuffle=False, dense=True)
    first = [int(surveyed(corpus, n_examples=1, seed=seed).positions[1, 0]) for seed in range(200)]
    assert first.count(7) / 200 == pytest.approx(60 / 89, abs=0.1)


def test_a_class_without_documents_gets_examples_of_all():
    found = surveyed(DENSE)
    without = found._replace(keys=np.where(np.arange(3)[:, None] == 1, np.inf, found.keys))
    first, of_all, last = examples_of(without, (4, 8, 4))
    np.testing.assert_array_equal(np.sort(of_all), np.sort(np.concatenate([first, last])))


def test_sums_and_scale():
    found = surveyed(SPARSE)
    assert found.largest_sum == X.sum(axis=1).max() and found.n_documents == 90
    transform = RowTransform(scale_of(found.summed_rows / 90))
    rows = transform.dense(X)
    assert (rows @ rows.T).mean() == pytest.approx(2.0)
    np.testing.assert_allclose(rows.sum(axis=1)[4:], transform.scale)
    assert not rows[3].any()
    np.testing.assert_allclose(transform.sparse(SPARSE.read(0, 90)).to_csr().toarray(), rows)
    np.testing.assert_allclose(row_sums(SPARSE.read(0, 90)), X.sum(axis=1))
    expanded = surveyed(DENSE, transform=RowTransform(transform.scale, True))
    assert expanded.largest_sum == pytest.approx(RowTransform(transform.scale, True).dense(X).sum(axis=1).max())
    gaps = MemoryCorpus(np.where(X == 1, np.nan, X), Y, (0, 1, 2), shuffle=False, dense=True)
    assert surveyed(gaps).n_missing == (X == 1).sum()
