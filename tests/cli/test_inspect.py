"""``sdem inspect`` of tables and mixtures: columns, categories, what is missing and what has no label."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.commands import ok, run

from sdem_dist import (
    GaussianRegressor,
    MixedNB,
    MultinomialMixture,
    MultiplicativeMixtureClassifier,
    SdemMixtureClassifier,
    write_corpus,
)


def inspected(path, *options, code=0):
    found = run("inspect", path, *options)
    assert found.exit_code == code, found.output
    return {line.split()[0]: " ".join(line.split()[1:]) for line in found.output.splitlines() if line.strip()}


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": rng.normal(size=40), "colour": ["red", "blue"] * 20, "town": [f"t{i}" for i in range(40)]}
    )
    frame.loc[:3, "size"], frame.loc[5:6, "colour"] = np.nan, None
    labels = np.array(["yes", "no", "?", "yes"] * 10)
    return write_corpus(tmp_path / "c", frame, labels, dense=True, unlabelled="?", shard_documents=15)


def test_a_table(corpus):
    shown = inspected(corpus.path)
    assert shown["documents"] == "40, 10 without a label"
    assert shown["features"] == "3, with names"
    assert shown["values"].startswith("120 (float")
    assert shown["missing"] == "6 of 120 values, 5.0%; most in size 10.0%, colour 5.0%"
    assert shown["categories"] == "colour: blue, red; town: t0, t1, t10, t11, t12 and 35 more"
    assert shown["yes"] == "20 50.0%"
    assert not {"text", "nonzeros"} & set(shown)
    assert "missing" not in inspected(corpus.path, "--no-check")


def test_numbers_without_names(tmp_path):
    X = np.eye(6)
    shown = inspected(write_corpus(tmp_path / "n", X, np.arange(6) % 2, dense=True).path)
    assert (shown["missing"], shown["documents"], shown["features"]) == ("none", "6", "6")
    assert not {"text", "categories"} & set(shown)
    X[2, 1] = np.nan
    gaps = inspected(write_corpus(tmp_path / "g", X, np.arange(6) % 2, dense=True).path)
    assert gaps["missing"] == "1 of 36 values, 2.8%; most in column 1 16.7%"
    assert inspected(write_corpus(tmp_path / "s", np.eye(6), np.arange(6) % 2).path)["text"] == "to words not recorded"


def test_damaged_tables_are_shown_and_named(corpus):
    shutil.rmtree(Path(corpus.path) / "vocabulary")
    shutil.rmtree(Path(corpus.path) / "shards" / "00001")
    shown = inspected(corpus.path, code=1)
    assert "column 0" in shown["missing"]
    assert "damaged:" in shown


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            MixedNB(n_epochs=2),
            {"model": "MixedNB, loss ncll", "features": "3, columns of a table with names", "classes": "2"},
        ),
        (GaussianRegressor(), {"model": "GaussianRegressor, loss nll", "features": "2, columns of a table"}),
    ],
    ids=["MixedNB", "GaussianRegressor"],
)
def test_models_of_tables(model, said, corpus, tmp_path):
    trained = corpus if isinstance(model, MixedNB) else write_corpus(tmp_path / "r", np.eye(9)[:, :3], dense=True)
    done = run("train", trained.path, tmp_path / "m", "--estimator", type(model).__name__)
    assert done.exit_code == 0, done.output
    name = {"ncll": "log-loss", "nll": "NLL", "hinge": "hinge loss"}[model.loss]
    assert f"  {name} " in done.output  # among what its progress says
    shown = inspected(tmp_path / "m")
    assert said.items() <= shown.items()
    assert not {"raw", "The", "clusters"} & set(shown)
    scored = ok("evaluate", tmp_path / "m", trained.path)
    assert "(NCLL)" in scored and "(weighted)" not in scored


def test_a_corpus_says_in_words_what_its_numbers_are(tmp_path):
    (tmp_path / "s.tsv").write_text("sport\tgoal one\nmoney\tbank two\n" * 5)
    ok("ingest", tmp_path / "s.tsv", tmp_path / "c", "--ngrams", "2")
    shown = ok("inspect", tmp_path / "c")
    assert "values: counts of terms, ngram_range: 2 2" in shown
    assert "sources: " in shown and "['" not in shown


@pytest.mark.parametrize(
    ("model", "said", "metric"),
    [
        (MultinomialMixture(2, n_init=2, n_epochs=2), ("MultinomialMixture", "clusters"), "perplexity"),
        (MultiplicativeMixtureClassifier(2, n_epochs=3), ("MultiplicativeMixtureClassifier", "classes"), "accuracy"),
        (
            SdemMixtureClassifier(2, components="multinomial", n_epochs=2),
            ("SdemMixtureClassifier, loss ncll", "classes"),
            "accuracy",
        ),
    ],
    ids=["clusters", "multiplicative", "sdem"],
)
def test_inspect_and_evaluate(model, said, metric, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    corpus = write_corpus(tmp_path / "c", rng.poisson(1.0 + 4.0 * (y[:, None] == np.arange(6) % 2)), y)
    model.fit(corpus).save(tmp_path / "m")
    shown = ok("inspect", tmp_path / "m")
    assert all(words in shown for words in said)
    scored = ok("evaluate", tmp_path / "m", tmp_path / "c")
    assert metric in scored
    assert ("purity" in scored) == (metric == "perplexity")  # of clusters, where labels are known
    if metric == "perplexity":
        found = model.evaluate(corpus)
        known = model.report(corpus).figures
        assert {name: found[name] for name in ("purity", "nmi", "ari")} == known
        documents = corpus.read(0, 60).to_csr()
        assert "purity" not in model.evaluate(documents)
        assert model.evaluate(documents, corpus.labels())["nmi"] == known["nmi"]
