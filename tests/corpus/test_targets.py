"""Corpora with real numbers to be predicted: written, read, checked, and refused where they are unfit."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, open_corpus, write_corpus
from sdem_dist.corpus import MemoryCorpus, check_corpus
from sdem_dist.corpus import writer as writing

RNG = np.random.default_rng(3)
N = 230
X = sp.csr_matrix(RNG.poisson(0.6, (N, 12)))
R = RNG.normal(size=(N, 2))


def manifest(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["sdem_corpus"]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "c.zarr", X, targets=R, shard_documents=50)


def in_order(corpus, values):
    return values[np.argsort(np.concatenate([corpus.ids(i) for i in range(len(corpus.header.shards))]))]


def test_written_and_read(corpus):
    documents = corpus.read(0, N)
    np.testing.assert_array_equal(in_order(corpus, documents.targets), R)
    np.testing.assert_array_equal(corpus.read(30, 120).targets, documents.targets[30:120])
    assert documents.labels is None
    assert corpus.header.n_targets == 2
    assert list(check_corpus(corpus)) == []
    assert documents.nbytes > documents.targets.nbytes


def test_labels_may_stand_beside(tmp_path):
    y = RNG.choice(["a", "b"], N)
    corpus = write_corpus(tmp_path / "c.zarr", X, y, targets=R[:, 0])
    documents = corpus.read(0, N)
    np.testing.assert_array_equal(in_order(corpus, documents.targets)[:, 0], R[:, 0])
    np.testing.assert_array_equal(np.array(corpus.header.classes)[in_order(corpus, documents.labels)], y)


def test_the_same_whatever_the_batches_and_the_memory(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MEMORY_LIMIT", 2000)  # so that targets go through files
    batches = ((X[i : i + 7], None, None, R[i : i + 7]) for i in range(0, N, 7))
    again = write_corpus(tmp_path / "b.zarr", [(X[:0], None, None, None), *batches], shard_documents=50)
    assert again.header.uid == corpus.header.uid
    np.testing.assert_array_equal(again.read(0, N).targets, corpus.read(0, N).targets)


def test_the_manifest_says_how_many_targets_there_are(corpus, tmp_path):
    assert manifest(tmp_path / "c.zarr")["n_targets"] == 2
    write_corpus(tmp_path / "without.zarr", X)
    assert manifest(tmp_path / "without.zarr")["n_targets"] == 0
    assert open_corpus(tmp_path / "without.zarr").read(0, N).targets is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_targets": -1}, "malformed: .*n_targets"),
        ({"n_targets": 0}, "altered"),
        ({"format_version": 1}, "another version"),
    ],
)
def test_altered_manifests(corpus, tmp_path, change, said):
    path = tmp_path / "c.zarr/zarr.json"
    document = json.loads(path.read_text())
    document["attributes"]["sdem_corpus"] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(CorpusError, match=said):
        open_corpus(tmp_path / "c.zarr")


def test_damage_is_named(corpus, tmp_path):
    shutil.rmtree(tmp_path / "c.zarr/shards/00001/targets/c")
    problems = list(check_corpus(corpus))
    assert [p.shard for p in problems] == [1]
    assert "array 'targets'" in problems[0].message


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (R[:-1], "has 230 documents and targets of shape"),
        (np.where(np.arange(N) == 9, np.nan, 0.0), "not finite, first for its document 9"),
        (["x"] * N, r"targets that are not numbers, first 'x' of document 0 \(from 0\)"),
        ([[1.0, 2.0]] * 3 + [[None, "7 stars"]] * (N - 3), r"first '7 stars' of document 3 \(from 0\), column 1"),
        (["1__0"] * N, "targets that are not numbers"),
        (R[:, :0], "targets of shape"),
    ],
)
def test_what_cannot_be_written(tmp_path, targets, said):
    with pytest.raises(CorpusError, match=said):
        write_corpus(tmp_path / "c.zarr", X, targets=targets)
    assert not (tmp_path / "c.zarr").exists()


def test_batches_that_differ(tmp_path):
    with pytest.raises(CorpusError, match="from document 100 on .* targets: 0, not 2"):
        write_corpus(tmp_path / "c.zarr", [(X[:100], None, None, R[:100]), (X[100:], None)])
    with pytest.raises(CorpusError, match="with each batch"):
        write_corpus(tmp_path / "c.zarr", [(X, None)], targets=R)
    with pytest.raises(CorpusError, match="for sparse corpora"):
        write_corpus(tmp_path / "c.zarr", X.toarray(), targets=R, dense=True)


def test_in_memory():
    corpus = MemoryCorpus(X, None, (), targets=R, random_state=4)
    np.testing.assert_array_equal(corpus.read(0, N).targets, R[corpus.order])
    assert corpus.header.uid != MemoryCorpus(X, None, (), targets=R + 1, random_state=4).header.uid
    with pytest.raises(CorpusError, match="not finite"):
        MemoryCorpus(X, None, (), targets=np.full(N, np.inf))


def test_inspected(corpus, tmp_path):
    from click.testing import CliRunner

    from sdem_dist import SupervisedLDARegressor
    from sdem_dist.cli import main

    shown = CliRunner().invoke(main, ["inspect", corpus.path])
    assert shown.exit_code == 0, shown.output
    assert "targets" in shown.output
    SupervisedLDARegressor(n_components=3, n_epochs=1).fit(corpus).save(tmp_path / "m.model")
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.model")])
    assert shown.exit_code == 0, shown.output
    assert "SupervisedLDARegressor" in shown.output
    assert "for each topic" in shown.output
    shown = CliRunner().invoke(main, ["evaluate", str(tmp_path / "m.model"), corpus.path])
    assert shown.exit_code == 0, shown.output
    assert "mean squared error" in shown.output
