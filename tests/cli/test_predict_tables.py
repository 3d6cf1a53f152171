"""`sdem predict` and `sdem transform`: from every format, to every format."""

from __future__ import annotations

import csv
import json
import lzma

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import ok, refused, run

from sdem_dist import LatentDirichletAllocation, LDAClassifier, MultinomialNB, load_model, open_corpus

NASTY = 'goal "team", <script>alert(1)</script>\tmatch\x1b[31m'
TEXTS = ["goal team match", "bank share loan", NASTY, "bank goal", ""]
ROWS = [{"id": f"d{i}", "body": text, "extra": i} for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(folder / "model")
    LDAClassifier(n_components=2, n_epochs=2).fit(texts, labels).save(folder / "classes.model")
    LatentDirichletAllocation(3, n_epochs=2).fit(texts).save(folder / "topics.model")
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "t.parquet")
    (folder / "t.tsv").write_text(
        "".join(f"{r['id']}\t{r['extra']}\t{r['body']}\n".replace(NASTY, "x y") for r in ROWS)
    )
    with lzma.open(folder / "t.csv.xz", "wb") as packed:
        packed.write((folder / "t.csv").read_bytes())
    (folder / "files").mkdir()
    for row in ROWS:
        (folder / "files" / f"{row['id']}.txt").write_text(row["body"])
    return folder


def read_back(path):
    """Return the rows of a table as dicts."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".tsv":
        header, *lines = path.read_text().split("\n")[:-1]
        return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("source", ["t.csv", "t.csv.xz", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("output", ["o.tsv", "o.csv", "o.jsonl", "o.parquet"])
def test_columns_are_kept_and_predictions_follow(made, tmp_path, source, output):
    out = tmp_path / output
    assert ok("predict", str(made / "model"), str(made / source), "--text", "body", "-o", str(out)) == ""
    model, found = load_model(made / "model"), read_back(out)
    proba = model.predict_proba(TEXTS)
    names = ["id", "body", "extra", "prediction", "probability", *(f"probability_{c}" for c in model.classes_)]
    assert [list(row) for row in found] == [names] * len(TEXTS)
    assert [row["id"] for row in found] == [r["id"] for r in ROWS]
    assert [int(row["extra"]) for row in found] == [0, 1, 2, 3, 4]
    assert [row["prediction"] for row in found] == model.predict(TEXTS).tolist()
    for row, expected in zip(found, proba, strict=True):
        np.testing.assert_allclose([float(row[name]) for name in names[5:]], expected, rtol=1e-5)
        assert float(row["probability"]) == pytest.approx(expected.max(), rel=1e-5)
    shown = found[2]["body"]
    if output in ("o.jsonl", "o.parquet"):
        assert shown == NASTY
    else:  # control characters are written out; in a .tsv a TAB ends a column
        assert shown == NASTY.replace("\x1b", r"\x1b").replace("\t", "\t" if output == "o.csv" else " ")
        assert "\x1b" not in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [output]


def test_the_best_few_and_the_unsure(made, tmp_path):
    model, source = str(made / "model"), str(made / "t.jsonl")
    loaded = load_model(model)
    proba = loaded.predict_proba(TEXTS)
    threshold = float(np.median(proba.max(axis=1))) - 1e-9
    options = ("--text", "body", "--top", "2", "--threshold", str(threshold))
    ok("predict", model, source, *options, "-o", str(tmp_path / "o.jsonl"))
    order = np.argsort(-proba, axis=1, kind="stable")
    found = read_back(tmp_path / "o.jsonl")
    assert "unsure" in {row["prediction"] for row in found} and "sport" in {row["prediction"] for row in found}
    for row, p, ranks in zip(found, proba, order, strict=True):
        best, second = loaded.classes_[ranks[:2]]
        assert row["prediction"] == (best if p.max() >= threshold else "unsure")
        assert row["prediction_2"] == second
        assert (row["probability"], row["probability_2"]) == tuple(p[ranks[:2]])
    lines = ok("predict", model, source, *options, "--id", "id").splitlines()
    for line, row in zip(lines, found, strict=True):
        id_, label, *pairs = line.split("\t")
        assert (id_, label) == (row["id"], row["prediction"])
        assert len(pairs) == 2 and pairs[1] == f"{row['prediction_2']}={row['probability_2']:.6g}"


def test_a_class_called_unsure_is_not_confused(tmp_path):
    MultinomialNB(n_epochs=1).fit(["aa bb", "cc dd"] * 9, ["unsure", "x"] * 9).save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("ab\n")
    said = refused("predict", str(tmp_path / "m"), str(tmp_path / "t.txt"), "--threshold", "0.5", code=2)
    assert "the name of a class" in said
    ok("predict", str(tmp_path / "m"), str(tmp_path / "t.txt"))


def test_several_sources_folders_and_lines_with_ids(made, tmp_path):
    model = str(made / "model")
    both = ok(
        "predict", model, str(made / "files"), str(made / "t.txt") if (made / "t.txt").exists() else str(made / "files")
    )
    assert both == ok("predict", model, str(made / "files")) * 2
    ok("predict", model, str(made / "files"), "-o", str(tmp_path / "o.csv"))
    assert [row["file"] for row in read_back(tmp_path / "o.csv")] == [f"d{i}.txt" for i in range(5)]
    lines = ok("predict", model, str(made / "t.tsv"), "--text", "2", "--id", "0", "--no-proba").splitlines()
    assert [line.split("\t")[0] for line in lines] == [row["id"] for row in ROWS]
    assert lines[0] == "d0\tsport"
    said = refused(
        "predict",
        model,
        str(made / "t.csv"),
        str(made / "files"),
        "--text",
        "body",
        "-o",
        str(tmp_path / "x.csv"),
        code=2,
    )
    assert "a source has the columns 'file'" in said
    assert not (tmp_path / "x.csv").exists()


def test_a_corpus_is_predicted_with_its_ids(made, tmp_path):
    (tmp_path / "s.tsv").write_text("sport\tgoal team\nmoney\tbank share\nfood\tsalt oven\n" * 5)
    ok("ingest", str(tmp_path / "s.tsv"), str(tmp_path / "c"), "--jobs", "1")
    ok("train", str(tmp_path / "c"), str(tmp_path / "m"), "--epochs", "2", "--quiet")
    lines = ok("predict", str(tmp_path / "m"), str(tmp_path / "c")).splitlines()
    corpus = open_corpus(tmp_path / "c")
    expected = load_model(tmp_path / "m").predict(corpus)
    assert [line.split("\t")[:2] for line in lines] == [
        [str(id_), label] for id_, label in zip(corpus.ids_of(0, 15), expected, strict=True)
    ]
    assert "words" in refused("predict", str(made / "model"), str(tmp_path / "c"))
    for option in (("--id", "id"), ("--format", "csv"), ("--text", "t"), ("--encoding", "latin-1"), ("--verbose",)):
        said = refused("predict", str(tmp_path / "m"), str(tmp_path / "c"), *option, code=2)
        assert f"{option[0]}: of a source; a corpus has been read" in said


def test_bad_records_are_named_or_left_out(made, tmp_path):
    source, model = tmp_path / "t.csv", str(made / "model")
    source.write_text('text,n\ngoal,1\nbank,2,3\n"salt\noven",4\n')
    said = refused("predict", model, str(source))
    assert "t.csv, line 3: 3 fields under a header of 2" in said and "--on-error skip" in said
    ok("predict", model, str(source), "--on-error", "skip", "-o", str(tmp_path / "o.csv"))
    assert [row["text"] for row in read_back(tmp_path / "o.csv")] == ["goal", "salt\noven"]
    (tmp_path / "t.jsonl").write_text('{"text": "goal"}\n{"text": 3}\n')
    assert "t.jsonl, line 2: the text in field 'text' is 3, not a string" in refused(
        "predict", model, str(tmp_path / "t.jsonl")
    )
    assert "no column 'nothing'" in refused("predict", model, str(source), "--text", "nothing")
    (tmp_path / "again.csv").write_text("text,prediction\ngoal,x\n")
    said = refused("predict", model, str(tmp_path / "again.csv"), "-o", str(tmp_path / "p.csv"), code=2)
    assert "column 'prediction' already" in said


def test_a_table_appears_whole_or_not_at_all(made, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("what was there")
    (tmp_path / "t.csv").write_text("text\n" + "goal\n" * 50 + "a,b\n")
    refused("predict", str(made / "model"), str(tmp_path / "t.csv"), "-o", str(out))
    assert out.read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "t.csv"]
    assert ".tsv, .csv, .jsonl, .parquet" in refused(
        "predict", str(made / "model"), "-", "-o", str(tmp_path / "o.xls"), code=2
    )


def test_standard_input_in_other_formats(made):
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    lines = ok("predict", str(made / "model"), "-", "--format", "jsonl", "--text", "body", "--no-proba", input=rows)
    assert lines.splitlines() == load_model(made / "model").predict(TEXTS).tolist()


def test_topics_of_documents(made, tmp_path):
    for name, names in (
        ("topics.model", ["0", "1", "2"]),
        ("classes.model", ["food 0", "food 1", "money 0", "money 1", "sport 0", "sport 1"]),
    ):
        model = load_model(made / name)
        shares = model.transform(TEXTS)
        lines = ok("transform", str(made / name), str(made / "t.jsonl"), "--text", "body").splitlines()
        for line, row in zip(lines, shares, strict=True):
            best, *pairs = line.split("\t")
            assert [pair.split("=")[0] for pair in pairs] == names and best == names[row.argmax()]
            np.testing.assert_allclose([float(pair.split("=")[1]) for pair in pairs], row, rtol=1e-4, atol=1e-6)
    ok(
        "transform",
        str(made / "topics.model"),
        str(made / "t.csv"),
        "--text",
        "body",
        "--top",
        "2",
        "-o",
        str(tmp_path / "o.parquet"),
    )
    assert list(read_back(tmp_path / "o.parquet")[0])[3:] == ["topic", "share", "topic_2", "share_2"]
    assert "has no topics" in refused("transform", str(made / "model"), str(made / "t.csv"))


def test_how_much_of_the_text_is_known(made, tmp_path):
    (tmp_path / "t.txt").write_text("goal team strange words\n")
    found = run("predict", str(made / "model"), str(tmp_path / "t.txt"), "--verbose")
    assert "50.0% of the words are unknown to the model" in found.stderr
    assert "unknown" not in run("predict", str(made / "model"), str(tmp_path / "t.txt")).stderr


def test_sets_of_classes(made, tmp_path):
    lines = ["sport\tgoal team", "money\tbank share", "food\tsalt oven"] * 12
    (tmp_path / "held-out.tsv").write_text("\n".join(lines) + "\n")
    model, new = str(tmp_path / "m"), str(made / "t.jsonl")
    load_model(made / "model").save(model)
    assert "sdem calibrate MODEL CORPUS" in refused("predict", model, new, "--text", "body", "--coverage", "0.9")
    said = ok("calibrate", model, str(tmp_path / "held-out.tsv"))
    assert "36 documents" in said
    assert "class 'food' has the fewest, 12 documents: above --coverage 0.9231 it is in every set" in said
    (tmp_path / "few.tsv").write_text("\n".join(line for line in lines if "food" not in line))
    said = ok("calibrate", model, str(tmp_path / "few.tsv"), "-o", str(tmp_path / "few"))
    assert "class 'food' has no document: it is in every set" in said
    ok("predict", model, new, "--text", "body", "--coverage", "0.9", "-o", str(tmp_path / "o.jsonl"))
    loaded = load_model(model)
    inside = loaded.predict_sets(TEXTS, 0.9)
    expected = [loaded.classes_[row].tolist() for row in inside]
    assert [row["set"] for row in read_back(tmp_path / "o.jsonl")] == expected
    shown = ok("predict", model, new, "--text", "body", "--coverage", "0.9", "--no-proba").splitlines()
    assert [line.split("\t")[1] for line in shown] == [f"set={'|'.join(names)}" for names in expected]
    said = refused("calibrate", str(made / "topics.model"), str(tmp_path / "held-out.tsv"))
    assert "sets of classes are a classifier's" in said


def test_workers_write_the_same_table_and_the_same_lines(made):
    for source, more in (("t.csv", ()), ("t.parquet", ()), ("t.tsv", ("--text", "2"))):
        command = ("predict", str(made / "model"), str(made / source), "--id", "0" if more else "id", *more)
        command = command if more else (*command, "--text", "body")
        ok(*command, "-o", str(made / "here.parquet"), "--overwrite")
        ok(*command, "-o", str(made / "there.parquet"), "--overwrite", "--workers", "1")
        assert (made / "here.parquet").read_bytes() == (made / "there.parquet").read_bytes()
        assert ok(*command) == ok(*command, "--workers", "1")


def test_options_of_threads_are_refused_for_workers(made):
    said = refused("predict", str(made / "model"), str(made / "t.csv"), "--workers", "1", "--jobs", "2", code=2)
    assert "--jobs is of threads of this process" in said


def test_numbers_of_the_source_are_kept_whole(made, tmp_path):
    numbers = [1234567.891, 1700000000.25, 0.1, 3.0]
    pq.write_table(pa.table({"text": ["goal"] * 4, "price": numbers}), tmp_path / "s.parquet")
    for name in ("o.csv", "o.tsv", "o.jsonl", "o.parquet"):
        ok("predict", str(made / "model"), str(tmp_path / "s.parquet"), "-o", str(tmp_path / name))
        assert [float(row["price"]) for row in read_back(tmp_path / name)] == numbers


def test_types_are_those_of_the_source_also_where_the_first_block_is_empty(made, tmp_path, monkeypatch):
    monkeypatch.setattr("sdem_dist.cli.predict.BLOCK", 2)
    columns = {
        "text": ["goal"] * 5,
        "n": pa.array([None, None, 3, None, 4], pa.int64()),
        "day": pa.array(range(5), pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    ok("predict", str(made / "model"), str(tmp_path / "s.parquet"), "-o", str(tmp_path / "o.parquet"))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.schema.types[:3] == [pa.string(), pa.int64(), pa.date32()]
    assert table.column("n").to_pylist() == [None, None, 3, None, 4]


def test_sets_may_be_empty_in_the_first_block(tmp_path):
    from sdem_dist.cli.answers import Answers
    from sdem_dist.cli.table_files import write_table

    answers = Answers(lambda rows: rows, ["a", "b"], alone=True, sets=lambda rows: rows > 0.8)
    blocks = [answers.columns(np.array([[0.5, 0.5]] * 2)), answers.columns(np.array([[0.9, 0.1]]))]
    write_table(tmp_path / "o.parquet", iter(blocks))
    assert pq.read_table(tmp_path / "o.parquet").column("set").to_pylist() == [[], [], ["a"]]


def test_columns_of_nulls_take_the_type_that_comes_later(tmp_path):
    from sdem_dist.cli.table_files import write_table

    first = {"n": [None, None], "x": [1, 2], "never": [None, None], "label": ["a", None]}
    later = {"n": [3, None], "x": [0.5, None], "never": [None, None], "label": ["b", "c"]}
    write_table(tmp_path / "o.parquet", iter([first, first, later, first]))
    found = pq.read_table(tmp_path / "o.parquet")
    assert [str(field.type) for field in found.schema] == ["int64", "double", "string", "string"]
    assert found.to_pydict() == {name: [*first[name], *first[name], *later[name], *first[name]] for name in first}
    assert [file.name for file in tmp_path.iterdir()] == ["o.parquet"]
    with pytest.raises(click.ClickException, match="changes from one kind of value to another"):
        write_table(tmp_path / "p.parquet", iter([{"x": [1]}, {"x": ["a"]}]))
    assert [file.name for file in tmp_path.iterdir()] == ["o.parquet"]


def test_half_a_surrogate_pair_is_kept_or_refused_with_its_line(made, tmp_path):
    source, model = tmp_path / "s.jsonl", str(made / "model")
    source.write_text('{"text": "goal", "note": "x"}\n{"text": "goal", "note": "\\ud800"}\n')
    for name, kept in {"o.jsonl": "\ud800", "o.parquet": r"\ud800", "o.csv": r"\ud800", "o.tsv": r"\ud800"}.items():
        ok("predict", model, str(source), "-o", str(tmp_path / name))
        assert [row["note"] for row in read_back(tmp_path / name)] == ["x", kept]
    said = refused("predict", model, str(source), "--id", "note")
    assert "s.jsonl, line 2: the id has half of a surrogate pair, U+D800" in said
    (tmp_path / "l.jsonl").write_text(source.read_text().replace('"text"', '"label": "a", "text"'))
    said = refused("ingest", str(tmp_path / "l.jsonl"), str(tmp_path / "c"), "--id", "note")
    assert "l.jsonl, line 2: the id has half" in said
    source.write_text('{"text": "goal", "\\ud800": 1}\n')
    assert "line 1: the name of a field has half" in refused(
        "predict", model, str(source), "-o", str(tmp_path / "names.csv")
    )


def test_names_of_files_that_are_not_unicode(made, tmp_path):
    (tmp_path / "d").mkdir()
    with open(bytes(tmp_path / "d") + b"/\xff.txt", "w") as file:
        file.write("goal")
    for name in ("o.csv", "o.parquet"):
        ok("predict", str(made / "model"), str(tmp_path / "d"), "-o", str(tmp_path / name))
        assert [row["file"] for row in read_back(tmp_path / name)] == [r"\udcff.txt"]
    ok("predict", str(made / "model"), str(tmp_path / "d"), "-o", str(tmp_path / "o.jsonl"))
    assert read_back(tmp_path / "o.jsonl")[0]["file"] == "\udcff.txt"


def test_ids_of_lines_need_the_column_of_the_text(made, tmp_path):
    (tmp_path / "t.txt").write_text("d1\tgoal team\n")
    said = refused("predict", str(made / "model"), str(tmp_path / "t.txt"), "--id", "0")
    assert "name that of the text, too (--text NUMBER)" in said


def test_the_best_alone_or_the_best_few(made):
    said = refused("predict", str(made / "model"), str(made / "t.csv"), "--top", "2", "--no-proba", code=2)
    assert "choose one" in said


@pytest.mark.parametrize("more", [(), ("--id", "0"), ("-o", "o.csv"), ("-o", "o.csv", "--id", "0")])
@pytest.mark.parametrize("source", ["t.tsv", "t.txt"])
def test_blank_lines_between_columns_are_passed_over_on_all_roads(made, tmp_path, monkeypatch, source, more):
    monkeypatch.chdir(tmp_path)
    (tmp_path / source).write_text("a\tgoal team\n\nb\tbank share\n  \nno column\nc\tgoal\n")
    options = (str(made / "model"), source, "--text", "1", *more)
    assert f"{source}, line 5: " in refused("predict", *options)
    shown = ok("predict", *options, "--on-error", "skip").splitlines()
    assert len(read_back(tmp_path / "o.csv") if "-o" in more else shown) == 3


def test_a_blank_line_among_texts_is_an_empty_text(made, tmp_path):
    (tmp_path / "t.txt").write_text("goal\n\nbank\n")
    assert len(ok("predict", str(made / "model"), str(tmp_path / "t.txt")).splitlines()) == 3
    (tmp_path / "bad.txt").write_bytes(b"goal\ncaf\xe9\nbank\n")
    options = ("--on-error", "skip", "--no-proba")
    assert ok("predict", str(made / "model"), str(tmp_path / "bad.txt"), *options) == "sport\nmoney\n"


def test_columns_of_one_name_and_empty_sources_make_no_table(made, tmp_path):
    model, source, out = str(made / "model"), tmp_path / "s.csv", str(tmp_path / "o.csv")
    source.write_text("text,n,n\ngoal,1,2\n")
    assert "more than one column 'n'" in refused("predict", model, str(source), "-o", out)
    source.write_text("")
    assert "is the file empty?" in refused("predict", model, str(source), "-o", out)
    source.write_text("body\ngoal\n")
    assert "the columns are 'body'. Choose with --text (and --id)" in refused("predict", model, str(source))
    (tmp_path / "s.txt").write_text("")
    assert "hold no document" in refused("predict", model, str(tmp_path / "s.txt"), "-o", out)
    assert not (tmp_path / "o.csv").exists()


def test_line_ends_of_windows_are_line_ends(made, tmp_path):
    (tmp_path / "s.jsonl").write_text(json.dumps({"text": "goal\r\nteam\rx"}) + "\n")
    for name, text in {"o.csv": "goal\nteam\\rx", "o.tsv": "goal team\\rx", "o.jsonl": "goal\r\nteam\rx"}.items():
        ok("predict", str(made / "model"), str(tmp_path / "s.jsonl"), "-o", str(tmp_path / name))
        assert [row["text"] for row in read_back(tmp_path / name)] == [text]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("sdem_dist.text.records.PIECE_BYTES", 40)


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
    whole = ok(*command, "-o", str(tmp_path / "whole.jsonl")) + ok(*command)
    monkeypatch.setattr("sdem_dist.text.records.PIECE_BYTES", 40)
    if name.endswith("parquet"):
        pq.write_table(pq.read_table(source), tmp_path / name, row_group_size=2)
        command = ("predict", str(made / "model"), str(tmp_path / name), *more)
    assert ok(*command, "-o", str(tmp_path / "pieces.jsonl")) + ok(*command) == whole
    assert (tmp_path / "pieces.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_bad_lines_of_later_pieces_have_their_numbers(made, tmp_path, small_pieces):
    source, model = tmp_path / "s.tsv", str(made / "model")
    source.write_bytes(b"a\tgoal team\n" * 9 + b"b\tcaf\xe9\n" + b"a\tbank\tx\n" * 7)
    options = ("predict", model, str(source), "--text", "1", "-o")
    for where in ((), ("--workers", "1")):
        said = refused(*options, str(tmp_path / "o.csv"), *where)
        assert "s.tsv, line 10: the line has the byte 0xe9" in said
        found = run(*options, str(tmp_path / "o.csv"), "--on-error", "skip", *where)
        assert "8 lines left out, such as" in found.stderr and "line 10: " in found.stderr
        assert [next(iter(row.values())) for row in read_back(tmp_path / "o.csv")] == ["a"] * 9
        assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "s.tsv"]
        (tmp_path / "o.csv").unlink()


def test_workers_read_many_sources_of_all_kinds(made, tmp_path, small_pieces):
    for names, out in (
        (("t.csv", "t.csv.xz"), "o.parquet"),
        (("t.csv", "t.csv.xz", "t.jsonl", "t.parquet"), "o.tsv"),
    ):
        command = ("predict", str(made / "model"), *(str(made / name) for name in names), "--text", "body")
        ok(*command, "-o", str(tmp_path / f"here-{out}"))
        ok(*command, "-o", str(tmp_path / out), "--workers", "1")
        assert (tmp_path / out).read_bytes() == (tmp_path / f"here-{out}").read_bytes()
    assert ok(*command) == ok(*command, "--workers", "1")
    assert len(list(tmp_path.iterdir())) == 4
