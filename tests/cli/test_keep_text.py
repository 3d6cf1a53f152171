"""`sdem ingest --keep-text`, and documents of a corpus as people read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import ok, refused

from sdem_dist import CorpusError, open_corpus, write_corpus
from sdem_dist.corpus import check_corpus

TEXTS = [f"Goal {i} by the naïve team" if i % 2 else f"  bank, share\x1b[31m <b>{i}</b>" for i in range(50)] + [""]
LABELS = ["sport" if i % 2 else "money" for i in range(51)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    lines = [f"{label}\t{text}" for label, text in zip(LABELS, TEXTS, strict=True)]
    (folder / "s.tsv").write_text("\n".join(lines) + "\n")
    options = ("--keep-text", "--held-out", "0.3", "--shard-documents", "9")
    ok("ingest", folder / "s.tsv", folder / "c", *options)
    ok("ingest", folder / "s.tsv", folder / "plain")
    return open_corpus(folder / "c")


def test_texts_stand_beside_their_counts(corpus):
    held_out = open_corpus(f"{corpus.path}-held-out")
    assert len(corpus) + len(held_out) == 51 and len(held_out) > 3
    for part in (corpus, held_out):
        ids = part.ids_of(0, len(part))
        assert [part.text(i) for i in range(len(part))] == [TEXTS[id_] for id_ in ids]
        assert [part[i].label for i in range(len(part))] == [LABELS[id_] for id_ in ids]
        assert part.text(-1) == TEXTS[ids[-1]]
        assert list(check_corpus(part)) == []
    assert corpus.ids_of(0, len(corpus)) != sorted(corpus.ids_of(0, len(corpus)))


def test_a_document_is_words_and_counts(corpus):
    place = corpus.ids_of(0, len(corpus)).index(next(i for i in corpus.ids_of(0, len(corpus)) if i % 2 and i > 9))
    document = corpus[place]
    assert document.counts["naïve"] == 1 and document.counts["goal"] == 1
    assert document.id == corpus.ids_of(place, place + 1)[0]
    assert repr(document).startswith(f"<document: id {document.id}; label sport; {document.id} 1, by 1, goal 1")
    for odd in (len(corpus), -len(corpus) - 1):
        with pytest.raises(IndexError, match="is not among the"):
            corpus[odd]
    assert len(list(corpus)) == len(corpus)


def test_nothing_in_a_document_steers_a_terminal(tmp_path):
    corpus = write_corpus(
        tmp_path / "c", np.array([[3, 1]]), vocabulary=["a\x1b[31m", "b\n"], ids=["x\x07"], shuffle=False
    )
    assert repr(corpus[0]) == r"<document: id x\x07; a\x1b[31m 3, b 1>"
    dense = write_corpus(tmp_path / "d", np.array([[0.5, np.nan]]), dense=True)
    assert repr(dense[0]) == "<document: id 0; 0 0.5, 1 nan>"
    targets = write_corpus(tmp_path / "t", np.eye(2), targets=np.array([1.5, 2]), shuffle=False)
    assert repr(targets[1]) == "<document: id 1; targets 2; 1 1>"


def test_corpora_without_texts_stay_valid_and_say_so(corpus):
    plain = open_corpus(Path(corpus.path).with_name("plain"))
    assert not plain.has_texts and corpus.has_texts
    with pytest.raises(CorpusError, match="holds no texts: they are kept by sdem ingest --keep-text"):
        plain.text(0)


def test_damaged_texts_are_named(corpus, tmp_path):
    import shutil

    shutil.copytree(corpus.path, tmp_path / "c")
    chunk = next(
        path
        for path in (tmp_path / "c/shards/00000/texts_bytes").rglob("*")
        if path.is_file() and path.name != "zarr.json"
    )
    chunk.unlink()
    damaged = open_corpus(tmp_path / "c")
    with pytest.raises(
        CorpusError, match="shard 0: array 'texts_bytes': the array is not there, or a file of it is missing"
    ):
        damaged.text(0)
    assert any("texts_bytes" in problem.message for problem in check_corpus(damaged))


def test_numbers_have_no_texts(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:2\n2 2:1\n")
    assert "keep_text is for sources of text" in refused("ingest", tmp_path / "x.svm", tmp_path / "c", "--keep-text")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.tsv"])
def test_ids_of_a_column_are_stored(tmp_path, name):
    rows = [{"label": LABELS[i], "text": f"word{i} goal\u00e9", "key": f"k{i:03d}"} for i in range(30)]
    source = tmp_path / name
    columns = ("--id", "key")
    if name == "t.csv":
        source.write_text("label,text,key\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    elif name == "t.jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "t.parquet":
        pq.write_table(pa.Table.from_pylist(rows), source)
    else:
        source.write_text("".join("\t".join(row.values()) + "\n" for row in rows))
        columns = ("--id", "2", "--label", "0", "--text", "1")
    ok("ingest", source, tmp_path / "c", *columns, "--keep-text", "--shard-documents", "7", "--held-out", "0.2")
    seen = []
    for part in (open_corpus(tmp_path / "c"), open_corpus(tmp_path / "c-held-out")):
        for i, id_ in enumerate(part.ids_of(0, len(part))):
            row = rows[int(str(id_)[1:])]
            seen.append(id_)
            assert part[i].label == row["label"] and part.text(i) == row["text"] and part[i].id == row["key"]
            assert part[i].counts["goal\u00e9"] == 1
    assert sorted(seen) == [row["key"] for row in rows]
    ok("ingest", source, tmp_path / "d", *columns)
    plain = open_corpus(tmp_path / "d")
    assert sorted(plain.ids_of(0, 30)) == sorted(seen) and not plain.has_texts


def test_ids_that_cannot_be_are_named(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("label,text,key\na,xx yy,1\nb,zz ww,1\n")
    ok("ingest", source, tmp_path / "c", "--id", "key", "--keep-text")  # texts lie beside documents, whatever their ids
    documents = open_corpus(tmp_path / "c")
    assert {(documents[i].id, documents.text(i)) for i in range(2)} == {("1", "xx yy"), ("1", "zz ww")}
    assert "no column 'nothing'" in refused("ingest", source, tmp_path / "d", "--id", "nothing")
    (tmp_path / "f" / "a").mkdir(parents=True)
    (tmp_path / "f" / "a" / "x.txt").write_text("word")
    assert "has no column of ids" in refused("ingest", tmp_path / "f", tmp_path / "e", "--id", "key")
