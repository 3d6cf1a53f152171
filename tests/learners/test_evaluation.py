"""Sums over documents, and the means that are made of them."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist import losses
from sdem_dist.evaluation import SUMS, evaluation_sums, finish, scored

RNG = np.random.default_rng(0)
SCORES, LABELS = RNG.normal(-20, 3, (50, 4)), RNG.integers(0, 4, 50)
WEIGHTS, LENGTHS = RNG.random(50), RNG.integers(0, 9, 50).astype(float)


def sums_of(*columns):
    return evaluation_sums(scored(*columns))


def test_means_by_hand():
    found = finish(sums_of(SCORES, LABELS, WEIGHTS, LENGTHS))
    assert found["accuracy"] == pytest.approx(np.average(SCORES.argmax(axis=1) == LABELS, weights=WEIGHTS))
    for name in losses.LOSSES:
        assert found[name] == pytest.approx(np.average(getattr(losses, name)(SCORES, LABELS), weights=WEIGHTS))
    log_likelihood = np.log(np.exp(SCORES).sum(axis=1))
    assert found["perplexity"] == pytest.approx(np.exp(-(WEIGHTS @ log_likelihood) / (WEIGHTS @ LENGTHS)))


def test_parts_add_up():
    whole = sums_of(SCORES, LABELS, WEIGHTS, LENGTHS)
    parts = sum(sums_of(SCORES[i::3], LABELS[i::3], WEIGHTS[i::3], LENGTHS[i::3]) for i in range(3))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    assert len(whole) == len(SUMS)


def test_documents_of_weight_zero_count_nowhere_even_with_infinite_losses():
    scores = np.vstack([SCORES, [[0.0, -np.inf, 0.0, 0.0]]])
    with_it = sums_of(scores, np.append(LABELS, 1), np.append(WEIGHTS, 0.0), np.append(LENGTHS, 5.0))
    np.testing.assert_array_equal(with_it, sums_of(SCORES, LABELS, WEIGHTS, LENGTHS))
    assert (
        finish(sums_of(scores, np.append(LABELS, 1), np.append(WEIGHTS, 1.0), np.append(LENGTHS, 5.0)))["ncll"]
        == np.inf
    )


def test_nothing_to_measure():
    nothing = finish(sums_of(SCORES[:0], LABELS[:0], WEIGHTS[:0], LENGTHS[:0]))
    assert all(np.isnan(v) for v in nothing.values())
    assert np.isnan(finish(sums_of(SCORES, LABELS, WEIGHTS, np.zeros(50)))["perplexity"])


def test_bits_do_not_depend_on_the_threads_of_blas():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(1)
    arguments = rng.normal(-20, 3, (60_000, 2)), rng.integers(0, 2, 60_000), rng.random(60_000), rng.random(60_000)
    sums = []
    for n in (1, 2, 4):
        with threadpoolctl.threadpool_limits(n):
            sums.append(sums_of(*arguments))
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
