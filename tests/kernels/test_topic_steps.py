"""Steps of topics: columns stay on the simplex, and rare words do not hold common ones back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.small_topics import problem

from sdem_dist.kernels.mirror_descent import FLOOR
from sdem_dist.kernels.topic_steps import step_topics


@given(seed=st.integers(0, 10_000), prior=st.sampled_from([0.0, 1e-4]), rate=st.floats(1e-3, 50.0))
@settings(max_examples=25)
def test_columns_stay_on_the_simplex(seed, prior, rate):
    topics = problem(seed)[0]
    rng = np.random.default_rng(seed)
    totals, squares = np.ones(topics.shape[1]), np.zeros(topics.shape[1])
    for t in range(1, 6):
        touched = np.arange(len(topics)) if prior else np.flatnonzero(rng.random(len(topics)) < 0.5)
        gradient = np.zeros_like(topics)
        gradient[touched] = 10 ** rng.uniform(-9, 9) * rng.normal(size=(len(touched), topics.shape[1]))
        step_topics(topics, totals, touched, gradient, 2.0, squares, float(t), rate, prior)
        assert not gradient.any()
    np.testing.assert_allclose(topics.sum(axis=0), totals, rtol=1e-12)
    assert (topics >= 0.9 * FLOOR * totals.min()).all()


@pytest.mark.parametrize("n_rare", [0, 3, 3_000])
def test_rare_words_do_not_hold_common_ones_back(n_rare):
    rng = np.random.default_rng(0)
    common, rare = rng.dirichlet(np.full(20, 5.0), 4).T, np.full((n_rare, 4), 1e-6)
    signs = rng.choice([-1.0, 1.0], (20, 4))
    topics = np.vstack([common * (1 - n_rare * 1e-6), rare])
    gradient = np.vstack([signs, np.full((n_rare, 4), 1e3)])  # about one over their probabilities
    step_topics(topics, np.ones(4), np.arange(len(topics)), gradient, 1.0, np.zeros(4), 1.0, 0.01, 0.0)
    moved = np.log(topics[:20] / (common * (1 - n_rare * 1e-6)))
    np.testing.assert_allclose(moved, -0.01 * signs, rtol=0.03)
