"""`sdem predict` and `sdem transform`: from every format, to every format."""

from __future__ import annotations

import json

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import ok, refused, run
from predicted_rows import NASTY, ROWS, TEXTS, read_back

from sdem_dist import MultinomialNB, load_model


@pytest.mark.parametrize("source", ["t.csv", "t.csv.xz", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("output", ["o.tsv", "o.csv", "o.jsonl", "o.parquet"])
def test_columns_are_kept_and_predictions_follow(made, tmp_path, source, output):
    out = tmp_path / output
    assert ok("predict", made / "model", str(made / source), "--text", "body", "-o", out) == ""
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
    ok("predict", model, source, *options, "-o", tmp_path / "o.jsonl")
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
    said = refused("predict", tmp_path / "m", tmp_path / "t.txt", "--threshold", "0.5", code=2)
    assert "the name of a class" in said
    ok("predict", tmp_path / "m", tmp_path / "t.txt")


def test_a_table_appears_whole_or_not_at_all(made, tmp_path):
    out = tmp_path / "o.csv"
    out.write_text("what was there")
    (tmp_path / "t.csv").write_text("text\n" + "goal\n" * 50 + "a,b\n")
    refused("predict", made / "model", tmp_path / "t.csv", "-o", out)
    assert out.read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "t.csv"]
    assert ".tsv, .csv, .jsonl, .parquet" in refused("predict", made / "model", "-", "-o", tmp_path / "o.xls", code=2)


def test_topics_of_documents(made, tmp_path):
    for name, names in (
        ("topics.model", ["0", "1", "2"]),
        ("classes.model", ["food 0", "food 1", "money 0", "money 1", "sport 0", "sport 1"]),
    ):
        model = load_model(made / name)
        shares = model.transform(TEXTS)
        lines = ok("transform", str(made / name), made / "t.jsonl", "--text", "body").splitlines()
        for line, row in zip(lines, shares, strict=True):
            best, *pairs = line.split("\t")
            assert [pair.split("=")[0] for pair in pairs] == names and best == names[row.argmax()]
            np.testing.assert_allclose([float(pair.split("=")[1]) for pair in pairs], row, rtol=1e-4, atol=1e-6)
    ok("transform", made / "topics.model", made / "t.csv", "--text", "body", "--top", "2", "-o", tmp_path / "o.parquet")
    assert list(read_back(tmp_path / "o.parquet")[0])[3:] == ["topic", "share", "topic_2", "share_2"]
    assert "has no topics" in refused("transform", made / "model", made / "t.csv")


def test_how_much_of_the_text_is_known(made, tmp_path):
    (tmp_path / "t.txt").write_text("goal team strange words\n")
    found = run("predict", made / "model", tmp_path / "t.txt", "--verbose")
    assert "50.0% of the words are unknown to the model" in found.stderr
    assert "unknown" not in run("predict", made / "model", tmp_path / "t.txt").stderr


def test_sets_of_classes(made, tmp_path):
    lines = ["sport\tgoal team", "money\tbank share", "food\tsalt oven"] * 12
    (tmp_path / "held-out.tsv").write_text("\n".join(lines) + "\n")
    model, new = str(tmp_path / "m"), str(made / "t.jsonl")
    load_model(made / "model").save(model)
    assert "sdem calibrate MODEL CORPUS" in refused("predict", model, new, "--text", "body", "--coverage", "0.9")
    said = ok("calibrate", model, tmp_path / "held-out.tsv")
    assert "36 documents" in said
    assert "class 'food' has the fewest, 12 documents: above --coverage 0.9231 it is in every set" in said
    (tmp_path / "few.tsv").write_text("\n".join(line for line in lines if "food" not in line))
    said = ok("calibrate", model, tmp_path / "few.tsv", "-o", tmp_path / "few")
    assert "class 'food' has no document: it is in every set" in said
    ok("predict", model, new, "--text", "body", "--coverage", "0.9", "-o", tmp_path / "o.jsonl")
    loaded = load_model(model)
    inside = loaded.predict_sets(TEXTS, 0.9)
    expected = [loaded.classes_[row].tolist() for row in inside]
    assert [row["set"] for row in read_back(tmp_path / "o.jsonl")] == expected
    shown = ok("predict", model, new, "--text", "body", "--coverage", "0.9", "--no-proba").splitlines()
    assert [line.split("\t")[1] for line in shown] == [f"set={'|'.join(names)}" for names in expected]
    taught = ["sport\tgoal team match", "money\tbank share loan", "food\tsalt oven bread"] * 20
    (tmp_path / "taught.tsv").write_text("\n".join(taught))
    for source, warned in (("taught.tsv", True), ("held-out.tsv", False)):
        found = run("calibrate", model, str(tmp_path / source), "-o", tmp_path / f"of-{source}")
        assert found.exit_code == 0 and ("was trained on" in found.stderr) == warned
    said = refused("calibrate", made / "topics.model", tmp_path / "held-out.tsv")
    assert "sets of classes are a classifier's" in said


def test_types_are_those_of_the_source_also_where_the_first_block_is_empty(made, tmp_path, monkeypatch):
    monkeypatch.setattr("sdem_dist.cli.predict.BLOCK", 2)
    columns = {
        "text": ["goal"] * 5,
        "n": pa.array([None, None, 3, None, 4], pa.int64()),
        "day": pa.array(range(5), pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    ok("predict", made / "model", tmp_path / "s.parquet", "-o", tmp_path / "o.parquet")
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.schema.types[:3] == [pa.string(), pa.int64(), pa.date32()]
    assert table.column("n").to_pylist() == [None, None, 3, None, 4]


def test_sets_may_be_empty_in_the_first_block(tmp_path):
    from sdem_dist.cli.predict import PredictionFormatter
    from sdem_dist.cli.tables import write_table

    answers = PredictionFormatter(lambda rows: rows, ["a", "b"], best_only=True, sets=lambda rows: rows > 0.8)
    blocks = [answers.columns(np.array([[0.5, 0.5]] * 2)), answers.columns(np.array([[0.9, 0.1]]))]
    write_table(tmp_path / "o.parquet", iter(blocks))
    assert pq.read_table(tmp_path / "o.parquet").column("set").to_pylist() == [[], [], ["a"]]


def test_columns_of_nulls_take_the_type_that_comes_later(tmp_path):
    from sdem_dist.cli.tables import write_table

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
        ok("predict", model, source, "-o", str(tmp_path / name))
        assert [row["note"] for row in read_back(tmp_path / name)] == ["x", kept]
    said = refused("predict", model, source, "--id", "note")
    assert "s.jsonl, line 2: the id has half of a surrogate pair, U+D800" in said
    (tmp_path / "l.jsonl").write_text(source.read_text().replace('"text"', '"label": "a", "text"'))
    said = refused("ingest", tmp_path / "l.jsonl", tmp_path / "c", "--id", "note")
    assert "l.jsonl, line 2: the id has half" in said
    source.write_text('{"text": "goal", "\\ud800": 1}\n')
    assert "line 1: the name of a field has half" in refused("predict", model, source, "-o", tmp_path / "names.csv")


def test_names_of_files_that_are_not_unicode(made, tmp_path):
    (tmp_path / "d").mkdir()
    with open(bytes(tmp_path / "d") + b"/\xff.txt", "w") as file:
        file.write("goal")
    for name in ("o.csv", "o.parquet"):
        ok("predict", made / "model", tmp_path / "d", "-o", str(tmp_path / name))
        assert [row["file"] for row in read_back(tmp_path / name)] == [r"\udcff.txt"]
    ok("predict", made / "model", tmp_path / "d", "-o", tmp_path / "o.jsonl")
    assert read_back(tmp_path / "o.jsonl")[0]["file"] == "\udcff.txt"


def test_columns_of_one_name_and_empty_sources_make_no_table(made, tmp_path):
    model, source, out = str(made / "model"), tmp_path / "s.csv", str(tmp_path / "o.csv")
    source.write_text("text,n,n\ngoal,1,2\n")
    assert "more than one column 'n'" in refused("predict", model, source, "-o", out)
    source.write_text("")
    assert "is the file empty?" in refused("predict", model, source, "-o", out)
    source.write_text("body\ngoal\n")
    assert "the columns are 'body'. Choose with --text (and --id)" in refused("predict", model, source)
    (tmp_path / "s.txt").write_text("")
    assert "hold no document" in refused("predict", model, tmp_path / "s.txt", "-o", out)
    assert not (tmp_path / "o.csv").exists()


def test_line_ends_of_windows_are_line_ends(made, tmp_path):
    (tmp_path / "s.jsonl").write_text(json.dumps({"text": "goal\r\nteam\rx"}) + "\n")
    for name, text in {"o.csv": "goal\nteam\\rx", "o.tsv": "goal team\\rx", "o.jsonl": "goal\r\nteam\rx"}.items():
        ok("predict", made / "model", tmp_path / "s.jsonl", "-o", str(tmp_path / name))
        assert [row["text"] for row in read_back(tmp_path / name)] == [text]


def test_integers_of_any_size_become_text_in_parquet(made, tmp_path):
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"text": "goal", "n": n}) + "\n" for n in (2**70, -(2**64), 1))
    )
    ok("predict", made / "model", tmp_path / "t.jsonl", "-o", tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").column("n").to_pylist() == [str(2**70), str(-(2**64)), "1"]
