"""Parts of a corpus, several as one, folds, groups and weights: each trains and predicts like a corpus of just those."""

import csv
import json
import pickle  # noqa: TID251  as Dask sends corpora
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused
from distributed.protocol import deserialize, serialize

import sdem_dist as sd
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.corpus.folds import Folds

N, RNG = 300, np.random.default_rng(0)
Y = RNG.choice(["a", "b", "é"], N, p=[0.6, 0.3, 0.1])
CODES = np.unique(Y, return_inverse=True)[1]
X = RNG.poisson(0.4 + (np.arange(12) % 3 == CODES[:, None]))
WEIGHTS, GROUPS = RNG.integers(0, 4, N).astype(float), RNG.integers(0, 45, N)
NAMES = [f"d{i}" for i in range(N)]
KEEP = {"shard_documents": 70, "shuffle": False}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return sd.write_corpus(tmp_path_factory.mktemp("views") / "c", X, Y, ids=NAMES, **KEEP)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    return sd.write_corpus(tmp_path_factory.mktemp("views") / "w", X, Y, sample_weight=WEIGHTS, **KEEP)


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
    model, alone = sd.MultinomialNB(**settings).fit(part), sd.MultinomialNB(**settings).fit(X[inside], Y[inside])
    assert part.weight == inside.sum() < N
    np.testing.assert_array_equal(part.mask, inside)
    np.testing.assert_allclose(model.predict_proba(X)[:, : len(alone.classes_)], alone.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(part), alone.predict(X[inside]))
    assert model.evaluate(part)["accuracy"] == pytest.approx((alone.predict(X[inside]) == Y[inside]).mean())
    again = pickle.loads(pickle.dumps(part))  # noqa: S301
    assert again.header.uid == part.header.uid != corpus.header.uid and again.cache_key == part.cache_key


def test_parts_that_cannot_be_and_how_parts_are_named(corpus):
    mask = np.arange(N) % 3 == 0
    for which in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        np.testing.assert_array_equal(corpus.subset(which).mask, mask)
    for wrong in ([], [N], [-1], [0.5], np.ones(N - 1, bool), np.zeros(N, bool)):
        np.testing.assert_raises_regex(ValueError, r"which must be|no document", corpus.subset, wrong)
    part = corpus.subset(np.arange(N) < 200).subset(np.arange(0, N, 2))
    assert repr(part).startswith("a subset of 100 documents of a subset of 200 documents of Corpus(")


def test_a_part_is_cut_into_folds_and_drawn_as_a_curve(corpus):
    part = corpus.subset(np.arange(N) < 200).subset(np.arange(0, N, 2))
    for training, fold in part.folds(4):
        assert (training.weight, fold.weight) == (75, 25) and not (fold.mask & ~part.mask).any()
    curve = sd.learning_curve(sd.MultinomialNB(n_epochs=2), part, shares=(1.0,), cv=4)
    expected = [sd.MultinomialNB(n_epochs=2).fit(a).evaluate(b)["accuracy"] for a, b in part.folds(4)]
    assert curve.n_documents.tolist() == [75]
    np.testing.assert_allclose(curve.accuracy[0], expected)


def test_corpora_of_one_vocabulary_are_one(tmp_path, weighted):
    kept = {"shuffle": False, "classes": ["a", "b", "é"]}
    first = sd.write_corpus(tmp_path / "a", X[:120], Y[:120], shard_documents=50, **kept)
    second = sd.write_corpus(tmp_path / "b", X[120:], Y[120:], shard_documents=60, **kept)
    both, whole = sd.concat([first, second]), sd.write_corpus(tmp_path / "w", X, Y, **kept)
    documents = both.read(0, N)
    np.testing.assert_array_equal(documents.to_csr().toarray(), X)
    assert [both.header.classes[k] for k in documents.labels] == Y.tolist()
    np.testing.assert_array_equal(both.document_frequency, whole.document_frequency)
    assert both.ids_of(119, 121) == [119, 0] and "b: shard 2" in both.place(290)
    assert pickle.loads(pickle.dumps(both)).header.uid == both.header.uid  # noqa: S301
    equal_states(*(sd.MultinomialNB(n_epochs=2, n_lanes=3).fit(corpus) for corpus in (both, whole)))
    assert both.subset(np.arange(100, 200)).weight == 100
    assert sd.concat([first]) is first and sd.concat([both, first]).n_documents == 420
    assert sd.concat([weighted, weighted]).weight == 2 * WEIGHTS.sum()


def test_every_class_is_dealt_evenly_to_folds_and_not_in_turn(corpus):
    numbers = corpus.folds(5).numbers
    for part in (CODES >= 0, *(c == CODES for c in range(3))):
        assert np.ptp(np.bincount(numbers[part], minlength=5)) <= 1
    assert not np.array_equal(numbers, corpus.folds(5, seed=1).numbers)
    assert 0.1 < (numbers[1:] == numbers[:-1]).mean() < 0.35
    assert np.array_equal(Folds(MemoryCorpus(X, CODES, corpus.header.classes, shuffle=False), 5).numbers, numbers)
    part = deserialize(*serialize(corpus.folds(5).train(2)))
    assert part.cache_key == corpus.folds(5).train(2).cache_key
    assert np.array_equal(part.read(10, 200).weights, numbers[10:200] != 2)


@pytest.mark.parametrize("settings", [{}, {"loss": "ncll", "class_weight": "balanced"}, {"n_lanes": 4}])
def test_training_does_not_see_the_fold(corpus, tmp_path, settings):
    """Other counts of the fold's documents change no bit, as long as words occur in as many documents."""
    outside = corpus.folds(3).numbers == 0
    other = np.where(outside[:, None] & (X > 0), X + 3, X)
    one = sd.write_corpus(tmp_path / "one", other, Y, ids=NAMES, **KEEP)
    model = sd.MultinomialNB(n_epochs=2, validation_fraction=0.2, n_jobs=1, **settings)
    state = model.fit(corpus.folds(3).train(0)).state_
    assert np.array_equal(state.words, model.fit(one.folds(3).train(0)).state_.words)


def test_a_table_trains_like_memory_and_goes_on_from_checkpoints(tmp_path):
    y = RNG.integers(0, 3, N)
    table = RNG.normal(y[:, None] * 0.7, 1.0, (N, 4))
    table[RNG.random(table.shape) < 0.1] = np.nan
    corpus = sd.write_corpus(tmp_path / "dense.zarr", table, y, dense=True, shard_documents=64)
    stored, memory = (sd.GaussianNB(n_epochs=8).fit(*where) for where in ((corpus,), (table, y)))
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-5)
    assert stored.evaluate(corpus)["ncll"] == pytest.approx(memory.evaluate(table, y)["ncll"], rel=1e-6)
    sd.GaussianNB(n_epochs=3).fit(corpus, checkpoint=tmp_path / "run")
    resumed = sd.GaussianNB(n_epochs=8).fit(corpus, checkpoint=tmp_path / "run", resume=True)
    assert resumed.theta_.tobytes() == stored.theta_.tobytes()
    part, inside = corpus.folds(4).train(0), corpus.folds(4).numbers != 0
    rows = np.array(corpus.ids_of())[inside]
    part, alone = sd.GaussianNB(loss="nll").fit(part), sd.GaussianNB(loss="nll").fit(table[rows], y[rows])
    assert part.predict_proba(table) == pytest.approx(alone.predict_proba(table), abs=1e-6)
    some = np.where(np.arange(N) % 2, y, -1)
    half = sd.write_corpus(tmp_path / "half.zarr", table, some, dense=True, unlabelled=-1)
    memory, stored = sd.GaussianNB(unlabelled=-1, n_epochs=5).fit(table, some), sd.GaussianNB(n_epochs=5).fit(half)
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-6)


def together(numbers, groups):
    return all(len(set(numbers[groups == group])) == 1 for group in np.unique(groups))


def grouped(path, groups=GROUPS, y=Y, **more):
    return sd.write_corpus(path / "c.zarr", X[: len(y)], y, groups=groups, shard_documents=150, **more)


def labelled(path):
    corpus = grouped(path, y=np.where(np.arange(N) % 2, Y, ""), unlabelled="")
    part = corpus.labelled()
    assert np.array_equal(part.all_groups(), corpus.all_groups()[part.rows]) and part.n_documents == N // 2
    return Folds(part, 4).numbers, GROUPS[np.array(corpus.ids_of())[part.rows]]


def joined(path, kept):
    """Documents of the part without groups are each a group of its own."""
    names = [np.array([f"{part}{i // 3}" for i in range(12)]) if kept[part] else None for part in (0, 1)]
    given = np.ones((12, 3), int), ["a", "b"] * 6
    parts = [sd.write_corpus(path / str(i), *given, groups=names[i], shuffle=False) for i in (0, 1)]
    groups = sd.concat(parts).all_groups()
    for own, name in zip(np.split(groups, 2), names, strict=True):
        assert len(set(own)) == 12 if name is None else len(set(own)) == 4
    return sd.concat(parts).folds(4).numbers, groups


def searched(path):
    search = sd.CorpusSearchCV(sd.MultinomialNB(), {"step": [0.1]}, cv=4, n_jobs=1, refit=False)
    assert not together(search.fit(X, Y).oof_folds_, GROUPS)
    return search.fit(X, Y, groups=GROUPS).oof_folds_, GROUPS


def of_a_column(path):
    with (path / "posts.csv").open("w", newline="") as file:
        texts = [" ".join(f"w{w}" for w in np.flatnonzero(row)) for row in X]
        rows = zip(Y, (f"a{g}" for g in GROUPS), texts, strict=True)
        csv.writer(file).writerows([("label", "author", "text"), *rows])
    ok("ingest", path / "posts.csv", path / "c", "--group", "author")
    corpus = sd.open_corpus(path / "c")
    assert together(corpus.all_groups(), GROUPS[corpus.ids_of()]) and len(set(corpus.all_groups())) == len(set(GROUPS))
    return corpus.folds(4).numbers, GROUPS[corpus.ids_of()]


def stored(path, groups):
    corpus = grouped(path, groups)
    of_stored, labels, numbers = groups[corpus.ids_of()], corpus.labels(), corpus.folds(4).numbers
    assert together(corpus.all_groups(), of_stored)
    counts = np.array([np.bincount(labels[numbers == fold], minlength=3) for fold in range(4)])
    assert max(*np.ptp(counts, axis=0), np.ptp(counts.sum(axis=1))) <= np.bincount(GROUPS).max(), "classes are even"
    assert not np.array_equal(numbers, corpus.folds(4, seed=1).numbers)
    return numbers, of_stored


def given_to_folds(path):
    plain = sd.write_corpus(path / "plain.zarr", X, Y, shard_documents=150)
    groups = GROUPS[plain.ids_of()]
    assert not together(plain.folds(4).numbers, groups) and plain.labelled().all_groups() is None
    given = plain.folds(4, groups=groups)
    again = pickle.loads(pickle.dumps(given))  # noqa: S301
    assert np.array_equal(again.numbers, given.numbers)
    assert again.train(0).cache_key == given.train(0).cache_key != plain.folds(4).train(0).cache_key
    for act, message in (
        (lambda: plain.folds(4, groups=groups[:5]), f"{N} documents"),
        (lambda: plain.folds(4, groups=GROUPS % 3).numbers, "3 groups cannot be split into 4 folds"),
    ):
        np.testing.assert_raises_regex(ValueError, message, act)
    return given.numbers, groups


def large(path):
    groups = np.r_[np.zeros(60, int), np.arange(1, 61)]
    numbers = grouped(path, groups, np.arange(120) % 2, shuffle=False).folds(2).numbers
    assert sorted(np.bincount(numbers)) == [60, 60] and len(set(numbers[:60])) == 1, "it takes a fold for itself"
    return numbers, groups


GROUPED = {
    "integers": lambda path: stored(path, GROUPS),
    "texts": lambda path: stored(path, np.array([f"author {group}" for group in GROUPS])),
    "of two corpora": lambda path: joined(path, (True, True)),
    "of one of two": lambda path: joined(path, (False, True)),
    **{made.__name__: made for made in (labelled, searched, of_a_column, given_to_folds, large)},
}


@pytest.mark.parametrize("name", GROUPED)
def test_folds_keep_groups_whole(name, tmp_path):
    numbers, groups = GROUPED[name](tmp_path)
    assert len(numbers) == len(groups) and together(numbers, groups) and len(set(groups)) >= 4


def test_weights_of_a_corpus_are_those_of_its_matrix(tmp_path, weighted):
    stored = sd.MultinomialNB(loss="nll").fit(weighted)
    here = sd.MultinomialNB(loss="nll").fit(X, Y, sample_weight=WEIGHTS)
    equal_states(stored, here)
    assert stored.evaluate(weighted)["accuracy"] == pytest.approx(here.score(X, Y, sample_weight=WEIGHTS))
    part = weighted.subset(lambda label, name: label != "b")
    assert (part.weight, part.class_weights[0]) == (WEIGHTS[Y != "b"].sum(), WEIGHTS[Y == "a"].sum())
    table = X.astype(float)
    corpus = sd.write_corpus(tmp_path / "t", table, Y, sample_weight=WEIGHTS, dense=True)
    stored, here = sd.GaussianNB(loss="nll").fit(corpus), sd.GaussianNB(loss="nll").fit(table, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(stored.predict_proba(table), here.predict_proba(table))


def test_weights_and_groups_in_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"label": "ab"[i % 2], "text": f"word{i % 9} all {'x' * (i % 2)}", "w": i % 3} for i in range(90)]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("bad.csv").write_text("label,text,w\na,b,-3\n")
    Path("bad.tsv").write_text("a\tb\n")
    for command in ("ingest s.jsonl c --weight w", "ingest s.jsonl d --weight w --vocabulary-from c", "train c m --quiet",
                    "train s.jsonl m2 --weight w --quiet", "train c d m3 --quiet"):  # fmt: skip
        ok(command)
    assert "weights of documents" in ok("inspect c")
    equal_states(sd.load_model("m"), sd.load_model("m2"))
    equal_states(sd.load_model("m3"), sd.MultinomialNB().fit(sd.concat([sd.open_corpus("c"), sd.open_corpus("d")])))
    for command, code, said in (
        ("ingest bad.csv e --weight w", 1, "weights must be nonnegative numbers"),
        ("ingest s.jsonl e --weight v", 1, "no field 'v'"),
        ("evaluate m s.jsonl --weight w", 2, "--weight does not apply to this command"),
        ("train c s.jsonl m5", 2, "is a source, but other inputs are corpora"),
        ("ingest bad.csv x --group nobody", 1, "no column 'nobody'; the columns are"),
        ("ingest bad.tsv x --group who", 1, "without a header, specify columns by number"),
        ("ingest bad.tsv x --group 7", 1, "no column 7 (counting from 0): the line has 2 columns"),
    ):
        message = refused(command, code=code)
        assert said in message and "column_" not in message
