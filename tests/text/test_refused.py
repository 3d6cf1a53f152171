"""What no corpus is made of: bad records, which are named or left out, texts and labels."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from test_messages import BAD, FORMS, place
from text.sources import DOCUMENTS, compressed, rows_in_source_order, texts_in_source_order, written

from sdem_dist import CorpusError, IngestError, MultinomialNB, ingest, write_corpus
from sdem_dist.text import Reading, VectorizerSettings, count_texts

TEXTS = [
    *(pd.Series(["good", missing, "bad"], dtype=object) for missing in (None, float("nan"), 3, b"bytes")),
    pa.array(["a", None]), pd.Series(["a", None]), ["a", 3], [None, "one"], [1], [1.5, "one"],
]  # fmt: skip


@pytest.mark.parametrize(("name", "line"), [row[:2] for row in BAD])
def test_a_bad_record_is_named_or_left_out(tmp_path, name, line):
    (tmp_path / name).write_bytes(FORMS[name].format(line).encode("utf-8", "surrogateescape"))
    settings = None if name == "s.svm" else VectorizerSettings(token_pattern=r"\S+")
    with pytest.raises(IngestError) as caught:
        ingest(tmp_path / name, tmp_path / "c", settings)
    where = f"{caught.value.unit} {caught.value.record}"
    assert (caught.value.path, where) == (str(tmp_path / name), place(name)) and os.listdir(tmp_path) == [name]
    report = ingest(tmp_path / name, tmp_path / "c", settings, on_error="skip", keep_text=name != "s.svm")
    assert (report.n_documents, report.n_skipped, len(report.skipped_examples)) == (2, 1, 1)
    if name == "s.svm":
        matrix, labels = rows_in_source_order(tmp_path / "c")
        assert labels == ["1", "-1"] and matrix.toarray().tolist() == [[2, 0], [0, 1]]
    else:
        assert texts_in_source_order(tmp_path / "c") == [("a", "x"), ("b", "z")]


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


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_truncated_and_damaged_files_are_errors_even_when_skipping(tmp_path, suffix):
    rng = np.random.default_rng(0)
    whole = compressed("".join(f"a\t{rng.integers(10**18)}\n" for _ in range(2000)).encode(), suffix)
    for content in (whole[: len(whole) * 2 // 3], whole[:200] + bytes(200) + whole[400:], b"no compression"):
        (tmp_path / f"a.tsv{suffix}").write_bytes(content)
        with pytest.raises(IngestError) as caught:
            ingest(tmp_path / f"a.tsv{suffix}", tmp_path / "c", on_error="skip")
        assert caught.value.path == str(tmp_path / f"a.tsv{suffix}") and caught.value.__cause__ is not None


def test_a_file_of_a_folder_is_named_with_its_line(tmp_path):
    (tmp_path / "news" / "a").mkdir(parents=True)
    (tmp_path / "news" / "a" / "1").write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(IngestError) as caught:
        ingest(tmp_path / "news", tmp_path / "c")
    assert (caught.value.path, caught.value.record) == (str(tmp_path / "news/a/1"), 3)


@pytest.mark.parametrize("first", ["label\ttext\n", "y\tText\n", "Category\tsome words\n", ""])
def test_a_header_of_a_file_that_has_none(tmp_path, first, recwarn):
    (tmp_path / "docs.tsv").write_text(first + "a\tgood fine\nb\tbad sad\n" * 20)
    ingest(tmp_path / "docs.tsv", tmp_path / "c", n_jobs=1)
    assert any("docs.tsv, line 1: this looks like a header" in str(one.message) for one in recwarn) == bool(first)


@pytest.mark.parametrize("texts", TEXTS)
def test_a_text_that_is_none_is_named(texts):
    model = MultinomialNB(n_epochs=1).fit(["good fine", "bad sad"] * 5, ["a", "b"] * 5)
    for use in (lambda texts: count_texts(texts, VectorizerSettings()), model.vectorize, model.predict):
        np.testing.assert_raises_regex(ValueError, r"text \d \(counting from 0\) is .*, not a text", use, texts)


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


def test_towns_are_categories(tmp_path, recwarn):
    write_corpus(tmp_path / "d", pd.DataFrame({"town": ["x", "y", "z"] * 10}), [0, 1] * 15, dense=True)
    assert not recwarn
