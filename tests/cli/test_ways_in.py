"""The same documents by every way into the command give the same model."""

from __future__ import annotations

import re

import pytest
from commands import ok, refused, run

from sdem_dist import load_model, open_corpus

ROWS = [("a", "goal team"), ("b", "bank share"), ("a", "goal match"), ("b", "loan bank")] * 5
TSV = "".join(f"{label}\t{text}\n" for label, text in ROWS)
WAYS = {
    "semicolons": ("d.csv", "label;text\n" + TSV.replace("\t", ";"), ()),
    "a delimiter": ("d.csv", "label#text\n" + TSV.replace("\t", "#"), ("--delimiter", "#")),
    "no header": ("d.csv", TSV.replace("\t", ","), ("--no-header", "--label", "0", "--text", "1")),
    "TABs and a header": ("d.tsv", "label\ttext\n" + TSV, ("--header", "--delimiter", r"\t")),
    "two columns": ("d.csv", "label,title,body\n" + TSV.replace("\t", ",").replace(" ", ","), ("--text", "title,body")),
    "names of columns": ("d.csv", "topic,body\n" + TSV.replace("\t", ","), ("--label", "topic", "--text", "body")),
    "standard input": ("-", TSV, ()),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ways")
    (folder / "d.tsv").write_text(TSV)
    ok("train", folder / "d.tsv", folder / "m", "--quiet")
    return load_model(folder / "m").predict_proba(["goal", "bank team"])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_model(way, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, content, options = WAYS[way]
    if name != "-":
        (tmp_path / name).write_text(content)
    piped = {"input": content} if name == "-" else {}
    ok("train", name, "m", "--quiet", *options, **piped)
    ok("ingest", name, "c", "--quiet", *options, **piped)
    ok("train", "c", "n", "--quiet")
    for model in ("m", "n"):
        assert (load_model(model).predict_proba(["goal", "bank team"]) == expected).all()


@pytest.mark.parametrize("name", ["d.csv", "d.txt", "d.jsonl"])
def test_clusters_and_topics_need_no_labels(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [text for _, text in ROWS]
    content = {"csv": ["text", *texts], "txt": texts, "jsonl": [f'{{"text": "{text}"}}' for text in texts]}[name[2:]]
    (tmp_path / name).write_text("\n".join(content) + "\n")
    for estimator, of in (("KMeans", "n_clusters=2"), ("LatentDirichletAllocation", "n_components=2")):
        ok("train", name, estimator, "--quiet", "--estimator", estimator, "--set", of)
        assert "20 documents" in ok("evaluate", estimator, name, "--no-labels")
    assert "no labels" in ok("ingest", name, "c", "--no-labels")
    assert run("train", "c", "m").exit_code != 0
    assert "--no-labels" in run("train", name, "m", "--no-labels").output
    ok("train", "-", "m", "--quiet", "--format", "lines", "--estimator", "KMeans", input="\n".join(texts))


def test_ratings_from_text_to_predictions(tmp_path):
    lines = [
        f"{1 + 4 * (i % 2)}\t{'bad dull' if i % 2 == 0 else 'good bright'} film number {i % 7}" for i in range(120)
    ]
    (tmp_path / "stars.tsv").write_text("\n".join(lines))
    corpus, model = str(tmp_path / "stars.zarr"), str(tmp_path / "stars.model")
    assert "120 documents, targets" in ok("ingest", tmp_path / "stars.tsv", corpus, "--targets")
    test = str(tmp_path / "test.zarr")
    ok("ingest", tmp_path / "stars.tsv", test, "--vocabulary-from", corpus)
    assert sorted(set(open_corpus(test).read(0, 120).targets[:, 0])) == [1.0, 5.0]
    options = ("--estimator", "SupervisedLDARegressor", "--set", "n_components=3", "--set", "batch_size=10")
    line = ok("train", corpus, model, *options, "--epochs", "30", "--quiet", "--validation", test)
    assert re.search(r"; held-out documents: .*R2 [.\d]+", line)
    assert "R2" in ok("evaluate", model, test)
    (tmp_path / "new.txt").write_text("good bright film\nbad dull film\n")
    high, low = (float(line) for line in ok("predict", model, tmp_path / "new.txt").split())
    assert high > low + 1.0


def test_targets_are_numbers(tmp_path):
    (tmp_path / "stars.tsv").write_text("3\tgood\nmany\tbad\nnan\tbad\n-2.5\tfair\n")
    said = refused("ingest", tmp_path / "stars.tsv", tmp_path / "c.zarr", "--targets")
    assert "line 2: the label 'many' is not a finite number" in said
    ok("ingest", tmp_path / "stars.tsv", tmp_path / "c.zarr", "--targets", "--on-error", "skip")
    corpus = open_corpus(tmp_path / "c.zarr")
    assert sorted(corpus.read(0, 2).targets[:, 0]) == [-2.5, 3.0]
    assert not corpus.header.classes
