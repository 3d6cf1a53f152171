"""Figures and predictions of workers: those of this process, to the bit, for every classifier and sources of text."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok, rows_of
from reference.catalogue_cases import CASES, write_corpora

from sdem_dist import MultinomialNB, open_corpus, write_corpus
from sdem_dist.fitting import scoring
from sdem_dist.text import splits

CLASSIFIERS = (
    "classes, sum", "gaussian ncll", "lda map", "multiplicative", "multiplicative, sparse", "ncll mean",
    "sdem of counts", "sdem of numbers",
)  # fmt: skip


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    write_corpora(folder)
    return folder


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_has_the_figures_of_its_report(name, corpora, client):
    case = CASES[name]
    corpus = open_corpus(corpora / case.corpus)
    model = case.made(verbose=False).fit(corpus)
    there = model.evaluate(corpus, client=client)
    assert there == model.evaluate(corpus)
    report = model.report(corpus)
    for figure in ("accuracy", "macro_f1", "brier", "ece"):
        assert there[figure] == pytest.approx(report.figures[figure], rel=1e-9), figure
    assert there["ncll"] == pytest.approx(report.log_loss, rel=1e-9)


@pytest.mark.parametrize("estimator", ["MultinomialNB", "MultinomialMixture", "SupervisedLDARegressor"])
def test_a_source_has_the_figures_of_this_process(estimator, tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "INGEST_BYTES", 4000)
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    numbers = estimator == "SupervisedLDARegressor"
    for name in ("train", "test"):
        labels = rng.integers(0, 3, 400)
        documents = (" ".join(rng.choice(words[k * 10 : k * 10 + 40], 9).tolist()) for k in labels)
        lines = (
            f"{k / 2 if numbers else 'abc'[k]}\t{document} {name}\n"
            for k, document in zip(labels, documents, strict=True)
        )
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    ok(f"ingest train.tsv c {'--targets' if numbers else ''}")
    ok(f"train c m --estimator {estimator} --epochs 2 --quiet")
    before = sorted(path.name for path in tmp_path.iterdir())
    here = json.loads(ok("evaluate m test.tsv --json"))
    assert json.loads(ok("evaluate m test.tsv --json --workers 2")) == here
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_errors_of_a_source_that_workers_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.tsv").write_text("sport\tgoal match\nmoney\tbank share\n" * 30)
    ok("train train.tsv m --quiet")
    rows = [{"label": "money", "text": "goal match", "name": "first"}, {"label": "sport", "text": "goal", "name": "b"}]
    Path("test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok("evaluate m test.jsonl --id name --errors e.jsonl --workers 1")
    (found,) = rows_of("e.jsonl")
    assert (found["id"], found["label"], found["prediction"]) == ("first", "money", "sport")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, y = sp.csr_matrix(rng.poisson(0.3, (900, 40))), rng.choice(["a", "b", "c"], 900)
    path, ids = tmp_path_factory.mktemp("fitted") / "c", [f"document {i}" for i in range(900)]
    corpus = write_corpus(path, X, y, ids=ids, shard_documents=100)
    return MultinomialNB(n_epochs=1, verbose=False).fit(corpus), corpus


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_predictions_have_the_same_bits_in_the_same_order(fitted, client, monkeypatch, method):
    model, corpus = fitted
    monkeypatch.setattr(scoring, "BATCH_DOCUMENTS", 70)  # pieces that cross shards
    here, there = getattr(model, method)(corpus), getattr(model, method)(corpus, client=client)
    assert here.dtype == there.dtype
    np.testing.assert_array_equal(here, there)
    for documents, where, said in (
        (sp.csr_matrix((1, 40)), client, "write one with write_corpus"),
        (corpus, "tcp://127.0.0.1:1", r"pass a distributed\.Client"),
    ):
        with pytest.raises(ValueError, match=said):
            getattr(model, method)(documents, client=where)
