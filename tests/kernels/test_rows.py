"""Tables of rows named by their word."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.kernels import rows as kernel

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
    number = np.zeros(N_WORDS, np.uint32)
    for words, _ in lanes:
        kernel.mark_words(words, number)
    union = kernel.number_words(number)
    out, met = np.zeros((len(union), WIDTH)), np.zeros(len(union))
    for words, rows in lanes:
        kernel.scatter_add_rows(words, rows, rows[:, 0].copy(), number, out, met)
    np.testing.assert_array_equal(met, out[:, 0])
    return union, out


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


@given(words_of_lane, st.floats(0, 1))
def test_average_is_weighted_by_lane(sets, absence):
    rng = np.random.default_rng(1)
    lanes = [(w, np.abs(r)) for w, r in with_rows(sets)]
    weights = rng.choice([0.0, 1.0, 2.5], len(lanes))
    table = rng.random((N_WORDS, WIDTH))
    after = table.copy()
    union = np.array(sorted(set().union(*sets)), np.uint32)
    sums, weight_met = np.zeros((N_WORDS, WIDTH)), np.zeros(N_WORDS)
    for (words, rows), weight in zip(lanes, weights, strict=True):
        sums[words] += weight * rows
        weight_met[words] += weight
    kernel.average_rows(union, sums[union], weight_met[union], weights.sum(), absence, after)
    for w in range(N_WORDS):
        met = [(rows[list(words).index(w)], u) for (words, rows), u in zip(lanes, weights, strict=True) if w in words]
        here = sum(u for _, u in met)
        kept = absence * (weights.sum() - here)
        expected = table[w]
        if met and here + kept > 0:
            expected = (sum(u * r for r, u in met) + kept * table[w]) / (here + kept)
        np.testing.assert_allclose(after[w], expected, rtol=1e-12, atol=1e-14)


def test_gathering_copies_rows_and_their_logarithms():
    table = np.random.default_rng(0).random((N_WORDS, WIDTH))
    words = np.array([0, 3, 11], np.uint32)
    rows, logs = np.empty((3, WIDTH)), np.empty((3, WIDTH))
    kernel.gather_rows(table, words, 0.5, rows, logs)
    np.testing.assert_array_equal(rows, table[words])
    np.testing.assert_allclose(logs, np.log(table[words] + 0.5), rtol=1e-15)


def test_check_step_keeps_totals_the_sums():
    row, totals = np.array([-0.25, 0.0, 2.0]), np.array([1.0, 2.0, 3.0])
    kernel.clip_row(row, totals)
    assert row.tolist() == [0.0, 0.0, 2.0]
    assert totals.tolist() == [1.25, 2.0, 3.0]


def test_plain_python_gives_the_same():
    lanes = with_rows([{0, 3, 5}, {3}, set()])
    number, plain_number = np.zeros(N_WORDS, np.uint32), np.zeros(N_WORDS, np.uint32)
    for words, _ in lanes:
        kernel.mark_words(words, number)
        kernel.mark_words.py_func(words, plain_number)
    union = kernel.number_words(number)
    np.testing.assert_array_equal(kernel.number_words.py_func(plain_number), union)
    np.testing.assert_array_equal(plain_number, number)
    out, plain, met = np.zeros((3, WIDTH)), np.zeros((3, WIDTH)), np.zeros((2, 3))
    for words, rows in lanes:
        kernel.scatter_add_rows(words, rows, np.ones(len(words)), number, out, met[0])
        kernel.scatter_add_rows.py_func(words, rows, np.ones(len(words)), number, plain, met[1])
    np.testing.assert_array_equal(out, plain)
    np.testing.assert_array_equal(met[0], met[1])
    tables = np.ones((2, N_WORDS, WIDTH))
    kernel.average_rows(union, np.abs(out), met[0], 5.0, 0.5, tables[0])
    kernel.average_rows.py_func(union, np.abs(out), met[0], 5.0, 0.5, tables[1])
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-15)
