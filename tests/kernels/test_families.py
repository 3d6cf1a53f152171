"""The multinomial family: two parametrisations, one gradient."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdem_dist.families import multinomial

tables = hnp.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=st.floats(1e-3, 1e3))
any_tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(-9, 9))


@given(tables)
def test_there_and_back(mu):
    theta = multinomial.to_natural(mu)
    np.testing.assert_allclose(multinomial.log_partition(theta), 0.0, atol=1e-12)
    np.testing.assert_allclose(multinomial.to_expectation(theta), mu / mu.sum(axis=0), rtol=1e-11)
    again = multinomial.to_natural(multinomial.to_expectation(theta))
    np.testing.assert_allclose(again, theta, rtol=1e-11, atol=1e-12)


@given(any_tables, st.floats(-50, 50))
def test_a_constant_added_to_theta_changes_nothing(theta, constant):
    np.testing.assert_allclose(
        multinomial.to_expectation(theta + constant), multinomial.to_expectation(theta), rtol=1e-10
    )
    np.testing.assert_allclose(
        multinomial.log_partition(theta + constant), multinomial.log_partition(theta) + constant, atol=1e-10
    )


@given(any_tables)
def test_expectation_is_the_gradient_of_the_log_partition(theta):
    step = 1e-5
    for w in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[w] += step
        down[w] -= step
        slope = (multinomial.log_partition(up) - multinomial.log_partition(down)) / (2 * step)
        np.testing.assert_allclose(multinomial.to_expectation(theta)[w], slope, atol=1e-8)


@given(any_tables)
def test_check_projects_once_and_counts(mu):
    before = mu.copy()
    checked, n_changed = multinomial.check(mu)
    np.testing.assert_array_equal(mu, before)
    assert n_changed == (mu < 0).sum()
    np.testing.assert_array_equal(checked, np.maximum(mu, 0.0))
    again, n_again = multinomial.check(checked)
    assert again is checked and n_again == 0


def test_zero_counts_become_impossible_words():
    theta = multinomial.to_natural(np.array([[0.0], [2.0]]))
    assert theta.tolist() == [[-np.inf], [0.0]]
    np.testing.assert_array_equal(multinomial.to_expectation(theta), [[0.0], [1.0]])
