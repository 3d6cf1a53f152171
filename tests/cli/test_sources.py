"""`sdem train` and `sdem evaluate` on files of texts."""

from __future__ import annotations

import json

import pytest
from commands import run

from sdem_dist import load_model

LINES = [
    f"{label}\t{text} {i % 7}xx" for i in range(90) for label, text in (("sport", "goal match"), ("money", "bank loan"))
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_a_source_is_trained_and_measured_like_the_corpus_of_it(source, tmp_path):
    assert run("ingest", source, tmp_path / "posts.zarr").exit_code == 0
    for documents, name in ((source, "a"), (tmp_path / "posts.zarr", "b")):
        assert run("train", documents, tmp_path / name, "--quiet").exit_code == 0
    found = [json.loads(run("evaluate", tmp_path / name, source, "--json").stdout) for name in ("a", "b")]
    assert found[0] == found[1]
    assert found[0]["accuracy"] == 1.0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_workers_elsewhere_need_a_corpus(source, tmp_path):
    found = run("train", source, tmp_path / "m", "--scheduler", "tcp://127.0.0.1:1")
    assert found.exit_code == 2
    assert "make it with sdem ingest" in found.output


def test_text_is_counted_as_ingest_counts_it(source, tmp_path):
    options = ("--ngrams", "1,2", "--min-df", "2", "--stop-words", "english", "--encoding", "utf-8")
    assert run("ingest", source, tmp_path / "c", *options).exit_code == 0
    assert run("train", tmp_path / "c", tmp_path / "a", "--quiet").exit_code == 0
    assert run("train", source, tmp_path / "b", "--quiet", *options).exit_code == 0
    a, b = load_model(tmp_path / "a"), load_model(tmp_path / "b")
    assert a.vocabulary_ == b.vocabulary_ and "goal match" in a.vocabulary_
    texts = ["goal match 3xx", "bank"]
    assert a.predict_proba(texts).tolist() == b.predict_proba(texts).tolist()
    assert (
        run("train", source, tmp_path / "d", "--quiet", "--hashing", "64", "--label", "0", "--text", "1").exit_code == 0
    )
    assert load_model(tmp_path / "d").n_features_in_ == 64


def test_options_of_a_source_are_refused_beside_a_corpus(source, tmp_path):
    assert run("ingest", source, tmp_path / "c").exit_code == 0
    found = run("train", tmp_path / "c", tmp_path / "m", "--stem", "english", "--label", "0")
    assert found.exit_code == 2 and "--label, --stem: only for a source" in found.output
    assert run("train", source, tmp_path / "m", "--quiet").exit_code == 0
    found = run("evaluate", tmp_path / "m", tmp_path / "c", "--format", "tsv")
    assert found.exit_code == 2 and "--format: only for a source" in found.output
    found = run("train", source, tmp_path / "n", "--analyzer", "char", "--stem", "english")
    assert found.exit_code == 1 and "stem does not apply" in found.output


def test_bad_lines_are_left_out_and_unknown_words_are_told(source, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("sport\tgoal strange\nno tab\nmoney\tstrange\n")
    assert run("train", source, tmp_path / "m", "--quiet").exit_code == 0
    assert run("evaluate", tmp_path / "m", bad).exit_code != 0
    found = run("evaluate", tmp_path / "m", bad, "--on-error", "skip")
    assert found.exit_code == 0 and "2 documents" in found.output and "1 line left out" in found.output
    assert "1 document without a word that the model knows" in found.output
    matrix = tmp_path / "x.svm"
    matrix.write_text("1 1:2\n")
    assert "holds numbers" in run("evaluate", tmp_path / "m", matrix).output


def test_what_is_missing_is_named(source, tmp_path):
    for command in ("train", "tune"):
        alone = run(command, source)
        assert alone.exit_code == 2 and "CORPUS... MODEL" in alone.output
    assert run("train", source, tmp_path / "m", "--quiet").exit_code == 0
    for arguments in (("train", "nope.tsv", tmp_path / "n"), ("evaluate", tmp_path / "m", "nope.tsv")):
        found = run(*arguments)
        assert found.exit_code == 1
        assert found.output == "Error: nope.tsv: there is no such file or folder\n"


def test_errors_name_the_source_and_not_the_hidden_corpus_of_it(tmp_path):
    (tmp_path / "one.tsv").write_text("a\tone text\na\tother text\n")
    found = run("train", tmp_path / "one.tsv", tmp_path / "m", "--quiet")
    assert found.exit_code == 1
    assert f"{tmp_path / 'one.tsv'}: has one class only (a)" in " ".join(found.output.split())
    assert "corpus.zarr" not in found.output


def test_quiet_says_nothing_of_counting(tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text("\n".join(LINES * 40) + "\n")
    assert "documents" in run("train", path, tmp_path / "a", "--epochs", "1").stderr
    assert not run("train", path, tmp_path / "b", "--epochs", "1", "--quiet").stderr


def test_suspects_of_a_source_show_its_texts(source):
    found = run("suspects", source, "-n", "3")
    assert "goal match" in found.output or "bank loan" in found.output
    assert "the most doubtful, documents counted from 0" in found.output
    assert "--keep-text" not in found.output


def test_likelihoods_of_words_are_shown_where_they_mean_something(source, tmp_path):
    for loss in ("hinge", "nll"):
        assert run("train", source, tmp_path / loss, "--quiet", "--loss", loss).exit_code == 0
        shown = run("evaluate", tmp_path / loss, source).stdout
        assert ("perplexity" in shown) == ("NLL " in shown) == (loss == "nll")
        assert json.loads(run("evaluate", tmp_path / loss, source, "--json").stdout)["perplexity"] > 0


def test_a_column_of_texts_as_labels_is_warned_of(source, tmp_path):
    source.write_text("".join(f"{line} {i}\n" for i, line in enumerate(LINES)))
    swapped = ["--label", "1", "--text", "0"]
    warning = "Warning: 180 distinct labels of 180 documents, such as 'bank loan 0xx "
    said = run("ingest", source, tmp_path / "wrong.zarr", *swapped).stderr
    assert warning in said and "is column '1' the right one? --label COLUMN chooses another" in said
    of_corpus = run("train", tmp_path / "wrong.zarr", tmp_path / "a", "--epochs", 1, "--quiet")
    assert of_corpus.exit_code == 0 and of_corpus.stderr.count(warning) == 1
    assert run("train", source, tmp_path / "b", *swapped, "--epochs", 1, "--quiet").stderr.count(warning) == 1
    clusters = ["--estimator", "KMeans", "--set", "n_clusters=2"]  # which do not look at labels
    assert warning not in run("train", tmp_path / "wrong.zarr", tmp_path / "c", *clusters).stderr
    assert "Warning" not in run("ingest", source, tmp_path / "right.zarr").stderr
