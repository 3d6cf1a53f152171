"""Pictures: the numbers of their axes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sdem_dist.reports.pictures import round_ticks


def test_ticks_by_hand():
    assert round_ticks(0.8923, 0.9404) == pytest.approx([0.9, 0.92, 0.94])
    assert round_ticks(0.0, 10.0) == pytest.approx([0.0, 5.0, 10.0])


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_and_lie_inside(low, spread):
    high = low + spread
    assume(spread > 1e-6 * abs(low))
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 5 and ticks == sorted(set(ticks))
    assert all(low - 1e-9 * spread <= t <= high + 1e-9 * spread for t in ticks)
    assert all(float(f"{t:.8g}") == pytest.approx(t, abs=1e-9 * spread) for t in ticks)
