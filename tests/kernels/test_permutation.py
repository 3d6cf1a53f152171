"""Permutations by key."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.kernels.randomness import permute

keys = st.integers(0, 2**64 - 1)


@given(keys, keys, st.integers(0, 3000))
def test_permutations_are_numpys(key, second, n):
    pair = np.array([key, second], np.uint64)
    found = np.empty(n, np.int64)
    permute(*pair, found)
    expected = np.random.Generator(np.random.Philox(key=pair)).permutation(n)
    np.testing.assert_array_equal(found, expected)
