"""Topics of a document: sampling and estimates against exact sums over all topics, and EM against its objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import exact_topics as exact

from sdem_dist.kernels import topics
from sdem_dist.kernels.randomness import content_key, document_keys, log_normal


def sampling(alpha, n_sweeps, burn_in, occurrences=topics.SHARED):
    return topics.TopicInference(topics.GIBBS, occurrences, alpha, n_sweeps, burn_in, 0)


def short_document(seed, n_topics=3, n=5, largest=3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(30), n_topics).T[:n].copy(), rng.integers(1, largest + 1, n).astype(float)


def sampled(beta, counts, inference, seed):
    """Return the expected share of each topic for each position, and those of the document."""
    q, theta = np.empty_like(beta), np.empty(beta.shape[1])
    topics.gibbs(beta, np.arange(len(counts)), counts, inference, np.uint64(seed), q, theta)
    return q, theta


@pytest.mark.parametrize(  # 25: beyond what is multiplied out; 5 topics: drawn sparsely
    ("seed", "largest", "n_topics"), [(0, 1, 3), (1, 3, 3), (2, 25, 3), (3, 1, 5), (4, 6, 5), (5, 25, 5)]
)
def test_gibbs_expectations_are_those_of_the_exact_sum(seed, largest, n_topics):
    beta, counts = short_document(seed, n_topics, largest=largest)
    _, expected = exact(beta, counts, 0.4)
    q, theta = sampled(beta, counts, sampling(0.4, 200_000, 100), seed)
    np.testing.assert_allclose(q, expected, atol=0.015)
    np.testing.assert_allclose(theta, (counts @ expected + 0.4) / (counts.sum() + 0.4 * n_topics), atol=0.01)


def test_the_printed_equation_18_samples_something_else():
    beta, counts = short_document(3, largest=6)
    _, expected = exact(beta, counts, 0.4)
    q, _ = sampled(beta, counts, sampling(0.4, 100_000, 100, topics.LITERAL), 3)
    assert np.abs(q - expected).max() > 0.05


def test_a_word_that_does_not_occur_draws_nothing():
    beta, counts = short_document(0)
    counts[2] = 0.0
    q, theta = np.empty_like(beta), np.empty(3)
    for positions in (np.arange(5), np.array([0, 1, 3, 4])):
        topics.gibbs(beta, positions, counts[positions], sampling(0.4, 20, 3), np.uint64(1), q, theta)
        np.testing.assert_allclose(q.sum(axis=1), counts > 0)
        np.testing.assert_allclose(theta.sum(), 1.0)


def test_the_plug_in_estimate_is_too_high():
    excess = []
    for seed in range(20):
        beta, counts = short_document(seed, n_topics=2, n=6, largest=1)
        _, theta = sampled(beta, counts, sampling(0.5, 1_000, 100), seed)
        excess.append(counts @ np.log(beta @ theta) - exact(beta, counts, 0.5)[0])
    assert np.mean(excess) > 0.1


def objective(beta, counts, alpha, theta):
    return counts @ np.log(beta @ theta) + alpha * np.log(theta).sum()


@given(st.integers(0, 10_000), st.floats(0.05, 5.0), st.integers(1, 15))
@settings(deadline=None, max_examples=60)
def test_no_sweep_of_em_lowers_its_objective(seed, alpha, n_sweeps):
    beta, counts = short_document(seed)
    found = []
    for sweeps in (n_sweeps, n_sweeps + 1):
        q, theta, scores = beta[:, :, None].copy(), np.empty((3, 1)), np.empty(1)
        topics.maximum_a_posteriori(q, counts, alpha, sweeps, theta, scores)
        np.testing.assert_allclose(q.sum(axis=1), 1.0)
        np.testing.assert_allclose(theta.sum(axis=0), 1.0)
        np.testing.assert_allclose(scores[0], objective(beta, counts, alpha, theta[:, 0]), rtol=1e-12)
        found.append(scores[0])
    assert found[1] >= found[0] - 1e-12 * abs(found[0])


def test_responsibilities_are_the_gradient_of_the_maximum():
    beta, counts = short_document(4)

    def score(log_beta):
        q, theta, scores = np.exp(log_beta)[:, :, None], np.empty((3, 1)), np.empty(1)
        topics.maximum_a_posteriori(q, counts, 0.5, 5_000, theta, scores)
        return scores[0], q[:, :, 0]

    log_beta = np.log(beta)
    gradient = counts[:, None] * score(log_beta)[1]
    for j, z in np.ndindex(beta.shape):
        step = np.zeros_like(beta)
        step[j, z] = 1e-5
        slope = (score(log_beta + step)[0] - score(log_beta - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[j, z], slope, atol=1e-6)


def test_keys_tell_documents_and_places_apart():
    keys = np.concatenate([document_keys(seed, epoch, 0, 500) for seed in (0, 1) for epoch in (0, 1)])
    assert len(set(keys.tolist())) == 2_000
    np.testing.assert_array_equal(document_keys(1, 1, 100, 200), keys[-400:-300])
    words, counts = np.array([3, 5], np.uint32), np.array([1.0, 2.0])
    documents = (words, counts), (words, counts[::-1].copy()), (words[::-1].copy(), counts)
    assert len({content_key(*document) for document in documents}) == 3


def test_noise_belongs_to_rows_and_is_log_normal():
    whole, part = np.empty((4_000, 5)), np.empty((1_000, 5))
    log_normal(3, 0, 0.1, whole)
    log_normal(3, 500, 0.1, part)
    np.testing.assert_array_equal(whole[500:1_500], part)
    assert abs(np.log(whole).mean()) < 0.005
    np.testing.assert_allclose(np.log(whole).std(), 0.1, rtol=0.05)
