"""Damaged corpora are named, and sound parts are still read; what fails midway leaves nothing behind."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdem_dist import GaussianNB
from sdem_dist.corpus import Corpus, check_corpus, open_corpus, write_corpus
from sdem_dist.errors import CorpusError
from sdem_dist.storage import arrays

N, M = 60, 30
RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.integers(0, 5, (N, M)) * (RNG.random((N, M)) < 0.4))
Y = RNG.integers(0, 3, N)


@pytest.fixture
def path(tmp_path) -> Path:
    beside = {"targets": Y * 0.5, "sample_weight": Y + 1, "vocabulary": [f"w{i}" for i in range(M)]}
    write_corpus(tmp_path / "c", X, Y, shard_documents=20, **beside)
    return tmp_path / "c"


def chunk(path: Path, array: str, shard: int = 1) -> Path:
    return next(p for p in (path / "shards" / f"{shard:05d}" / array / "c").rglob("*") if p.is_file())


DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "flipped": lambda content: content[:-1] + bytes([content[-1] ^ 0x10]),
    "missing": None,
}


def damage(file: Path, how: str) -> None:
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(DAMAGES[how](file.read_bytes()))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("array", ["data", "indices", "indptr", "labels", "targets", "weights"])
def test_a_damaged_shard_is_named_and_the_others_are_read(path, array, how):
    damage(chunk(path, array), how)
    with pytest.raises(CorpusError, match=rf"{path}: shard 1: .*{array}"):
        open_corpus(path).read(0, N)
    assert [p.shard for p in check_corpus(Corpus(path))] == [1]
    assert open_corpus(path).read(0, 20).n_documents == 20


def test_a_damaged_table_is_named_and_left_out_where_that_is_allowed(tmp_path):
    table = write_corpus(tmp_path / "d", RNG.normal(size=(N, 4)), Y, dense=True, shard_documents=20)
    chunk(tmp_path / "d", "values", 2).unlink()
    with pytest.raises(CorpusError, match=r"shard 2: array 'values'"):
        table.read(0, N)
    with pytest.warns(UserWarning, match="1 of 3 shards are damaged"):
        assert len(GaussianNB(n_epochs=2).fit(table, skip_damaged=True).damaged_shards_) == 1


def test_damaged_ids_vocabulary_and_document_frequencies(path):
    chunk(path, "ids").unlink()
    (path / "vocabulary" / "bytes" / "c" / "0").unlink()
    (path / "document_frequency" / "c" / "0").unlink()
    corpus = open_corpus(path)
    for read, said in (
        (lambda: corpus.ids(1), "shard 1: array 'ids'"),
        (corpus.vocabulary, "vocabulary"),
        (lambda: corpus.document_frequency, "document_frequency"),
    ):
        with pytest.raises(CorpusError, match=said):
            read()
    assert [p.shard for p in check_corpus(corpus)] == [1, None, None]
    (chunk(path, "indptr", 0).parents[1] / "zarr.json").unlink()
    with pytest.raises(CorpusError, match="shard 0: array 'indptr'"):
        open_corpus(path).read(0, 5)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_altered_byte_anywhere_is_noticed_or_harmless(path, data):
    file = data.draw(st.sampled_from(sorted(f for f in path.rglob("*") if f.is_file())))
    whole = file.read_bytes()
    altered = bytearray(whole)
    altered[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    expected = open_corpus(path)
    sound = expected.read(0, N).to_csr(), expected.vocabulary(), expected.header.classes
    file.write_bytes(altered)
    try:
        corpus = Corpus(path)
        found = corpus.read(0, N).to_csr(), corpus.vocabulary(), corpus.header.classes
    except CorpusError as error:
        assert str(path) in str(error)
    else:
        assert (found[0] != sound[0]).nnz == 0 and found[1:] == sound[1:]
    finally:
        file.write_bytes(whole)


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
        (None, "it has no manifest"),
    ],
)
def test_bad_manifests(path, entries, message):
    node = json.loads((path / "zarr.json").read_text())
    if entries is None:
        node["attributes"] = {}
    else:
        node["attributes"]["sdem_corpus"].update(entries)
    (path / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(CorpusError, match=f"{path}: .*{message}"):
        open_corpus(path)


def test_what_is_no_corpus_is_named_and_left_alone(tmp_path, path):
    (tmp_path / "file").write_text("no corpus")
    for other, message in (("nowhere", "there is no such corpus"), (".", "is a folder, but no"), ("file", "is a file")):
        with pytest.raises(CorpusError, match=message):
            open_corpus(tmp_path / other)
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
def test_a_disk_that_is_full_at_any_array(tmp_path, path, monkeypatch, when):
    uid, write_array = open_corpus(path).header.uid, arrays.write_array

    for target, overwrite in ((tmp_path / "new", False), (path, True)):
        calls = iter(range(1000))

        def write(*args, calls=calls, **options):
            if next(calls) == when:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write_array(*args, **options)

        monkeypatch.setattr(arrays, "write_array", write)
        with pytest.raises(CorpusError, match=f"cannot write {target}: No space left on device"):
            write_corpus(target, X, Y, shard_documents=20, overwrite=overwrite)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["c"] and open_corpus(path).header.uid == uid
    assert list(check_corpus(open_corpus(path))) == []


def test_a_failing_source_leaves_nothing(tmp_path):
    def source():
        yield X, Y
        raise FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path / "page-2.txt"))

    with pytest.raises(FileNotFoundError, match=r"page-2\.txt"):
        write_corpus(tmp_path / "c", source())
    assert os.listdir(tmp_path) == []
