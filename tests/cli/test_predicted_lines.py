"""What `sdem predict` reads of a line: the text behind a label, or all of it."""

from __future__ import annotations

import pytest
from commands import ok, refused, run

from sdem_dist import MultinomialNB


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(folder / "model")
    return folder


def test_lines_of_label_and_text_are_read_as_they_are_trained_on(made, tmp_path):
    model = str(made / "model")
    lines = ["", "sport\tbank share", "none of the classes\tgoal team"]
    for name in ("t.txt", "t.tsv", "unknown.suffix"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "texts.txt").write_text("bank share\ngoal team\n")
    expected = run("predict", model, tmp_path / "texts.txt")
    assert not expected.stderr
    for name in ("t.txt", "t.tsv", "unknown.suffix"):
        found = run("predict", model, str(tmp_path / name))
        assert found.stdout == expected.stdout
        assert ("--format lines takes whole lines" in found.stderr) == (name != "t.tsv")
    piped = run("predict", model, "-", input="\n".join(lines))
    assert piped.stdout == expected.stdout
    assert "is label TAB text" in piped.stderr
    assert ok("explain", model, input="\n".join(lines[1:])) == ok("explain", model, "bank share", "goal team")


def test_whole_lines_where_they_are_asked_for_or_the_first_has_no_tab(made, tmp_path):
    model, source = str(made / "model"), tmp_path / "t.txt"
    source.write_text("goal\tbank share\n")
    assert ok("predict", model, source, "--format", "lines") != ok("predict", model, source)
    source.write_text("goal goal goal\nsport\tbank share\n")
    assert len(ok("predict", model, source).splitlines()) == 2
    source.write_text("sport\tbank share\nno tab\n")
    said = refused("predict", model, source)
    assert "t.txt, line 2: 1 column instead of 2" in said and "--format lines takes whole lines" in said
