"""The same documents by every way into the command give the same model."""

from __future__ import annotations

import pytest
from commands import ok, run

from sdem_dist import load_model

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


def test_labels_are_numbers_for_a_regressor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.tsv").write_text("".join(f"{k % 5}.5\tword{k % 5} goal\n" for k in range(40)))
    found = run("train", "d.tsv", "m", "--quiet", "--estimator", "SupervisedLDARegressor", "--epochs", "2")
    assert found.exit_code == 0, found.output
