"""`sdem train` and `sdem evaluate` on files of texts."""

from __future__ import annotations

import json

import pytest
from commands import ok, refused, run

from sdem_dist import load_model

LINES = [
    f"{label}\t{text} {i % 7}xx" for i in range(90) for label, text in (("sport", "goal match"), ("money", "bank loan"))
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    (folder / "posts.tsv").write_text("\n".join(LINES) + "\n")
    ok("ingest", folder / "posts.tsv", folder / "posts.zarr")
    ok("train", folder / "posts.tsv", folder / "m", "--quiet")
    return folder


@pytest.fixture
def source(trained):
    return trained / "posts.tsv"


def test_a_source_is_trained_and_measured_like_the_corpus_of_it(trained, source, tmp_path):
    ok("train", trained / "posts.zarr", tmp_path / "m", "--quiet")
    figures = [json.loads(ok("evaluate", folder / "m", source, "--json")) for folder in (trained, tmp_path)]
    assert figures[0] == figures[1] and figures[0]["accuracy"] == 1.0
    assert not [path for path in (*trained.iterdir(), *tmp_path.iterdir()) if path.name.startswith(".")]


def test_workers_elsewhere_need_a_corpus(source, tmp_path):
    said = refused("train", source, tmp_path / "m", "--scheduler", "tcp://127.0.0.1:1", code=2)
    assert "make it with sdem ingest" in said


def test_text_is_counted_as_ingest_counts_it(source, tmp_path):
    options = ("--ngrams", "1,2", "--min-df", "2", "--stop-words", "english", "--encoding", "utf-8")
    ok("ingest", source, tmp_path / "c", *options)
    ok("train", tmp_path / "c", tmp_path / "a", "--quiet")
    ok("train", source, tmp_path / "b", "--quiet", *options)
    a, b = load_model(tmp_path / "a"), load_model(tmp_path / "b")
    assert a.vocabulary_ == b.vocabulary_ and "goal match" in a.vocabulary_
    texts = ["goal match 3xx", "bank"]
    assert a.predict_proba(texts).tolist() == b.predict_proba(texts).tolist()
    ok("train", source, tmp_path / "d", "--quiet", "--hashing", "64", "--label", "0", "--text", "1")
    assert load_model(tmp_path / "d").n_features_in_ == 64


def test_options_of_a_source_are_refused_beside_a_corpus(trained, source, tmp_path):
    said = refused("train", trained / "posts.zarr", tmp_path / "m", "--stem", "english", "--label", "0", code=2)
    assert "--label, --stem: only for a source" in said
    said = refused("evaluate", trained / "m", trained / "posts.zarr", "--format", "tsv", code=2)
    assert "--format: only for a source" in said
    said = refused("train", source, tmp_path / "n", "--analyzer", "char", "--stem", "english")
    assert "stem does not apply" in said


def test_bad_lines_are_left_out_and_unknown_words_are_told(trained, tmp_path):
    (tmp_path / "bad.tsv").write_text("sport\tgoal strange\nno tab\nmoney\tstrange\n")
    evaluate = ("evaluate", trained / "m", tmp_path / "bad.tsv")
    refused(*evaluate)
    said = run(*evaluate, "--on-error", "skip")
    assert said.exit_code == 0
    for words in ("2 documents", "1 line left out", "1 document without a word that the model knows"):
        assert words in said.output
    (tmp_path / "x.svm").write_text("1 1:2\n")
    assert "holds numbers" in refused("evaluate", trained / "m", tmp_path / "x.svm", code=2)


def test_what_is_missing_is_named(trained, source, tmp_path):
    for command in ("train", "tune"):
        assert "CORPUS... MODEL" in refused(command, source, code=2)
    for arguments in (("train", "nope.tsv", tmp_path / "n"), ("evaluate", trained / "m", "nope.tsv")):
        assert refused(*arguments) == "Error: nope.tsv: there is no such file or folder"


def test_errors_name_the_source_and_not_the_hidden_corpus_of_it(tmp_path):
    (tmp_path / "one.tsv").write_text("a\tone text\na\tother text\n")
    said = refused("train", tmp_path / "one.tsv", tmp_path / "m", "--quiet")
    assert said.startswith(f"Error: {tmp_path / 'one.tsv'}: has one class only (a)")


def test_quiet_says_nothing_of_counting(tmp_path):
    (tmp_path / "posts.tsv").write_text("\n".join(LINES * 40) + "\n")
    train = ("train", tmp_path / "posts.tsv", tmp_path / "m", "--epochs", "1", "--overwrite")
    assert "documents" in run(*train).stderr and not run(*train, "--quiet").stderr


def test_suspects_of_a_source_show_its_texts(source):
    said = ok("suspects", source, "-n", "3")
    assert "goal match" in said or "bank loan" in said
    assert "the most doubtful, documents counted from 0" in said and "--keep-text" not in said


def test_likelihoods_of_words_are_shown_where_they_mean_something(source, tmp_path):
    for loss in ("hinge", "nll"):
        ok("train", source, tmp_path / loss, "--quiet", "--loss", loss)
        shown = ok("evaluate", tmp_path / loss, source)
        assert ("perplexity" in shown) == ("NLL " in shown) == (loss == "nll")
        assert json.loads(ok("evaluate", tmp_path / loss, source, "--json"))["perplexity"] > 0


def test_a_column_of_texts_as_labels_is_warned_of(source, tmp_path):
    (tmp_path / "p.tsv").write_text("".join(f"{line} {i}\n" for i, line in enumerate(LINES)))
    warning = "Warning: 180 distinct labels of 180 documents, such as 'bank loan 0xx "
    swapped, once = ("--label", "1", "--text", "0"), ("--epochs", "1", "--quiet")
    said = run("ingest", tmp_path / "p.tsv", tmp_path / "wrong.zarr", *swapped).stderr
    assert warning in said and "is column '1' the right one? --label COLUMN chooses another" in said
    for arguments in ((tmp_path / "wrong.zarr", tmp_path / "a"), (tmp_path / "p.tsv", tmp_path / "b", *swapped)):
        assert run("train", *arguments, *once).stderr.count(warning) == 1
    clusters = ("--estimator", "KMeans", "--set", "n_clusters=2")  # which do not look at labels
    assert warning not in run("train", tmp_path / "wrong.zarr", tmp_path / "c", *clusters).stderr
    assert "Warning" not in run("ingest", source, tmp_path / "right.zarr").stderr
