"""``sdem ingest``: options, held-out parts, texts and ids that a corpus keeps."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import ok, refused, run

from sdem_dist import CorpusError, open_corpus, write_corpus
from sdem_dist.corpus import check_corpus
from sdem_dist.text import VectorizerSettings

LINES = "acq\tthe bank was bought\nearn\tthe banks earned more\nacq\tmerger called off\n" * 20
TEXTS = [f"Goal {i} by the naïve team" if i % 2 else f"  bank, share\x1b[31m <b>{i}</b>" for i in range(50)] + [""]
LABELS = ["sport" if i % 2 else "money" for i in range(51)]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.tsv").write_text(LINES)
    return tmp_path


def test_ingest_and_inspect(folder):
    said = ok("ingest docs.tsv c --min-df 0.1 --max-df 50 --stop-words english --jobs 1")
    assert "c: 60 documents, 2 classes, 6 features" in said
    assert open_corpus("c").vocabulary() == ["bank", "banks", "bought", "called", "earned", "merger"]
    shown = ok("inspect c")
    for fact in ("60", "acq", "66.7%", "33.3%", "bytes per nonzero", "min_df: 0.1", "docs.tsv", "The shard is intact"):
        assert fact in shown


@pytest.mark.parametrize(("options", "settings"), [
    (
        "--token-pattern [a-z]+ --ngrams 1,2 --keep-case --strip-accents ascii --max-features 5",
        {"token_pattern": "[a-z]+", "ngram_range": (1, 2), "lowercase": False, "strip_accents": "ascii",
         "max_features": 5},
    ),
    (
        "--stem english --stop-words stop --min-df 2 --max-df 0.9",
        {"stem": "english", "stop_words": ("was", "off"), "min_df": 2, "max_df": 0.9},
    ),
    (
        "--hashing 64 --analyzer char --ngrams 2",
        {"kind": "hashing", "n_features": 64, "analyzer": "char", "ngram_range": (2, 2)},
    ),
    ("--features words+characters --min-df 3", {"features": "words+characters", "ngram_range": (1, 2), "min_df": 3}),
], ids=["words", "limits", "hashing", "both"])  # fmt: skip
def test_every_option_reaches_the_settings(folder, options, settings):
    (folder / "stop").write_text("was off")
    ok(f"ingest docs.tsv c {options} --shard-documents 10")
    header = open_corpus("c").header
    assert len(header.shards) == 6
    assert VectorizerSettings.from_json(header.vectorizer) == VectorizerSettings(**settings)


def test_held_out_and_test_sets(folder):
    said = ok("ingest docs.tsv c/ --held-out 0.25 --seed 3")
    held = open_corpus("c-held-out")
    assert f"c-held-out: {held.n_documents} held-out documents" in said
    assert held.n_documents + open_corpus("c").n_documents == 60
    ok("ingest docs.tsv t --vocabulary-from c")
    assert open_corpus("t").header.vocabulary_hash == held.header.vocabulary_hash
    ok("ingest docs.tsv c --overwrite --held-out 0.5")
    assert open_corpus("c").n_documents + open_corpus("c-held-out").n_documents == 60
    (folder / "foreign.tsv").write_text("acq\tla banque\nearn\tles gains\n")
    said = run("ingest foreign.tsv f --vocabulary-from c")
    assert said.exit_code == 0 and "Warning: no document contains a known word" in said.stderr


def test_bad_lines_are_left_out_and_counted(folder):
    (folder / "bad.tsv").write_text("acq\tbanks\nno tab\n")
    said = run("ingest bad.tsv c --on-error skip")
    assert said.exit_code == 0 and "skipped 1 record" in said.stderr
    ok("ingest docs.tsv c --overwrite")
    (folder / "q.tsv").write_text("PAR1\tgoal\nPAR2\tvote\n")  # as Parquet files begin
    ok("ingest q.tsv q")
    pq.write_table(pa.table({"label": ["a", None], "text": ["goal", "bank"]}), "l.parquet")
    assert "use --unlabelled ''" in refused("train l.parquet c2")


def test_an_interrupt_ends_with_130_and_leaves_nothing(folder, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdem_dist.text.counting.save_block", interrupted)
    assert "nothing was written" in refused("ingest docs.tsv c --jobs 1", code=130)
    assert os.listdir() == ["docs.tsv"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    lines = [f"{label}\t{text}" for label, text in zip(LABELS, TEXTS, strict=True)]
    (folder / "s.tsv").write_text("\n".join(lines) + "\n")
    ok("ingest", folder / "s.tsv", folder / "c", "--keep-text", "--held-out", "0.3", "--shard-documents", "9")
    ok("ingest", folder / "s.tsv", folder / "plain")
    return open_corpus(folder / "c")


def test_texts_stand_beside_their_counts(corpus, tmp_path):
    held_out = open_corpus(f"{corpus.path}-held-out")
    assert len(corpus) + len(held_out) == 51 and len(held_out) > 3
    for part in (corpus, held_out):
        ids = part.ids_of(0, len(part))
        assert [part.text(i) for i in range(len(part))] == [TEXTS[id_] for id_ in ids]
        assert [part[i].label for i in range(len(part))] == [LABELS[id_] for id_ in ids]
        assert part.text(-1) == TEXTS[ids[-1]] and list(check_corpus(part)) == []
    assert corpus.ids_of(0, len(corpus)) != sorted(corpus.ids_of(0, len(corpus)))
    plain = open_corpus(Path(corpus.path).with_name("plain"))
    assert not plain.has_texts and corpus.has_texts
    np.testing.assert_raises(CorpusError, plain.text, 0)
    shutil.copytree(corpus.path, tmp_path / "c")
    files = (tmp_path / "c/shards/00000/texts_bytes").rglob("*")
    next(path for path in files if path.is_file() and path.name != "zarr.json").unlink()
    np.testing.assert_raises(CorpusError, open_corpus(tmp_path / "c").text, 0)
    said = refused("inspect", tmp_path / "c")
    assert "damaged:" in said and "shard 0" in said and "texts_bytes" in said
    ok("inspect", tmp_path / "c", "--no-check")


def test_a_document_is_words_and_counts(corpus):
    ids = corpus.ids_of(0, len(corpus))
    place = ids.index(next(i for i in ids if i % 2 and i > 9))
    document = corpus[place]
    assert document.counts["naïve"] == 1 and document.counts["goal"] == 1 and document.id == ids[place]
    assert repr(document).startswith(f"<document: id {document.id}; label sport; {document.id} 1, by 1, goal 1")
    for odd in (len(corpus), -len(corpus) - 1):
        np.testing.assert_raises(IndexError, corpus.__getitem__, odd)
    assert len(list(corpus)) == len(corpus)


@pytest.mark.parametrize(("X", "settings", "shown"), [
    ([[3, 1]], {"vocabulary": ["a\x1b[31m", "b\n"], "ids": ["x\x07"]}, r"<document: id x\x07; a\x1b[31m 3, b 1>"),
    ([[0.5, np.nan]], {"dense": True}, "<document: id 0; 0 0.5, 1 nan>"),
    ([[1, 0]], {"targets": np.array([1.5])}, "<document: id 0; targets 1.5; 0 1>"),
])  # fmt: skip
def test_nothing_in_a_document_steers_a_terminal(tmp_path, X, settings, shown):
    assert repr(write_corpus(tmp_path / "c", np.array(X), shuffle=False, **settings)[0]) == shown


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.tsv"])
def test_ids_of_a_column_are_stored(folder, name):
    rows = [{"label": LABELS[i], "text": f"word{i} goal\u00e9", "key": f"k{i:03d}"} for i in range(30)]
    lines = {"t.csv": ["label,text,key", *(",".join(row.values()) for row in rows)], "t.jsonl": map(json.dumps, rows),
             "t.tsv": ("\t".join(row.values()) for row in rows)}  # fmt: skip
    if name == "t.parquet":
        pq.write_table(pa.Table.from_pylist(rows), name)
    else:
        Path(name).write_text("\n".join(lines[name]) + "\n")
    columns = "--id 2 --label 0 --text 1" if name == "t.tsv" else "--id key"
    ok(f"ingest {name} c {columns} --keep-text --shard-documents 7 --held-out 0.2")
    ok(f"ingest {name} d {columns}")
    parts = [(part, i) for part in (open_corpus("c"), open_corpus("c-held-out")) for i in range(len(part))]
    found = {(part[i].label, part.text(i), part[i].id) for part, i in parts}
    assert found == {tuple(row.values()) for row in rows} and all(part[i].counts["goalé"] == 1 for part, i in parts)
    assert sorted(open_corpus("d").ids_of()) == [row["key"] for row in rows] and not open_corpus("d").has_texts
    Path("same.csv").write_text("label,text,key\na,xx yy,1\nb,zz ww,1\n")
    ok("ingest same.csv e --id key --keep-text")
    documents = open_corpus("e")
    assert {(documents[i].id, documents.text(i)) for i in range(2)} == {("1", "xx yy"), ("1", "zz ww")}
