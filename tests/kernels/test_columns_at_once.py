"""Eight columns that are moved at once have the bits of columns that are moved one by one."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist.kernels.multinomial import MANY, move, move_columns, with_logarithms

WORDS = 50


@pytest.mark.parametrize("n_columns", [8, 9, 16, 20, 27])
@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
def test_the_same_bits(n_columns, share):
    rng = np.random.default_rng(n_columns)
    table = rng.gamma(0.5, 2.0, (WORDS, n_columns)) + 1e-6
    step = np.where(rng.random(n_columns) < share, rng.normal(size=n_columns), 0.0)
    step[:MANY] = [1.0, -1.0, 0.5, -2.0]  # eight at once, at the front at least
    active = np.flatnonzero(step)
    words = rng.permutation(WORDS)[:31].astype(np.uint32)
    values = rng.random(31).astype(np.float32)
    found = []
    for alone in (True, False):
        rows, totals = with_logarithms(table, np.arange(WORDS)), table.sum(axis=0)
        if alone:
            for k in active:
                move(values, words, rows, 0.7, step, (k, k), 0.01, totals)
        else:
            move_columns(values, words, rows, 0.7, step, active, 0.01, totals)
        found.append((rows.copy(), totals))
    assert np.array_equal(found[0][0], found[1][0]) and np.array_equal(found[0][1], found[1][1])
    assert (found[0][0][words][:, active] == np.float32(0.01)).any()  # the floor was met
    untouched = np.setdiff1d(np.arange(WORDS), words)
    assert np.array_equal(found[1][0][untouched], with_logarithms(table, np.arange(WORDS))[untouched])
