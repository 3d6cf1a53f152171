"""Strings survive the trip through arrays, and damaged arrays are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.storage.encoding import decode_strings, encode_strings


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_round_trip(strings):
    joined, offsets = encode_strings(strings)
    assert joined.dtype == np.uint8
    assert offsets.dtype == np.int64
    assert decode_strings(joined, offsets) == strings


@given(st.binary(max_size=12), st.lists(st.integers(-3, 15), max_size=5))
def test_any_arrays_decode_or_raise_value_error(raw, offsets):
    joined, bounds = np.frombuffer(raw, np.uint8), np.array(offsets, np.int64)
    try:
        strings = decode_strings(joined, bounds)
    except ValueError:
        return
    assert "".join(strings).encode() == raw
    assert len(strings) == len(offsets) - 1


def test_refuses_what_utf8_cannot_hold():
    with pytest.raises(UnicodeEncodeError):
        encode_strings(["\ud800"])
    with pytest.raises(TypeError, match="element 1 is a int"):
        encode_strings(["a", 3])
    with pytest.raises(UnicodeDecodeError, match="string 1"):
        decode_strings(np.array([97, 255], np.uint8), np.array([0, 1, 2]))
