"""Texts without words, without spaces, and labels that look alike: the same in every format."""

from __future__ import annotations

import csv
import json
import unicodedata
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdem_dist import MultiLabelNB, MultinomialNB
from sdem_dist.errors import IngestError
from sdem_dist.text import Reading, VectorizerSettings, ingest

FORMS = ("tsv", "csv", "jsonl", "parquet", "folder")


def written(form, rows, folder):
    path = folder / f"s.{form}"
    if form == "tsv":
        path.write_text("".join(f"{label}\t{text or ''}\n" for label, text in rows), encoding="utf-8")
    elif form == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("label", "text"), *rows])
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"label": a, "text": b}) + "\n" for a, b in rows), encoding="utf-8")
    elif form == "parquet":
        pq.write_table(pa.table({"label": [a for a, _ in rows], "text": [b for _, b in rows]}), path)
    else:
        for i, (label, text) in enumerate(rows):
            (path / label).mkdir(parents=True, exist_ok=True)
            (path / label / f"{i}.txt").write_text(text or "", encoding="utf-8")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_texts_without_words_are_documents_and_labels_that_look_alike_are_named(form, tmp_path, client):
    a, b = (unicodedata.normalize(name, "Café") for name in ("NFC", "NFD"))
    rows = [(a, "one two"), (b, ""), (a, " "), (b, None), (a, "..."), (b, "two")]
    source = written(form, rows, tmp_path)
    for workers in (None, client):
        with pytest.warns(UserWarning, match="differ only by Unicode normalisation"):
            report = ingest(source, tmp_path / "c", client=workers, overwrite=True)
        assert (report.n_documents, report.n_empty, report.n_skipped, len(report.classes)) == (6, 4, 0, 2)
    (tmp_path / "one").mkdir()
    one = ingest(written(form, [(a, "one"), ("x", "two")], tmp_path / "one"), tmp_path / "one.zarr").path
    with pytest.raises(IngestError, match="differs from 'Caf.*' only by Unicode normalisation"):
        ingest(source, tmp_path / "test", vocabulary_from=one)


@pytest.mark.parametrize("estimator", [MultinomialNB(n_epochs=1), MultiLabelNB(n_epochs=1)])
def test_labels_in_memory_that_look_alike_are_named(estimator):
    labels = [unicodedata.normalize(name, "Café") for name in ("NFC", "NFD")] * 10
    with pytest.warns(UserWarning, match="differ only by Unicode normalisation"):
        estimator.fit(["one two", "three four"] * 10, labels)


@pytest.mark.parametrize("value", [None, 1, 1.5])
def test_a_model_of_texts_says_which_value_is_no_text(value):
    model = MultinomialNB(n_epochs=1).fit(["one two", "three four"] * 10, ["a", "b"] * 10)
    with pytest.raises(ValueError, match=r"text 0 \(from 0\) is .*, not a text"):
        model.predict([value, "one"])
    with pytest.raises(ValueError, match=r"text 0 \(from 0\) is .*, not a text"):
        model.predict([value])


CHINESE, JAPANESE, THAI = "我昨天在商店买了一本新书", "昨日お店で新しい本を買いました", "เมื่อวานฉันซื้อหนังสือใหม่ที่ร้าน"
SEGMENTED = "我 昨天 在 商店 买 了 一本 新书"
CASES = [
    (CHINESE, {}, True),
    (JAPANESE, {}, True),
    (THAI, {}, True),
    (f"{CHINESE}。{CHINESE} C++", {"kind": "hashing", "n_features": 64}, True),
    (CHINESE, {"analyzer": "char", "ngram_range": (1, 2)}, False),
    (CHINESE, {"token_pattern": "."}, False),
    (SEGMENTED, {}, False),
    ("나는 어제 가게에서 새 책을 샀다", {}, False),
    ("yesterday I bought a new book", {}, False),
    (f"yesterday I bought a new book called {CHINESE[:4]}", {}, False),
]


@pytest.mark.parametrize(("text", "settings", "warned"), CASES)
def test_text_without_spaces_is_named_with_what_to_set(text, settings, warned, tmp_path, client):
    vectorizer, texts = VectorizerSettings(**settings), [text, text + text]
    (tmp_path / "s.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(texts)), encoding="utf-8")
    for train in (
        lambda: ingest(tmp_path / "s.tsv", tmp_path / "here", vectorizer),
        lambda: ingest(tmp_path / "s.tsv", tmp_path / "there", vectorizer, client=client),
        lambda: MultinomialNB(vectorizer=vectorizer, n_epochs=1).fit(texts, [0, 1]),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train()
        assert any("no spaces between the words" in str(w.message) for w in caught) == warned


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
