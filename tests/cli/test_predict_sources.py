"""`sdem predict`: what it reads, whole or in pieces, here or on workers, and which lines it refuses."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from commands import ok, refused, run
from predicted_rows import ROWS, TEXTS, read_back

from sdem_dist import load_model, open_corpus


def test_several_sources_folders_and_lines_with_ids(made, tmp_path):
    model = str(made / "model")
    both = ok("predict", model, made / "files", made / "files")
    assert both == ok("predict", model, made / "files") * 2
    ok("predict", model, made / "files", "-o", tmp_path / "o.csv")
    assert [row["file"] for row in read_back(tmp_path / "o.csv")] == [f"d{i}.txt" for i in range(5)]
    lines = ok("predict", model, made / "t.tsv", "--text", "2", "--id", "0", "--no-proba").splitlines()
    assert [line.split("\t")[0] for line in lines] == [row["id"] for row in ROWS]
    assert lines[0] == "d0\tsport"
    said = refused("predict", model, made / "t.csv", made / "files", "--text", "body", "-o", tmp_path / "x.csv", code=2)
    assert "a source has the columns 'file'" in said
    assert not (tmp_path / "x.csv").exists()


def test_a_corpus_is_predicted_with_its_ids(made, tmp_path):
    (tmp_path / "s.tsv").write_text("sport\tgoal team\nmoney\tbank share\nfood\tsalt oven\n" * 5)
    ok("ingest", tmp_path / "s.tsv", tmp_path / "c", "--jobs", "1")
    ok("train", tmp_path / "c", tmp_path / "m", "--epochs", "2", "--quiet")
    lines = ok("predict", tmp_path / "m", tmp_path / "c").splitlines()
    corpus = open_corpus(tmp_path / "c")
    expected = load_model(tmp_path / "m").predict(corpus)
    assert [line.split("\t")[:2] for line in lines] == [
        [str(id_), label] for id_, label in zip(corpus.ids_of(0, 15), expected, strict=True)
    ]
    assert "words" in refused("predict", made / "model", tmp_path / "c")
    for option in (("--id", "id"), ("--format", "csv"), ("--text", "t"), ("--encoding", "latin-1"), ("--verbose",)):
        said = refused("predict", tmp_path / "m", tmp_path / "c", *option, code=2)
        assert f"{option[0]}: only for a source; a corpus has been read" in said


def test_bad_records_are_named_or_left_out(made, tmp_path):
    source, model = tmp_path / "t.csv", str(made / "model")
    source.write_text('text,n\ngoal,1\nbank,2,3\n"salt\noven",4\n')
    said = refused("predict", model, source)
    assert "t.csv, record 3: 3 fields under a header of 2" in said and "--on-error skip" in said
    ok("predict", model, source, "--on-error", "skip", "-o", tmp_path / "o.csv")
    assert [row["text"] for row in read_back(tmp_path / "o.csv")] == ["goal", "salt\noven"]
    (tmp_path / "t.jsonl").write_text('{"text": "goal"}\n{"text": 3}\n')
    assert "t.jsonl, line 2: the text is 3, not a string" in refused("predict", model, tmp_path / "t.jsonl")
    assert "no column 'nothing'" in refused("predict", model, source, "--text", "nothing")
    (tmp_path / "again.csv").write_text("text,prediction\ngoal,x\n")
    said = refused("predict", model, tmp_path / "again.csv", "-o", tmp_path / "p.csv", code=2)
    assert "column 'prediction' already" in said


def test_standard_input_in_other_formats(made):
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    lines = ok("predict", made / "model", "-", "--format", "jsonl", "--text", "body", "--no-proba", input=rows)
    assert lines.splitlines() == load_model(made / "model").predict(TEXTS).tolist()


def test_options_that_do_not_go_together(made):
    command = ("predict", made / "model", made / "t.csv")
    assert "--jobs is for threads of this process" in refused(*command, "--workers", "1", "--jobs", "2", code=2)
    assert "choose one" in refused(*command, "--top", "2", "--no-proba", code=2)


def test_ids_of_lines_need_the_column_of_the_text(made, tmp_path):
    (tmp_path / "t.txt").write_text("d1\tgoal team\n")
    said = refused("predict", made / "model", tmp_path / "t.txt", "--id", "0")
    assert "name that of the text, too (--text NUMBER)" in said


@pytest.mark.parametrize("more", [(), ("--id", "0"), ("-o", "o.csv"), ("-o", "o.csv", "--id", "0")])
@pytest.mark.parametrize("source", ["t.tsv", "t.txt"])
def test_blank_lines_between_columns_are_passed_over_on_all_roads(made, tmp_path, monkeypatch, source, more):
    monkeypatch.chdir(tmp_path)
    (tmp_path / source).write_text("a\tgoal team\n\nb\tbank share\n  \nno column\nc\tgoal\n")
    options = (made / "model", source, "--text", "1", *more)
    assert f"{source}, line 5: " in refused("predict", *options)
    shown = ok("predict", *options, "--on-error", "skip").splitlines()
    assert len(read_back(tmp_path / "o.csv") if "-o" in more else shown) == 3


def test_a_blank_line_among_texts_is_an_empty_text(made, tmp_path):
    (tmp_path / "t.txt").write_text("goal\n\nbank\n")
    assert len(ok("predict", made / "model", tmp_path / "t.txt").splitlines()) == 3
    (tmp_path / "bad.txt").write_bytes(b"goal\ncaf\xe9\nbank\n")
    options = ("--on-error", "skip", "--no-proba")
    assert ok("predict", made / "model", tmp_path / "bad.txt", *options) == "sport\nmoney\n"


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("sdem_dist.text.splits.PREDICT_BYTES", 40)


@pytest.mark.parametrize("name", ["t.tsv", "t.jsonl", "t.parquet", "files", "lines.txt"])
def test_pieces_make_the_table_of_the_whole_source(made, tmp_path, monkeypatch, name):
    if name == "lines.txt":
        source, more = tmp_path / name, ()
        source.write_text("\ufeff" + "".join(f"{text}\r\n" for text in TEXTS))
    else:
        source, more = made / name, ("--text", "2" if name == "t.tsv" else "body")
    if name == "files":
        more = ()
    command = ("predict", str(made / "model"), str(source), *more)
    whole = ok(*command, "-o", tmp_path / "whole.jsonl") + ok(*command)
    monkeypatch.setattr("sdem_dist.text.splits.PREDICT_BYTES", 40)
    if name.endswith("parquet"):
        pq.write_table(pq.read_table(source), tmp_path / name, row_group_size=2)
        command = ("predict", str(made / "model"), str(tmp_path / name), *more)
    assert ok(*command, "-o", tmp_path / "pieces.jsonl") + ok(*command) == whole
    assert (tmp_path / "pieces.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_bad_lines_of_later_pieces_have_their_numbers(made, tmp_path, small_pieces):
    source, model = tmp_path / "s.tsv", str(made / "model")
    source.write_bytes(b"a\tgoal team\n" * 9 + b"b\tcaf\xe9\n" + b"a\tbank\tx\n" * 7)
    options = ("predict", model, source, "--text", "1", "-o")
    for where in ((), ("--workers", "1")):
        said = refused(*options, tmp_path / "o.csv", *where)
        assert "s.tsv, line 10: the line has the byte 0xe9" in said
        found = run(*options, tmp_path / "o.csv", "--on-error", "skip", *where)
        assert "8 lines left out, such as" in found.stderr and "line 10: " in found.stderr
        assert [next(iter(row.values())) for row in read_back(tmp_path / "o.csv")] == ["a"] * 9
        assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "s.tsv"]
        (tmp_path / "o.csv").unlink()


def test_workers_read_many_sources_of_all_kinds(made, tmp_path, small_pieces):
    for names, out in ((("t.csv", "t.csv.xz"), "o.parquet"), (("t.csv", "t.csv.xz", "t.jsonl", "t.parquet"), "o.tsv")):
        command = ("predict", made / "model", *(str(made / name) for name in names), "--text", "body", "--id", "id")
        ok(*command, "-o", tmp_path / f"here-{out}")
        ok(*command, "-o", str(tmp_path / out), "--workers", "1")
        assert (tmp_path / out).read_bytes() == (tmp_path / f"here-{out}").read_bytes()
    assert ok(*command) == ok(*command, "--workers", "1")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_quiet_prediction_says_nothing_of_what_it_wrote(made, tmp_path):
    command = ("predict", str(made / "model"), str(made / "t.jsonl"), "--text", "body", "-o", str(tmp_path / "o.csv"))
    assert run(*command).stderr == f"wrote the predictions to {tmp_path / 'o.csv'}\n"
    assert run(*command, "--overwrite", "--quiet").stderr == ""


def test_an_empty_source_is_named_where_lines_are_shown(made, tmp_path):
    (tmp_path / "s.txt").write_text("")
    found = run("predict", made / "model", tmp_path / "s.txt")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "the sources hold no document\n")


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
