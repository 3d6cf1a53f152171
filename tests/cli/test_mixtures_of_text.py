"""Mixtures that are made for tables, trained on text by the shell."""

from __future__ import annotations

import pytest
from cli.commands import ok, refused, run

from sdem_dist import load_model


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixtures") / "posts.tsv"
    path.write_text("sport\tgoal team match\nmoney\tbank share loan\nsport\tgoal cup\nmoney\tloan price\n" * 10)
    return path


@pytest.mark.parametrize("name", ["SdemMixtureClassifier", "EMMixtureClassifier"])
def test_text_makes_components_multinomials(posts, tmp_path, name):
    model = str(tmp_path / "m")
    said = run("train", str(posts), model, "--estimator", name, "--set", "n_components=1", "--quiet")
    assert said.exit_code == 0 and "counts of words, so components are multinomials" in said.stderr, said.output
    assert load_model(model).components == "multinomial"
    assert ok("predict", model, str(posts), "--no-proba").splitlines() == ["sport", "money"] * 20


def test_components_that_are_chosen_stay(posts, tmp_path):
    how = ("--estimator", "EMMixtureClassifier", "--set", "components=gaussian")
    said = refused("train", str(posts), tmp_path / "m", *how)
    assert "takes dense ones" in said and "multinomial" in said


def test_training_shows_what_evaluate_shows_and_of_which_documents(posts, tmp_path):
    said = {
        name: run("train", str(posts), str(tmp_path / name), "--estimator", name, "--quiet").stdout
        for name in ("SdemMixtureClassifier", "EMMixtureClassifier", "MultinomialMixture")
    }
    assert all("; training documents: " in text for text in said.values())
    assert ["perplexity" in text and "NLL " in text for text in said.values()] == [False, True, True]


def test_searches_and_suspects_too(posts, tmp_path):
    how = ("--estimator", "EMMixtureClassifier", "--folds", "2")
    ok("tune", str(posts), tmp_path / "m", *how, "--quiet", "--space", "n_components=1,2")
    assert load_model(tmp_path / "m").components == "multinomial"
    ok("suspects", str(posts), *how, "--set", "n_components=1")


@pytest.mark.parametrize(("name", "listed"), [("SdemMixtureClassifier", True), ("ManyClassNB", False)])
def test_the_report_lists_words_by_class_or_says_that_it_does_not(posts, tmp_path, name, listed):
    model, page = str(tmp_path / "m"), tmp_path / "page.html"
    ok("train", str(posts), model, "--estimator", name, "--quiet")
    ok("report", model, str(posts), "-o", str(page))
    text = page.read_text()
    assert "Words by class" in text
    assert (">goal</mark>" in text.split("Words by class")[-1].split("</section>")[0]) is listed
    assert ("Not listed for ManyClassNB" in text) is not listed


@pytest.mark.parametrize("command", ["train", "tune"])
def test_who_trains_a_model_of_tables_on_a_file_is_told_how_tables_become_corpora(posts, tmp_path, command):
    said = refused(command, str(posts), tmp_path / "m", "--estimator", "GaussianNB", code=2)
    assert "GaussianNB learns from tables" in said and 'write_corpus("table.zarr", X, y, dense=True)' in said
