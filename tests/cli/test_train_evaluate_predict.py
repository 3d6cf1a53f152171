"""``sdem train``, ``evaluate`` and ``predict`` as a user meets them."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused, run

from sdem_dist import load_model, open_corpus
from sdem_dist.cli import predict
from sdem_dist.glossary import metric

RNG = np.random.default_rng(0)
TOPICS = {
    "sport": ["goal", "match", "team", "score", "league", "coach"],
    "money": ["bank", "share", "profit", "market", "trade", "price"],
    "food": ["salt", "bread", "oven", "taste", "sugar", "cook"],
}
COMMON = ["the", "of", "and", "said", "new", "year", "people", "time"]


def document(topic: str) -> str:
    return " ".join(RNG.choice(TOPICS[topic], 3).tolist() + RNG.choice(COMMON, 5).tolist())


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with docs.tsv, its corpora, and a trained model."""
    folder = tmp_path_factory.mktemp("cli")
    topics = list(TOPICS) * 60
    (folder / "docs.tsv").write_text("".join(f"{t}\t{document(t)}\n" for t in topics))
    ok("ingest", folder / "docs.tsv", folder / "docs.zarr", "--held-out", "0.25", "--jobs", "1")
    ok("train", folder / "docs.zarr", folder / "docs.model", "--epochs", "3", "--quiet")
    return folder


def test_train_and_evaluate(made, tmp_path):
    options = ("--epochs", "3", "--quiet", "--loss", "ncll", "--set", "evaluate_every=1")
    shown = ok("train", made / "docs.zarr", tmp_path / "m", *options)
    assert f"{tmp_path / 'm'}: MultinomialNB, loss ncll, 3 epochs; training documents: accuracy" in shown
    assert load_model(tmp_path / "m").loss == "ncll"
    model, held_out = load_model(tmp_path / "m"), str(made / "docs.zarr-held-out")
    expected = model.evaluate(open_corpus(held_out))
    assert expected["accuracy"] > 0.8
    assert json.loads(ok("evaluate", tmp_path / "m", held_out, "--json")) == expected
    table = ok("evaluate", tmp_path / "m", held_out)
    unsaid = {"temperature", "tempered_log_loss", "nll", "perplexity"}  # the last two mean little after NCLL
    assert all(metric(name).name in table for name in set(expected) - unsaid)
    assert "perplexity" in expected and "perplexity" not in table
    assert f"{expected['accuracy']:.4f}" in table


def test_one_epoch_is_not_many(made, tmp_path):
    shown = ok(
        "train", made / "docs.zarr", tmp_path / "m", "--epochs", "1", "--set", "validation_fraction=0", "--quiet"
    )
    assert shown.endswith(
        ": MultinomialNB, loss hinge, 1 epoch\n"
    )  # and no metrics of training, which cost as much as it


def test_every_option_reaches_the_estimator(made, tmp_path):
    options = "--loss hinge --alpha 0.5 --epochs 4 --lanes 2 --rounds 3 --patience 2 --seed 9 --quiet"
    validation = ("--validation", str(made / "docs.zarr-held-out"))
    ok("train", made / "docs.zarr", tmp_path / "m", *options.split(), *validation)
    found = load_model(tmp_path / "m").get_params()
    expected = {
        "loss": "hinge", "alpha": 0.5, "n_epochs": 4, "n_lanes": 2, "rounds_per_epoch": 3,
        "patience": 2, "random_state": 9, "merge": "mean", "verbose": False,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert "validation_accuracy" in load_model(tmp_path / "m").history_[0]
    ok("train", made / "docs.zarr", tmp_path / "s", "--merge", "sum", "--alpha", "log", "--batch-size", "2", "--quiet")
    summed = load_model(tmp_path / "s")
    assert (summed.alpha, summed.batch_size) == ("log", 2)


def test_with_patience_the_figures_are_those_of_the_epoch_that_is_kept(made, tmp_path):
    held_out, path = str(made / "docs.zarr-held-out"), str(tmp_path / "m")
    options = ("--validation", held_out, "--patience", "2", "--epochs", "60", "--lanes", "1", "--loss", "hinge")
    options += ("--set", "evaluate_every=1")
    result = run("train", made / "docs.zarr", path, *options)
    history = load_model(path).history_
    kept = min(history, key=lambda h: h["validation_hinge"])
    assert kept["epoch"] < len(history)
    assert f"epoch {kept['epoch']} is kept" in result.stderr
    assert f"{len(history)} epochs, epoch {kept['epoch']} kept; training documents: accuracy" in result.stdout
    assert f"hinge loss {kept['hinge']:.4f}" in result.stdout
    assert json.loads(ok("evaluate", path, held_out, "--json"))["hinge"] == pytest.approx(kept["validation_hinge"])
    shown = ok("inspect", path)
    assert f"kept: epoch {kept['epoch']}" in shown


def test_figures_of_two_kinds_of_held_out_documents_are_told_apart(made, tmp_path):
    held_out, path = str(made / "docs.zarr-held-out"), str(tmp_path / "m")
    options = ("--estimator", "EMMixtureClassifier", "--epochs", "4", "--validation", held_out)
    options += ("--set", "validation_fraction=0.5")
    said = ok("train", made / "docs.zarr", path, *options)
    for documents in ("training documents", "a held-out part of the training documents", "held-out documents"):
        assert f"; {documents}: accuracy" in said
    shown = ok("inspect", path)
    assert "on a held-out part of the training documents" in shown and "on held-out documents" in shown


def test_a_warning_is_words_and_no_code(made, tmp_path):
    damaged = tmp_path / "docs.zarr"
    options = ("--held-out", "0.25", "--jobs", "1", "--shard-documents", "20")
    ok("ingest", made / "docs.tsv", str(damaged), *options)
    next((damaged / "shards").glob("*1/indices/c/0")).unlink()
    result = run("train", str(damaged), tmp_path / "m", "--epochs", "1", "--quiet", "--skip-damaged")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"Warning: {damaged}: 1 of") and "train.py" not in result.stderr


def test_train_shows_progress_on_standard_error_only(made, tmp_path):
    result = run("train", made / "docs.zarr", tmp_path / "m", "--epochs", "2")
    assert "epoch 1" in result.stderr and "epoch 2" in result.stderr
    assert "epoch 1" not in result.stdout


def test_checkpoint_and_resume(made, tmp_path):
    arguments = ("train", made / "docs.zarr", tmp_path / "m", "--epochs", "2")
    arguments += ("--checkpoint", tmp_path / "run", "--set", "validation_fraction=0")
    assert "checkpoint" in run(*arguments).stderr
    assert len(list((tmp_path / "run").iterdir())) == 2
    before = load_model(tmp_path / "m")
    max((tmp_path / "run").iterdir()).unlink()
    assert "from epoch 2" in run(*arguments, "--resume").stderr
    np.testing.assert_array_equal(load_model(tmp_path / "m").state_.words, before.state_.words)
    assert "other settings" in refused(*arguments, "--resume", "--seed", "3", "--quiet")


MISTAKES = [
    (2, "--resume", "need --checkpoint"),
    (2, "--checkpoint-rounds 2", "need --checkpoint"),
    (2, "--patience 2", "needs --validation"),
    (2, "--alpha jeffreys", "neither laplace nor log nor a number"),
    (2, "--loss log", "--loss"),
    (2, "--epochs 0", "--epochs"),
    (2, "--scheduler tcp://x:1 --workers 2", "not both"),
    (2, "--estimator Perceptron", "choose one of"),
    (2, "--estimator multinomialNb", "--estimator multinomialNb: did you mean MultinomialNB? choose one of"),
    (2, "--set zzz=3", "MultinomialNB has no zzz; it has"),
    (2, "--set epochs=3", "MultinomialNB has no epochs; did you mean n_epochs? it has"),
    (2, "--set loss", "write NAME=VALUE"),
    (2, "--loss hinge --set loss=ncll", "loss is given twice"),
    (2, "--estimator LDAClassifier --alpha 2", "LDAClassifier has no alpha"),
    (1, "--estimator GaussianNB", "GaussianNB takes dense ones"),
    (1, "--merge sum --rounds 2", "leave rounds_per_epoch at None"),
    (1, "--alpha -1", "alpha must be"),
    (1, "--checkpoint FOLDER --checkpoint-rounds 1 --checkpoint-seconds 5", "not both"),
]


@pytest.mark.parametrize(("code", "options", "said"), MISTAKES)
def test_mistakes_in_options(made, code, options, said, tmp_path):
    words = options.replace("FOLDER", str(tmp_path / "run")).split()
    assert said in refused("train", made / "docs.zarr", tmp_path / "m", *words, "--quiet", code=code)
    assert not (tmp_path / "m").exists()


def test_things_that_are_not_there(made, tmp_path):
    absent = str(tmp_path / "absent")
    for arguments in (
        ("train", absent, str(tmp_path / "m")),
        ("evaluate", absent, str(made / "docs.zarr")),
        ("evaluate", str(made / "docs.model"), absent),
        ("predict", absent, str(made / "docs.tsv"), "--text-column", "1"),
        ("predict", str(made / "docs.model"), absent),
    ):
        assert "absent" in refused(*arguments)


@pytest.mark.parametrize("command", [("train", "{corpus}", "{model}"), ("evaluate", "{model}", "{corpus}")])
def test_a_scheduler_that_does_not_answer(made, command, monkeypatch, tmp_path):
    from sdem_dist.cluster import client as cluster

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{s.getsockname()[1]}"
    impatient = cluster._remote_client
    monkeypatch.setattr(cluster, "_remote_client", lambda scheduler, timeout: impatient(scheduler, 0.5))
    arguments = [part.format(corpus=made / "docs.zarr", model=made / "docs.model") for part in command]
    if command[0] == "train":
        arguments[2] = tmp_path / "m"
    assert address in refused(*arguments, "--scheduler", address)
    assert not (tmp_path / "m").exists()


def test_on_worker_processes_of_this_machine_the_bits_are_the_same(made, tmp_path):
    ok("train", made / "docs.zarr", tmp_path / "m", "--epochs", "3", "--quiet", "--workers", "1")
    here, there = load_model(made / "docs.model"), load_model(tmp_path / "m")
    for a, b in zip(here.state_, there.state_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_corpus_of_other_words(made, tmp_path):
    (tmp_path / "other.tsv").write_text(
        "sport\tquite other words\nmoney\twords quite unlike\nfood\tother unlike\n" * 20
    )
    ok("ingest", tmp_path / "other.tsv", tmp_path / "other", "--jobs", "1")
    said = refused("evaluate", made / "docs.model", tmp_path / "other")
    assert "--vocabulary-from" in said and "other" in said
    ok(
        "ingest", tmp_path / "other.tsv", tmp_path / "fits", "--jobs", "1",
        "--vocabulary-from", made / "docs.zarr",
    )  # fmt: skip
    ok("evaluate", made / "docs.model", tmp_path / "fits")


def test_predict(made, tmp_path):
    texts = ["goal goal team", "", "bread salt oven", "none of these 123"]
    (tmp_path / "texts").write_text("".join(f"{t}\n" for t in texts))
    model = load_model(made / "docs.model")
    proba = model.predict_proba(model.vectorize(texts))
    lines = ok("predict", made / "docs.model", tmp_path / "texts").splitlines()
    assert len(lines) == 4 and lines[0].split("\t")[0] == "sport" and lines[2].split("\t")[0] == "food"
    for line, row in zip(lines, proba, strict=True):
        label, *pairs = line.split("\t")
        names, values = zip(*(pair.split("=") for pair in pairs), strict=True)
        assert list(names) == model.classes_.tolist() == ["food", "money", "sport"]
        np.testing.assert_allclose([float(v) for v in values], row, rtol=1e-5)
        assert label == names[row.argmax()]
    plain = ok("predict", made / "docs.model", tmp_path / "texts", "--no-proba")
    assert plain.splitlines() == [line.split("\t")[0] for line in lines]


def test_predict_reads_columns_compressed_files_and_standard_input(made, tmp_path):
    model = str(made / "docs.model")
    (tmp_path / "t.tsv").write_text("1\tgoal team\tx\n2\tbank share\ty\n")
    expected = "sport\nmoney\n"
    assert ok("predict", model, tmp_path / "t.tsv", "--text-column", "1", "--no-proba") == expected
    with gzip.open(tmp_path / "t.gz", "wt") as file:
        file.write("goal team\nbank share\n")
    assert ok("predict", model, tmp_path / "t.gz", "--no-proba") == expected
    assert ok("predict", model, "-", "--no-proba", input="goal team\nbank share") == expected
    assert ok("predict", model, "-", input="") == ""
    said = refused("predict", model, tmp_path / "t.tsv", "--text-column", "3")
    assert "t.tsv, line 1" in said and "no column 3" in said


def test_predict_names_lines_that_are_no_text(made, tmp_path):
    (tmp_path / "latin").write_bytes("goal\ncaf\xe9\n".encode("latin-1"))
    said = refused("predict", made / "docs.model", tmp_path / "latin")
    assert "latin, line 2" in said and "--encoding" in said
    ok("predict", made / "docs.model", tmp_path / "latin", "--encoding", "latin-1")
    piped = ("predict", made / "docs.model", "-", "--no-proba")
    assert ok(*piped, "--encoding", "utf-16", input="goal team".encode("utf-16")) == "sport\n"
    assert "line 1: the line has the byte 0xe9" in refused(*piped, input=b"caf\xe9\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_predict_streams_blocks_in_order(made, tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(predict, "BLOCK", 7)
    topics = RNG.choice(list(TOPICS), 60).tolist()
    (tmp_path / "texts").write_text("".join(" ".join(TOPICS[t]) + "\n" for t in topics))
    found = ok("predict", made / "docs.model", tmp_path / "texts", "--no-proba", "--jobs", jobs)
    assert found.splitlines() == topics


def test_predict_does_not_read_all_before_it_answers(made):
    process = subprocess.Popen(
        [sys.executable, "-c", "from sdem_dist.cli import predict, main; predict.BLOCK = 2; main()", "predict",
         made / "docs.model", "-", "--no-proba", "--jobs", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    process.stdin.write("goal\nbank\n" * 3)
    process.stdin.flush()
    assert process.stdout.readline() == "sport\n"  # while standard input is still open
    process.stdin.close()
    assert process.stdout.read().splitlines() == ["money", "sport", "money", "sport", "money"]
    assert process.wait(timeout=30) == 0


def test_wrong_kinds_of_path_are_named(made, tmp_path):
    corpus, model, source = (str(made / name) for name in ("docs.zarr", "docs.model", "docs.tsv"))
    empty, absent, other = (str(tmp_path / name) for name in ("empty", "absent", "m"))
    Path(empty).mkdir()
    for command in (["train", model, other], ["evaluate", model, model]):  # anything else may be a source
        assert f"{model} is a model, where a corpus or a source" in refused(*command)
    assert f"{model} is a model, where a corpus or a source" in refused("train", corpus, other, "--validation", model)
    assert "no such corpus" in refused("inspect", absent) and "is a folder, but no" in refused("inspect", empty)
    for path, message in {
        corpus: "is a folder",
        source: "is a source of documents, not a model",
        absent: "no such file",
    }.items():
        assert message in refused("evaluate", path, corpus) and message in refused(
            "predict", path, source, "--text-column", "1"
        )
    assert "is a source of documents, not a model" in refused("inspect", source)
    content = Path(source).read_bytes()
    for path, message in {source: "is not a model", corpus: "is a folder"}.items():
        assert message in refused("train", corpus, path)
    assert Path(source).read_bytes() == content
    for path in (source, corpus):
        assert "a folder of their own" in refused("train", corpus, other, "--checkpoint", path)
    assert "is a corpus already" in refused("ingest", corpus, other)


def test_other_estimators_are_trained_and_used(made, tmp_path):
    corpus, model = str(made / "docs.zarr"), tmp_path / "m"
    options = ("--estimator", "LDAClassifier", "--set", "n_components=3", "--set", "inference=gibbs", "--epochs", "2")
    shown = ok("train", corpus, str(model), *options, "--set", "verbose=false")
    assert "LDAClassifier, loss ncll, 2 epochs; training documents: accuracy" in shown
    loaded = load_model(model)
    assert (loaded.n_components, loaded.inference, loaded.n_epochs, loaded.loss) == (3, "gibbs", 2, "ncll")
    assert "accuracy" in ok("evaluate", str(model), corpus)
    assert "LDAClassifier" in ok("inspect", str(model))


def test_clusters_are_predicted_and_topic_models_predict_nothing(made, tmp_path):
    corpus, texts = str(made / "docs.zarr"), tmp_path / "new.txt"
    texts.write_text("some words\nother words\n")
    clusters, topics = str(tmp_path / "clusters.model"), str(tmp_path / "topics.model")
    ok("train", corpus, clusters, "--estimator", "MultinomialMixture", "--set", "n_components=3", "--quiet")
    lines = ok("predict", clusters, str(texts)).splitlines()
    assert all(line.split("\t")[0] in "012" and line.count("=") == 3 for line in lines)
    ok("train", corpus, topics, "--estimator", "LatentDirichletAllocation", "--set", "n_components=3", "--quiet")
    assert "predicts nothing" in refused("predict", topics, str(texts))
    figures = [line.strip() for line in ok("evaluate", topics, corpus).splitlines()]
    for name in ("minus log-likelihood of the words", "plug-in minus log-likelihood of the words"):
        assert sum(line.startswith(f"{name} ") for line in figures) == 1
    by_particles = [json.loads(ok("evaluate", topics, corpus, "--json", "--particles", n)) for n in ("1", "20")]
    assert by_particles[0]["word_nll"] != by_particles[1]["word_nll"] > by_particles[1]["plug_in_nll"]
    assert "--particles" in refused("evaluate", clusters, corpus, "--particles", "5", code=2)
    inspected = ok("inspect", topics)
    assert "topic 0" in inspected and "topic 2" in inspected and "topic 3" not in inspected
