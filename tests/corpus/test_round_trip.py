"""What is written comes back, from whatever it came, however it was cut; its identity is its content."""

import os
import pickle  # noqa: TID251  Dask sends a corpus to its workers so
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from buckets.servers import needs_obstore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdem_dist.corpus import MemoryCorpus, check_corpus, open_corpus, write_corpus
from sdem_dist.corpus import writer as writer_module
from sdem_dist.errors import CorpusError

N, M = 137, 50
RNG = np.random.default_rng(0)


def counts():
    dense = RNG.integers(0, 4, (N, M)) * (RNG.random((N, M)) < 0.2)
    dense[::17] = 0  # empty documents
    dense[N // 2, 0], dense[N // 3, 1] = 300, 70000  # in shards of wider dtypes than the others
    return sp.csr_matrix(dense)


X, Y = counts(), RNG.choice(["b", "a", "ç"], N)
TARGETS, WEIGHTS = RNG.normal(size=(N, 2)), RNG.integers(0, 4, N).astype(float)
TABLE = np.where(RNG.random((N, 4)) < 0.1, np.nan, RNG.normal(size=(N, 4)))
NAMES = [f"dóc-{i}" * (i % 3) for i in range(N)]


def cut(borders, *columns):
    """Return a batch of each column between borders."""
    return [[None if c is None else c[i:j] for c in columns] for i, j in pairwise([0, *sorted(borders), N])]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("dense", [True, False])
def test_round_trip(tmp_path, dense, shuffle):
    matrix, targets = (TABLE, None) if dense else (X, TARGETS)
    beside = {"targets": targets, "sample_weight": WEIGHTS, "dense": dense, "shuffle": shuffle}
    corpus = write_corpus(tmp_path / "c", matrix, Y, shard_documents=20, random_state=3, **beside)
    documents, ids, header = corpus.read(0, N), np.array(corpus.ids_of()), corpus.header
    assert sorted(ids) == list(range(N)) and (list(ids) == list(range(N))) == (not shuffle)
    if dense:
        np.testing.assert_array_equal(documents.values, TABLE[ids])
        assert documents.values.dtype == np.float64 and header.layout == "dense"
    else:
        assert (documents.to_csr() != X[ids]).nnz == 0
        np.testing.assert_array_equal(documents.targets, TARGETS[ids])
        assert header.n_targets == 2 and documents.nbytes > documents.targets.nbytes
        kinds = documents.data.dtype, documents.indices.dtype, documents.indptr.dtype
        assert kinds == (np.uint32, np.uint16, np.int64)
        np.testing.assert_array_equal(corpus.document_frequency, (X.toarray()[WEIGHTS > 0] > 0).sum(axis=0))
    np.testing.assert_array_equal(np.array(header.classes)[documents.labels], Y[ids])
    np.testing.assert_array_equal(corpus.weights, WEIGHTS[ids])
    assert header.classes == ("a", "b", "ç") and documents.labels.dtype == np.int32
    assert header.class_counts == tuple(np.unique(Y, return_counts=True)[1])
    assert corpus.class_weights == tuple(np.bincount(np.unique(Y, return_inverse=True)[1], WEIGHTS))
    assert corpus.weight == WEIGHTS.sum() and header.has_weights
    assert header.shard_starts[-1] == N and max(s.n_documents for s in header.shards) <= 20
    assert list(check_corpus(corpus)) == [] and os.listdir(tmp_path) == ["c"]
    assert corpus.bytes_on_disk() == sum(f.stat().st_size for f in (tmp_path / "c").rglob("*") if f.is_file())


@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, N), max_size=12), st.booleans(), st.booleans(), st.sampled_from([2000, 10_000, 1 << 20]))
def test_cut_of_the_input_and_memory_do_not_matter(tmp_path, borders, shuffle, dense, memory):
    options = {"shuffle": shuffle, "shard_documents": 30, "random_state": 5, "overwrite": True, "dense": dense}
    matrix, targets, groups = (X.toarray() if dense else X), (None if dense else Y == "a"), np.arange(N) // 4
    beside = {"ids": NAMES, "targets": targets, "sample_weight": np.arange(N) % 3, "groups": groups}
    whole = write_corpus(tmp_path / "whole", matrix, Y, **beside, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module, "MEMORY_LIMIT", memory)
        batches = cut(borders, matrix, Y, *beside.values())
        parts = write_corpus(tmp_path / "parts", batches, n_jobs=1 + len(borders) % 3, **options)
    assert parts.header.uid == whole.header.uid and list(check_corpus(parts)) == []
    assert parts.ids_of() == whole.ids_of() and (shuffle or parts.ids_of() == NAMES)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bounds=st.tuples(st.integers(0, N), st.integers(0, N)).map(sorted))
def test_any_range_reads_the_same_documents(tmp_path, bounds):
    path = tmp_path / "c"
    corpus = open_corpus(path) if path.exists() else write_corpus(path, X, Y, shard_documents=20, shuffle=False)
    start, stop = bounds
    for source in (corpus, MemoryCorpus(X, None, (), shuffle=False)):
        documents = source.read(start, stop)
        assert documents.n_documents == stop - start and (documents.to_csr() != X[start:stop]).nnz == 0
        for odd in ((-1, 3), (3, 2), (0, N + 1)):
            np.testing.assert_raises_regex(IndexError, "out of range", source.read, *odd)


FORMS = ("csr", "csc", "bsr", "coo", "lil", "dok", "dia")
KINDS = {
    **{name: lambda name=name: X.asformat(name) for name in FORMS},
    **{f"{name} array": lambda name=name: sp.csr_array(X).asformat(name) for name in FORMS},
    "dense": X.toarray,
    "float": lambda: X.astype(float),
    "fortran": lambda: np.asfortranarray(X.toarray().astype(np.int32)),
}


@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
@pytest.mark.parametrize("kind", [*KINDS, "dask", "dask of sparse blocks"])
def test_every_kind_of_matrix(tmp_path, kind):
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X.toarray(), chunks=(40, M if "sparse" in kind else 13))
    matrix = blocks.map_blocks(sp.csr_matrix, dtype=X.dtype) if "sparse" in kind else KINDS.get(kind, lambda: blocks)()
    labels = da.from_array(Y, chunks=30) if kind == "dask" else list(Y)
    assert write_corpus(tmp_path / "c", matrix, labels).header.uid == write_corpus(tmp_path / "csr", X, Y).header.uid
    if kind in FORMS:
        assert write_corpus(tmp_path / "0", sp.csr_matrix((3, 4)).asformat(kind)).header.n_nonzeros == 0


def test_shards_are_csr_groups_for_anyone(tmp_path):
    write_corpus(tmp_path / "c", X, Y, shard_documents=50, shuffle=False)
    root, parts = zarr.open_group(tmp_path / "c", mode="r"), []
    for name in sorted(root["shards"].group_keys()):
        group = root["shards"][name]
        assert (group.attrs["encoding-type"], group.attrs["encoding-version"]) == ("csr_matrix", "0.1.0")
        values = [group[n][...] for n in ("data", "indices", "indptr")]
        parts.append(sp.csr_matrix(tuple(values), shape=group.attrs["shape"]))
    assert (sp.vstack(parts) != X).nnz == 0


@pytest.mark.parametrize("where", ["disk", "memory", "memory, shuffled"])
def test_rows_are_made_canonical_and_the_callers_matrix_is_left_alone(tmp_path, where):
    ragged = sp.csr_matrix((np.array([1.0, 2, 0, 3]), np.array([4, 1, 2, 4]), np.array([0, 4])), shape=(1, 6))
    before = ragged.copy()
    if where == "disk":
        documents = write_corpus(tmp_path / "c", ragged, shuffle=False).read(0, 1)
    else:
        documents = MemoryCorpus(ragged, None, (), shuffle="shuffled" in where).read(0, 1)
    zeros = [] if where == "disk" else [2]  # zeros that a matrix in memory names stay
    assert documents.indices.tolist() == sorted([1, 4, *zeros])
    assert documents.to_csr().toarray().tolist() == [[0, 2, 0, 0, 4, 0]]
    assert (ragged.data.tolist(), ragged.indices.tolist()) == (before.data.tolist(), before.indices.tolist())


@pytest.mark.parametrize(("values", "stored", "memory", "weighted"), [
    ([1, 2, 200], np.uint8, np.uint8, False),
    ([1, 2, 300], np.uint16, np.uint16, False),
    ([1, 2, 70000], np.uint32, np.uint32, False),
    ([1.0, 2.0, 3.0], np.uint8, np.float32, False),
    ([0.5, 1.0, 2.0], np.float32, np.float32, True),
    ([0.1, 1.0, 2.0], np.float32, np.float64, True),
    ([2.0**24 + 1, 1.0, 2.0], np.uint32, np.float64, False),
    ([True, True, True], np.uint8, np.uint8, False),
])  # fmt: skip
def test_values_are_kept_as_small_as_they_can_be(tmp_path, values, stored, memory, weighted):
    corpus = write_corpus(tmp_path / "c", np.array([values]))
    assert np.dtype(corpus.header.shards[0].data_dtype) == stored and corpus.header.weighted == weighted
    np.testing.assert_array_equal(corpus.read(0, 1).data, np.array(values).astype(stored))
    of_memory = MemoryCorpus(np.array([values]), None, ())
    documents = of_memory.read(0, 1)
    assert (documents.data.dtype, documents.data.tolist()) == (memory, values)
    assert of_memory.header.weighted == weighted


def test_dtypes_are_chosen_shard_by_shard_but_weights_are_float32_throughout(tmp_path):
    dense = np.ones((4, 3), np.int64)
    dense[2, 1], dense[3, 0] = 300, 70000
    corpus = write_corpus(tmp_path / "c", dense, shuffle=False, shard_documents=1)
    assert [s.data_dtype for s in corpus.header.shards] == ["uint8", "uint8", "uint16", "uint32"]
    np.testing.assert_array_equal(corpus.read(0, 4).to_csr().toarray(), dense)
    wide = sp.csr_matrix(([1], [[0], [70000]]), shape=(1, 70001))
    assert write_corpus(tmp_path / "wide", wide).read(0, 1).indices.tolist() == [70000]
    weights = X.astype(float)
    weights.data[-1] = 0.1
    corpus = write_corpus(tmp_path / "w", cut([30, 60], weights, Y), shard_documents=20, shuffle=False)
    assert corpus.header.weighted and {s.data_dtype for s in corpus.header.shards} == {"float32"}
    np.testing.assert_array_equal(corpus.read(0, N).to_csr().toarray(), weights.toarray().astype(np.float32))
    assert write_corpus(tmp_path / "d", X, Y, weighted=True).read(0, 3).data.dtype == np.float32
    floats = write_corpus(tmp_path / "f", np.float64(np.float32(TABLE)), Y, dense=True)
    assert floats.header.shards[0].data_dtype == "float32"


XYX = ["x", "y", "x"]
LABELS = [
    *((labels, ("x", "y")) for labels in (XYX, np.array(XYX, object), np.array(XYX, np.dtypes.StringDType()))),
    ([3, -1, 3], (-1, 3)), ([True, False, True], (False, True)), ([1.5, 0.0, 1.5], (0.0, 1.5)), (["only"] * 3, ("only",)),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "classes"), LABELS)
def test_kinds_of_labels(tmp_path, labels, classes):
    corpus = write_corpus(tmp_path / "c", np.ones((3, 2)), labels, shuffle=False)
    header = open_corpus(tmp_path / "c").header
    assert header.classes == classes and [type(c) for c in header.classes] == [type(c) for c in classes]
    assert [header.classes[k] for k in corpus.read(0, 3).labels] == list(labels)


@pytest.mark.parametrize("missing", [None, float("nan"), -1])
@pytest.mark.parametrize("of", [str, int])
def test_documents_without_labels(tmp_path, missing, of):
    y = np.unique(Y, return_inverse=True)[1]
    names = [missing if i % 2 else (f"class {label}" if of is str else int(label)) for i, label in enumerate(y)]
    corpus = write_corpus(tmp_path / "c", TABLE, names, dense=True, unlabelled=-1, shuffle=False)
    assert corpus.header.classes == (tuple(f"class {k}" for k in range(3)) if of is str else (0, 1, 2))
    assert sum(corpus.header.class_counts) == (N + 1) // 2 and list(check_corpus(corpus)) == []
    np.testing.assert_array_equal(corpus.labels(), np.where(np.arange(N) % 2, -1, y))
    if missing != -1 and of is str:
        np.testing.assert_raises(CorpusError, write_corpus, tmp_path / "b", TABLE, names, dense=True)


def test_given_classes_fix_the_order_and_none_are_none(tmp_path):
    corpus = write_corpus(tmp_path / "c", cut([50], X, Y), classes=["ç", "unseen", "b", "a"])
    assert corpus.header.classes == ("ç", "unseen", "b", "a") and corpus.header.class_counts[1] == 0
    np.testing.assert_array_equal(np.array(corpus.header.classes)[corpus.labels()], Y[corpus.ids_of()])
    for plain in (write_corpus(tmp_path / "d", X), MemoryCorpus(X, None, ())):
        assert plain.header.classes == plain.header.class_counts == () and plain.read(0, 3).labels is None


def test_ids_of_integers_and_strings(tmp_path):
    positions = write_corpus(tmp_path / "p", X, Y).ids_of()
    integers = np.arange(N) * 1000 - 7
    assert write_corpus(tmp_path / "i", X, Y, ids=integers).ids_of() == integers[positions].tolist()
    corpus = write_corpus(tmp_path / "s", cut(range(0, N, 10), X, Y, NAMES), shard_documents=31)
    assert corpus.ids_of() == [NAMES[i] for i in positions] and list(check_corpus(corpus)) == []
    np.testing.assert_raises_regex(IndexError, "shard .* is out of range", corpus.ids, len(corpus.header.shards))


@pytest.mark.parametrize("url", ["{}", pytest.param("memory://{}", marks=needs_obstore)])
def test_document_frequencies_are_of_all_documents_however_they_came(tmp_path, url):
    for name, handed in (("whole", (X, Y)), ("batches", (cut(range(0, N, 7), X, Y),)), ("dense", (X.toarray(), Y))):
        corpus = write_corpus(url.format(tmp_path / name), *handed, shard_documents=31)
        np.testing.assert_array_equal(corpus.document_frequency, (X.toarray() > 0).sum(axis=0))
    weights = sp.csr_matrix(X, dtype=float) * 0.5
    weights.data[::3] = 0
    for corpus in (write_corpus(tmp_path / "weights", weights, Y), MemoryCorpus(weights, None, ())):
        np.testing.assert_array_equal(corpus.document_frequency, (weights.toarray() > 0).sum(axis=0))


WORDS = [f"wörd{i}" for i in range(M)]
OTHER = X.copy()
OTHER.data[0] += 1
CHANGES = [
    {"X": OTHER}, {"random_state": 1}, {"random_state": -1}, {"random_state": 2**40}, {"vocabulary": WORDS},
    {"shard_documents": 10}, {"vectorizer": {}}, {"sample_weight": WEIGHTS}, {"groups": np.arange(N)},
    {"targets": TARGETS}, {"y": np.where(Y == "a", "z", Y)},
]  # fmt: skip


def test_uid_is_the_content(tmp_path):
    same = [{}, {"made_by": {"version": "other"}}]
    uids = [write_corpus(tmp_path / str(i), **{"X": X, "y": Y, **c}).header.uid for i, c in enumerate(same + CHANGES)]
    assert uids[0] == uids[1] and len(set(uids)) == len(CHANGES) + 1
    labels, classes = np.unique(Y, return_inverse=True)[1], ("a", "b", "ç")
    memory = [
        MemoryCorpus(X, labels, classes).header.uid, MemoryCorpus(X, labels, classes).header.uid,
        MemoryCorpus(X, labels, classes, random_state=1).header.uid,
        MemoryCorpus(X, labels, classes, weights=np.full(N, 2)).header.uid,
        MemoryCorpus(X, labels, classes, targets=TARGETS).header.uid,
        MemoryCorpus(X, labels, ("a", "b", "d")).header.uid, MemoryCorpus(X[:, :11], labels, classes).header.uid,
    ]  # fmt: skip
    assert memory[0] == memory[1] and len(set(memory)) == 6


def test_vocabulary_and_notes(tmp_path):
    notes = {"vectorizer": {"ngram": [1, 2]}, "made_by": {"version": "1"}}
    write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS, **notes)
    corpus = open_corpus(tmp_path / "c")
    assert corpus.vocabulary() == WORDS
    assert (corpus.header.vectorizer, corpus.header.made_by) == tuple(notes.values())
    hashed = write_corpus(tmp_path / "h", X, Y)
    assert hashed.vocabulary() is None and hashed.header.vocabulary_hash != corpus.header.vocabulary_hash


@pytest.mark.parametrize("where", ["{}/c", pytest.param("memory://{}/c", marks=needs_obstore)])
def test_a_corpus_is_sent_as_its_path_and_a_replaced_one_is_read_anew(tmp_path, where, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "c" if where[0] == "{" else where.format(tmp_path.name)
    raw = pickle.dumps(write_corpus(url, X, Y))
    monkeypatch.chdir("/")
    url, old = where.format(tmp_path if where[0] == "{" else tmp_path.name), pickle.loads(raw).header  # noqa: S301
    assert old.n_documents == N and len(raw) < 300 + len(str(tmp_path))
    assert where[0] != "{" or old is pickle.loads(raw).header, "parsed once in a process"  # noqa: S301
    write_corpus(url, X[:10], Y[:10], overwrite=True)
    assert open_corpus(url).header.n_documents == pickle.loads(raw).header.n_documents == 10  # noqa: S301


def test_documents_one_after_another_read_each_shard_once(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "c", X[:25], Y[:25], shard_documents=10)
    expected = [corpus[i] for i in range(25)]
    reads, read = [], type(corpus).read_shard
    monkeypatch.setattr(type(corpus), "read_shard", lambda self, shard: reads.append(shard) or read(self, shard))
    assert list(corpus) == expected and reads == [0, 1, 2]
    for odd in ("a", 1.5):
        np.testing.assert_raises(TypeError, corpus.__getitem__, odd)
    assert corpus[np.int64(3)] == expected[3]
    for part in (slice(0, 2), slice(8, 22, 5), slice(None, None, -7), slice(-3, None), slice(4, 4), slice(40, None)):
        assert corpus[part] == expected[part]
    assert corpus.ids_of() == [document.id for document in expected]


def test_documents_of_a_matrix_move_together():
    labels, order = np.arange(N) % 3, MemoryCorpus(X, None, (), random_state=2).order
    corpus = MemoryCorpus(X, labels, ("a", "b", "c"), weights=WEIGHTS, targets=TARGETS, random_state=2)
    assert sorted(corpus.order) == list(range(N)) and corpus.order.tolist() == order.tolist()
    part, rows = corpus.read(7, 19), corpus.order[7:19]
    assert (part.to_csr() != X[rows]).nnz == 0
    for found, whole in ((part.labels, labels), (part.weights, WEIGHTS), (part.targets, TARGETS)):
        np.testing.assert_array_equal(found, whole[rows])
    header = corpus.header
    assert (header.n_documents, header.n_features, header.n_nonzeros) == (N, M, X.nnz)
    assert header.class_counts == tuple(np.bincount(labels)) and header.shard_starts.tolist() == [0, N]


def test_the_order_of_a_seed_never_changes(tmp_path):
    """It is part of what a seed means, and spread evenly."""
    order = np.array(write_corpus(tmp_path / "c", np.ones((4000, 1))).ids_of())
    assert abs(np.corrcoef(order, np.arange(4000))[0, 1]) < 0.06
    assert order[:5].tolist() == [2039, 3413, 1036, 2349, 1963]
    small = write_corpus(tmp_path / "d", np.ones((12, 1)), random_state=3)
    assert small.ids_of() == [0, 1, 8, 7, 6, 5, 10, 9, 11, 4, 2, 3]


@pytest.mark.parametrize("shuffle", [True, False])
def test_memory_does_not_grow_with_the_documents(tmp_path, monkeypatch, shuffle):
    monkeypatch.setattr(writer_module, "MEMORY_LIMIT", 1_000_000)
    batch, peaks = np.ones((20, 5000), np.uint8), []
    for times in (10, 10, 40):  # the first loads numba
        tracemalloc.start()
        options = {"shuffle": shuffle, "shard_documents": 40, "n_jobs": 1, "overwrite": True}
        write_corpus(tmp_path / "c", ((batch, None) for _ in range(times)), **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[1], "of four times the documents"
