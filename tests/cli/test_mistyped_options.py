"""Options that a command does not have: the message says what was meant."""

from __future__ import annotations

import pytest
from commands import refused


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train --step", "--set step=VALUE"),
        ("tune --n-epochs", "--set n_epochs=VALUE"),
        ("train --overwrit", "--overwrite"),
        ("inspect --no-chek", "'--no-check'"),
    ],
)
def test_an_unknown_option_is_answered_by_what_was_meant(typed, meant):
    command, option = typed.split()
    said = refused(command, "a", "b", option, "3", code=2)
    assert f"No such option '{option}'." in said and meant in said


def test_an_option_that_is_like_no_other_has_no_suggestion():
    assert refused("demo", "--zzzzzz", code=2).endswith("No such option '--zzzzzz'.")
