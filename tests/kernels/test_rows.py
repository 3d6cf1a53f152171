"""Tables of rows named by their word."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.kernels import rows as kernel
from sdem_dist.models.word_counts import rows_added, words_of

N_WORDS, WIDTH = 12, 3
words_of_lane = st.lists(st.sets(st.integers(0, N_WORDS - 1)), min_size=1, max_size=5)


@given(st.lists(st.integers(0, 40)), st.sampled_from([np.uint16, np.uint32, np.int32, np.int64]))
def test_renumbering_goes_there_and_back(indices, dtype):
    indices = np.array(indices, dtype)
    number = np.zeros(41, np.uint32)
    kernel.mark_words(indices, number)
    words = kernel.number_words(number)
    assert words.tolist() == sorted(set(indices.tolist()))
    assert words.dtype == np.uint32
    np.testing.assert_array_equal(words[number[indices]], indices)


def summed(lanes):
    """Add (words, rows) as the learner does."""
    union, number = words_of([words for words, _ in lanes], N_WORDS)
    return union, rows_added([rows for _, rows in lanes], [number[words] for words, _ in lanes], len(union))


def dense(lanes) -> np.ndarray:
    table = np.zeros((N_WORDS, WIDTH))
    for words, rows in lanes:
        table[words] += rows
    return table


def with_rows(sets, seed=0):
    rng = np.random.default_rng(seed)
    return [(np.array(sorted(s), np.uint32), rng.normal(size=(len(s), WIDTH))) for s in sets]


@given(words_of_lane)
def test_adding_lanes_is_dense_addition_in_any_order(sets):
    lanes = with_rows(sets)
    words, rows = summed(lanes)
    assert words.tolist() == sorted(set().union(*sets))
    np.testing.assert_array_equal(rows, dense(lanes)[words])
    backwards = summed(lanes[::-1])
    np.testing.assert_array_equal(backwards[0], words)
    np.testing.assert_allclose(backwards[1], rows, rtol=1e-12, atol=1e-14)
    grouped = summed([summed(lanes[:2]), *lanes[2:]])
    np.testing.assert_allclose(grouped[1], rows, rtol=1e-12, atol=1e-14)


def test_check_step_keeps_totals_the_sums():
    row, totals = np.array([-0.25, 0.0, 2.0]), np.array([1.0, 2.0, 3.0])
    kernel.clip_row(row, totals)
    assert row.tolist() == [0.0, 0.0, 2.0]
    assert totals.tolist() == [1.25, 2.0, 3.0]
