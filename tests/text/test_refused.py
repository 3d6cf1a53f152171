"""What no corpus is made of: bad records, which are named or left out, and sources, arguments and settings."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from text.sources import DOCUMENTS, compressed, rows_in_source_order, texts_in_source_order, written

from sdem_dist import CorpusError, IngestError, MultinomialNB, ingest, write_corpus
from sdem_dist.text import Reading, VectorizerSettings, count_texts

TSV, CSV = "a\tx\n{}\nb\tz\n", "label,text\na,x\n{}\nb,z\n"
JSON = '{{"label": "a", "text": "x"}}\n{}\n{{"label": "b", "text": "z"}}\n'
BAD = [
    ("s.tsv", TSV, "label only", "line 2", "no TAB"),
    ("s.tsv", TSV, "b\ty\tz", "line 2", "3 columns instead of 2"),
    ("s.tsv", TSV, " \ty", "line 2", "label is empty"),
    ("s.tsv", TSV, "b\tcaf\xe9", "line 2", "0xe9"),
    ("s.csv", CSV, "b,caf\xe9", "record 3", "0xe9"),
    ("s.csv", CSV, "b", "record 3", "1 fields, but the header has 2"),
    ("s.jsonl", JSON, '{"label"', "line 2", "not JSON"),
    ("s.jsonl", JSON, "[]", "line 2", "expected a JSON object"),
    ("s.jsonl", JSON, '{"Text": "y"}', "line 2", "no field 'label'"),
    ("s.jsonl", JSON, '{"label": null, "text": "y"}', "line 2", "the label is missing"),
    ("s.jsonl", JSON, '{"label": "c", "text": "\\ud800"}', "line 2", "surrogate"),
    ("s.jsonl", JSON, '{"label": Infinity, "text": "y"}', "line 2", ""),
    ("s.jsonl", JSON, '{"label": NaN, "text": "y"}', "line 2", ""),
    ("s.jsonl", JSON, '{"label": [], "text": "y"}', "line 2", "a list, .*--label-separator"),
    ("s.jsonl", JSON, '{"label": "x\\u0000", "text": "y"}', "line 2", "ends with a NUL"),
]
NUMBERS = [
    ("1 2:x", "not svmlight"), ("1 3:1 2:1", "sorted"), ("1 2:-1", "negative"), ("x 1:1", ""),
    ("1 2:nan", "the value nan: .* must be finite"), ("1 2:1e300", r"the value 1e\+300: .* at most 3\.4e\+38"),
]  # fmt: skip
ABOUT, NONE = [{"unlabelled": ""}, {"label": 0}, {"label_separator": ","}], [{"labelled": False}, {"format": "lines"}]
TEXTS = [
    *(pd.Series(["good", missing, "bad"], dtype=object) for missing in (None, float("nan"), 3, b"bytes")),
    pa.array(["a", None]), pd.Series(["a", None]), ["a", 3], [None, "one"], [1], [1.5, "one"],
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "bad", "place", "said"), BAD)
def test_a_bad_record_is_named_or_left_out(tmp_path, name, form, bad, place, said):
    (tmp_path / name).write_bytes(form.format(bad).encode("latin-1"))
    settings = VectorizerSettings(token_pattern=r"\S+")
    with pytest.raises(IngestError, match=f"{name}, {place}: .*{said}"):
        ingest(tmp_path / name, tmp_path / "c", settings)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    report = ingest(tmp_path / name, tmp_path / "c", settings, on_error="skip", keep_text=True)
    assert texts_in_source_order(tmp_path / "c") == [("a", "x"), ("b", "z")]
    assert (report.n_documents, report.n_skipped, len(report.skipped_examples)) == (2, 1, 1)


@pytest.mark.parametrize(("line", "said"), NUMBERS)
def test_a_bad_line_of_numbers_is_named_or_left_out(tmp_path, line, said):
    (tmp_path / "s.svm").write_text(f"# made by hand\n1 1:2\n{line}\n-1 2:1\n")
    with pytest.raises(IngestError, match=rf"s\.svm, line 3: .*{said}"):
        ingest(tmp_path / "s.svm", tmp_path / "c")
    assert ingest(tmp_path / "s.svm", tmp_path / "c", on_error="skip").n_skipped == 1
    matrix, labels = rows_in_source_order(tmp_path / "c")
    assert labels == ["1", "-1"] and matrix.toarray().tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize("role", ["label", "text", "id", "group", "weight"])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_bytes_that_are_no_text_are_bad_records_in_every_column(role, form, tmp_path):
    columns = ["label", "text", "id", "group", "weight"]
    rows = [dict(zip(columns, (b"a", b"one", b"i%d" % i, b"g", b"1"), strict=True)) for i in range(3)]
    rows[1][role] = b"caf\xe9"
    names = dict(zip(columns, range(5) if form == "tsv" else columns, strict=True))
    if form == "jsonl":
        lines = [b"{%s}" % b", ".join(b'"%s": "%s"' % (k.encode(), v) for k, v in row.items()) for row in rows]
    else:
        separator = b"\t" if form == "tsv" else b","
        lines = [separator.join(row.values()) for row in rows]
        lines = [",".join(columns).encode(), *lines] if form == "csv" else lines
    (tmp_path / f"s.{form}").write_bytes(b"\n".join(lines) + b"\n")
    report = ingest(tmp_path / f"s.{form}", tmp_path / "c", on_error="skip", reading=Reading(**names))
    assert (report.n_documents, report.n_skipped) == (2, 1)


def test_records_that_are_left_out_are_counted_and_some_shown(tmp_path):
    source = written(tmp_path / "docs.txt", DOCUMENTS)
    source.write_text(source.read_text(encoding="utf-8") + "no tab\n" * 9, encoding="utf-8")
    report = ingest(source, tmp_path / "c", on_error="skip")
    assert (report.n_documents, report.n_skipped, len(report.skipped_examples)) == (6, 9, 5)
    assert "docs.txt, line 7: no TAB" in report.skipped_examples[0]
    source.write_text("no tab\n", encoding="utf-8")
    with pytest.raises(IngestError, match=r"(?s): no document; 1 bad line skipped, such as.*line 1"):
        ingest(source, tmp_path / "d", on_error="skip")


SOURCES = {
    "s.dat": ("a\tx\n", {}, "unknown suffix"),
    "s.csv": ("id,x,text\n", {}, "no column 'label'; the columns are 'id', 'x', 'text'"),
    "quote.csv": ('label,text\na,x\nb,"y\nc,z\n', {}, "unclosed quote"),
    "klingon.tsv": ("a\tx\n", {"encoding": "klingon"}, "'klingon' is not a known encoding"),
    "alike.jsonl": ('{"label": 1, "text": "x"}\n{"label": "1", "text": "x"}\n', {}, "line 2: .*use one type"),
    "mixed.jsonl": ('{"label": "1", "text": "x"}\n{"label": 1.0, "text": "x"}\n', {}, "line 2: .*use one type"),
    "true.jsonl": ('{"label": true, "text": "x"}\n{"label": "true", "text": "x"}\n', {}, "use one type"),
    "none.tsv": ("\tone\nb\ttwo\n", {}, "--unlabelled ''"),
    "none.jsonl": ('{"label": "a", "text": "one"}\n{"text": "two"}\n', {}, "no field 'label'"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_cannot_be_read_is_named(tmp_path, name):
    content, how, said = SOURCES[name]
    (tmp_path / name).write_text(content)
    np.testing.assert_raises_regex(IngestError, said, ingest, tmp_path / name, tmp_path / "c", reading=Reading(**how))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_truncated_and_damaged_files_are_errors_even_when_skipping(tmp_path, suffix):
    rng = np.random.default_rng(0)
    whole = compressed("".join(f"a\t{rng.integers(10**18)}\n" for _ in range(2000)).encode(), suffix)
    for content in (whole[: len(whole) * 2 // 3], whole[:200] + bytes(200) + whole[400:], b"no compression"):
        (tmp_path / f"a.tsv{suffix}").write_bytes(content)
        with pytest.raises(IngestError, match=r"a\.tsv\.\w+ cannot be read completely"):
            ingest(tmp_path / f"a.tsv{suffix}", tmp_path / "c", on_error="skip")


def test_a_file_of_a_folder_is_named_with_its_line(tmp_path):
    (tmp_path / "news" / "a").mkdir(parents=True)
    (tmp_path / "news" / "a" / "1").write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(IngestError, match=r"news/a/1, line 3: the line has the byte 0xe9"):
        ingest(tmp_path / "news", tmp_path / "c")
    with pytest.raises(IngestError, match="is a folder, which cannot be read as 'csv'"):
        ingest(tmp_path / "news", tmp_path / "c", reading=Reading(format="csv"))


@pytest.fixture
def folder(tmp_path):
    written(tmp_path / "docs.tsv", DOCUMENTS)
    (tmp_path / "x.svm").write_text("1 1:2\n2 2:1\n")
    write_corpus(tmp_path / "unknown", sp.csr_matrix(np.eye(2)), ["acq", "earn"])
    ingest(tmp_path / "docs.tsv", tmp_path / "words")
    ingest(tmp_path / "x.svm", tmp_path / "numbers")
    return tmp_path


ARGUMENTS = [
    *(({name: value}, name) for name, values in {
        "block_documents": [0, True, 2.5], "n_jobs": [0, True, -1], "shard_documents": [0, True, 1.0],
        "random_state": [True, 0.5, "x"], "held_out": [True, 1, -0.1], "on_error": ["ignore"],
    }.items() for value in values),
    ({"held_out_path": "h"}, "pass held_out above 0"),
    ({"held_out": 0.5, "held_out_path": "c"}, "are the same"),
    ({"held_out": 1e-9}, "both parts need documents"),
    ({"sources": []}, "no sources"),
    ({"sources": pd.DataFrame({"label": ["a"], "text": ["b"]})}, r"paths of files and folders, not a .*to_parquet"),
    ({"sources": [3]}, "paths of files and folders, not a"),
    ({"sources": "absent.tsv"}, "no such file"),
    ({"sources": ["x.svm", "docs.tsv"]}, "cannot be combined"),
    ({"path": "absent/c"}, "does not exist; create it"),
    ({"path": "words"}, "already exists"),
    ({"vocabulary_from": "unknown"}, "has no tokenization settings"),
    ({"vocabulary_from": "numbers"}, r"the sources contain text, but .* was made from numbers"),
    ({"vocabulary_from": "words", "settings": VectorizerSettings()}, "uses the settings of that corpus"),
    ({"sources": "x.svm", "settings": VectorizerSettings(min_df=2)}, "min_df does not apply to kind 'matrix'"),
    ({"reading": Reading(unlabelled=""), "targets": True}, "unlabelled does not apply to targets"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), ARGUMENTS, ids=str)
def test_arguments_that_are_none_or_contradict_each_other(folder, monkeypatch, changed, said):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    arguments = {"sources": "docs.tsv", "path": "c", **changed}
    with pytest.raises((ValueError, IngestError, CorpusError), match=said):
        ingest(arguments.pop("sources"), arguments.pop("path"), arguments.pop("settings", None), **arguments)
    assert sorted(path.name for path in folder.iterdir()) == before
    if said in ("shard_documents", "random_state"):
        np.testing.assert_raises_regex(CorpusError, said, write_corpus, "c", np.eye(3), **changed)


@pytest.mark.parametrize("reading", [*(a | b for a in NONE for b in ABOUT), ABOUT[0] | ABOUT[2]], ids=str)
def test_what_has_no_labels_says_nothing_of_them(reading):
    np.testing.assert_raises_regex(ValueError, "documents without labels|cannot be combined", Reading, **reading)


@pytest.mark.parametrize("first", ["label\ttext\n", "y\tText\n", "Category\tsome words\n", ""])
def test_a_header_of_a_file_that_has_none(tmp_path, first, recwarn):
    (tmp_path / "docs.tsv").write_text(first + "a\tgood fine\nb\tbad sad\n" * 20)
    ingest(tmp_path / "docs.tsv", tmp_path / "c", n_jobs=1)
    assert any("docs.tsv, line 1: this looks like a header" in str(one.message) for one in recwarn) == bool(first)


@pytest.mark.parametrize("texts", TEXTS)
def test_a_text_that_is_none_is_named(texts):
    model = MultinomialNB(n_epochs=1).fit(["good fine", "bad sad"] * 5, ["a", "b"] * 5)
    for use in (lambda texts: count_texts(texts, VectorizerSettings()), model.vectorize, model.predict):
        np.testing.assert_raises_regex(ValueError, r"text \d \(from 0\) is .*, not a text", use, texts)
    with pytest.raises(ValueError, match="a list of texts"):
        count_texts("good", VectorizerSettings(), ["bad", "good"])


DAYS = np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")
NO_CLASSES = [
    ({"y": np.array(["b", None], np.dtypes.StringDType(na_object=None))}, "document 1: None cannot be a class"),
    *(({"y": y}, "label") for y in (DAYS - DAYS[0], DAYS.astype(object), list(DAYS), list(DAYS.astype("M8[ns]")))),
    *(({"y": y}, "dates and times") for y in (DAYS, DAYS.astype("M8[ns]"))),
    ({"y": ["a", "\ud800"]}, r"'\\ud800' cannot be a class label"),
    ({"y": ["a", "b"], "classes": ["a", "b", "\ud800"]}, r"'\\ud800' cannot be a class label"),
    ({"y": np.array(["money\0", "money"], object)}, "it ends with a NUL, which NumPy drops"),
]


@pytest.mark.parametrize(("options", "problem"), NO_CLASSES, ids=str)
def test_what_no_class_can_be_called(tmp_path, options, problem):
    np.testing.assert_raises_regex(CorpusError, problem, write_corpus, tmp_path / "d", np.eye(2), **options)


def test_reviews_are_no_categories(tmp_path, recwarn):
    frame = pd.DataFrame({"text": [f"review number {i}" for i in range(30)], "town": ["x", "y", "z"] * 10})
    write_corpus(tmp_path / "d", frame[["town"]], [0, 1] * 15, dense=True)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"column 'text' has 30 different strings in 30 rows.*sdem ingest"):
        write_corpus(tmp_path / "c", frame, [0, 1] * 15, dense=True)
