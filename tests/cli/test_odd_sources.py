"""Sources that people have: what is read all the same, and what they are told of what is not."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import ok, refused, run

LINES = [f"{label}\t{text} {i % 7}xx" for i in range(30) for label, text in (("sport", "goal"), ("money", "bank"))]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    (folder / "s.tsv").write_text("\n".join(LINES) + "\n")
    ok("train", folder / "s.tsv", folder / "m", "--epochs", "1", "--quiet")
    return folder


@pytest.fixture
def source(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s.tsv", "m"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    return tmp_path


NO_DOCUMENTS = {
    "s.zip": "is packed: unpack it",
    "s.tar.gz": "is packed: unpack it",
    "s.xlsx": "is a spreadsheet: save it as .csv",
    "m": "is a model, where a corpus or a source of documents belongs",
}


@pytest.mark.parametrize("command", ["predict m", "evaluate m", "report m", "suspects", "calibrate m"])
def test_what_holds_no_documents_is_named(source, command):
    for name, problem in NO_DOCUMENTS.items():
        if name != "m":
            (source / name).write_text("PK\n")
        assert f"{name} {problem}" in refused(*command.split(), name)


def test_numbers_are_not_for_a_model_of_text_nor_for_predict(source):
    (source / "n.svm").write_text("".join(f"{i % 2} 1:1 {2 + i % 3}:2\n" for i in range(20)))
    ok("train", "n.svm", "numbers", "--epochs", "1", "--quiet")
    for command in ("predict numbers n.svm", "predict m n.svm", "evaluate numbers n.svm"):
        found = run(*command.split())
        assert found.exit_code and "make a corpus of it (sdem ingest n.svm NAME.zarr" in " ".join(found.stderr.split())


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "w.tsv"), ("utf-16-le", "w.csv"), ("utf-16-be", "w.jsonl"),
        ("utf-32", "w.csv"), ("utf-32-le", "w.jsonl"), ("utf-32-be", "w.tsv"),
    ],
)  # fmt: skip
def test_files_of_windows_say_their_encoding(source, encoding, name):
    cells = [line.split("\t") for line in LINES]
    made = {
        "w.tsv": "\n".join(LINES),
        "w.csv": "label,text\n" + "".join(f"{label},{text}\n" for label, text in cells),
        "w.jsonl": "".join(f'{{"label": "{label}", "text": "{text}"}}\n' for label, text in cells),
    }
    (source / name).write_text(made[name], encoding=encoding)
    for command in (["train", name, "w"], ["predict", "m", name], ["ingest", name, "c", "--on-error", "skip"]):
        assert f"--encoding {encoding} reads it" in refused(*command)
    ok("train", name, "w", "--encoding", encoding, "--epochs", "1", "--quiet")
    assert ok("predict", "w", "s.tsv") == ok("predict", "m", "s.tsv")


def test_utf_16_in_folders_and_at_a_pipe(source):
    for i in range(2):
        (source / "f" / "ab"[i]).mkdir(parents=True)
        (source / "f" / "ab"[i] / "1.txt").write_text("one goal")
    (source / "f" / "a" / "2.txt").write_text("a goal of Windows", encoding="utf-16-le")
    said = refused("ingest", "f", "c")
    assert "2.txt, file 1: it is text of UTF-16-LE" in said and "--on-error skip leaves such files out" in said
    ok("ingest", "f", "c", "--on-error", "skip")
    found = run("predict", "m", "-", input="one goal\n".encode("utf-16-le"))
    assert "standard input: it is text of UTF-16-LE" in " ".join(found.stderr.split())
    found = run("predict", "m", "-", input="größe\n".encode("latin-1"))
    assert "standard input, line 1: the line has the byte" in " ".join(found.stderr.split())


def test_nuls_of_a_text_in_utf_8_are_blanks(source):
    (source / "n.txt").write_text("goal\0goal\0\0\0goal\n")
    (source / "o.txt").write_text("goal goal goal\n")
    assert ok("predict", "m", "n.txt") == ok("predict", "m", "o.txt")


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (gzip.compress(b"x", mtime=0), "it has the first bytes of a .gz file: give it the suffix .gz"),
        (b"PAR1\x15\x04\x15\n\x15\x0eL\x15", "first bytes of a .parquet file: give it the suffix .parquet"),
        (
            b"PK\x03\x04" + bytes(range(90)),
            "first bytes of a ZIP archive, as .xlsx and .docx files have: save it as CSV",
        ),
    ],
)
@pytest.mark.parametrize("name", ["p.tsv", "p.csv", "p.jsonl"])
def test_a_packed_file_whose_name_does_not_say_so(source, first, said, name):
    (source / name).write_bytes(first)
    assert said in refused("train", name, "p")


def test_the_first_label_may_be_that_of_parquet(source):
    (source / "q.tsv").write_text("PAR1\tgoal\nPAR2\tvote\n")
    ok("ingest", "q.tsv", "q")


def test_files_of_many_documents_in_a_folder(source):
    (source / "parts").mkdir()
    (source / "parts" / "1.tsv").write_text("\n".join(LINES))
    assert "Files of many documents are sources themselves: parts/*.tsv" in refused("ingest", "parts", "c")


def test_a_label_that_is_missing_is_called_so(source):
    pq.write_table(pa.table({"label": ["a", None], "text": ["goal", "bank"]}), "l.parquet")
    assert "row 2: the label is missing; --unlabelled ''" in refused("train", "l.parquet", "c")


def test_folds_need_documents(source):
    (source / "two.tsv").write_text("a\tgoal\nb\tbank\n")
    for command in ("suspects two.tsv", "tune two.tsv t --quiet"):
        assert "5 folds need at least 5 documents, and there are 2" in refused(*command.split())


def test_a_report_of_as_many_classes_as_documents_does_not_warn(source):
    (source / "each.tsv").write_text("".join(f"c{i}\tword{i} goal\n" for i in range(20)))
    ok("train", "each.tsv", "each", "--epochs", "1", "--quiet")
    found = run("evaluate", "each", "each.tsv", "--report")
    assert found.exit_code == 0 and "Warning" not in found.stderr


def test_a_folder_that_is_missing_is_named(source):
    said = refused("predict", "m", "s.tsv", "-o", "nowhere/o.csv")
    assert f"(the folder {source / 'nowhere'} does not exist: make it first)" in said


def test_a_model_is_no_log(source):
    assert "is it a log of sdem train --log?" in refused("log", "m")


@pytest.mark.parametrize(
    ("name", "content", "points"),
    [
        ("no.tsv", b"goal one\nbank two\n", True),
        ("empty.tsv", b"\tgoal one\n", True),
        ("no.csv", b"text\ngoal one\n", True),
        ("no.jsonl", b'{"text": "goal one"}\n', True),
        ("byte.tsv", b"sport\tgoal \xff one\n", False),
        ("three.tsv", b"sport\tgoal\tone\n", False),
        ("twice.csv", b"label,text,text\nsport,goal,one\n", False),
        ("list.jsonl", b'{"label": ["sport"], "text": "goal"}\n', False),
        ("text.jsonl", b'{"label": "sport", "body": "goal"}\n', False),
        ("cut.tsv.gz", gzip.compress("\n".join(LINES).encode())[:60], False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_predict_is_named_where_a_label_is_missing(source, name, content, points):
    (source / name).write_bytes(content)
    said = refused("evaluate", "m", name)
    assert (f"documents without labels are for sdem predict MODEL {name}" in said) is points, said


def test_predict_is_named_by_workers_too(source):
    (source / "no.jsonl").write_bytes(b'{"text": "goal one"}\n')
    assert "documents without labels are for sdem predict MODEL no.jsonl" in refused(
        "evaluate", "m", "no.jsonl", "--workers", "1"
    )
