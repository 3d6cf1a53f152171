"""What is written comes back, from whatever it came, however it was cut."""

from __future__ import annotations

import json
import os
import pickle  # noqa: TID251  Dask sends a corpus to its workers so
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from buckets.needs import needs_obstore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdem_dist.corpus import Header, ShardInfo, check_corpus, open_corpus, write_corpus
from sdem_dist.corpus import writer as writer_module
from sdem_dist.corpus.writer import shard_sizes
from sdem_dist.errors import CorpusError

N, M = 137, 50


def counts(n=N, m=M, seed=0, top=4):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, top, (n, m)) * (rng.random((n, m)) < 0.2)
    dense[::17] = 0  # empty documents
    dense[n // 2, 0], dense[n // 3, 1] = 300, 70000  # in shards of wider dtypes than the others
    return sp.csr_matrix(dense)


X = counts()
Y = np.random.default_rng(1).choice(["b", "a", "ç"], N)
TARGETS = np.random.default_rng(2).normal(size=(N, 2))


def all_ids(corpus):
    parts = [corpus.ids(s) for s in range(len(corpus.header.shards))]
    return np.concatenate(parts)


def cut_into_batches(borders, matrix=X, labels=Y):
    return ((matrix[i:j], labels[i:j]) for i, j in pairwise([0, *sorted(borders), matrix.shape[0]]))


def test_round_trip_shuffled(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, shard_documents=20, random_state=3, targets=TARGETS)
    documents, ids = corpus.read(0, N), all_ids(corpus)
    np.testing.assert_array_equal(documents.targets, TARGETS[ids])
    np.testing.assert_array_equal(corpus.read(30, 120).targets, documents.targets[30:120])
    assert corpus.header.n_targets == 2 and documents.nbytes > documents.targets.nbytes
    assert sorted(ids) == list(range(N))
    assert list(ids) != list(range(N))
    assert (documents.to_csr() != X[ids]).nnz == 0
    header = corpus.header
    assert header.classes == ("a", "b", "ç")
    np.testing.assert_array_equal(np.array(header.classes)[documents.labels], Y[ids])
    assert header.class_counts == tuple(np.unique(Y, return_counts=True)[1])
    assert documents.data.dtype == np.uint32
    assert documents.indices.dtype == np.uint16
    assert documents.indptr.dtype == np.int64
    assert documents.labels.dtype == np.int32
    assert header.shard_starts[-1] == N
    assert max(s.n_documents for s in header.shards) <= 20
    assert os.listdir(tmp_path) == ["c"]
    assert not [name for name in os.listdir(tmp_path / "c") if name.startswith("spill")]
    assert list(check_corpus(corpus)) == []


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    borders=st.lists(st.integers(0, N), max_size=12),
    shuffle=st.booleans(),
    dense=st.booleans(),
    memory=st.sampled_from([2000, 10_000, 1 << 20]),
)
def test_cut_of_the_input_and_memory_do_not_matter(tmp_path, monkeypatch, borders, shuffle, dense, memory):
    options = {"shuffle": shuffle, "shard_documents": 30, "random_state": 5, "overwrite": True, "dense": dense}
    matrix = X.toarray() if dense else X
    beside = [f"d{i}" for i in range(N)], None if dense else Y == "a", np.arange(N) % 3, np.arange(N) // 4
    names = ("ids", "targets", "sample_weight", "groups")
    whole = write_corpus(tmp_path / "whole", matrix, Y, **dict(zip(names, beside, strict=True)), **options)
    pieces = pairwise([0, *sorted(borders), N])
    batches = [[None if part is None else part[i:j] for part in (matrix, Y, *beside)] for i, j in pieces]
    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "MEMORY_LIMIT", memory)
        parts = write_corpus(tmp_path / "parts", batches, n_jobs=1 + len(borders) % 3, **options)
    assert parts.header.uid == whole.header.uid
    assert list(check_corpus(parts)) == []
    assert parts.ids_of() == whole.ids_of() and (shuffle or parts.ids_of() == beside[0])


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bounds=st.tuples(st.integers(0, N), st.integers(0, N)).map(sorted))
def test_any_range_reads_the_same_documents(tmp_path, bounds):
    path = tmp_path / "c"
    corpus = open_corpus(path) if path.exists() else write_corpus(path, X, Y, shard_documents=20, shuffle=False)
    start, stop = bounds
    documents = corpus.read(start, stop)
    assert documents.n_documents == stop - start
    assert (documents.to_csr() != X[start:stop]).nnz == 0


def test_seeds_give_different_orders(tmp_path):
    orders = {tuple(all_ids(write_corpus(tmp_path / f"c{s}", X, Y, random_state=s))) for s in (0, 1, -1, 2**40)}
    assert len(orders) == 4


def test_every_kind_of_matrix(tmp_path):
    expected = write_corpus(tmp_path / "csr", X, Y).header.uid
    kinds = {
        "array": sp.csr_array(X),
        "csc": sp.csc_matrix(X),
        "coo": sp.coo_array(X),
        "dense": X.toarray(),
        "float": X.astype(float),
        "fortran": np.asfortranarray(X.toarray().astype(np.int32)),
    }
    for name, kind in kinds.items():
        assert write_corpus(tmp_path / name, kind, list(Y)).header.uid == expected, name


def test_dask_arrays(tmp_path):
    da = pytest.importorskip("dask.array")
    expected = write_corpus(tmp_path / "csr", X, Y).header.uid
    blocks = da.from_array(X.toarray(), chunks=(40, 13))
    assert write_corpus(tmp_path / "dask", blocks, da.from_array(Y, chunks=30)).header.uid == expected
    sparse = da.from_array(X.toarray(), chunks=(40, M)).map_blocks(sp.csr_matrix, dtype=X.dtype)
    assert write_corpus(tmp_path / "sparse", sparse, Y).header.uid == expected


def test_shards_are_csr_groups_for_anyone(tmp_path):
    write_corpus(tmp_path / "c", X, Y, shard_documents=50, shuffle=False)
    root = zarr.open_group(tmp_path / "c", mode="r")
    parts = []
    for name in sorted(root["shards"].group_keys()):
        group = root["shards"][name]
        assert group.attrs["encoding-type"] == "csr_matrix"
        assert group.attrs["encoding-version"] == "0.1.0"
        values = [group[n][...] for n in ("data", "indices", "indptr")]
        parts.append(sp.csr_matrix(tuple(values), shape=group.attrs["shape"]))
    assert (sp.vstack(parts) != X).nnz == 0


def test_rows_are_made_canonical(tmp_path):
    ragged = sp.csr_matrix((np.array([1.0, 2, 0, 3]), np.array([4, 1, 2, 4]), np.array([0, 4, 4])), shape=(2, 6))
    before = ragged.copy()
    corpus = write_corpus(tmp_path / "c", ragged, [0, 1], shuffle=False)
    documents = corpus.read(0, 2)
    assert documents.indices.tolist() == [1, 4]
    assert documents.data.tolist() == [2, 4]
    assert documents.indptr.tolist() == [0, 2, 2]
    assert ragged.data.tolist() == before.data.tolist()
    assert ragged.indices.tolist() == before.indices.tolist()


def test_dtypes_are_chosen_shard_by_shard(tmp_path):
    dense = np.ones((4, 3), np.int64)
    dense[2, 1], dense[3, 0] = 300, 70000
    corpus = write_corpus(tmp_path / "c", dense, shuffle=False, shard_documents=1)
    assert [s.data_dtype for s in corpus.header.shards] == ["uint8", "uint8", "uint16", "uint32"]
    np.testing.assert_array_equal(corpus.read(0, 4).to_csr().toarray(), dense)
    assert corpus.header.data_dtypes == ("uint8", "uint16", "uint32")
    wide = sp.csr_matrix(([1], [[0], [70000]]), shape=(1, 70001))
    assert write_corpus(tmp_path / "wide", wide).read(0, 1).indices.tolist() == [70000]


def test_weights_are_float32_throughout(tmp_path):
    weights = X.astype(float)
    weights.data[-1] = 0.1
    corpus = write_corpus(tmp_path / "c", cut_into_batches([30, 60], weights), shard_documents=20, shuffle=False)
    assert corpus.header.weighted
    assert {s.data_dtype for s in corpus.header.shards} == {"float32"}
    np.testing.assert_array_equal(corpus.read(0, N).to_csr().toarray(), weights.toarray().astype(np.float32))
    assert write_corpus(tmp_path / "d", X, Y, weighted=True).read(0, 3).data.dtype == np.float32
    with pytest.raises(CorpusError, match="weighted=False"):
        write_corpus(tmp_path / "e", weights, Y, weighted=False)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["x", "y", "x"], ("x", "y")),
        ([3, -1, 3], (-1, 3)),
        ([True, False, True], (False, True)),
        ([1.5, 0.0, 1.5], (0.0, 1.5)),
        (np.array(["x", "y", "x"], object), ("x", "y")),
        (["only"] * 3, ("only",)),
    ],
)
def test_kinds_of_labels(tmp_path, labels, classes):
    corpus = write_corpus(tmp_path / "c", np.ones((3, 2)), labels, shuffle=False)
    header = open_corpus(tmp_path / "c").header
    assert header.classes == classes
    assert [header.classes[k] for k in corpus.read(0, 3).labels] == list(labels)
    assert [type(c) for c in header.classes] == [type(c) for c in classes]


def test_given_classes_fix_the_order(tmp_path):
    corpus = write_corpus(tmp_path / "c", cut_into_batches([50]), classes=["ç", "unseen", "b", "a"])
    assert corpus.header.classes == ("ç", "unseen", "b", "a")
    assert corpus.header.class_counts[1] == 0
    positions = corpus.read(0, N).labels
    np.testing.assert_array_equal(np.array(corpus.header.classes)[positions], Y[all_ids(corpus)])


def test_without_labels(tmp_path):
    for targets in (None, TARGETS[:, 0]):
        corpus = write_corpus(tmp_path / "c", X, targets=targets, overwrite=True)
        documents = corpus.read(0, 4)
        assert corpus.header.classes == () and documents.labels is None
        assert corpus.header.n_targets == (0 if targets is None else documents.targets.shape[1])
        assert list(check_corpus(corpus)) == []


def test_ids_of_integers_and_strings(tmp_path):
    integers = np.arange(N) * 1000 - 7
    corpus = write_corpus(tmp_path / "i", X, Y, ids=integers)
    positions = all_ids(write_corpus(tmp_path / "p", X, Y))
    np.testing.assert_array_equal(all_ids(corpus), integers[positions])
    names = [f"dóc-{i}" * (i % 3) for i in range(N)]
    batches = ((X[i : i + 10], Y[i : i + 10], names[i : i + 10]) for i in range(0, N, 10))
    corpus = write_corpus(tmp_path / "s", batches, shard_documents=31)
    found = [name for shard in range(len(corpus.header.shards)) for name in corpus.ids(shard)]
    assert found == [names[i] for i in positions]
    assert list(check_corpus(corpus)) == []


def test_vocabulary_and_notes(tmp_path):
    words = [f"wörd{i}" for i in range(M)]
    notes = {"vectorizer": {"ngram": [1, 2]}, "made_by": {"version": "1"}}
    write_corpus(tmp_path / "c", X, Y, vocabulary=words, **notes)
    corpus = open_corpus(tmp_path / "c")
    assert corpus.vocabulary() == words
    assert corpus.header.vectorizer == notes["vectorizer"]
    assert corpus.header.made_by == notes["made_by"]
    hashed = write_corpus(tmp_path / "h", X, Y)
    assert hashed.vocabulary() is None
    assert hashed.header.vocabulary_hash != corpus.header.vocabulary_hash


@pytest.mark.parametrize("url", ["{}", pytest.param("memory://{}", marks=needs_obstore)])
def test_document_frequencies_are_of_all_documents_however_they_came(tmp_path, url):
    expected = (X.toarray() > 0).sum(axis=0)
    batches = ((X[i : i + 7], Y[i : i + 7]) for i in range(0, N, 7))
    for name, handed in (("whole", (X, Y)), ("batches", (batches,)), ("dense", (X.toarray(), Y))):
        corpus = write_corpus(url.format(tmp_path / name), *handed, shard_documents=31)
        assert corpus.document_frequency.dtype == np.int64
        np.testing.assert_array_equal(corpus.document_frequency, expected)
    weights = sp.csr_matrix(X, dtype=float) * 0.5
    weights.data[::3] = 0
    found = write_corpus(tmp_path / "weights", weights, Y).document_frequency
    np.testing.assert_array_equal(found, (weights.toarray() > 0).sum(axis=0))
    table = write_corpus(tmp_path / "table", X.toarray(), Y, dense=True)
    with pytest.raises(CorpusError, match="is dense: its columns have no document frequencies"):
        table.document_frequency  # noqa: B018


def test_uid_is_the_content(tmp_path):
    def uid(name, matrix=X, **options):
        return write_corpus(tmp_path / name, matrix, Y, **options).header.uid

    base = uid("a")
    assert uid("b", made_by={"version": "other"}) == base
    other = X.copy()
    other.data[0] += 1
    changed = [uid("c", other), uid("d", random_state=1), uid("e", vocabulary=[str(i) for i in range(M)])]
    changed += [uid("f", shard_documents=10), uid("g", vectorizer={})]
    assert len({base, *changed}) == len(changed) + 1


def test_corpus_pickles_as_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus("c", X, Y)
    raw = pickle.dumps(corpus)
    assert len(raw) < 300 + len(str(tmp_path))
    monkeypatch.chdir("/")
    again = pickle.loads(raw)  # noqa: S301
    assert again.path == str(tmp_path / "c")
    assert again.header == corpus.header
    assert again.header is corpus.header  # parsed once in a process


@pytest.mark.parametrize("where", ["{}/c", pytest.param("memory://{}/c", marks=needs_obstore)])
def test_tasks_of_a_process_share_what_is_open(tmp_path, where):
    raw = pickle.dumps(write_corpus(where.format(tmp_path), X, Y))
    first, second = pickle.loads(raw), pickle.loads(raw)  # noqa: S301
    assert first._sources[0] is second._sources[0]
    assert first.header is second.header


@needs_obstore
def test_a_url_is_opened_anew_when_nobody_reads_it_any_more(tmp_path):
    url = f"memory://{tmp_path.name}/c"
    raw = pickle.dumps(write_corpus(url, X, Y))
    assert pickle.loads(raw).header.n_documents == N  # noqa: S301
    write_corpus(url, X[:10], Y[:10], overwrite=True)
    assert pickle.loads(raw).header.n_documents == 10  # noqa: S301


def test_a_replaced_corpus_is_read_anew(tmp_path):
    old = write_corpus(tmp_path / "c", X, Y).header
    write_corpus(tmp_path / "c", X[:10], Y[:10], overwrite=True)
    assert open_corpus(tmp_path / "c").header.n_documents == 10
    assert old.n_documents == N
    assert os.listdir(tmp_path) == ["c"]


def test_header_survives_json():
    shard = ShardInfo(1, 0, "uint8", {"data": 0})
    header = Header(1, 2, 0, ("a",), (1,), (shard,), "0" * 64, made_by={"version": "1"}, document_frequency_checksum=7)
    again = Header.from_json(json.loads(json.dumps(header.to_json())), "x")
    assert again == header
    assert again.uid == header.uid


def test_ranges_outside_are_refused(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y)
    for start, stop in ((-1, 3), (3, 2), (0, N + 1)):
        with pytest.raises(IndexError, match="not within"):
            corpus.read(start, stop)
    for shard in (-1, len(corpus.header.shards)):
        with pytest.raises(IndexError, match="not among"):
            corpus.ids(shard)


@given(st.integers(1, 10**7), st.floats(0, 5000), st.none() | st.integers(1, 10**5))
def test_shard_sizes_cover_the_documents(n_documents, mean, limit):
    n_documents = min(n_documents, 50_000 * (limit or 1000))
    sizes = shard_sizes(n_documents, int(n_documents * mean), limit)
    assert sum(sizes) == n_documents
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= (limit or 32_768)


def test_bytes_on_disk(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y)
    assert corpus.bytes_on_disk() == sum(f.stat().st_size for f in (tmp_path / "c").rglob("*") if f.is_file())


def test_documents_one_after_another_read_each_shard_once(tmp_path, monkeypatch):
    X = sp.random(25, 6, 0.5, "csr", random_state=0)
    corpus = write_corpus(tmp_path / "c", X, np.arange(25) % 2, shard_documents=10)
    expected = [corpus[i] for i in range(25)]
    reads = []
    read = type(corpus).read_shard
    monkeypatch.setattr(type(corpus), "read_shard", lambda self, shard: reads.append(shard) or read(self, shard))
    assert list(corpus) == expected and reads == [0, 1, 2]
    assert corpus[3:0:-2] == [expected[3], expected[1]] and corpus[40:] == []
    for odd in ("a", 1.5):
        with pytest.raises(TypeError, match="integer for its position"):
            corpus[odd]
    assert corpus[np.int64(3)] == expected[3]
    for part in (slice(0, 2), slice(8, 22, 5), slice(None, None, -7), slice(-3, None), slice(4, 4)):
        assert corpus[part] == expected[part]
    assert corpus.ids_of() == [document.id for document in expected]


def test_targets_are_inspected(tmp_path):
    corpus = write_corpus(tmp_path / "c.zarr", X, targets=TARGETS)
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
