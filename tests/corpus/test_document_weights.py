"""Weights of documents are stored with them, and every estimator uses them as it uses those of a matrix."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import sdem_dist as sd
from sdem_dist.cli import main
from sdem_dist.text import Reading, splits
from sdem_dist.text.validation import RowValidator

RNG = np.random.default_rng(0)
X = sp.random(200, 30, density=0.3, random_state=0, format="csr", data_rvs=lambda n: RNG.integers(1, 9, n))
Y = RNG.integers(0, 3, 200)
W = RNG.integers(0, 4, 200).astype(float)
IN = W > 0


def same(ours, theirs):
    for a, b in zip(ours.state_, theirs.state_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_they_are_read_back(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c", X, Y, sample_weight=W, shard_documents=60)
    np.testing.assert_array_equal(corpus.weights[np.argsort(np.concatenate([corpus.ids(i) for i in range(4)]))], W)
    assert corpus.header.has_weights
    assert corpus.weight == W.sum()
    assert corpus.class_weights == tuple(np.bincount(Y, W))
    assert corpus.header.uid != sd.write_corpus(tmp_path / "d", X, Y, shard_documents=60).header.uid
    assert list(sd.corpus.check_corpus(corpus)) == []


def test_counts_are_those_of_the_matrix(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c", X, Y, sample_weight=W)
    stored, here = sd.MultinomialNB(loss="nll").fit(corpus), sd.MultinomialNB(loss="nll").fit(X, Y, sample_weight=W)
    same(stored, here)
    assert stored.evaluate(corpus)["accuracy"] == pytest.approx(here.score(X, Y, sample_weight=W))


@pytest.mark.parametrize(
    "name", ["MultinomialNB", "LDAClassifier", "MultinomialMixture", "KMeans", "SdemMixtureClassifier"]
)
def test_weights_of_0_and_1_are_a_subset(tmp_path, name):
    dense = name == "SdemMixtureClassifier"
    counts = X.toarray()[:, :5] if dense else X
    plain = sd.write_corpus(tmp_path / "plain", counts, Y, dense=dense)
    order = np.concatenate([plain.ids(i) for i in range(len(plain.header.shards))])
    weighted = sd.write_corpus(tmp_path / "weighted", counts, Y, sample_weight=IN.astype(float), dense=dense)
    made = [getattr(sd, name)(random_state=0).fit(part) for part in (weighted, plain.subset(IN[order]))]
    same(*made)


def test_a_part_keeps_them(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c", X, Y, sample_weight=W)
    part = corpus.subset(lambda label, name: label != 2)
    assert part.weight == W[Y != 2].sum()
    assert part.class_weights[0] == W[Y == 0].sum()
    joined = sd.concat([corpus, corpus])
    assert joined.weight == 2 * W.sum()
    with pytest.raises(sd.CorpusError, match="has_weights"):
        sd.concat([corpus, sd.write_corpus(tmp_path / "plain", X, Y)]).header.uid  # noqa: B018


def test_tables(tmp_path):
    table = X.toarray()[:, :4].astype(float)
    corpus = sd.write_corpus(tmp_path / "c", table, Y, sample_weight=W, dense=True)
    stored, here = sd.GaussianNB(loss="nll").fit(corpus), sd.GaussianNB(loss="nll").fit(table, Y, sample_weight=W)
    np.testing.assert_allclose(stored.predict_proba(table), here.predict_proba(table))


def test_workers_write_the_same(tmp_path, client):
    (tmp_path / "s.csv").write_text(
        "label,text,w\n" + "".join(f"{'ab'[i % 2]},word{i % 9} all,{i % 3}\n" for i in range(90))
    )
    reading = Reading(weight="w")
    sd.ingest(tmp_path / "s.csv", tmp_path / "by-workers", reading=reading, held_out=0.2, client=client)
    sd.ingest(tmp_path / "s.csv", tmp_path / "by-threads", reading=reading, held_out=0.2)
    for end in ("", "-held-out"):
        ours, theirs = (sd.open_corpus(tmp_path / f"{name}{end}") for name in ("by-threads", "by-workers"))
        assert ours.header.uid == theirs.header.uid
        np.testing.assert_array_equal(ours.weights, [i % 3 for i in ours.ids_of()])


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_a_file_is_cut_also_with_weights(tmp_path, monkeypatch, form, client):
    parquet = pytest.importorskip("pyarrow.parquet")
    labels, words, weights = (
        ["ab"[i % 2] for i in range(300)], [f"word{i % 9} all" for i in range(300)], [i % 7 for i in range(300)]
    )  # fmt: skip
    source, reading = tmp_path / f"s.{form}", Reading(weight=2 if form == "tsv" else "w", label=0, text=1)
    if form == "tsv":
        source.write_text("".join("\t".join(map(str, row)) + "\n" for row in zip(labels, words, weights, strict=True)))
    else:
        import pyarrow

        reading = Reading(weight="w")
        parquet.write_table(pyarrow.table({"label": labels, "text": words, "w": weights}), source, row_group_size=50)
    monkeypatch.setattr(splits, "INGEST_BYTES", 900)
    assert len(list(splits.ingest_splits([source], reading, RowValidator("raise")))) > 1
    sd.ingest(source, tmp_path / "here", reading=reading, held_out=0.2)
    sd.ingest(source, tmp_path / "there", reading=reading, held_out=0.2, client=client)
    for end in ("", "-held-out"):
        ours, theirs = (sd.open_corpus(tmp_path / f"{name}{end}") for name in ("here", "there"))
        assert ours.header.uid == theirs.header.uid
        np.testing.assert_array_equal(theirs.weights, [i % 7 for i in theirs.ids_of()])


def test_in_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"label": "ab"[i % 2], "text": f"word{i % 9} all {'x' * (i % 2)}", "w": i % 3} for i in range(90)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bad.csv").write_text("label,text,w\na,b,-3\n")

    def run(line):
        return CliRunner().invoke(main, line.split())

    for line in (
        "ingest s.jsonl c --weight w",
        "ingest s.jsonl d --weight w --vocabulary-from c",
        "train c m --quiet",
        "train s.jsonl m2 --weight w --quiet",
        "train c d m3 --quiet",
        "train s.jsonl s.jsonl m4 --weight w --quiet",
        "inspect c",
    ):
        done = run(line)
        assert done.exit_code == 0, (line, done.output)
    assert "weights of documents" in done.output
    same(sd.load_model("m"), sd.load_model("m2"))
    same(sd.load_model("m3"), sd.MultinomialNB().fit(sd.concat([sd.open_corpus("c"), sd.open_corpus("d")])))
    for line, words in (
        ("ingest bad.csv e --weight w", "weights are numbers from 0 on"),
        ("ingest s.jsonl e --weight v", "no field 'v'"),
        ("evaluate m s.jsonl --weight w", "--weight is for sdem ingest"),
        ("train c s.jsonl m5", "is a source, and others are corpora"),
    ):
        done = run(line)
        assert done.exit_code, line
        assert words in done.output
