"""Damage to a corpus is named before its data is used, and sound parts are read; a run may go on without it, to the bit.

What fails while a corpus is written leaves nothing behind.
"""

import errno
import json
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok, refused, run
from faults.clusters import SETTINGS, is_end_of, local_cluster, model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference.random_documents import random_counts
from reference.trained_bits import Stop, bits, kept

from sdem_dist import CorpusError
from sdem_dist.corpus import Corpus, check_corpus, open_corpus, write_corpus
from sdem_dist.corpus.manifest import Header
from sdem_dist.documents import shard_cache
from sdem_dist.engine.events import ShardsLeftOut
from sdem_dist.storage import arrays
from sdem_dist.storage.encoding import crc32c

N, M = 60, 30
RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.integers(0, 5, (N, M)) * (RNG.random((N, M)) < 0.4))
Y = RNG.integers(0, 3, N)
ARRAYS = ["data", "indices", "indptr", "labels", "targets", "weights"]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder, options = tmp_path_factory.mktemp("sound"), {"shard_documents": 20, "sample_weight": Y + 1}
    write_corpus(folder / "c", X, Y, targets=Y * 0.5, vocabulary=[f"w{i}" for i in range(M)], **options)
    write_corpus(folder / "table", RNG.normal(size=(N, 4)), Y, dense=True, **options)
    write_corpus(folder / "real", X * 1.5, Y, **options)
    write_corpus(folder / "many", *random_counts(600, 50, 3, seed=7), shard_documents=64)
    return folder


@pytest.fixture(autouse=True)
def nothing_read():
    shard_cache.discard(lambda key: True)  # what a process has read and verified, it need not read again


@pytest.fixture
def path(written, tmp_path) -> Path:
    return Path(shutil.copytree(written / "c", tmp_path / "c"))


@pytest.fixture
def copy(written, tmp_path) -> Path:
    return Path(shutil.copytree(written / "many", tmp_path / "copy.zarr"))


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
@pytest.mark.parametrize("array", [*ARRAYS, "values"])
def test_a_damaged_shard_is_named_and_the_others_are_read(written, tmp_path, array, how):
    path = Path(shutil.copytree(written / ("table" if array == "values" else "c"), tmp_path / "d"))
    damage(chunk(path, array), how)
    np.testing.assert_raises_regex(CorpusError, rf"{path}: shard 1: .*{array}", open_corpus(path).read, 0, N)
    assert [p.shard for p in check_corpus(Corpus(path))] == [1]
    assert open_corpus(path).read(0, 20).n_documents == 20


def test_damaged_ids_vocabulary_and_document_frequencies(path):
    chunk(path, "ids").unlink()
    (path / "vocabulary" / "bytes" / "c" / "0").unlink()
    (path / "document_frequency" / "c" / "0").unlink()
    corpus = open_corpus(path)
    reads = {"shard 1: array 'ids'": lambda: corpus.ids(1), "vocabulary": corpus.vocabulary}
    for said, read in (reads | {"document_frequency": lambda: corpus.document_frequency}).items():
        np.testing.assert_raises_regex(CorpusError, said, read)
    assert [p.shard for p in check_corpus(corpus)] == [1, None, None]
    (chunk(path, "indptr", 0).parents[1] / "zarr.json").unlink()
    np.testing.assert_raises_regex(CorpusError, "shard 0: array 'indptr'", open_corpus(path).read, 0, 5)


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


@pytest.mark.parametrize(("entries", "message"), [
    ({"format_version": 3}, "its format version is 3, .*: ingest its sources again"),
    ({"document_frequency_checksum": None}, "inconsistent"),
    ({"format": "other"}, "not a corpus"),
    ({"n_documents": N + 1}, "inconsistent"),
    ({"n_nonzeros": -1}, "malformed"),
    ({"n_targets": -1}, "malformed: .*n_targets"),
    ({"n_targets": 0}, "inconsistent"),
    ({"classes": [0, 1, 1]}, "inconsistent"),
    ({"classes": [[0], 1, 2]}, "inconsistent"),
    ({"class_counts": [99, 2, 3]}, "inconsistent"),
    ({"shards": None}, "malformed"),
    ({"shards": []}, "inconsistent"),
    ({"n_features": 0}, "inconsistent"),
    ({"n_features": 1 << 62}, "malformed: .*n_features"),
    ({"classes": [0, 1, float("nan")]}, "malformed"),
    ({"layout": "dense"}, "inconsistent"),
    ({"weighted": True}, "inconsistent"),
    ({"classes": ["a", "b", "c"]}, "uid does not match"),
    (None, "no manifest found"),
])  # fmt: skip
def test_bad_manifests(path, entries, message):
    node = json.loads((path / "zarr.json").read_text())
    if entries is None:
        node["attributes"] = {}
    else:
        node["attributes"]["sdem_corpus"].update(entries)
    (path / "zarr.json").write_text(json.dumps(node))
    np.testing.assert_raises_regex(CorpusError, f"{path}: .*{message}", open_corpus, path)


def crafted(path: Path, array: str, position, value) -> None:
    """Put a value into an array of shard 1, or of the corpus; the checksums and the uid are made right."""
    node = json.loads((path / "zarr.json").read_text())
    manifest, of_shard = node["attributes"]["sdem_corpus"], (path / "shards" / "00001" / array).exists()
    folder = path / "shards" / "00001" / array if of_shard else path / array
    stored = json.loads((folder / "zarr.json").read_text())
    values = arrays.read_array(folder, tuple(stored["shape"]), stored["data_type"])
    values[position] = value(values) if callable(value) else value
    arrays.write_array(folder, values)
    if of_shard:
        manifest["shards"][1]["checksums"][array] = crc32c(values)
    else:
        manifest[f"{array}_checksum"] = crc32c(values)
    manifest["uid"] = msgspec.convert(manifest, Header).uid
    (path / "zarr.json").write_text(json.dumps(node))


CLIMB, ASCEND = "'indptr' must increase from 0", "'indices' must increase within each document"
CRAFTED = [
    ("c", "indices", 2, M, rf"{ASCEND} and be at most {M - 1} .first violated at document 0 of the shard."),
    ("c", "indices", -1, 65535, f"{ASCEND}.* document 19"),
    ("c", "indices", 1, lambda a: a[0], f"{ASCEND}.* document 0"),
    ("c", "indices", slice(1, 3), lambda a: a[2:0:-1].copy(), f"{ASCEND}.* document 0"),
    ("c", "indptr", 0, 1, f"{CLIMB}.* document 0"),
    ("c", "indptr", 7, 0, f"{CLIMB}.* document 6"),
    ("c", "indptr", 7, 1 << 40, f"{CLIMB}.* document 6"),
    ("c", "indptr", -1, lambda a: a[-1] - 1, f"{CLIMB}.* document 19"),
    ("c", "labels", 3, 3, "'labels' must be between -1 and 2 .first violated at document 3 of the shard."),
    ("c", "labels", 3, -2, "'labels' must be .* document 3"),
    *(("c", "weights", 3, bad, "'weights' must be .* document 3") for bad in (np.nan, np.inf, -1.0, 1e308)),
    *(("c", "targets", 3, bad, "'targets' must be .* document 3") for bad in (np.nan, -np.inf)),
    *(("real", "data", 0, bad, "'data' must be .* document 0") for bad in (np.nan, np.inf, -1.0)),
    ("table", "values", (3, 1), np.inf, "'values' must be finite or NaN .first violated at document 3 of the shard."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "array", "position", "value", "said"), CRAFTED)
def test_what_no_corpus_may_hold_is_named_whatever_its_checksum(written, tmp_path, name, array, position, value, said):
    path = Path(shutil.copytree(written / name, tmp_path / "d"))
    crafted(path, array, position, value)
    np.testing.assert_raises_regex(CorpusError, f"{path}: shard 1: array {said}", open_corpus(path).read, 0, N)
    assert [p.shard for p in check_corpus(Corpus(path))] == [1]
    for read in {"labels": Corpus.labels, "weights": lambda corpus: corpus.weights}.items():
        if read[0] == array:
            np.testing.assert_raises_regex(CorpusError, said, read[1], open_corpus(path))


def test_numbers_of_the_whole_have_to_be_those_of_the_documents(written, copy, tmp_path):
    crafted(copy, "labels", 3, lambda a: (a[3] + 1) % 3)
    np.testing.assert_raises_regex(CorpusError, "labels do not match the manifest", open_corpus(copy).labels)
    assert ["do not match" in p.message for p in check_corpus(open_corpus(copy))] == [True]
    values = ((lambda a: a[3] + 1, "does not match"), (-1, "does not match"), (1 << 62, "does not"))
    for i, (value, said) in enumerate(values):
        path = Path(shutil.copytree(written / "many", tmp_path / str(i)))
        crafted(path, "document_frequency", 3, value)
        np.testing.assert_raises_regex(CorpusError, f"{path}: array 'document_frequency' {said}", fit, path)
    path = Path(shutil.copytree(written / "many", tmp_path / "moved"))
    crafted(path, "document_frequency", slice(0, 2), lambda a: np.add(a[:2], (1, -1)))
    assert ["does not match the documents" in p.message for p in check_corpus(open_corpus(path))] == [True]


def test_a_corpus_is_not_replaced_unasked(path):
    uid = open_corpus(path).header.uid
    np.testing.assert_raises(CorpusError, write_corpus, path, X[:5])
    assert open_corpus(path).header.uid == uid


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
        with pytest.raises(CorpusError) as caught:
            write_corpus(target, X, Y, shard_documents=20, overwrite=overwrite)
        assert caught.value.__cause__.errno == errno.ENOSPC
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["c"] and open_corpus(path).header.uid == uid
    assert list(check_corpus(open_corpus(path))) == []


def test_a_failing_source_leaves_nothing(tmp_path):
    def source():
        yield X, Y
        raise FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path / "page-2.txt"))

    np.testing.assert_raises_regex(FileNotFoundError, r"page-2\.txt", write_corpus, tmp_path / "c", source())
    assert os.listdir(tmp_path) == []


def fit(copy, **more):
    return model(n_jobs=1).fit(open_corpus(copy), **more)


def test_a_manifest_of_another_corpus_or_altered(copy, tmp_path):
    root = json.loads((copy / "zarr.json").read_text())
    root["attributes"]["sdem_corpus"]["shards"][2]["checksums"]["data"] ^= 1
    other = write_corpus(tmp_path / "other", *random_counts(600, 50, 3, seed=8), shard_documents=64)
    (copy / "zarr.json").write_text(json.dumps(root))
    for more in ({}, {"skip_damaged": True}):
        np.testing.assert_raises_regex(CorpusError, "manifest was altered", fit, copy, **more)
    shutil.copy(Path(other.path, "zarr.json"), copy / "zarr.json")
    np.testing.assert_raises_regex(CorpusError, "array '.*(has shape|does not match its checksum|is u)", fit, copy)
    np.testing.assert_raises_regex(CorpusError, "all shards are damaged", fit, copy, skip_damaged=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_on_a_cluster_damage_is_named_at_once_or_left_out_with_the_same_bits(copy):
    damage(chunk(copy, "data", 5), "flipped")
    here = fit(copy, skip_damaged=True)
    with local_cluster(2) as (_, client):
        np.testing.assert_raises_regex(CorpusError, "shard 5: .*data'", model().fit, open_corpus(copy), client=client)
        assert len(client.nthreads()) == 2
        there = model().fit(open_corpus(copy), skip_damaged=True, client=client)
    assert bits(here) == bits(there) and here.damaged_shards_ == there.damaged_shards_


def without(corpus, shards: set[int], path: Path):
    """Write the documents of all other shards, in their order, as a corpus with the same borders."""
    kept = [corpus.read_shard(i) for i in range(len(corpus.header.shards)) if i not in shards]
    batches = [(d.to_csr(), np.array(corpus.header.classes)[d.labels]) for d in kept]
    return write_corpus(path, batches, shuffle=False, shard_documents=64)


def test_training_goes_on_without_damaged_shards(written, copy, tmp_path):
    damage(chunk(copy, "labels", 0), "truncated")
    damage(chunk(copy, "indices", 4), "missing")
    events: list = []
    counts = {"steps": "paper", "weighting": "counts"}  # else document frequencies are those of the whole corpus
    with pytest.warns(UserWarning, match="2 of .* shards are damaged"):
        fitted = model(n_jobs=1, **counts).fit(open_corpus(copy), skip_damaged=True, callbacks=[events.append])
    assert events[0] == ShardsLeftOut(2, 120, tuple(fitted.damaged_shards_))
    sound = without(open_corpus(written / "many"), {0, 4}, tmp_path / "without")
    assert bits(fitted) == bits(model(n_jobs=1, **counts).fit(sound))
    assert kept(fitted, tmp_path / "model").damaged_shards_ == fitted.damaged_shards_


def test_a_sound_corpus_is_trained_whole(copy, recwarn):
    fitted = fit(copy, skip_damaged=True)
    assert bits(fitted) == bits(fit(copy)) and fitted.damaged_shards_ == []
    assert not [found for found in recwarn.list if "damaged" in str(found.message)]


@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_resuming_needs_the_same_damage(copy, tmp_path):
    def stop(event):
        if is_end_of(event, 1, 0):
            raise Stop

    damage(chunk(copy, "data", 7), "flipped")
    kept = {"skip_damaged": True, "checkpoint": tmp_path / "kept", "resume": True}
    np.testing.assert_raises(Stop, fit, copy, callbacks=[stop], **kept)
    assert bits(fit(copy, **kept)) == bits(fit(copy, skip_damaged=True))
    damage(chunk(copy, "data", 8), "flipped")
    np.testing.assert_raises_regex(ValueError, "another corpus", fit, copy, **kept)


def test_the_command_leaves_out_what_it_is_allowed_to(copy, tmp_path):
    damage(chunk(copy, "data", 3), "flipped")
    command = f"train {copy} {tmp_path / 'model'} --epochs 1 --quiet --lanes {SETTINGS['n_lanes']}"
    assert "shard 3" in refused(command) and not (tmp_path / "model").exists()
    allowed = run(f"{command} --skip-damaged --log {tmp_path / 'log'}")
    assert allowed.exit_code == 0, allowed.output
    assert allowed.output.startswith("Warning: ") and "1 of 10 shards are damaged" in allowed.output
    assert "train.py" not in allowed.output
    assert "shard 3" in " ".join(ok("inspect", tmp_path / "model").split())
    assert '"ShardsLeftOut"' in (tmp_path / "log").read_text() and ok("log", tmp_path / "log")
