"""A corpus written from a Dask collection by worker processes: that of the same documents in this process."""

import os
from itertools import pairwise

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sdem_dist import (
    CorpusError,
    EMMixtureClassifier,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    SupervisedLDARegressor,
    open_corpus,
    write_corpus,
)
from sdem_dist.corpus import shuffle
from sdem_dist.corpus.reader import check_corpus


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(shuffle, "TASK_ENTRIES", 500)


RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.4, (300, 12))
LABELS = np.array(["b", "a", "élan"])[RNG.integers(0, 3, 300)]
CASES = {
    "counts": (COUNTS, LABELS, {}),
    "weights here and there": (COUNTS * np.where(np.arange(300) < 100, 1.0, 0.5)[:, None], LABELS, {}),
    "no labels, in order": (COUNTS, None, {"shuffle": False}),
    "classes in an order": (COUNTS, LABELS, {"classes": ["élan", "b", "a", "none"], "shard_documents": 17}),
    "numbers as labels": (COUNTS, RNG.integers(-3, 3, 300), {"random_state": 4, "vocabulary": list("abcdefghijkl")}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lazy_labels", [True, False])
def test_the_same_corpus_as_in_this_process(case, lazy_labels, tmp_path, client):
    X, y, more = CASES[case]
    blocks = da.from_array(X, chunks=(70, 5))
    if case == "counts":
        blocks = da.from_array(X, chunks=(70, 12)).map_blocks(sp.csr_matrix)
    labels = da.from_array(y, chunks=70) if lazy_labels and y is not None else y
    write_corpus(tmp_path / "here", X, y, **more)
    write_corpus(tmp_path / "there", blocks, labels, client=client, **more)
    here, there = open_corpus(tmp_path / "here"), open_corpus(tmp_path / "there")
    assert here.header.uid == there.header.uid
    assert not list(check_corpus(there))
    assert sorted(os.listdir(tmp_path)) == ["here", "there"]


def test_what_does_not_fit_is_named(tmp_path, client):
    X = da.from_array(COUNTS, chunks=(70, 12))
    with pytest.raises(CorpusError, match=r"part 2 of X .* holds the entry -1"):
        write_corpus(tmp_path / "c", da.where(da.arange(300, chunks=70)[:, None] == 150, -1, X), client=client)
    with pytest.raises(CorpusError, match="cut both alike"):
        write_corpus(tmp_path / "c", X, da.from_array(LABELS, chunks=100), client=client)
    with pytest.raises(CorpusError, match="X has 300 documents and y has 3"):
        write_corpus(tmp_path / "c", X, LABELS[:3], client=client)
    with pytest.raises(CorpusError, match="leave client out"):
        write_corpus(tmp_path / "c", COUNTS, LABELS, client=client)
    assert os.listdir(tmp_path) == []


WEIGHTS = RNG.integers(0, 3, 300).astype(float)
SETTINGS = {"n_epochs": 2, "random_state": 3}
HALF = {"unlabelled_weight": 0.01, "validation_fraction": 0.0, **SETTINGS}
MIXTURE = {"components": "multinomial", "n_components": 1, **SETTINGS}
NUMBERS, NAMES = np.where(np.arange(300) % 2, LABELS == "a", -1), np.where(np.arange(300) % 2, LABELS, "?")
TRAINED = {
    "labels": (MultinomialNB(**SETTINGS), LABELS, None),
    "weights": (MultinomialNB(**SETTINGS), LABELS, WEIGHTS),
    "numbers, some missing": (MultinomialNB(unlabelled=-1, **HALF), NUMBERS, None),
    "names, some missing": (MultinomialNB(unlabelled="?", **HALF), NAMES, None),
    "a mixture, some missing": (EMMixtureClassifier(unlabelled="?", **MIXTURE), NAMES, None),
    "targets": (SupervisedLDARegressor(2, **SETTINGS), COUNTS[:, 0].astype(float), None),
}


@pytest.mark.parametrize("name", TRAINED)
def test_training_is_that_of_the_corpus(name, tmp_path, client):
    estimator, y, weights = TRAINED[name]
    X, labels = da.from_array(COUNTS, chunks=(70, 12)), da.from_array(y, chunks=70)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        given = () if weights is None else (weights,)
        there = clone(estimator).fit(X, labels, *given, client=client)
        assert os.listdir(tmp_path) == []
    beside = {"targets": y} if name == "targets" else {"y": y, "unlabelled": getattr(estimator, "unlabelled", None)}
    here = clone(estimator).fit(write_corpus(tmp_path / "c", COUNTS, sample_weight=weights, random_state=3, **beside))
    method = "predict" if name == "targets" else "predict_proba"
    np.testing.assert_array_equal(getattr(there, method)(COUNTS), getattr(here, method)(COUNTS))
    if "missing" in name:
        assert len(there.classes_) == len(set(y)) - 1


def test_ids_and_targets_beside_an_array(tmp_path, client):
    ids, targets, groups = [f"né{i}" for i in range(300)], RNG.normal(size=(300, 2)), np.arange(300) // 7
    more = {"ids": ids, "groups": groups, "sample_weight": groups % 3}
    write_corpus(tmp_path / "here", COUNTS, LABELS, targets=targets, **more)
    beside = {"targets": da.from_array(targets, chunks=(70, 1)), **more}
    there = write_corpus(tmp_path / "there", da.from_array(COUNTS, chunks=70), LABELS, client=client, **beside)
    assert there.header.uid == open_corpus(tmp_path / "here").header.uid


def test_a_bag_of_batches(tmp_path, client):
    cuts = [0, 10, 10, 150, 290, 300]
    batches = [(sp.csr_matrix(COUNTS[a:b]), LABELS[a:b], np.arange(1000 + a, 1000 + b)) for a, b in pairwise(cuts)]
    write_corpus(tmp_path / "here", batches)
    bag = db.from_sequence(batches, npartitions=3)
    there = write_corpus(tmp_path / "there", bag, client=client)
    assert there.header.uid == open_corpus(tmp_path / "here").header.uid
    with pytest.raises(CorpusError, match="bring labels"):
        write_corpus(tmp_path / "c", bag, LABELS, client=client)
    with pytest.raises(CorpusError, match="in ids: positions, not integers"):
        write_corpus(tmp_path / "c", db.from_sequence([batches[0], batches[2][:2]]), client=client)


def table() -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.DataFrame(RNG.normal(0, 1e9, (300, 3)), columns=["a", "b", "c"])
    frame.loc[5:90, "b"] = np.nan
    frame["colour"] = np.array(["red", "blue", "green", None], object)[RNG.integers(0, 4, 300)]
    frame["sold"] = RNG.random(300) < 0.3
    frame.loc[100:199, "colour"] = None
    return frame, pd.Series(RNG.choice(["x", "y", "?"], 300), name="label")


def test_a_table_in_parts(tmp_path, client):
    frame, labels = table()
    here = write_corpus(tmp_path / "here", frame, labels, dense=True, unlabelled="?")
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    there = write_corpus(tmp_path / "there", X, y, dense=True, unlabelled="?", client=client)
    assert there.header.uid == here.header.uid
    assert there.vocabulary() == list(frame.columns)
    test = write_corpus(
        tmp_path / "test", X, y, dense=True, vectorizer=here.header.vectorizer, unlabelled="?", client=client
    )
    assert test.header.uid == here.header.uid
    with pytest.raises(CorpusError, match="stored with dense=True"):
        write_corpus(tmp_path / "c", X, y, client=client)
    with pytest.raises(CorpusError, match="cut into 2 parts and X into 3"):
        write_corpus(tmp_path / "c", X, dd.from_pandas(labels, npartitions=2), dense=True, client=client)


def test_tables_train_and_are_predicted_in_parts(tmp_path, client):
    frame, labels = table()
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        model = MixedNB(n_epochs=2, random_state=1).fit(X, y, client=client)
        assert os.listdir(tmp_path) == []
    here = MixedNB(n_epochs=2, random_state=1).fit(
        write_corpus(tmp_path / "c", frame, labels, dense=True, random_state=1)
    )
    np.testing.assert_array_equal(model.predict_proba(frame), here.predict_proba(frame))
    lazy = model.predict_proba(X)
    assert lazy.columns.tolist() == model.classes_.tolist()
    found = client.compute(lazy).result()
    pd.testing.assert_frame_equal(found, pd.DataFrame(here.predict_proba(frame), frame.index, model.classes_))
    assert client.compute(model.predict(X)).result().tolist() == here.predict(frame).tolist()


def test_tables_without_names_train_from_parts(tmp_path, client):
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        X = da.from_array(COUNTS, chunks=(70, 12))
        numbers = GaussianNB(n_epochs=1).fit(X, da.from_array(LABELS, chunks=70), client=client)
    np.testing.assert_array_equal(numbers.predict(X).compute(), numbers.predict(COUNTS))
