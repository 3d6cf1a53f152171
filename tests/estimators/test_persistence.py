"""Models as files: the same bits back, and a clear word about every file that is not one."""

from __future__ import annotations

import errno

import numpy as np
import pandas as pd
import pytest
from reference.random_documents import random_counts

from sdem_dist import ModelError, MultinomialNB, load_model, write_corpus
from sdem_dist.storage import publish
from sdem_dist.storage.archive import read_archive, write_archive

X, Y = random_counts(120, 20, 3, seed=2)
KIND = "sdem-model"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.model"
    model = MultinomialNB(n_epochs=2).fit(X, Y)
    model.save(path)
    return model, path


def without_seconds(model):
    """Return the history as files have it."""
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in model.history_]


def test_equal_models_are_equal_files(tmp_path):
    of_the_machine = {"a": {}, "b": {}, "c": {"n_jobs": 1, "verbose": True}, "d": {"n_jobs": 2}}
    for name, own in of_the_machine.items():
        MultinomialNB(n_epochs=2, **own).fit(X, Y).save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in of_the_machine}) == 1
    assert load_model(tmp_path / "c").n_jobs is None


def assert_same_model(a: MultinomialNB, b: MultinomialNB) -> None:
    for left, right in zip(a.state_, b.state_, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.predict_joint_log_proba(X), b.predict_joint_log_proba(X))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.classes_.dtype == b.classes_.dtype


@pytest.mark.parametrize(
    "parameters",
    [
        {}, {"loss": "hinge", "merge": "sum"}, {"loss": "nll", "alpha": 0.5}, {"loss": "nll", "unlabelled": 2},
        {"class_prior": np.array([0.2, 0.3, 0.5])}, {"class_prior": (0.5, 0.5, 0.0)}, {"fit_prior": False},
        {"class_weight": "balanced"}, {"class_weight": {0: 2.0, 2: 0.5}}, {"class_weight": {np.int64(1): 3.0}},
        {"random_state": np.random.RandomState(0)}, {"alpha": np.float64(0.3), "n_lanes": np.int64(2)},
    ],
)  # fmt: skip
def test_there_and_back(parameters, tmp_path):
    model = MultinomialNB(**{"n_epochs": 2, **parameters}).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_same_model(model, loaded)
    assert loaded.history_ == without_seconds(model) or parameters.get("class_prior") == (0.5, 0.5, 0.0)
    assert loaded.n_iter_ == model.n_iter_ and loaded.n_features_in_ == 20
    assert loaded.evaluate(X, Y) == pytest.approx(model.evaluate(X, Y), rel=1e-12)
    for name, value in model.get_params().items():
        if name != "random_state":
            np.testing.assert_array_equal(loaded.get_params()[name], value)
    if not isinstance(parameters.get("random_state"), np.random.RandomState):
        refitted = loaded.fit(X, Y)
        np.testing.assert_array_equal(refitted.state_.words, model.state_.words)


@pytest.mark.parametrize("loss", ["ncll", "nll"])
def test_partial_fit_goes_on_the_same(loss, tmp_path):
    model = MultinomialNB(loss=loss, class_weight={1: 2.0}).partial_fit(X[:60], Y[:60], classes=[0, 1, 2])
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_same_model(model.partial_fit(X[60:], Y[60:]), loaded.partial_fit(X[60:], Y[60:]))
    assert loaded.n_iter_ == 2


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["a", "long name", "é"]), np.array(["a", "b", "c"], dtype=object), np.array([3, 5, 900]),
        np.array([0, 1, 2], np.int8), np.array([0, 1, 2], np.uint16), np.array([0.0, 1.0, 2.0]),
        np.array([False, True]), np.array([-3, 2]), np.array([2, 2**63 + 1, 2**64 - 1], np.uint64),
    ],
)  # fmt: skip
def test_classes_keep_their_type(classes, tmp_path):
    y = classes[Y % len(classes)]
    model = MultinomialNB(n_epochs=1).fit(X, y)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.classes_, classes)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert type(loaded.predict(X)[0]) is type(model.predict(X)[0])
    assert loaded.score(X, y) == model.score(X, y)


def test_classes_that_are_hashes_stay_apart(tmp_path):
    hashes = np.array([1, 2**63 + 1, 2**63 + 2], np.uint64)  # as floats the last two would be one
    corpus = write_corpus(tmp_path / "c", X, hashes[Y % 3])
    model = MultinomialNB(n_epochs=1).fit(corpus)
    np.testing.assert_array_equal(model.classes_, hashes)
    assert model.classes_.dtype == np.uint64
    assert model.evaluate(corpus)["accuracy"] == model.score(X, hashes[Y % 3])


def test_losses_that_are_not_finite(tmp_path):
    model = MultinomialNB(n_epochs=2, class_prior=[1.0, 0.0, 0.0], evaluate_every=1).fit(X, Y)
    assert model.history_[-1]["nll"] == np.inf
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").history_ == without_seconds(model)
    silent = MultinomialNB(n_epochs=1, evaluate_every=1).fit(X * 0, Y)
    silent.save(tmp_path / "s")
    assert np.isnan(load_model(tmp_path / "s").history_[0]["perplexity"])


def test_feature_names(tmp_path):
    frame = pd.DataFrame(X.toarray(), columns=[f"c{i}" for i in range(20)])
    MultinomialNB(n_epochs=1).fit(frame, Y).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"c0": "other"}))


def test_raw_text_is_predicted_as_the_ingested_corpus(tmp_path):
    from sdem_dist import ingest, open_corpus
    from sdem_dist.text import VectorizerSettings

    words = np.array([f"word{i:02d}" for i in range(20)])
    texts = [" ".join(np.repeat(words, row)) for row in X.toarray()]
    lines = [f"class{k}\t{text}\n" for k, text in zip(Y, texts, strict=True)]
    (tmp_path / "docs.tsv").write_text("".join(lines))
    ingest([tmp_path / "docs.tsv"], tmp_path / "c", VectorizerSettings(min_df=2))
    corpus = open_corpus(tmp_path / "c")
    MultinomialNB(n_epochs=2).fit(corpus).save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert model.vocabulary_ == corpus.vocabulary()
    assert model.vectorizer_ == corpus.header.vectorizer
    stored = corpus.read(0, 120)
    order = np.concatenate([corpus.ids(shard) for shard in range(len(corpus.header.shards))])
    from_text = model.vectorize([texts[i] for i in order])
    assert from_text.shape == (120, 20)
    np.testing.assert_allclose(from_text.toarray(), stored.to_csr().toarray(), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(from_text), model.predict_proba(stored.to_csr()), rtol=1e-4)
    np.testing.assert_array_equal(model.predict(from_text), model.predict(stored.to_csr()))


def test_a_model_of_numbers_has_no_way_from_text(saved):
    with pytest.raises(ModelError, match="not on text"):
        saved[0].vectorize(["some words"])


def edited(saved, tmp_path, change):
    """Write the saved model again after `change(arrays, metadata)`: sound as a file, with checksums that hold."""
    arrays, metadata = read_archive(saved[1], KIND)
    change(arrays, metadata)
    path = tmp_path / "edited"
    write_archive(path, KIND, arrays, metadata)
    return path


EDITS = {
    "a module for an estimator": lambda a, m: m.update(estimator="os.system"),
    "an unknown parameter": lambda a, m: m["parameters"].update(unheard_of=1),
    "an unknown setting": lambda a, m: m["learner"].update(unheard_of=1),
    "a learner of another kind": lambda a, m: m["learner"].update(kind="Words"),
    "a vocabulary of another length": lambda a, m: a.update(
        vocabulary_bytes=np.frombuffer(b"ab", np.uint8), vocabulary_offsets=np.array([0, 1, 2])
    ),
    "offsets beyond the vocabulary": lambda a, m: a.update(
        vocabulary_bytes=np.frombuffer(b"ab", np.uint8), vocabulary_offsets=np.arange(21) * 7
    ),
    "half a vocabulary": lambda a, m: a.update(vocabulary_bytes=np.frombuffer(b"ab", np.uint8)),
    "unknown settings of text": lambda a, m: m.update(vectorizer={"kind": "count", "bogus": 1}),
    "settings of text of a wrong kind": lambda a, m: m.update(vectorizer={"kind": "count", "ngram_range": 3}),
    "a stem that is not a language": lambda a, m: m.update(vectorizer={"kind": "count", "stem": 3}),
    "texts hashed to other columns": lambda a, m: m.update(vectorizer={"kind": "hashing", "n_features": 2**40}),
    "a pattern larger than memory": lambda a, m: m.update(vectorizer={"token_pattern": "((a{999}){999}){999}"}),
    "n-grams longer than memory": lambda a, m: m.update(vectorizer={"ngram_range": [1, 10**9]}),
}
"""Other values of other parts, and parts that are missing, are in `test_mutated_settings`."""


@pytest.mark.parametrize("name", EDITS)
def test_parts_that_do_not_fit_together(name, saved, tmp_path):
    path = edited(saved, tmp_path, EDITS[name])
    with pytest.raises(ModelError, match="edited"):
        load_model(path)


def test_an_edit_that_changes_nothing_is_a_model(saved, tmp_path):
    assert_same_model(load_model(edited(saved, tmp_path, lambda a, m: None)), saved[0])


def test_other_files(saved, tmp_path):
    with pytest.raises(ModelError, match="no such file"):
        load_model(tmp_path / "absent")
    with pytest.raises(ModelError, match="absent"):
        saved[0].save(tmp_path / "absent" / "m")
    for folder in (tmp_path, write_corpus(tmp_path / "c", X, Y).path):
        with pytest.raises(ModelError):
            load_model(folder)
    write_archive(tmp_path / "checkpoint", "sdem-checkpoint", {}, {})
    with pytest.raises(ModelError, match="sdem-checkpoint"):
        load_model(tmp_path / "checkpoint")


def test_newer_format(saved, tmp_path, monkeypatch):
    from sdem_dist.storage import archive

    monkeypatch.setattr(archive, "FORMAT_VERSION", archive.FORMAT_VERSION + 1)
    saved[0].save(tmp_path / "m")
    monkeypatch.undo()
    with pytest.raises(ModelError, match="another version"):
        load_model(tmp_path / "m")


def test_a_full_disk_leaves_the_model_that_was_there(saved, tmp_path, monkeypatch):
    path = tmp_path / "m"
    saved[0].save(path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(publish.os, "fsync", full)
    other = MultinomialNB(n_epochs=1, loss="hinge").fit(X, Y)
    with pytest.raises(ModelError, match="No space left"):
        other.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    other.save(path)
    assert_same_model(load_model(path), other)
