"""Damaged corpora, bad input and full disks: named, explained, and nothing half-done left behind."""

from __future__ import annotations

import errno
import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdem_dist.corpus import Corpus, check_corpus, open_corpus, write_corpus
from sdem_dist.corpus.manifest import find_problem
from sdem_dist.documents import Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage import arrays

N, M = 60, 30
RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.integers(0, 5, (N, M)) * (RNG.random((N, M)) < 0.4))
Y = RNG.integers(0, 3, N)
WORDS = [f"w{i}" for i in range(M)]


@pytest.fixture
def path(tmp_path) -> Path:
    beside = {"targets": Y * 0.5, "sample_weight": Y + 1}
    write_corpus(tmp_path / "c", X, Y, shard_documents=20, vocabulary=WORDS, **beside)
    return tmp_path / "c"


def chunk(path: Path, array: str, shard: int = 1) -> Path:
    return next(p for p in (path / "shards" / f"{shard:05d}" / array / "c").rglob("*") if p.is_file())


@pytest.mark.parametrize("array", ["data", "indices", "indptr", "labels", "targets", "weights"])
def test_damaged_shard_is_named(path, array):
    file = chunk(path, array)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[-1] ^= 0x10
    for damage in (whole[: len(whole) // 2], b"", bytes(flipped), None):
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
        with pytest.raises(CorpusError, match=rf"{path}: shard 1: .*{array}"):
            open_corpus(path).read(0, N)
        assert [p.shard for p in check_corpus(Corpus(path))] == [1]
        assert open_corpus(path).read(0, 20).n_documents == 20  # the other shards are sound


def test_damaged_ids_vocabulary_and_document_frequencies(path):
    chunk(path, "ids").unlink()
    (path / "vocabulary" / "bytes" / "c" / "0").unlink()
    (path / "document_frequency" / "c" / "0").unlink()
    corpus = open_corpus(path)
    with pytest.raises(CorpusError, match="shard 1: array 'ids'"):
        corpus.ids(1)
    with pytest.raises(CorpusError, match="vocabulary"):
        corpus.vocabulary()
    with pytest.raises(CorpusError, match="document_frequency"):
        corpus.document_frequency  # noqa: B018
    assert [p.shard for p in check_corpus(corpus)] == [1, None, None]


def test_missing_array_and_shard(path):
    (chunk(path, "indptr", 0).parents[1] / "zarr.json").unlink()
    with pytest.raises(CorpusError, match="shard 0: array 'indptr'"):
        open_corpus(path).read(0, 5)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_altered_byte_anywhere_is_noticed_or_harmless(path, data):
    files = sorted(f for f in path.rglob("*") if f.is_file())
    file = data.draw(st.sampled_from(files))
    whole = file.read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    altered = bytearray(whole)
    altered[position] ^= data.draw(st.integers(1, 255))
    expected = open_corpus(path)
    sound = expected.read(0, N).to_csr(), expected.vocabulary(), expected.header.classes
    file.write_bytes(altered)
    try:
        corpus = Corpus(path)
        assert corpus.header
        found = corpus.read(0, N).to_csr(), corpus.vocabulary(), corpus.header.classes
    except CorpusError as error:
        assert str(path) in str(error)
    else:
        assert (found[0] != sound[0]).nnz == 0
        assert found[1:] == sound[1:]
    finally:
        file.write_bytes(whole)


def edit_manifest(path: Path, **entries) -> None:
    file = path / "zarr.json"
    node = json.loads(file.read_text())
    node["attributes"]["sdem_corpus"].update(entries)
    file.write_text(json.dumps(node))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format_version": 3}, "made by another version .* make it again from its sources"),
        ({"document_frequency_checksum": None}, "inconsistent"),
        ({"format": "other"}, "not a corpus"),
        ({"n_documents": N + 1}, "inconsistent"),
        ({"n_nonzeros": -1}, "malformed"),
        ({"n_targets": -1}, "malformed: .*n_targets"),
        ({"n_targets": 0}, "does not have the uid"),
        ({"classes": [0, 1, 1]}, "inconsistent"),
        ({"classes": [[0], 1, 2]}, "inconsistent"),
        ({"class_counts": [99, 2, 3]}, "inconsistent"),
        ({"shards": None}, "malformed"),
        ({"weighted": True}, "does not have the uid"),
        ({"classes": ["a", "b", "c"]}, "does not have the uid"),
    ],
)
def test_bad_manifests(path, entries, message):
    edit_manifest(path, **entries)
    with pytest.raises(CorpusError, match=f"{path}: .*{message}"):
        open_corpus(path)


def test_what_is_no_corpus(tmp_path, path):
    node = json.loads((path / "zarr.json").read_text())
    node["attributes"] = {}
    (path / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(CorpusError, match="it has no manifest"):
        open_corpus(path)
    (tmp_path / "file").write_text("no corpus")
    for other, message in (("nowhere", "there is no such corpus"), (".", "is a folder, but no"), ("file", "is a file")):
        with pytest.raises(CorpusError, match=message):
            open_corpus(tmp_path / other)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"indptr": [0, 3, 2, 4]}, "indptr"),
        ({"indptr": [1, 2, 3, 4]}, "indptr"),
        ({"indices": [0, 1, 0, 5]}, "indices"),
        ({"indices": [1, 0, 0, 1]}, "ascend"),
        ({"indices": [1, 1, 0, 1]}, "ascend"),
        *(({"data": np.float32([1, value, 1, 1])}, "data") for value in (-1, np.nan, np.inf)),
        *(({"labels": np.int32([0, label, 0])}, "not from -1 to 1") for label in (2, -2)),
    ],
)
def test_values_unfit_for_kernels(kind, message):
    sound = {
        "data": np.ones(4, np.float32),
        "indices": [0, 1, 0, 1],
        "indptr": [0, 2, 2, 4],
        "labels": np.int32([0, 1, 0]),
    }

    def documents(parts):
        indices, indptr = np.array(parts["indices"], np.uint16), np.array(parts["indptr"])
        return Documents(parts["data"], indices, indptr, 5, parts["labels"])

    assert find_problem(documents(sound), 2) is None
    assert message in find_problem(documents({**sound, **kind}), 2)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5))
def test_ascending_agrees_with_a_loop(rows):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([i for row in rows for i in row], np.uint16)
    problem = find_problem(Documents(np.ones(len(indices), np.uint8), indices, indptr, 10), 0)
    assert (problem is None) == all(a < b for row in rows for a, b in pairwise(row))


def dense(**changes) -> np.ndarray:
    matrix = np.ones((4, 3))
    for row, column, value in changes.values():
        matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (dense(a=(2, 1, -1)), {}, r"document 2 .* holds the entry -1"),
        (dense(a=(3, 0, np.nan)), {}, r"document 3 .* holds the entry nan"),
        (dense(a=(1, 2, np.inf)), {}, r"document 1 .* holds the entry inf"),
        (dense(a=(1, 2, 1e300)), {}, r"document 1 .* holds the entry 1e"),
        (iter([(dense(), None), (dense(a=(2, 0, -3)), None)]), {}, r"document 6 .* holds the entry -3"),
        (dense(), {"y": [0, 1]}, "labels of shape"),
        (dense(), {"y": [0, 1, 0, 1, 0]}, "4 documents and y has 5"),
        (dense(), {"y": [0, 1, 0, None]}, "document 3: None cannot be a class label"),
        (dense(), {"y": [0, 1, 0, np.nan]}, "nan cannot be a class label"),
        (dense(), {"y": list("abca"), "classes": ["a", "b"]}, "document 2 has the label 'c'"),
        (dense(), {"y": list("abca"), "classes": ["a", "a"]}, "names 'a' twice"),
        (dense(), {"classes": ["a"]}, "no labels"),
        (dense(), {"y": np.array(["a", 1, 2, 3], object)}, "cannot be sorted"),
        (iter([(dense(), [1] * 4), (dense()[:, :2], [1] * 4)]), {}, "from document 4 on .* features: 2, not 3"),
        (iter([(dense(), [1] * 4), (dense(), None)]), {}, "labels: False, not True"),
        (iter([(dense(), None, list("abcd")), (dense(), None)]), {}, "ids: positions, not strings"),
        (iter([dense()]), {}, "batch 0 of X is not a pair"),
        (iter([(dense(), None)]), {"y": [1]}, "with each batch"),
        (["a text", "more"], {"y": [0, 1]}, "a list of texts, and write_corpus takes numbers: sdem ingest"),
        (iter([]), {}, "no documents"),
        (np.zeros((0, 3)), {}, "no documents"),
        (np.zeros((3, 0)), {}, "no features"),
        (np.array([["a"]]), {}, "not numbers"),
        (np.ones(3), {}, "dimensions"),
        (3, {}, "X is a int"),
        (dense(), {"vocabulary": ["a", "b"]}, "vocabulary has 2 words and the documents have 3"),
        (dense(), {"vocabulary": ["a", "b", 3]}, "vocabulary cannot be stored"),
        (dense(), {"ids": [1, 2, 3]}, "3 ids"),
        (dense(), {"ids": [1, 2, 3, "x"]}, "cannot be stored"),
        (dense(), {"ids": [1, 2, 3, 2**63]}, "cannot be stored"),
        (dense(), {"made_by": {"x": float("nan")}}, "made_by is not JSON"),
        (dense(), {"vectorizer": {"x": object()}}, "vectorizer is not JSON"),
        (dense(), {"shard_documents": 0}, "shard_documents is 0"),
        (dense(a=(3, 2, np.inf)), {"dense": True}, "document 3 .* holds an infinity"),
        (dense(), {"targets": [1.0] * 3}, "has 4 documents and targets of shape"),
        (dense(), {"targets": [1, 1, 1, np.nan]}, "not finite, first for its document 3"),
        (dense(), {"targets": ["x", 1, 1, 1]}, r"first 'x' of document 0 \(from 0\)"),
        (dense(), {"targets": [[1, 2]] * 3 + [[None, "7 stars"]]}, r"'7 stars' of document 3 \(from 0\), column 1"),
        (dense(), {"targets": ["1__0"] * 4}, "targets that are not numbers"),
        (dense(), {"targets": np.ones((4, 0))}, "targets of shape"),
        (dense(), {"targets": [1.0] * 4, "dense": True}, "for sparse corpora"),
        (iter([(dense(), None, None, [1] * 4), (dense(), None)]), {}, "from document 4 on .* targets: 0, not 1"),
        (dense(), {"sample_weight": [1, -1, 1, 1]}, "the weight -1.0 for its document 1"),
        (dense(), {"sample_weight": [np.nan] * 4}, "the weight nan for its document 0"),
        (dense(), {"sample_weight": [1, 1]}, "4 documents and weights of shape|sample_weight has 2"),
        (dense(), {"groups": [1, 1]}, "groups"),
    ],
)
def test_bad_input(tmp_path, X, options, message):
    with pytest.raises(CorpusError, match=message):
        write_corpus(tmp_path / "c", X, **options)
    assert os.listdir(tmp_path) == []


def test_existing_things_are_kept(tmp_path, path):
    uid = open_corpus(path).header.uid
    with pytest.raises(CorpusError, match="exists already"):
        write_corpus(path, X[:5])
    assert open_corpus(path).header.uid == uid
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").write_text("")
    for overwrite in (False, True):
        with pytest.raises(CorpusError, match="is not a corpus: it is left alone"):
            write_corpus(tmp_path / "photos", X[:5], overwrite=overwrite)
    assert os.listdir(tmp_path / "photos") == ["cat"]


@pytest.mark.parametrize("when", [0, 3, 11])
def test_full_disk(tmp_path, path, monkeypatch, when):
    uid = open_corpus(path).header.uid
    write_array, calls = arrays.write_array, iter(range(1000))

    def write(*args, **options):
        if next(calls) == when:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_array(*args, **options)

    monkeypatch.setattr(arrays, "write_array", write)
    for target, overwrite in ((tmp_path / "new", False), (path, True)):
        calls = iter(range(1000))
        with pytest.raises(CorpusError, match=f"cannot write {target}: No space left on device"):
            write_corpus(target, X, Y, shard_documents=20, overwrite=overwrite)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["c"]
    assert open_corpus(path).header.uid == uid
    assert list(check_corpus(open_corpus(path))) == []


def test_a_failing_source_leaves_nothing(tmp_path):
    def source():
        yield X, Y
        raise FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path / "page-2.txt"))

    with pytest.raises(FileNotFoundError, match=r"page-2\.txt"):
        write_corpus(tmp_path / "c", source())
    assert os.listdir(tmp_path) == []
