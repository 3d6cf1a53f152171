"""`sdem train` and `sdem evaluate` on files of texts."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sdem_dist.cli import main

LINES = [
    f"{label}\t{text} {i % 7}xx" for i in range(90) for label, text in (("sport", "goal match"), ("money", "bank loan"))
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def test_a_source_is_trained_and_measured_like_the_corpus_of_it(source, tmp_path):
    assert run("ingest", source, tmp_path / "posts.zarr").exit_code == 0
    for documents, name in ((source, "a"), (tmp_path / "posts.zarr", "b")):
        assert run("train", documents, tmp_path / name, "--quiet").exit_code == 0
    found = [json.loads(run("evaluate", tmp_path / name, source, "--json").stdout) for name in ("a", "b")]
    assert found[0] == found[1]
    assert found[0]["accuracy"] == 1.0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_columns_by_name(tmp_path):
    table = tmp_path / "posts.csv"
    table.write_text("topic,body\n" + "\n".join(line.replace("\t", ",") for line in LINES))
    assert run("train", table, tmp_path / "m", "--quiet", "--label", "topic", "--text", "body").exit_code == 0
    shown = run("evaluate", tmp_path / "m", table, "--label", "topic", "--text", "body").output
    assert "log-loss (NCLL)" in shown
    assert "calibration error" in shown


def test_a_class_that_the_model_does_not_know_is_named(source, tmp_path):
    assert run("train", source, tmp_path / "m", "--quiet").exit_code == 0
    other = tmp_path / "other.tsv"
    other.write_text("weather\train\n")
    found = run("evaluate", tmp_path / "m", other)
    assert found.exit_code != 0
    assert "weather" in found.output


def test_workers_elsewhere_need_a_corpus(source, tmp_path):
    found = run("train", source, tmp_path / "m", "--scheduler", "tcp://127.0.0.1:1")
    assert found.exit_code == 2
    assert "make it with sdem ingest" in found.output
