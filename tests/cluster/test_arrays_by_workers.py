"""Corpora, trainings, figures and predictions of worker processes are those of this process, to the bit."""

import json
import os
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cli.commands import ok, rows_of
from reference.catalogue_cases import CASES as CATALOGUE
from reference.catalogue_cases import write_corpora
from sklearn.base import clone

import sdem_dist as sd
from sdem_dist.corpus import base, shuffle
from sdem_dist.corpus.reader import check_corpus
from sdem_dist.text import splits

CLASSIFIERS = ["classes, sum", "gaussian ncll", "lda map", "multiplicative", "multiplicative, sparse", "ncll mean"]
CLASSIFIERS += ["sdem of counts", "sdem of numbers"]


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
    "ids, groups, weights, targets": (COUNTS, LABELS, {"ids": [f"né{i}" for i in range(300)], "groups": np.arange(300) // 7,
                                      "sample_weight": np.arange(300) % 3, "targets": RNG.normal(size=(300, 2))}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lazy_labels", [True, False])
def test_the_same_corpus_as_in_this_process(case, lazy_labels, tmp_path, client):
    X, y, more = CASES[case]
    blocks = da.from_array(X, chunks=(70, 5))
    if case == "counts":
        blocks = da.from_array(X, chunks=(70, 12)).map_blocks(sp.csr_matrix)
    labels = da.from_array(y, chunks=70) if lazy_labels and y is not None else y
    sd.write_corpus(tmp_path / "here", X, y, **more)
    if lazy_labels and "targets" in more:
        more = {**more, "targets": da.from_array(more["targets"], chunks=(70, 1))}
    sd.write_corpus(tmp_path / "there", blocks, labels, client=client, **more)
    here, there = sd.open_corpus(tmp_path / "here"), sd.open_corpus(tmp_path / "there")
    assert here.header.uid == there.header.uid and not list(check_corpus(there))
    assert sorted(os.listdir(tmp_path)) == ["here", "there"]


def test_what_does_not_fit_is_named(tmp_path, client):
    X = da.from_array(COUNTS, chunks=(70, 12))
    with pytest.raises(sd.CorpusError, match=r"part 2 of X .* contains the value -1"):
        sd.write_corpus(tmp_path / "c", da.where(da.arange(300, chunks=70)[:, None] == 150, -1, X), client=client)
    with pytest.raises(sd.CorpusError, match="use the same partitions"):
        sd.write_corpus(tmp_path / "c", X, da.from_array(LABELS, chunks=100), client=client)
    with pytest.raises(sd.CorpusError, match="X has 300 documents, but y has 3"):
        sd.write_corpus(tmp_path / "c", X, LABELS[:3], client=client)
    with pytest.raises(sd.CorpusError, match="omit client"):
        sd.write_corpus(tmp_path / "c", COUNTS, LABELS, client=client)
    assert os.listdir(tmp_path) == []


SETTINGS = {"n_epochs": 2, "random_state": 3}
HALF = {"unlabelled_weight": 0.01, "validation_fraction": 0.0, **SETTINGS}
MIXTURE = {"components": "multinomial", "n_components": 1, **SETTINGS}
NUMBERS, NAMES = np.where(np.arange(300) % 2, LABELS == "a", -1), np.where(np.arange(300) % 2, LABELS, "?")
TRAINED = {
    "labels": (sd.MultinomialNB(**SETTINGS), LABELS, None),
    "weights": (sd.MultinomialNB(**SETTINGS), LABELS, RNG.integers(0, 3, 300).astype(float)),
    "numbers, some missing": (sd.MultinomialNB(unlabelled=-1, **HALF), NUMBERS, None),
    "names, some missing": (sd.MultinomialNB(unlabelled="?", **HALF), NAMES, None),
    "a mixture, some missing": (sd.EMMixtureClassifier(unlabelled="?", **MIXTURE), NAMES, None),
    "targets": (sd.SupervisedLDARegressor(2, **SETTINGS), COUNTS[:, 0].astype(float), None),
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
    corpus = sd.write_corpus(tmp_path / "c", COUNTS, sample_weight=weights, random_state=3, **beside)
    here = clone(estimator).fit(corpus)
    method = "predict" if name == "targets" else "predict_proba"
    np.testing.assert_array_equal(getattr(there, method)(COUNTS), getattr(here, method)(COUNTS))
    if "missing" in name:
        assert len(there.classes_) == len(set(y)) - 1


def test_a_bag_of_batches(tmp_path, client):
    cuts = [0, 10, 10, 150, 290, 300]
    batches = [(sp.csr_matrix(COUNTS[a:b]), LABELS[a:b], np.arange(1000 + a, 1000 + b)) for a, b in pairwise(cuts)]
    sd.write_corpus(tmp_path / "here", batches)
    bag = db.from_sequence(batches, npartitions=3)
    there = sd.write_corpus(tmp_path / "there", bag, client=client)
    assert there.header.uid == sd.open_corpus(tmp_path / "here").header.uid
    with pytest.raises(sd.CorpusError, match="contain their own labels"):
        sd.write_corpus(tmp_path / "c", bag, LABELS, client=client)
    with pytest.raises(sd.CorpusError, match="ids is positions, but was integers"):
        sd.write_corpus(tmp_path / "c", db.from_sequence([batches[0], batches[2][:2]]), client=client)


def table() -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.DataFrame(RNG.normal(0, 1e9, (300, 3)), columns=["a", "b", "c"])
    frame.loc[5:90, "b"] = np.nan
    frame["colour"] = np.array(["red", "blue", "green", None], object)[RNG.integers(0, 4, 300)]
    frame["sold"] = RNG.random(300) < 0.3
    frame.loc[100:199, "colour"] = None
    return frame, pd.Series(RNG.choice(["x", "y", "?"], 300), name="label")


def test_a_table_in_parts(tmp_path, client):
    frame, labels = table()
    here = sd.write_corpus(tmp_path / "here", frame, labels, dense=True, unlabelled="?")
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    same: dict = {"dense": True, "unlabelled": "?", "client": client}
    there = sd.write_corpus(tmp_path / "there", X, y, **same)
    assert there.header.uid == here.header.uid and there.vocabulary() == list(frame.columns)
    test = sd.write_corpus(tmp_path / "test", X, y, vectorizer=here.header.vectorizer, **same)
    assert test.header.uid == here.header.uid
    with pytest.raises(sd.CorpusError, match="need dense=True"):
        sd.write_corpus(tmp_path / "c", X, y, client=client)
    with pytest.raises(sd.CorpusError, match="y has 2 partitions, but X has 3"):
        sd.write_corpus(tmp_path / "c", X, dd.from_pandas(labels, npartitions=2), dense=True, client=client)


def test_tables_train_and_are_predicted_in_parts(tmp_path, client):
    frame, labels = table()
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        model = sd.MixedNB(n_epochs=2, random_state=1).fit(X, y, client=client)
        assert os.listdir(tmp_path) == []
    corpus = sd.write_corpus(tmp_path / "c", frame, labels, dense=True, random_state=1)
    here = sd.MixedNB(n_epochs=2, random_state=1).fit(corpus)
    np.testing.assert_array_equal(model.predict_proba(frame), here.predict_proba(frame))
    lazy = model.predict_proba(X)
    assert lazy.columns.tolist() == model.classes_.tolist()
    found = client.compute(lazy).result()
    pd.testing.assert_frame_equal(found, pd.DataFrame(here.predict_proba(frame), frame.index, model.classes_))
    assert client.compute(model.predict(X)).result().tolist() == here.predict(frame).tolist()
    X = da.from_array(COUNTS, chunks=(70, 12))
    numbers = sd.GaussianNB(n_epochs=1).fit(X, da.from_array(LABELS, chunks=70), client=client)
    np.testing.assert_array_equal(numbers.predict(X).compute(), numbers.predict(COUNTS))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    write_corpora(folder, 900)
    return folder


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_has_the_figures_of_its_report(name, corpora, client):
    case = CATALOGUE[name]
    corpus = sd.open_corpus(corpora / case.corpus)
    model = case.made(verbose=False).fit(corpus)
    there = model.evaluate(corpus, client=client)
    assert there == model.evaluate(corpus)
    report = model.report(corpus)
    for figure in ("accuracy", "macro_f1", "brier", "ece"):
        assert there[figure] == pytest.approx(report.figures[figure], rel=1e-9), figure
    assert there["ncll"] == pytest.approx(report.log_loss, rel=1e-9)


@pytest.mark.parametrize("estimator", ["MultinomialNB", "MultinomialMixture", "SupervisedLDARegressor"])
def test_a_source_has_the_figures_of_this_process(estimator, tmp_path, monkeypatch, client):
    monkeypatch.setattr(splits, "INGEST_BYTES", 4000)
    rng, words = np.random.default_rng(0), [f"word{i}" for i in range(60)]
    numbers = estimator == "SupervisedLDARegressor"
    for name in ("train", "test"):
        labels = rng.integers(0, 3, 400)
        documents = (" ".join(rng.choice(words[k * 10 : k * 10 + 40], 9).tolist()) for k in labels)
        given = labels / 2 if numbers else np.array(list("abc"))[labels]
        lines = (f"{label}\t{text} {name}\n" for label, text in zip(given, documents, strict=True))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    ok(f"ingest train.tsv c {'--targets' if numbers else ''}")
    ok(f"train c m --estimator {estimator} --epochs 2 --quiet")
    before = sorted(path.name for path in tmp_path.iterdir())
    here = json.loads(ok("evaluate m test.tsv --json"))
    there = f"--scheduler {client.scheduler.address}"
    assert json.loads(ok(f"evaluate m test.tsv --json {there}")) == here
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    if estimator == "MultinomialNB":
        ok(f"evaluate m test.tsv --id 0 --errors e.jsonl {there}")
        ok("evaluate m test.tsv --id 0 --errors f.jsonl")
        whole = [{name: row[name] for name in row if name != "text"} for row in rows_of("f.jsonl")]
        assert rows_of("e.jsonl") == whole != []


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, y = sp.csr_matrix(rng.poisson(0.3, (900, 40))), rng.choice(["a", "b", "c"], 900)
    path, ids = tmp_path_factory.mktemp("fitted") / "c", [f"document {i}" for i in range(900)]
    corpus = sd.write_corpus(path, X, y, ids=ids, shard_documents=100)
    return sd.MultinomialNB(n_epochs=1, verbose=False).fit(corpus), corpus


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_predictions_have_the_same_bits_in_the_same_order(fitted, client, monkeypatch, method):
    model, corpus = fitted
    monkeypatch.setattr(base, "BATCH_DOCUMENTS", 70)  # pieces that cross shards
    ask = getattr(model, method)
    here, there = ask(corpus), ask(corpus, client=client)
    assert here.dtype == there.dtype
    np.testing.assert_array_equal(here, there)
    np.testing.assert_raises_regex(ValueError, "with write_corpus", ask, sp.csr_matrix((1, 40)), client=client)
    np.testing.assert_raises_regex(ValueError, r"pass a distributed\.Client", ask, corpus, client="tcp://127.0.0.1:1")
