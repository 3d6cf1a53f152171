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
    ok("ingest", tmp_path / "s.csv", tmp_path / "c", "--jobs", "1")
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


OUTPUTS = [
    ("predict m s.csv -o FILE", "p.csv"),
    ("evaluate m s.csv --errors FILE", "w.csv"),
    ("explain m goal --html FILE", "e.html"),
    ("report m s.csv -o FILE", "r.html"),
    ("export m FILE --sklearn", "m.skops"),
    ("calibrate m s.csv -o FILE", "calibrated"),
    ("train s.csv FILE --epochs 1", "trained"),
    ("train s.csv MODEL --epochs 1 --log FILE", "run.jsonl"),
    ("tune s.csv MODEL --folds 2 --trials 1 --table FILE", "t.csv"),
    ("ingest s.csv FILE", "corpus"),
]


@pytest.mark.parametrize(("command", "name"), OUTPUTS)
def test_what_is_there_is_replaced_only_with_overwrite(folder, monkeypatch, tmp_path, command, name):
    monkeypatch.chdir(folder)
    words = [{"FILE": str(tmp_path / name), "MODEL": str(tmp_path / "model")}.get(w, w) for w in command.split()]
    ok(*words)
    (tmp_path / "model").unlink(missing_ok=True)
    said = f"{tmp_path / name} exists already"
    assert said in refused(*words)
    assert not (tmp_path / "model").exists()
    ok(*words, "--overwrite")


def test_a_file_that_is_no_log_or_of_another_kind_is_left_alone(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    (tmp_path / "p.csv").write_text("precious\n")
    resumed = ("--log", str(tmp_path / "p.csv"), "--checkpoint", str(tmp_path / "run"), "--resume")
    assert "is not a log of sdem train: choose another name" in refused(
        "train", "s.csv", tmp_path / "n", "--epochs", "1", *resumed
    )
    refused("calibrate", "m", "s.csv", "-o", tmp_path / "p.csv", "--overwrite")
    assert (tmp_path / "p.csv").read_text() == "precious\n"
    for _ in range(2):
        ok("calibrate", "m", "s.csv")  # the model itself
    ok("calibrate", "m", "s.csv", "-o", folder / "m")  # by another name


def test_a_log_is_replaced_only_by_a_training_that_begins(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    log = tmp_path / "run.jsonl"
    log.write_text("precious\n")
    refused("train", "nosuch.zarr", tmp_path / "n", "--log", str(log), "--overwrite")
    assert log.read_text() == "precious\n"
    ok("train", "s.csv", tmp_path / "n", "--epochs", "1", "--log", str(log), "--overwrite")
    assert "precious" not in log.read_text()


def test_two_outputs_are_two_files(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    pictures = "--curve", str(tmp_path / "one.png"), "--table", f"{tmp_path}/x/../one.png"
    assert "the suffix says the format" in refused("tune", "s.csv", "n", *pictures, code=2)
