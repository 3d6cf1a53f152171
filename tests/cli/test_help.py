"""What `--help` and `--version` say."""

import pytest
from cli.commands import ok, refused


@pytest.mark.parametrize("command", ["demo", "ingest", "inspect", "train", "evaluate", "predict"])
def test_help(command):
    for flag in ("--help", "-h"):
        shown = ok(command, flag)
        assert f"{command} [OPTIONS]" in shown


def test_help_of_all_and_version():
    shown = ok("--help")
    assert all(name in shown for name in ("demo", "ingest", "inspect", "train", "evaluate", "predict"))
    assert "0.1.0" in ok("--version")
    assert "No such command" in refused("trian", code=2)


def test_help_speaks_of_what_is_predicted():
    shown = " ".join(ok("--help").split())
    assert "Measure a model on a corpus, by labels, targets or likelihood." in shown
    assert "Predict labels, numbers or clusters of documents." in shown
    shown = " ".join(ok("predict", "--help").split())
    assert "for a MODEL that was trained on text; or a corpus" in shown
