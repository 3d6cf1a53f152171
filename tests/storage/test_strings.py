"""Strings survive the trip through arrays, and damaged arrays are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.storage.encoding import decode_strings, encode_strings, in_parts


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


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_parts_of_a_file_are_those_of_its_array(tmp_path, rows):
    whole = np.arange(7, dtype=np.int64)
    whole.tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", np.int64, "r")
    np.save(tmp_path / "saved.npy", whole)
    changed = np.memmap(tmp_path / "numbers", np.int64, "c")
    changed[2] = 50
    cases = [whole, mapped, mapped[2:], mapped[::2], np.load(tmp_path / "saved.npy", mmap_mode="r"), changed]
    for array in [*cases, whole[:0], mapped.reshape(7, 1)]:
        found = list(in_parts(array, rows))
        assert [first for first, _ in found] == list(range(0, len(array), rows))
        np.testing.assert_array_equal(np.concatenate([array[:0], *(part for _, part in found)]), array)
    assert not isinstance(next(in_parts(mapped, rows))[1], np.memmap)
