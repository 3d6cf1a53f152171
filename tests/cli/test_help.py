"""What `--help` and `--version` say."""

from dataclasses import fields

import pytest
from cli.commands import ok, refused

from sdem_dist.cli.options import READING, WORDS
from sdem_dist.text import Reading, VectorizerSettings


def test_help_of_all_and_version():
    shown = ok("--help")
    assert all(name in shown for name in ("demo", "ingest", "inspect", "train", "evaluate", "predict"))
    assert "0.1.0" in ok("--version")
    assert "No such command" in refused("trian", code=2)


def test_options_of_sources_are_explained_once():
    shown, page = " ".join(ok("train", "--help").split()), " ".join(ok("help", "reading").split())
    assert "--token-pattern" in page and "Encoding of text" in page and "Encoding of text" not in shown
    assert "sdem help reading" in shown
    assert ok("help", "train").splitlines()[2:] == ok("train", "--help").splitlines()[2:]
    assert "neither a command nor reading" in refused("help", "nothing", code=2)


def test_options_of_sources_are_the_fields_that_they_fill():
    assert set(READING) == {"on_error", *(field.name for field in fields(Reading))}
    assert set(WORDS) <= {field.name for field in fields(VectorizerSettings)}


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
