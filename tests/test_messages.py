"""What errors say, word for word: here and nowhere else. Other tests look at types and fields."""

import copy

import pytest

from sdem_dist import CorpusError, IngestError, SdemError


def at(error: SdemError, record: int, unit: str = "line") -> SdemError:
    error.record, error.unit = record, unit
    return error


ERRORS = [
    (SdemError("something is wrong"), "something is wrong"),
    (IngestError("it is empty", path="a.csv"), "a.csv: it is empty"),
    (at(IngestError("no TAB", path="-"), 3), "standard input, line 3: no TAB"),
    (CorpusError("a.zarr already exists", hint="replace it"), "a.zarr already exists (replace it)"),
    (at(IngestError("no text", path="d", hint="skip it"), 2, "file"), "d, file 2: no text (skip it)"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text"), ERRORS)
def test_an_error_says_where_what_and_what_to_do(error, text):
    assert str(error) == text


@pytest.mark.parametrize("error", [error for error, *_ in ERRORS])
def test_an_error_keeps_its_fields_between_processes(error):
    there = copy.copy(error)  # by the protocol of pickle
    assert type(there) is type(error) and vars(there) == vars(error)
