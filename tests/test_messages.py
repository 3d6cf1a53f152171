"""What errors say, word for word: here and nowhere else. Other tests look at types and fields."""

import copy

import pytest

from sdem_dist import CorpusError, IngestError, SdemError

ERRORS = [
    (SdemError("something is wrong"), "something is wrong", "something is wrong"),
    (IngestError("it is empty", path="a.csv"), "a.csv: it is empty", "a.csv: it is empty"),
    (IngestError("no TAB", path="-", record=3), "standard input, line 3: no TAB", "standard input, line 3: no TAB"),
    (CorpusError("a.zarr exists already", hint="replace it: {overwrite=True}"),
     "a.zarr exists already (replace it: overwrite=True)", "a.zarr exists already (replace it: --overwrite)"),
    (IngestError("no text", path="d", record=2, unit="file", hint="{on_error='skip'} leaves such files out"),
     "d, file 2: no text (on_error='skip' leaves such files out)",
     "d, file 2: no text (--on-error skip leaves such files out)"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "python", "shell"), ERRORS)
def test_an_error_is_rendered_for_python_and_for_the_shell(error, python, shell):
    assert (str(error), error.text(shell=True)) == (python, shell)


@pytest.mark.parametrize("error", [error for error, *_ in ERRORS])
def test_an_error_keeps_its_fields_between_processes(error):
    there = copy.copy(error)  # by the protocol of pickle
    assert type(there) is type(error) and vars(there) == vars(error)


def test_what_data_hold_is_no_hint():
    assert str(IngestError("label '{overwrite=True}' is odd", path="{a=b}")) == "{a=b}: label '{overwrite=True}' is odd"
