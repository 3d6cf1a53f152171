"""The same documents in every form that a source may have give the same corpus."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdem_dist import IngestError, open_corpus
from sdem_dist.text import Reading, ingest

RNG = np.random.default_rng(0)
WORDS = ["goal", "bank", "naïve", "東京", "don't", "e-mail", "x,y", 'a "quoted" word', "semi;colon"]
ROWS = [(f"class {i % 3}", " ".join(RNG.choice(WORDS, RNG.integers(0, 9)))) for i in range(200)]


def table(delimiter, rows, end="\n", encoding="utf-8"):
    def write(path):
        with path.open("w", newline="", encoding=encoding) as file:
            csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)

    return write


def lines(make, rows=ROWS):
    return lambda path: path.write_text("".join(make(*row) + "\n" for row in rows), encoding="utf-8")


def parquet(**kinds):
    columns = {name: pa.array([row[i] for row in ROWS], kinds.get(name)) for i, name in enumerate(("label", "text"))}
    return lambda path: pq.write_table(pa.table(columns), path, row_group_size=33)


NAMED = [("label", "text"), *ROWS]
SWAPPED = [("n", "body", "topic"), *((i, text, label) for i, (label, text) in enumerate(ROWS))]
FORMS = {
    "s.tsv": (lines("{}\t{}".format), {}),
    "columns.tsv": (lines("{1}\t-\t{0}".format), {"label": 2, "text": 0}),
    "last column.tsv": (lines("{1}\t-\t{0}".format), {"label": -1, "text": 0}),
    "header.tsv": (table("\t", NAMED), {"header": True}),
    "s.csv": (table(",", NAMED), {}),
    "crlf.csv": (table(",", NAMED, "\r\n"), {}),
    "mark.csv": (table(",", NAMED, encoding="utf-8-sig"), {}),
    "utf-16.csv": (table(",", NAMED, encoding="utf-16"), {"encoding": "utf-16"}),
    "semicolon.csv": (table(";", NAMED), {}),
    "tab.csv": (table("\t", NAMED), {}),
    "bar.csv": (table("|", SWAPPED), {"label": "topic", "text": "body"}),
    "colon.csv": (table(":", NAMED), {"delimiter": ":"}),
    "no header.csv": (table(",", ROWS), {"header": False}),
    "no header of three.csv": (table(",", SWAPPED[1:]), {"header": False, "label": 2, "text": 1}),
    "s.jsonl": (lines(lambda label, text: json.dumps({"label": label, "text": text})), {}),
    "nested.jsonl": (
        lines(lambda label, text: json.dumps({"post": {"body": {"en": text}}, "tags": {"first": label}})),
        {"label": "tags.first", "text": "post.body.en"},
    ),
    "dots.jsonl": (lines(lambda label, text: json.dumps({"a.label": label, "text": text})), {"label": "a.label"}),
    "s.parquet": (parquet(), {}),
    "large.parquet": (parquet(text=pa.large_string(), label=pa.dictionary(pa.int8(), pa.string())), {}),
    "view.parquet": (parquet(text=pa.string_view()), {}),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    FORMS["s.tsv"][0](folder / "s.tsv")
    ingest(folder / "s.tsv", folder / "c", shard_documents=60)
    return open_corpus(folder / "c").header.uid


@pytest.mark.parametrize("name", FORMS)
def test_the_same_corpus(name, expected, tmp_path):
    write, reading = FORMS[name]
    write(tmp_path / name)
    ingest(tmp_path / name, tmp_path / "c", reading=Reading(**reading), shard_documents=60)
    assert open_corpus(tmp_path / "c").header.uid == expected


UNLABELLED = {
    "lines.txt": (lines("{1}".format), {"format": "lines"}),
    "s.txt": (lines("{1}".format), {"labelled": False}),
    "s.tsv": (FORMS["s.tsv"][0], {"labelled": False}),
    "s.csv": (table(",", [("text",), *((text,) for _, text in ROWS)]), {"labelled": False}),
    "labels.csv": (FORMS["s.csv"][0], {"labelled": False}),
    "s.jsonl": (lines(lambda _, text: json.dumps({"text": text})), {"labelled": False}),
    "s.parquet": (parquet(), {"labelled": False}),
}


@pytest.fixture(scope="module")
def expected_without_labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlabelled")
    FORMS["s.csv"][0](folder / "s.csv")
    ingest(folder / "s.csv", folder / "d", reading=Reading(labelled=False), shard_documents=60)
    return open_corpus(folder / "d").header.uid


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_same_corpus_without_labels(name, expected, expected_without_labels, tmp_path, client):
    write, reading = UNLABELLED[name]
    write(tmp_path / name)
    for workers in (None, client):
        how = {"shard_documents": 60, "client": workers, "overwrite": True}
        ingest(tmp_path / name, tmp_path / "c", reading=Reading(**reading), **how)
        header = open_corpus(tmp_path / "c").header
        assert (header.classes, header.n_documents) == ((), len(ROWS))
        assert header.uid == expected_without_labels != expected


@pytest.mark.parametrize("about_labels", [{"unlabelled": ""}, {"label": 0}, {"label_separator": ","}])
@pytest.mark.parametrize("unlabelled", [{"labelled": False}, {"format": "lines"}])
def test_what_has_no_labels_says_nothing_of_them(unlabelled, about_labels):
    with pytest.raises(ValueError, match="have none"):
        Reading(**unlabelled, **about_labels)


TITLES = [(label, *text.partition(" ")[::2]) for label, text in ROWS]
SEVERAL = {
    "s.csv": (table(",", [("label", "title", "body"), *TITLES]), "title,body"),
    "s.tsv": (lines("{}\t{}\t{}".format, TITLES), "1,2"),
    "s.jsonl": (lines(lambda label, a, b: json.dumps({"label": label, "title": a, "body": b}), TITLES), "title,body"),
    "nested.jsonl": (
        lines(lambda label, a, b: json.dumps({"label": label, "post": {"title": a, "body": b}}), TITLES),
        "post.title,post.body",
    ),
    "s.parquet": (
        lambda path: pq.write_table(
            pa.table(dict(zip(("label", "title", "body"), zip(*TITLES, strict=True), strict=True))), path
        ),
        "title,body",
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_columns_of_text(name, expected, tmp_path):
    write, text = SEVERAL[name]
    write(tmp_path / name)
    reading = Reading(text=text, label=0 if name.endswith("tsv") else None)
    ingest(tmp_path / name, tmp_path / "c", reading=reading, shard_documents=60)
    assert open_corpus(tmp_path / "c").header.uid == expected


def test_a_quote_that_is_not_closed_is_an_error(tmp_path):
    (tmp_path / "s.csv").write_text('label,text\na,x\nb,"y\nc,z\n')
    with pytest.raises(IngestError, match="a quote is not closed"):
        ingest(tmp_path / "s.csv", tmp_path / "c")


def test_records_longer_than_a_block_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sdem_dist.text.sources.BLOCK_BYTES", 64)
    poem = "line of a poem\n" * 40
    table(",", [("label", "text"), ("a", poem), ("b", "short"), ("a", poem)])(tmp_path / "s.csv")
    assert ingest(tmp_path / "s.csv", tmp_path / "c").n_documents == 3
