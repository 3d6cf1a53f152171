"""What errors say, word for word: here and nowhere else. Other tests look at types and fields."""

import copy

import pytest

from sdem_dist import CorpusError, IngestError, SdemError

ERRORS = [
    (SdemError("something is wrong"), "something is wrong"),
    (IngestError("it is empty", path="a.csv"), "a.csv: it is empty"),
    (IngestError("no TAB", path="-", record=3), "standard input, line 3: no TAB"),
    (CorpusError("a.zarr exists already", hint="replace it"), "a.zarr exists already (replace it)"),
    (IngestError("no text", path="d", record=2, unit="file", hint="skip it"), "d, file 2: no text (skip it)"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text"), ERRORS)
def test_an_error_says_where_what_and_what_to_do(error, text):
    assert str(error) == text


@pytest.mark.parametrize("error", [error for error, *_ in ERRORS])
def test_an_error_keeps_its_fields_between_processes(error):
    there = copy.copy(error)  # by the protocol of pickle
    assert type(there) is type(error) and vars(there) == vars(error)
