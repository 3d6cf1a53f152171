"""Parts of a corpus, several as one, folds, groups and weights: each trains and predicts like a corpus of just those."""

import csv
import json
import pickle  # noqa: TID251  as Dask sends corpora
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import ok, refused
from distributed.protocol import deserialize, serialize

import sdem_dist as sd
from sdem_dist import CorpusError, GaussianNB, MultinomialNB, concat, open_corpus, write_corpus
from sdem_dist.corpus import MemoryCorpus, check_corpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.text import Reading, splits

N = 300
RNG = np.random.default_rng(0)
Y = RNG.choice(["a", "b", "é"], N, p=[0.6, 0.3, 0.1])
CODES = np.unique(Y, return_inverse=True)[1]
X = RNG.poisson(0.4 + (np.arange(12) % 3 == CODES[:, None]))
WEIGHTS = RNG.integers(0, 4, N).astype(float)
GROUPS = RNG.integers(0, 45, N)
NAMES = [f"d{i}" for i in range(N)]
KEEP = {"shard_documents": 70, "shuffle": False}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("views") / "c", X, Y, ids=NAMES, **KEEP)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("views") / "w", X, Y, sample_weight=WEIGHTS, **KEEP)


def equal_states(one, other) -> None:
    for a, b in zip(one.state_, other.state_, strict=True):
        np.testing.assert_array_equal(a, b)


INSIDE = RNG.random(N) < 0.6
PARTS = {
    "a subset": (lambda corpus: corpus.subset(INSIDE), INSIDE),
    "a subset by label and id": (lambda corpus: corpus.subset(lambda y, name: y != "é" and name != "d3"),
                                 (Y != "é") & (np.arange(N) != 3)),
    "a subset of a subset": (lambda corpus: corpus.subset(INSIDE).subset(np.arange(100)), INSIDE & (np.arange(N) < 100)),
    "a fold's training part": (lambda corpus: corpus.folds(3).train(1), None),
    "a fold": (lambda corpus: corpus.folds(3).test(1), None),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_part_trains_is_evaluated_and_predicted_as_its_documents_alone(corpus, name):
    """Counts are exact, so that the model of a part is that of a matrix of its documents."""
    make, inside = PARTS[name]
    if inside is None:
        inside = (corpus.folds(3).numbers == 1) == (name == "a fold")
    part, settings = make(corpus), {"loss": "nll", "weighting": "counts"}
    model, alone = MultinomialNB(**settings).fit(part), MultinomialNB(**settings).fit(X[inside], Y[inside])
    assert part.weight == inside.sum() < N
    np.testing.assert_array_equal(part.mask, inside)
    n_classes = len(alone.classes_)
    np.testing.assert_allclose(model.predict_proba(X)[:, :n_classes], alone.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(part), alone.predict(X[inside]))
    assert model.evaluate(part)["accuracy"] == pytest.approx((alone.predict(X[inside]) == Y[inside]).mean())
    again = pickle.loads(pickle.dumps(part))  # noqa: S301
    assert again.header.uid == part.header.uid != corpus.header.uid and again.cache_key == part.cache_key


def test_parts_that_cannot_be_and_how_parts_are_named(corpus):
    mask = np.arange(N) % 3 == 0
    for which in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        np.testing.assert_array_equal(corpus.subset(which).mask, mask)
    for wrong in ([], [N], [-1], [0.5], np.ones(N - 1, bool), np.zeros(N, bool)):
        with pytest.raises(ValueError, match=r"which must be|no document"):
            corpus.subset(wrong)
    part = corpus.subset(np.arange(N) < 200).subset(np.arange(0, N, 2))
    assert repr(part).startswith("a subset of 100 documents of a subset of 200 documents of Corpus(")


def test_a_part_is_cut_into_folds_and_drawn_as_a_curve(corpus):
    part = corpus.subset(np.arange(N) < 200).subset(np.arange(0, N, 2))
    for training, fold in part.folds(4):
        assert (training.weight, fold.weight) == (75, 25) and not (fold.mask & ~part.mask).any()
    curve = sd.learning_curve(MultinomialNB(n_epochs=2), part, shares=(1.0,), cv=4)
    expected = [MultinomialNB(n_epochs=2).fit(a).evaluate(b)["accuracy"] for a, b in part.folds(4)]
    assert curve.n_documents.tolist() == [75]
    np.testing.assert_allclose(curve.accuracy[0], expected)


def test_corpora_of_one_vocabulary_are_one(tmp_path, weighted):
    kept = {"shuffle": False, "classes": ["a", "b", "é"]}
    first = write_corpus(tmp_path / "a", X[:120], Y[:120], shard_documents=50, **kept)
    second = write_corpus(tmp_path / "b", X[120:], Y[120:], shard_documents=60, **kept)
    both, whole = concat([first, second]), write_corpus(tmp_path / "w", X, Y, **kept)
    documents = both.read(0, N)
    np.testing.assert_array_equal(documents.to_csr().toarray(), X)
    assert [both.header.classes[k] for k in documents.labels] == Y.tolist()
    np.testing.assert_array_equal(both.document_frequency, whole.document_frequency)
    assert both.ids_of(119, 121) == [119, 0] and "b: shard 2" in both.place(290)
    assert pickle.loads(pickle.dumps(both)).header.uid == both.header.uid  # noqa: S301
    equal_states(*(MultinomialNB(n_epochs=2, n_lanes=3).fit(corpus) for corpus in (both, whole)))
    assert both.subset(np.arange(100, 200)).weight == 100
    assert concat([first]) is first and concat([both, first]).n_documents == 420
    assert concat([weighted, weighted]).weight == 2 * WEIGHTS.sum()
    narrow = write_corpus(tmp_path / "n", X[:, :5], Y)
    for parts, message in (
        ([whole, narrow], "differ in vocabulary_hash, n_features"),
        ([whole, whole.subset([1])], "join corpora first"),
        ([weighted, whole], "has_weights"),
        ([], "no corpora"),
    ):
        with pytest.raises(CorpusError, match=message):
            concat(parts).header  # noqa: B018


def test_every_class_is_dealt_evenly_to_folds_and_not_in_turn(corpus):
    numbers = corpus.folds(5).numbers
    for part in (CODES >= 0, *(c == CODES for c in range(3))):
        assert np.ptp(np.bincount(numbers[part], minlength=5)) <= 1
    assert not np.array_equal(numbers, corpus.folds(5, seed=1).numbers)
    assert 0.1 < (numbers[1:] == numbers[:-1]).mean() < 0.35
    memory = MemoryCorpus(X, CODES, corpus.header.classes, shuffle=False)
    assert np.array_equal(Folds(memory, 5).numbers, numbers)
    part = deserialize(*serialize(corpus.folds(5).train(2)))
    assert part.cache_key == corpus.folds(5).train(2).cache_key
    assert np.array_equal(part.read(10, 200).weights, numbers[10:200] != 2)
    for k in (1, 0, N + 1, 2.5, True):
        with pytest.raises(ValueError, match=f"{N + 1} folds need at least|a whole number, 2 or more, not"):
            corpus.folds(k)


@pytest.mark.parametrize("settings", [{}, {"loss": "ncll", "class_weight": "balanced"}, {"n_lanes": 4}])
def test_training_does_not_see_the_fold(corpus, tmp_path, settings):
    """Other counts of the fold's documents change no bit, as long as words occur in as many documents."""
    outside = corpus.folds(3).numbers == 0
    other = np.where(outside[:, None] & (X > 0), X + 3, X)
    one = write_corpus(tmp_path / "one", other, Y, ids=NAMES, **KEEP)
    model = MultinomialNB(n_epochs=2, validation_fraction=0.2, n_jobs=1, **settings)
    state = model.fit(corpus.folds(3).train(0)).state_
    assert np.array_equal(state.words, model.fit(one.folds(3).train(0)).state_.words)


def test_folds_of_tables(tmp_path):
    y = RNG.integers(2, size=200)
    table = RNG.normal(y[:, None], 1.0, (200, 3)).astype(np.float32)
    corpus = write_corpus(tmp_path / "table.zarr", table, y, dense=True, shuffle=False)
    inside = corpus.folds(4).numbers != 0
    part, alone = (
        GaussianNB(loss="nll").fit(corpus.folds(4).train(0)),
        GaussianNB(loss="nll").fit(table[inside], y[inside]),
    )
    assert part.predict_proba(table) == pytest.approx(alone.predict_proba(table), abs=1e-6)


def together(numbers, groups):
    return all(len(set(numbers[groups == group])) == 1 for group in np.unique(groups))


@pytest.mark.parametrize("groups", [GROUPS, np.array([f"author {group}" for group in GROUPS])], ids=["int", "str"])
def test_folds_keep_groups_whole_and_classes_even(tmp_path, groups):
    corpus = write_corpus(tmp_path / "c.zarr", X, Y, groups=groups, shard_documents=150)
    of_stored, labels = groups[corpus.ids_of()], corpus.labels()
    numbers = corpus.folds(4).numbers
    assert together(numbers, of_stored) and together(corpus.all_groups(), of_stored)
    counts = np.array([np.bincount(labels[numbers == fold], minlength=3) for fold in range(4)])
    assert max(*np.ptp(counts, axis=0), np.ptp(counts.sum(axis=1))) <= np.bincount(GROUPS).max()
    assert not np.array_equal(numbers, corpus.folds(4, seed=1).numbers)
    plain = write_corpus(tmp_path / "plain.zarr", X, Y, shard_documents=150)
    assert plain.header.uid != corpus.header.uid and not together(plain.folds(4).numbers, of_stored)
    given = plain.folds(4, groups=of_stored)
    again = pickle.loads(pickle.dumps(given))  # noqa: S301
    assert together(given.numbers, of_stored) and np.array_equal(again.numbers, given.numbers)
    assert again.train(0).cache_key == given.train(0).cache_key != plain.folds(4).train(0).cache_key
    parts = [(X[i:j], Y[i:j], None, None, None, groups[i:j]) for i, j in ((0, 130), (130, N))]
    assert write_corpus(tmp_path / "parts.zarr", parts, shard_documents=150).header.uid == corpus.header.uid
    for act, message in (
        (lambda: plain.groups(0), "--group"),
        (lambda: plain.folds(4, groups=groups[:5]), f"{N} documents"),
        (lambda: plain.folds(4, groups=GROUPS % 3).numbers, "3 groups cannot be cut into 4 folds"),
    ):
        with pytest.raises((CorpusError, ValueError), match=message):
            act()


def test_one_large_group_takes_a_fold_for_itself(tmp_path):
    groups = np.r_[np.zeros(60, int), np.arange(1, 61)]
    corpus = write_corpus(tmp_path / "c", np.ones((120, 2)), np.arange(120) % 2, groups=groups, shuffle=False)
    numbers = corpus.folds(2).numbers
    assert sorted(np.bincount(numbers)) == [60, 60] and len(set(numbers[:60])) == 1


def test_a_search_in_memory_keeps_groups(corpus):
    search = sd.CorpusSearchCV(MultinomialNB(), {"step": [0.1]}, cv=4, n_jobs=1, refit=False)
    assert together(search.fit(X, Y, groups=GROUPS).oof_folds_, GROUPS)
    assert not together(search.fit(X, Y).oof_folds_, GROUPS)


def test_labelled_documents_keep_their_groups(tmp_path):
    hidden = np.where(RNG.random(N) < 0.5, Y, "")
    corpus = write_corpus(tmp_path / "c.zarr", X, hidden, unlabelled="", groups=GROUPS, shard_documents=150)
    labelled = corpus.labelled()
    numbers, names = Folds(labelled, 4).numbers, corpus.all_groups()[labelled.rows]
    assert len(numbers) == labelled.n_documents < N and np.array_equal(labelled.all_groups(), names)
    assert together(numbers, names) and len(set(names)) > 4
    assert write_corpus(tmp_path / "none.zarr", X, hidden, unlabelled="").labelled().all_groups() is None


@pytest.mark.parametrize("grouped", [(True, True), (True, False), (False, True)])
def test_joined_corpora_keep_their_groups(tmp_path, grouped):
    names = [[f"{part}{i // 3}" for i in range(12)] if kept else None for part, kept in enumerate(grouped)]
    options = {"unlabelled": "", "shuffle": False}
    parts = [
        write_corpus(tmp_path / str(i), np.ones((12, 3), int), ["a", "b", ""] * 4, groups=groups, **options)
        for i, groups in enumerate(names)
    ]
    joined = concat(parts)
    groups = joined.all_groups()
    for part, kept, own in zip(parts, grouped, np.split(groups, 2), strict=True):
        assert np.array_equal(own, part.all_groups()) if kept else len(set(own)) == 12  # each is a group of its own
    assert together(joined.folds(4).numbers, groups)
    labelled = joined.labelled()
    assert np.array_equal(labelled.all_groups(), groups[labelled.rows])


def test_the_command_keeps_a_column_of_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Path("posts.csv").open("w", newline="") as file:
        texts = [" ".join(f"w{w}" for w in np.flatnonzero(row)) for row in X]
        rows = zip(Y, (f"a{g}" for g in GROUPS), texts, strict=True)
        csv.writer(file).writerows([("label", "author", "text"), *rows])
    ok("ingest posts.csv c.zarr --group author")
    corpus = open_corpus("c.zarr")
    assert together(corpus.all_groups(), GROUPS[corpus.ids_of()]) and len(set(corpus.all_groups())) == len(set(GROUPS))
    Path("posts.tsv").write_text("a\tb\n")
    for command, said in (
        ("ingest posts.csv x --group nobody", "no column 'nobody'; the columns are"),
        ("ingest posts.tsv x --group who", "it has no header"),
        ("ingest posts.tsv x --group 7", "2 columns, so there is no column 7 (from 0)"),
    ):
        message = refused(command)
        assert said in message and "column_" not in message


@pytest.mark.parametrize(
    "name", ["MultinomialNB", "LDAClassifier", "MultinomialMixture", "KMeans", "SdemMixtureClassifier"]
)
def test_weights_of_0_and_1_are_a_subset(tmp_path, name):
    dense = name == "SdemMixtureClassifier"
    counts = X.astype(float)[:, :5] if dense else X
    plain = write_corpus(tmp_path / "plain", counts, Y, dense=dense)
    zeros = write_corpus(tmp_path / "weighted", counts, Y, sample_weight=INSIDE.astype(float), dense=dense)
    equal_states(
        *(getattr(sd, name)(random_state=0).fit(part) for part in (zeros, plain.subset(INSIDE[plain.ids_of()])))
    )


def test_weights_of_a_corpus_are_those_of_its_matrix(tmp_path, weighted):
    stored, here = MultinomialNB(loss="nll").fit(weighted), MultinomialNB(loss="nll").fit(X, Y, sample_weight=WEIGHTS)
    equal_states(stored, here)
    assert stored.evaluate(weighted)["accuracy"] == pytest.approx(here.score(X, Y, sample_weight=WEIGHTS))
    part = weighted.subset(lambda label, name: label != "b")
    assert (part.weight, part.class_weights[0]) == (WEIGHTS[Y != "b"].sum(), WEIGHTS[Y == "a"].sum())
    table = X.astype(float)
    corpus = write_corpus(tmp_path / "t", table, Y, sample_weight=WEIGHTS, dense=True)
    stored, here = GaussianNB(loss="nll").fit(corpus), GaussianNB(loss="nll").fit(table, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(stored.predict_proba(table), here.predict_proba(table))


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_a_file_with_weights_is_cut_and_workers_write_the_same(tmp_path, monkeypatch, form, client):
    rows = [("ab"[i % 2], f"word{i % 9} all", i % 7) for i in range(300)]
    source, reading = tmp_path / f"s.{form}", Reading(weight="w")
    if form == "parquet":
        columns = dict(zip(("label", "text", "w"), zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), source, row_group_size=50)
    else:
        lines = ["label,text,w"] if form == "csv" else []
        separator = "," if form == "csv" else "\t"
        source.write_text("\n".join([*lines, *(separator.join(map(str, row)) for row in rows)]) + "\n")
        reading = reading if form == "csv" else Reading(weight=2, label=0, text=1)
    monkeypatch.setattr(splits, "INGEST_BYTES", 900)
    for name, how in (("here", {}), ("there", {"client": client})):
        sd.ingest(source, tmp_path / name, reading=reading, held_out=0.2, **how)
    for end in ("", "-held-out"):
        ours, theirs = (open_corpus(tmp_path / f"{name}{end}") for name in ("here", "there"))
        assert ours.header.uid == theirs.header.uid and list(check_corpus(theirs)) == []
        np.testing.assert_array_equal(theirs.weights, [i % 7 for i in theirs.ids_of()])


def test_weights_in_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"label": "ab"[i % 2], "text": f"word{i % 9} all {'x' * (i % 2)}", "w": i % 3} for i in range(90)]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("bad.csv").write_text("label,text,w\na,b,-3\n")
    ok("ingest s.jsonl c --weight w")
    ok("ingest s.jsonl d --weight w --vocabulary-from c")
    ok("train c m --quiet")
    ok("train s.jsonl m2 --weight w --quiet")
    ok("train c d m3 --quiet")
    ok("train s.jsonl s.jsonl m4 --weight w --quiet")
    assert "weights of documents" in ok("inspect c")
    equal_states(sd.load_model("m"), sd.load_model("m2"))
    equal_states(sd.load_model("m3"), MultinomialNB().fit(concat([open_corpus("c"), open_corpus("d")])))
    for command, code, said in (
        ("ingest bad.csv e --weight w", 1, "weights are numbers from 0 on"),
        ("ingest s.jsonl e --weight v", 1, "no field 'v'"),
        ("evaluate m s.jsonl --weight w", 2, "--weight is for sdem ingest"),
        ("train c s.jsonl m5", 2, "is a source, and others are corpora"),
    ):
        assert said in refused(command, code=code)
