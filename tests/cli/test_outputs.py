"""What commands write never takes the place of a source, a model or a corpus."""

from __future__ import annotations

import pytest
from commands import ok, refused

from sdem_dist import MultinomialNB

LINES = "label,text\n" + "sport,goal team\nmoney,bank share\n" * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("outputs")
    MultinomialNB(n_epochs=1).fit(["goal team", "bank share"] * 6, ["sport", "money"] * 6).save(tmp_path / "m")
    for name in ("other.csv", "other.html", "other.onnx"):
        (tmp_path / name).write_bytes((tmp_path / "m").read_bytes())
    (tmp_path / "s.csv").write_text(LINES)
    (tmp_path / "link.csv").symlink_to(tmp_path / "s.csv")
    (tmp_path / "page.html").write_text("goal\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.csv").write_text("goal")
    ok("ingest", str(tmp_path / "s.csv"), str(tmp_path / "c"), "--jobs", "1")
    return tmp_path


COMMANDS = [
    ("predict m s.csv -o s.csv", "would replace"),
    ("predict m s.csv -o link.csv", "would replace"),
    ("predict m docs -o docs/a.csv", "would replace a file of"),
    ("predict m s.csv -o other.csv", "is a model"),
    ("predict m s.csv -o c/x.csv", "is within the corpus"),
    ("predict m c -o c", "suffix"),
    ("evaluate m s.csv --errors s.csv", "would replace"),
    ("evaluate m s.csv --errors other.csv", "is a model"),
    ("explain m goal --html m", "would replace"),
    ("explain m goal --html other.html", "is a model"),
    ("explain m goal --html c", "would replace|is a folder"),
    ("report m s.csv -o other.html", "is a model"),
    ("report m page.html -o page.html --format tsv", "would replace"),
    ("export m m --onnx", "would replace"),
    ("export m other.onnx", "is a model"),
    ("export m c --sklearn", "is a folder"),
    ("calibrate m s.csv -o s.csv", "would replace"),
]


@pytest.mark.parametrize(("command", "message"), COMMANDS)
def test_nothing_is_replaced_that_was_read_or_is_a_model(folder, monkeypatch, command, message):
    def contents():
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    monkeypatch.chdir(folder)
    before = contents()
    said = refused(*command.split(), code=2)
    assert any(part in said for part in message.split("|"))
    assert contents() == before


def test_tables_pages_and_the_own_model_may_be_written_again(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for _ in range(2):
        ok("predict", "m", "s.csv", "-o", "p.csv")
        ok("explain", "m", "goal", "--html", "e.html")
        ok("calibrate", "m", "s.csv")
        ok("calibrate", "m", "s.csv", "-o", "calibrated")
    refused("calibrate", "m", "s.csv", "-o", "p.csv")
