"""Pictures: the numbers of their axes."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sdem_dist.reports.pictures import round_ticks, said_apart
from sdem_dist.reports.sections import curves


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


def test_ticks_show_different_numbers():
    assert said_apart([0.5, 1.0]) == ["0.5", "1"]
    assert said_apart([438.11, 438.12, 438.13]) == ["438.11", "438.12", "438.13"]
    page = curves([{"epoch": 1, "nll": 438.12341, "accuracy": 0.5}, {"epoch": 2, "nll": 438.12342, "accuracy": 0.5}])
    ticks = re.findall(r'text-anchor="end"[^>]*>([^<]+)<', page)
    assert len(ticks) == len(set(ticks)) >= 4


def test_documents_of_a_kind_have_one_colour():
    """Those that training held out, and those that it was given, are told apart."""
    page = curves(
        [
            {"epoch": e, "accuracy": 0.9, "ncll": 0.2, "held_out_log_loss": 0.3, "held_out_accuracy": 0.8}
            | {"validation_ncll": 0.4, "validation_accuracy": 0.7}
            for e in (1, 2)
        ]
    )
    found = re.findall(r'<rect [^>]*fill="([^"]+)"/><text [^>]*>([^<]+)<', page)
    of = {name: color for color, name in found}
    assert len(found) == 6 and set(found) == {(color, name) for name, color in of.items()}
    assert len(set(of.values())) == len(of) == 3


def test_a_curve_that_begins_late_is_left_out():
    late = [{"epoch": 50, "nll": 3.0}, {"epoch": 64, "nll": 2.0}]
    assert curves(late) == ""
    assert "NLL" in curves([{"epoch": 10, "nll": 4.0}, *late])
