"""Steps in tables of words: of a few classes, or of whole rows."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.multinomial import add_scores, move, move_rows, with_logarithms
from sdem_dist.kernels.vectors import WIDTH


@pytest.mark.parametrize("n_columns", [3, 20, 52])
def test_whole_rows_move_as_single_columns_do(n_columns):
    rng = np.random.default_rng(n_columns)
    table, words = rng.gamma(1.0, size=(300, n_columns)) + 0.01, np.arange(300, dtype=np.uint32)
    values, used = rng.random(90).astype(np.float32), rng.permutation(300)[:90].astype(np.uint16)
    step = np.where(rng.random(n_columns) < 0.3, 0.0, rng.normal(size=n_columns))  # some classes are left alone
    room = np.empty(256, np.float32), np.empty(256, np.float32)  # a few rows: the document is taken in parts
    found = []
    for whole in (False, True):
        rows, totals = with_logarithms(table, words), table.sum(axis=0)
        if whole:
            move_rows(values, used, rows, 0.7, step, 0.01, totals, room)
        else:
            for k in np.flatnonzero(step):
                move(values, used, rows, 0.7, step, np.array([k]), 0.01, totals)
        found.append((rows, totals))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (found[1][0][used, :n_columns] != table[used].astype(np.float32)).any(axis=0).tolist() == (
        step != 0
    ).tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("n_columns", [2, 3, 20, 52])
def test_scores_come_with_the_sums_of_the_entries_and_of_their_squares(n_columns, dtype):
    rng = np.random.default_rng(n_columns)
    table, words = rng.gamma(1.0, size=(300, n_columns)) + 0.01, np.arange(300, dtype=np.uint32)
    values, used = (9 * rng.random(90)).astype(dtype), rng.permutation(300)[:90].astype(np.uint16)
    sums, whole = np.empty(n_columns + WIDTH, np.float32), values.astype(np.float64)
    found = jit(_scores)(values, used, with_logarithms(table, words), sums)
    np.testing.assert_allclose(found, [whole.sum(), whole @ whole], rtol=1e-7)
    np.testing.assert_allclose(sums[:n_columns], whole @ np.log(table[used]), rtol=1e-5, atol=1e-3)


def _scores(values, words, rows, sums):
    return add_scores(values, words, rows, sums)
