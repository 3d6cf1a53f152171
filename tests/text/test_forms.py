"""The same documents in every form that a source may have give the same corpus."""

import json
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from text.sources import DOCUMENTS, compressed, table, texts_in_source_order, written

from sdem_dist import IngestError, MultiLabelNB, MultinomialNB, open_corpus
from sdem_dist.text import Reading, ingest

RNG = np.random.default_rng(0)
WORDS = ["goal", "bank", "naïve", "東京", "don't", "e-mail", "x,y", 'a "quoted" word', "semi;colon"]
ROWS = [(f"class {i % 3}", " ".join(RNG.choice(WORDS, RNG.integers(0, 9)))) for i in range(200)]
NAMED = [("label", "text"), *ROWS]
SWAPPED = [("n", "body", "topic"), *((i, text, label) for i, (label, text) in enumerate(ROWS))]
TITLES = [(label, *text.partition(" ")[::2]) for label, text in ROWS]
TITLED = [("label", "title", "body"), *TITLES]
TEXT_ONLY = [("text",), *((text,) for _, text in ROWS)]


def lines(make, rows=ROWS, end="\n"):
    return lambda path: path.write_bytes("".join(make(*row) + end for row in rows).encode())


def objects(make, rows=ROWS):
    return lines(lambda *row: json.dumps(make(*row)), rows)


def rows(values, delimiter=",", **more):
    return lambda path: table(path, values, delimiter, **more)


def parquet(values=NAMED, **kinds):
    columns = {name: pa.array(column, kinds.get(name)) for name, *column in zip(*values, strict=True)}
    return lambda path: pq.write_table(pa.table(columns), path, row_group_size=33)


def plain(path):
    written(path, ROWS)


FORMS = {
    **{f"s.{form}{suffix}": (plain, {}) for form in ("tsv", "csv", "jsonl") for suffix in ("", ".gz", ".xz", ".zst")},
    "columns.tsv": (lines("{1}\t-\t{0}".format), {"label": 2, "text": 0}),
    "last column.tsv": (lines("{1}\t-\t{0}".format), {"label": -1, "text": "0"}),
    "header.tsv": (rows(NAMED, "\t"), {"header": True}),
    "blank lines.tsv": (lines("{}\t{}\r\n\r\n  ".format, end="\r\n"), {}),
    "crlf.csv": (rows(NAMED, end="\r\n"), {}),
    "mark.csv": (rows(NAMED, encoding="utf-8-sig"), {}),
    "mark.tsv": (lines("{}\t{}".format, [("\ufeff" + ROWS[0][0], ROWS[0][1]), *ROWS[1:]]), {}),
    "utf-16.csv": (rows(NAMED, encoding="utf-16"), {"encoding": "utf-16"}),
    "semicolon.csv": (rows(NAMED, ";"), {}),
    "tab.csv": (rows(NAMED, "\t"), {}),
    "bar.csv": (rows(SWAPPED, "|"), {"label": "topic", "text": "body"}),
    "colon.csv": (rows(NAMED, ":"), {"delimiter": ":"}),
    "no header.csv": (rows(ROWS), {"header": False}),
    "no header of three.csv": (rows(SWAPPED[1:]), {"header": False, "label": 2, "text": 1}),
    "UPPER.NDJSON": (objects(lambda label, text: {"label": label, "text": text}), {}),
    "nested.jsonl": (objects(lambda label, text: {"post": {"body": {"en": text}}, "tags": {"first": label}}),
                     {"label": "tags.first", "text": "post.body.en"}),
    "dots.jsonl": (objects(lambda label, text: {"a.label": label, "text": text}), {"label": "a.label"}),
    "s.dat": (lines("{}\t{}".format), {"format": "tsv"}),
    "s.parquet": (parquet(), {}),
    "large.parquet": (parquet(text=pa.large_string(), label=pa.dictionary(pa.int8(), pa.string())), {}),
    "view.parquet": (parquet(text=pa.string_view()), {}),
    "titles.csv": (rows(TITLED), {"text": "title,body"}),
    "titles.tsv": (lines("{}\t{}\t{}".format, TITLES), {"text": "1,2", "label": 0}),
    "titles.jsonl": (objects(lambda *row: dict(zip(TITLED[0], row, strict=True)), TITLES), {"text": "title,body"}),
    "nested titles.jsonl": (objects(lambda label, a, b: {"label": label, "post": {"title": a, "body": b}}, TITLES),
                            {"text": "post.title,post.body"}),
    "titles.parquet": (parquet(TITLED), {"text": "title,body"}),
}  # fmt: skip
UNLABELLED = {
    "lines.txt": (lines("{1}".format), {"format": "lines"}),
    "s.txt": (lines("{1}".format), {"labelled": False}),
    "s.tsv": (plain, {"labelled": False}),
    "s.csv": (rows(TEXT_ONLY), {"labelled": False}),
    "labels.csv": (plain, {"labelled": False}),
    "s.jsonl": (objects(lambda _, text: {"text": text}), {"labelled": False}),
    "s.parquet": (parquet(), {"labelled": False}),
}
HALF = [(label if i % 3 == 0 else None, text) for i, (label, text) in enumerate(ROWS)]
NONE = {"unlabelled": ""}
HALF_LABELLED = {
    **{f"s.{form}": (lambda path: written(path, HALF), NONE) for form in ("tsv", "csv", "jsonl", "parquet")},
    "marks.tsv": (lambda path: written(path, [(a or "?", b) for a, b in HALF]), {"unlabelled": "?"}),
    "fields.jsonl": (objects(lambda a, b: {"text": b} | ({"label": a} if a else {}), HALF), NONE),
}
KINDS = {"labels": FORMS, "no labels": UNLABELLED, "some labels": HALF_LABELLED}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the identity of the corpus of each kind, of the first of its forms."""
    folder, uids = tmp_path_factory.mktemp("expected"), {}
    for kind, forms in KINDS.items():
        (name, (write, reading)), *_ = forms.items()
        write(folder / name)
        ingest(folder / name, folder / kind, reading=Reading(**reading), shard_documents=60)
        uids[kind] = open_corpus(folder / kind).header.uid
    assert len(set(uids.values())) == 3
    return uids


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, forms in KINDS.items() for name in forms])
def test_the_same_corpus(kind, name, expected, tmp_path, client):
    write, reading = KINDS[kind][name]
    write(tmp_path / name)
    for workers in (None, client) if kind != "labels" and name in ("s.tsv", "s.parquet") else (None,):
        how = {"shard_documents": 60, "client": workers, "overwrite": True}
        ingest(tmp_path / name, tmp_path / "c", reading=Reading(**reading), **how)
        corpus = open_corpus(tmp_path / "c")
        assert corpus.header.uid == expected[kind]
    assert corpus.n_documents == len(ROWS) and bool(corpus.header.classes) == (kind != "no labels")
    if kind == "some labels":
        assert sum(corpus.header.class_counts) == 67 and (corpus.labels() < 0).sum() == 133


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_folders_hold_a_file_a_document(tmp_path, suffix):
    for number, (label, text) in enumerate(DOCUMENTS):
        file = tmp_path / "news" / label / "deeper" / f"{number}.txt{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compressed(text.encode(), suffix))
    (tmp_path / "news" / ".DS_Store").write_bytes(b"\xff")
    ingest(tmp_path / "news", tmp_path / "c", keep_text=True)
    corpus = open_corpus(tmp_path / "c")
    assert sorted((d.label, corpus.text(i)) for i, d in enumerate(corpus)) == sorted(DOCUMENTS)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "s.tsv").write_text("a\tcafé\r\nb\tz y\x0bz\x85\r\n", encoding=encoding)
    ingest(tmp_path / "s.tsv", tmp_path / "c", reading=Reading(encoding=encoding), keep_text=True)
    assert texts_in_source_order(tmp_path / "c") == [("a", "café"), ("b", "z y\x0bz\x85")]
    if encoding == "utf-8-sig":
        (tmp_path / "f" / "a").mkdir(parents=True)
        (tmp_path / "f" / "a" / "1").write_text("café\r\nb\n", encoding=encoding)
        ingest(tmp_path / "f", tmp_path / "d", keep_text=True)
        assert open_corpus(tmp_path / "d").text(0) == "café\r\nb\n"


@pytest.mark.parametrize("size", [1, 7, 50, 4000])
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_blocks_of_any_size_give_the_same_documents(tmp_path, form, size, monkeypatch):
    monkeypatch.setattr("sdem_dist.text.sources.BLOCK_BYTES", size)
    documents = [*DOCUMENTS, ("acq", "of a poem " * 40)]  # which is longer than a block
    ingest(written(tmp_path / f"a.{form}", documents), tmp_path / "c", block_documents=4, keep_text=True)
    assert texts_in_source_order(tmp_path / "c") == documents


@pytest.mark.parametrize("form", ["s.tsv", "s.csv", "s.jsonl", "s.parquet", "folder"])
def test_texts_without_words_are_documents_and_labels_that_look_alike_are_named(form, tmp_path, client):
    a, b = (unicodedata.normalize(name, "Café") for name in ("NFC", "NFD"))
    source = written(tmp_path / form, [(a, "one two"), (b, ""), (a, " "), (b, None), (a, "\x07"), (b, "two")])
    for workers in (None, client):
        with pytest.warns(UserWarning, match="two labels look alike") as caught:
            report = ingest(source, tmp_path / "c", client=workers, overwrite=True)
        assert caught[0].filename == __file__
        assert (report.n_documents, report.n_empty, report.n_skipped, len(report.classes)) == (6, 4, 0, 2)
    one = ingest(written(tmp_path / f"one {form}", [(a, "one"), ("x", "two")]), tmp_path / "one.zarr").path
    with pytest.raises(IngestError) as refused:
        ingest(source, tmp_path / "test", vocabulary_from=one)
    assert refused.value.record == {"s.csv": 3, "folder": 1}.get(form, 2)
    for estimator, other in ((MultinomialNB(n_epochs=1), b), (MultiLabelNB(n_epochs=1), b), (MultinomialNB(), f" {a}")):
        with pytest.warns(UserWarning, match="two labels look alike") as caught:
            estimator.fit(["one two", "three four"] * 10, [a, other] * 10)
        assert caught[0].filename == __file__


def test_labels_of_json_are_texts(tmp_path):
    lines = [{"y": label, "x": "some words"} for label in (1, 1.0, True, 2, "x")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = ingest(str(tmp_path / "a.jsonl"), f"{tmp_path}/c/", reading=Reading(label="y", text="x"), held_out=0.25)
    assert report.classes == ["1", "2", "true", "x"] and report.held_out_path == f"{tmp_path}/c-held-out"
    assert open_corpus(report.held_out_path).n_documents == report.n_held_out > 0
