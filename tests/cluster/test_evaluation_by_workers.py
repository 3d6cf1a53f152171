"""Figures of models on workers: those of this process, for every classifier and for sources of text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok
from reference.catalogue_cases import CASES, write_corpora

from sdem_dist import open_corpus
from sdem_dist.text import splits

CLASSIFIERS = (
    "classes, sum",
    "gaussian ncll",
    "lda map",
    "multiplicative",
    "multiplicative, sparse",
    "ncll mean",
    "sdem of counts",
    "sdem of numbers",
)


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


@pytest.mark.parametrize(
    "estimator",
    ["MultinomialNB", "MultinomialMixture", "SupervisedLDARegressor"],
)
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
    model, test = str(tmp_path / "m"), str(tmp_path / "test.tsv")
    ok("ingest", str(tmp_path / "train.tsv"), str(tmp_path / "c"), *(["--targets"] if numbers else []))
    ok("train", str(tmp_path / "c"), model, "--estimator", estimator, "--epochs", "2", "--quiet")
    before = sorted(path.name for path in tmp_path.iterdir())
    here = json.loads(ok("evaluate", model, test, "--json"))
    assert json.loads(ok("evaluate", model, test, "--json", "--workers", "2")) == here
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_errors_of_a_source_that_workers_read(tmp_path):
    lines = ["sport\tgoal match\n", "money\tbank share\n"] * 30
    (tmp_path / "train.tsv").write_text("".join(lines))
    ok("train", str(tmp_path / "train.tsv"), str(tmp_path / "m"), "--quiet")
    table = [{"label": "money", "text": "goal match", "name": "first"}, {"label": "sport", "text": "goal", "name": "b"}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    test, errors = str(tmp_path / "test.jsonl"), tmp_path / "e.jsonl"
    ok("evaluate", str(tmp_path / "m"), test, "--id", "name", "--errors", str(errors), "--workers", "1")
    (found,) = map(json.loads, errors.read_text().splitlines())
    assert (found["id"], found["label"], found["prediction"]) == ("first", "money", "sport")
