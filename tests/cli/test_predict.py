"""``sdem predict``, ``transform`` and ``calibrate``: what they read, in one piece or many, and the tables they write."""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import ok, refused, rows_of, run
from cli.conftest import NASTY, ROWS, TEXTS
from reference.trained_bits import local_cluster

from sdem_dist import MultinomialNB, load_model, open_corpus
from sdem_dist.cli import predict
from sdem_dist.counted import visible

PREDICT = "predict posts.model"
LETTERS = [*'ab ,"\\\t\n\r\x00\x1b\x7f\x85é한\u2028\u200e\U0001f600\ufeff/=', "\r\n"]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("sdem_dist.text.splits.PREDICT_BYTES", 40)


def test_lines_have_the_label_and_all_probabilities(desk):
    texts = ["goal goal team", "", "bread salt oven", "none of these 123"]
    Path("new.txt").write_text("".join(f"{t}\n" for t in texts))
    model = load_model("posts.model")
    lines = ok(f"{PREDICT} new.txt").splitlines()
    for line, row in zip(lines, model.predict_proba(texts), strict=True):
        label, *pairs = line.split("\t")
        names, values = zip(*(pair.rsplit("=", 1) for pair in pairs), strict=True)
        assert list(names) == model.classes_.tolist()
        np.testing.assert_allclose([float(v) for v in values], row, rtol=1e-5)
        assert label == names[row.argmax()]
    assert ok(f"{PREDICT} new.txt --no-proba").splitlines() == [line.split("\t")[0] for line in lines]


UTF_16 = "goal\nbank\n".encode("utf-16")
READ = {
    "two columns": ("t.tsv", "goal\tx\nbank\ty\n", "--text-column 0"),
    "compressed": ("t.gz", None, ""),
    "standard input": ("-", "goal\nbank", ""),
    "UTF-16": ("t.txt", UTF_16, "--encoding utf-16"),
    "UTF-16 at a pipe": ("-", UTF_16, "--encoding utf-16"),
    "a byte order mark": ("t.txt", "\ufeffgoal\r\nbank\r\n", ""),
    "JSON at a pipe": ("-", '{"text": "goal"}\n{"text": "bank"}\n', "--format jsonl"),
    "bad lines": ("t.txt", b"goal\ncaf\xe9\nbank\n", "--on-error skip"),
    "label and text": ("t.tsv", "none of the classes\tgoal\nsport\tbank\n", ""),
    "label and text in lines": ("t.txt", "\nsport\tgoal\nsport\tbank\n", ""),
    "label and text in a file of any name": ("t.unknown", "\nsport\tgoal\nsport\tbank\n", ""),
    "label and text at a pipe": ("-", "\nsport\tgoal\nsport\tbank\n", ""),
    "NULs are blanks": ("t.txt", "goal\0goal\0\0\0goal\nbank\n", ""),
}


@pytest.mark.parametrize("kind", READ)
def test_sources_of_every_kind_are_read(desk, kind):
    import gzip

    name, content, options = READ[kind]
    content = gzip.compress(b"goal\nbank\n") if content is None else content
    content = content if isinstance(content, bytes) else content.encode()
    if name != "-":
        Path(name).write_bytes(content)
    found = run(f"{PREDICT} {name} {options} --no-proba", **({"input": content} if name == "-" else {}))
    assert found.stdout.splitlines() == load_model("posts.model").predict(["goal", "bank"]).tolist(), found.stderr
    told = "is label TAB text" in found.stderr and "--format lines reads entire lines" in found.stderr
    assert told == (kind.startswith("label and text ") and name != "t.tsv")


def test_whole_lines_where_they_are_asked_for_or_the_first_has_no_tab(desk):
    Path("new.txt").write_text("goal\tbank share\n")
    assert ok(f"{PREDICT} new.txt --format lines") != ok(f"{PREDICT} new.txt")
    Path("new.txt").write_text("goal goal goal\nsport\tbank share\n\n")
    assert len(ok(f"{PREDICT} new.txt").splitlines()) == 3  # a blank line is an empty text
    assert ok("explain posts.model", input="sport\tbank\nx\tgoal") == ok("explain posts.model", "bank", "goal")
    found = run(f"{PREDICT} empty.txt")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "the sources contain no documents\n")
    assert ok(f"{PREDICT} -", input="") == ""


FIRST = "it looks like a"
PACKED = {
    ".gz": (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", f"{FIRST} .gz file: rename it to end in .gz"),
    ".parquet": (b"PAR1\x15\x04\x15\n\x15\x0eL\x15", f"{FIRST} .parquet file: rename it to end in .parquet"),
    "ZIP": (b"PK\x03\x04" + bytes(range(90)), f"{FIRST} ZIP archive, such as an .xlsx or .docx file: save it as"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_file_whose_name_does_not_say_so(tmp_path, kind):
    for name in ("p.tsv", "p.csv", "p.jsonl"):
        (tmp_path / name).write_bytes(PACKED[kind][0])
        assert PACKED[kind][1] in refused("train", tmp_path / name, tmp_path / "m")


def test_utf_16_in_folders(desk):
    for i in range(2):
        (desk / "f" / "ab"[i]).mkdir(parents=True)
        (desk / "f" / "ab"[i] / "1.txt").write_text("one goal")
    (desk / "f" / "a" / "2.txt").write_text("a goal of Windows", encoding="utf-16-le")
    said = refused("ingest f c")
    assert "2.txt, file 1: it is UTF-16-LE text" in said and "to skip such files" in said
    ok("ingest f c --on-error skip")


def test_several_sources_folders_and_lines_with_ids(desk):
    assert ok(f"{PREDICT} texts texts") == ok(f"{PREDICT} texts") * 2
    ok(f"{PREDICT} texts -o o.csv")
    assert [row["file"] for row in rows_of("o.csv")] == [f"d{i}.txt" for i in range(5)]
    lines = ok(f"{PREDICT} t.tsv --text 2 --id 0 --no-proba").splitlines()
    assert [line.split("\t")[0] for line in lines] == [row["id"] for row in ROWS] and lines[0] == "d0\tsport"


def test_a_corpus_is_predicted_with_its_ids(shelf):
    corpus = open_corpus("test.zarr")
    expected = load_model("posts.model").predict(corpus)
    lines = [line.split("\t")[:2] for line in ok(f"{PREDICT} test.zarr").splitlines()]
    assert lines == [[str(id_), label] for id_, label in zip(corpus.ids_of(0, 120), expected, strict=True)]


def test_clusters_are_predicted(desk):
    ok("train posts.zarr m --estimator MultinomialMixture --set n_components=3 --quiet")
    lines = ok("predict m posts.tsv").splitlines()
    assert all(line.split("\t")[0] in "012" and line.count("=") == 3 for line in lines)


@pytest.mark.parametrize("more", ["", "--id 0", "-o o.csv", "-o o.csv --id 0"])
@pytest.mark.parametrize("source", ["b.tsv", "b.txt"])
def test_blank_lines_between_columns_are_passed_over_on_all_roads(desk, source, more):
    Path(source).write_text("a\tgoal team\n\nb\tbank share\n  \nno column\nc\tgoal\n")
    command = f"{PREDICT} {source} --text 1 {more}"
    assert f"{source}, line 5: " in refused(command)
    shown = ok(f"{command} --on-error skip").splitlines()
    assert len(rows_of("o.csv") if "-o" in more else shown) == 3


def test_predict_does_not_read_all_before_it_answers(shelf):
    code = "from sdem_dist.cli import predict, main; predict.BLOCK = 2; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "predict", "plain.model", "-", "--no-proba", "--jobs", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    process.stdin.write("goal three\nbank two\n" * 3)
    process.stdin.flush()
    assert process.stdout.readline() == "sport\n"  # while standard input is still open
    process.stdin.close()
    assert process.stdout.read().splitlines() == ["money", "sport", "money", "sport", "money"]
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("name", ["t.tsv", "t.jsonl", "t.parquet", "texts", "lines.txt"])
def test_pieces_make_the_table_of_the_whole_source(desk, monkeypatch, name):
    more = {"t.tsv": "--text 2", "texts": "", "lines.txt": ""}.get(name, "--text body")
    Path("lines.txt").write_text("\ufeff" + "".join(f"{text}\r\n" for text in TEXTS))
    command = f"{PREDICT} {name} {more}"
    whole = ok(f"{command} -o whole.jsonl") + ok(command)
    monkeypatch.setattr("sdem_dist.text.splits.PREDICT_BYTES", 40)
    pq.write_table(pq.read_table("t.parquet"), "t.parquet", row_group_size=2)
    assert ok(f"{command} -o pieces.jsonl") + ok(command) == whole
    assert Path("pieces.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_bad_lines_of_later_pieces_have_their_numbers(desk, small_pieces, scheduler):
    Path("s.tsv").write_bytes(b"a\tgoal team\n" * 9 + b"b\tcaf\xe9\n" + b"a\tbank\tx\n" * 7)
    before = sorted(os.listdir())
    for where in ("", f"--scheduler {scheduler}"):
        command = f"{PREDICT} s.tsv --text 1 -o o.csv {where}"
        assert "s.tsv, line 10: the line has the byte 0xe9" in refused(command)
        found = run(f"{command} --on-error skip")
        assert "skipped 8 records, for example" in found.stderr and "line 10: " in found.stderr
        assert [next(iter(row.values())) for row in rows_of("o.csv")] == ["a"] * 9
        Path("o.csv").unlink()
        assert sorted(os.listdir()) == before


def test_workers_read_many_sources_of_all_kinds(desk, small_pieces, scheduler):
    for names, out in (("t.csv t.csv.xz", "o.parquet"), ("t.csv t.csv.xz t.jsonl t.parquet", "o.tsv")):
        command = f"{PREDICT} {names} --text body --id id"
        ok(f"{command} -o here-{out}")
        ok(f"{command} -o {out} --scheduler {scheduler}")
        assert Path(out).read_bytes() == Path(f"here-{out}").read_bytes()
    assert ok(command) == ok(f"{command} --scheduler {scheduler}")


def test_what_only_this_process_can_open_it_reads_itself(desk):
    Path("new.txt").write_text("goal\nteam\nx\n")
    expected = ok(f"{PREDICT} new.txt latin.txt --on-error skip")
    reader, writer = os.pipe()
    os.write(writer, b"goal\nteam\nx\n")
    os.close(writer)
    with local_cluster(1) as (cluster, _):
        for opened in (reader, os.open("new.txt", os.O_RDONLY)):
            where = f"/dev/fd/{opened} latin.txt --on-error skip --scheduler {cluster.scheduler_address}"
            assert ok(f"{PREDICT} {where}") == expected
            os.close(opened)


@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed", "appended"])
def test_parts_of_two_files_are_not_mixed(desk, small_pieces, monkeypatch, how):
    source, new = Path("s.txt"), "".join(f"new {i}\n" for i in range(40))
    source.write_text("".join(f"old {i} line\n" for i in range(40)))
    Path("new").write_text(new)
    changes = {
        "rewritten": lambda: source.write_text(new),
        "replaced": lambda: Path("new").replace(source),
        "removed": source.unlink,
        "appended": lambda: source.write_text(source.read_text() + new),
    }
    vectorize, seen = MultinomialNB.predict_proba, []

    def change(*arguments, **options):
        if not seen:
            changes[how]()
        seen.append(how)
        return vectorize(*arguments, **options)

    monkeypatch.setattr(MultinomialNB, "predict_proba", change)
    assert "s.txt was changed while it was read" in refused(f"{PREDICT} s.txt --jobs 1 -o o.csv")
    assert seen and not Path("o.csv").exists()


def test_what_workers_find_in_sources_is_said_as_without_them(desk, capfd, scheduler):
    for command, code in ((f"{PREDICT} plain.tsv plain.tsv", 0), (f"{PREDICT} bad.tsv --on-error skip", 0),
                          (f"{PREDICT} bad.tsv -o o.csv", 1), (f"{PREDICT} mixed.txt", 1)):  # fmt: skip
        here, there = run(command), run(f"{command} --scheduler {scheduler}")
        assert (here.stdout, here.stderr, here.exit_code) == (there.stdout, there.stderr, code)
        assert str(desk) not in there.stderr
    assert "Compute Failed" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("source", ["t.csv", "t.csv.xz", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("output", ["o.tsv", "o.csv", "o.jsonl", "o.parquet"])
def test_columns_are_kept_and_predictions_follow(shelf, tmp_path, source, output):
    out = tmp_path / output
    assert ok(f"{PREDICT} {source} --text body -o", out) == ""
    model, found = load_model("posts.model"), rows_of(out)
    names = ["id", "body", "extra", "prediction", "probability", *(f"probability_{c}" for c in model.classes_)]
    assert [list(row) for row in found] == [names] * len(TEXTS)
    assert [(row["id"], int(row["extra"])) for row in found] == [(r["id"], r["extra"]) for r in ROWS]
    assert [row["prediction"] for row in found] == model.predict(TEXTS).tolist()
    for row, expected in zip(found, model.predict_proba(TEXTS), strict=True):
        np.testing.assert_allclose([float(row[name]) for name in names[5:]], expected, rtol=1e-5)
        assert float(row["probability"]) == pytest.approx(expected.max(), rel=1e-5)
    shown = found[2]["body"]
    if output in ("o.jsonl", "o.parquet"):
        assert shown == NASTY
    else:  # control characters are written out; in a .tsv a TAB ends a column
        assert shown == visible(NASTY).replace("\t", "\t" if output == "o.csv" else " ")
        assert "\x1b" not in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [output]


@pytest.mark.parametrize("block", [2, 1000])
def test_tables_of_every_format_read_back(desk, monkeypatch, block):
    monkeypatch.setattr(predict, "BLOCK", block)
    rng, n = np.random.default_rng(0), 60
    missing = rng.random(n) < 0.2
    texts = ["".join(rng.choice(LETTERS, rng.integers(0, 6))) for _ in range(n)]
    columns = {
        "text": pa.array(["goal"] * n),
        "texts": pa.array(texts, mask=missing),
        "repeated": pa.array(texts).dictionary_encode(),
        "floats": pa.array(rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n), mask=missing),
        "integers": pa.array(rng.integers(-(2**62), 2**62, n), mask=missing),
        "large,integers": pa.array([2**63 + int(k) for k in rng.integers(0, 9, n)], pa.uint64()),
        "dates": pa.array([datetime.date(2020, 1, 1 + k % 9) for k in range(n)]),
        "nothing": pa.array([None] * n, pa.int64()),
        "late": pa.array([None] * (n - 1) + [3], pa.int64()),
    }
    pq.write_table(pa.table(columns), "s.parquet")
    expected = pa.table(columns).to_pylist()
    for suffix in ("parquet", "jsonl", "csv", "tsv"):
        ok(f"{PREDICT} s.parquet -o o.{suffix}")
    table = pq.read_table("o.parquet")
    assert table.schema.types[6] == pa.date32() and table.schema.types[8] == pa.int64()
    assert [{name: row[name] for name in columns} for row in table.to_pylist()] == expected
    tables = (rows_of(f"o.{suffix}") for suffix in ("jsonl", "csv", "tsv"))
    for row, of_json, of_csv, of_tsv in zip(expected, *tables, strict=True):
        for name, value in row.items():
            text = "" if value is None else visible(value)
            assert of_json[name] == (str(value) if isinstance(value, datetime.date) else value)
            flat = text.replace("\t", " ").replace("\n", " ")
            if isinstance(value, float):
                assert float(of_csv[name]) == float(of_tsv[name]) == value
            else:
                assert (of_csv[name], of_tsv[name]) == (text, flat)


def test_the_best_few_and_the_unsure(desk):
    loaded = load_model("posts.model")
    proba = loaded.predict_proba(TEXTS)
    options = f"t.jsonl --text body --top 2 --threshold {float(np.median(proba.max(axis=1))) - 1e-9}"
    ok(f"{PREDICT} {options} -o o.jsonl")
    order, threshold = np.argsort(-proba, axis=1, kind="stable"), float(options.split()[-1])
    found = rows_of("o.jsonl")
    assert {"unsure", "sport"} <= {row["prediction"] for row in found}
    for row, p, ranks in zip(found, proba, order, strict=True):
        best, second = loaded.classes_[ranks[:2]]
        assert row["prediction"] == (best if p.max() >= threshold else "unsure")
        assert row["prediction_2"] == second
        assert (row["probability"], row["probability_2"]) == tuple(p[ranks[:2]])
    for line, row in zip(ok(f"{PREDICT} {options} --id id").splitlines(), found, strict=True):
        id_, label, *pairs = line.split("\t")
        assert (id_, label) == (row["id"], row["prediction"])
        assert len(pairs) == 2 and pairs[1] == f"{row['prediction_2']}={row['probability_2']:.6g}"


@pytest.mark.parametrize(("options", "changed"), [
    ("--threshold sport=0.01", {"sport": 0.01}), ("--threshold 0", {"money": 0, "sport": 0}),
    ("--threshold money=1 --threshold 0.2", {"money": 1, "sport": 0.2})])  # fmt: skip
def test_thresholds_of_labels(desk, options, changed):
    clf = load_model("several.model")
    clf.thresholds_ = changed
    expected = [sorted(labels) for labels in clf.labels_of(TEXTS)]
    ok(f"predict several.model t.jsonl --text body {options} -o o.jsonl --overwrite")
    assert [sorted(row["labels"]) for row in rows_of("o.jsonl")] == expected
    for code, wrong, why in ((1, "sprot=0.1", "Did you mean 'sport'"), (2, "sport=2", "neither a probability P nor")):
        assert why in refused(f"predict several.model t.jsonl --text body --threshold {wrong}", code=code)
    assert "needs a model with several labels per document" in refused(
        f"{PREDICT} t.jsonl --threshold sport=0.1", code=2
    )


def test_a_class_called_unsure_is_not_confused(desk):
    MultinomialNB(n_epochs=1).fit(["aa bb", "cc dd"] * 9, ["unsure", "x"] * 9).save("m")
    assert "a class with that name" in refused("predict m latin.txt --on-error skip --threshold 0.5", code=2)
    ok("predict m latin.txt --on-error skip")


def test_a_table_appears_whole_or_not_at_all(desk):
    Path("o.csv").write_text("what was there")
    Path("s.csv").write_text("text\n" + "goal\n" * 50 + "a,b\n")
    before = sorted(os.listdir())
    refused(f"{PREDICT} s.csv -o o.csv")
    assert Path("o.csv").read_text() == "what was there" and sorted(os.listdir()) == before
    ok(f"{PREDICT} records.csv --on-error skip -o o.csv --overwrite --quiet")
    assert [row["text"] for row in rows_of("o.csv")] == ["goal", "salt\noven"]


def test_topics_of_documents(shelf, tmp_path):
    classes = [f"{name} {k}" for name in load_model("lda.model").classes_ for k in (0, 1)]
    for name, names in (("topics", ["0", "1", "2"]), ("lda", classes)):
        shares = load_model(f"{name}.model").transform(TEXTS)
        for line, row in zip(ok(f"transform {name}.model t.jsonl --text body").splitlines(), shares, strict=True):
            best, *pairs = line.split("\t")
            assert [pair.rsplit("=", 1)[0] for pair in pairs] == names and best == names[row.argmax()]
            np.testing.assert_allclose([float(pair.rsplit("=", 1)[1]) for pair in pairs], row, rtol=1e-4, atol=1e-6)
    ok("transform topics.model t.csv --text body --top 2 -o", tmp_path / "o.parquet")
    assert list(rows_of(tmp_path / "o.parquet")[0])[3:] == ["topic", "share", "topic_2", "share_2"]
    assert "has no topics" in refused("transform posts.model t.csv")


def test_what_is_said_of_a_prediction(desk):
    Path("new.txt").write_text("goal team strange words\n")
    assert "50.0% of the words are unknown to the model" in run(f"{PREDICT} new.txt --verbose").stderr
    assert "unknown" not in run(f"{PREDICT} new.txt").stderr
    assert run(f"{PREDICT} new.txt -o o.csv").stderr == "wrote predictions to o.csv\n"
    assert run(f"{PREDICT} new.txt -o o.csv --overwrite --quiet").stderr == ""


def test_sets_of_classes(desk):
    lines = ["sport\tgoal team", "money\tbank share", "food\tsalt oven"] * 12
    Path("train.tsv").write_text("\n".join(f"{line} more" for line in lines))
    Path("held-out.tsv").write_text("\n".join(lines))
    Path("few.tsv").write_text("\n".join(line for line in lines if "food" not in line))
    ok("train train.tsv m --epochs 2 --quiet")
    assert "sdem calibrate MODEL CORPUS" in refused("predict m t.jsonl --text body --coverage 0.9")
    said = ok("calibrate m held-out.tsv")
    assert "36 documents" in said
    shared = "3 classes with fewer than 50 documents share a threshold computed from 36 documents: with --coverage above 0.973"
    assert f"{shared}, they are in every prediction set" in said
    assert "from 24 documents" in ok("calibrate m few.tsv -o few")
    ok("predict m t.jsonl --text body --coverage 0.9 -o o.jsonl")
    loaded = load_model("m")
    expected = [loaded.classes_[row].tolist() for row in loaded.predict_sets(TEXTS, 0.9)]
    assert [row["set"] for row in rows_of("o.jsonl")] == expected
    shown = ok("predict m t.jsonl --text body --coverage 0.9 --no-proba").splitlines()
    assert [line.split("\t")[1] for line in shown] == [f"set={'|'.join(names)}" for names in expected]


def test_odd_letters_are_kept_or_written_out(desk):
    for name, kept in {"o.jsonl": "\ud800", "o.parquet": r"\ud800", "o.csv": r"\ud800", "o.tsv": r"\ud800"}.items():
        ok(f"{PREDICT} surrogate.jsonl -o {name}")
        assert [row["note"] for row in rows_of(name)] == ["x", kept]
    Path("d").mkdir()
    with open(b"d/\xff.txt", "w") as file:
        file.write("goal")
    for name, kept in {"p.csv": r"\udcff.txt", "p.parquet": r"\udcff.txt", "p.jsonl": "\udcff.txt"}.items():
        ok(f"{PREDICT} d -o {name}")
        assert [row["file"] for row in rows_of(name)] == [kept]


@pytest.mark.parametrize(("values", "kind", "expected"), [
    ([None, None, 3, 0.5], "double", [None, None, 3.0, 0.5]),
    ([None, None, None, "a"], "string", [None, None, None, "a"]),
    ([None, None, None, None], "string", [None] * 4),
    ([1, 2, "a", None], None, None),
    ([1, 2**70], "string", ["1", str(2**70)]),
    ([-(2**64), 1], "string", [str(-(2**64)), "1"]),
])  # fmt: skip
def test_columns_take_the_type_that_comes_later_and_large_integers_are_text(desk, monkeypatch, values, kind, expected):
    monkeypatch.setattr(predict, "BLOCK", 2)
    Path("s.jsonl").write_text("".join(json.dumps({"text": "goal", "x": value}) + "\n" for value in values))
    if kind is None:
        assert "mixes types" in refused(f"{PREDICT} s.jsonl -o x.parquet --jobs 1")
        assert not Path("x.parquet").exists()
        return
    ok(f"{PREDICT} s.jsonl -o x.parquet --jobs 1")
    column = pq.read_table("x.parquet").column("x")
    assert str(column.type) == kind and column.to_pylist() == expected
