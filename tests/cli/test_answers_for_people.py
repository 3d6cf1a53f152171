"""``sdem evaluate --report --errors``, ``sdem explain`` and ``sdem report`` as a user meets them."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli.commands import ok, refused, run

from sdem_dist import MultiplicativeMixtureClassifier, load_model, open_corpus, write_corpus
from sdem_dist.reports import reporting

RNG = np.random.default_rng(0)
NASTY = "<script>alert(1)</script>"
TOPICS = {
    "sport": ["goal", "match", "team", "score"],
    NASTY: ["bank", "share", "profit", "market"],
    "=food": ["salt", "bread", "oven", "taste"],
}
COMMON = ["the", "of", "and", "said", '"quoted"', "\x1b[31mred", "<img src=x onerror=alert(1)>", "it's"]


def document(topic: str) -> str:
    wrong = RNG.choice([w for words in TOPICS.values() for w in words], 4).tolist()
    return " ".join(RNG.choice(TOPICS[topic], 2).tolist() + wrong + RNG.choice(COMMON, 4).tolist())


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for name in ("train", "test"):
        lines = [f"{topic}\t{document(topic)}\n" for topic in list(TOPICS) * 40]
        (folder / f"{name}.tsv").write_text("".join(lines))
    ok("ingest", folder / "train.tsv", folder / "train.zarr", "--jobs", "1")
    ok("ingest", folder / "test.tsv", folder / "test.zarr", "--vocabulary-from", folder / "train.zarr")
    ok("train", folder / "train.zarr", folder / "m", "--quiet")
    topics = ("--estimator", "LDAClassifier", "--epochs", "2", "--quiet")
    ok("train", folder / "train.zarr", folder / "lda", *topics)
    return folder


def test_evaluate_names_its_figures(made):
    shown = ok("evaluate", made / "m", made / "test.zarr")
    for name in ("accuracy", "log-loss (NCLL)", "macro-F1", "Brier score", "calibration error (ECE)"):
        assert name in shown
    assert "By class" not in shown


def test_the_report_of_a_source_is_that_of_its_corpus(made):
    source, corpus = (
        ok("evaluate", made / "m", str(made / name), "--report").splitlines()[1:] for name in ("test.tsv", "test.zarr")
    )
    assert source == corpus
    shown = "\n".join(source)
    assert "By class, lowest F1 first" in shown and "Most frequent confusions" in shown and "\x1b" not in shown
    found = json.loads(ok("evaluate", made / "m", made / "test.zarr", "--report", "--json"))
    assert {c["class"] for c in found["classes"]} == set(TOPICS)
    assert sum(c["documents"] for c in found["classes"]) == found["documents"] == 120


def test_errors_are_written_in_every_format(made, tmp_path):
    model, test = load_model(made / "m"), [line.split("\t") for line in (made / "test.tsv").read_text().splitlines()]
    predicted = model.predict([text for _, text in test])
    wrong = {i for i, (label, _) in enumerate(test) if label != predicted[i]}
    assert wrong
    rows = {}
    for suffix in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"errors.{suffix}"
        ok("evaluate", made / "m", made / "test.tsv", "--errors", path)
        if suffix == "csv":
            with path.open(newline="") as file:
                rows[suffix] = list(csv.DictReader(file))
        elif suffix == "jsonl":
            rows[suffix] = [json.loads(line) for line in path.read_text().splitlines()]
        else:
            rows[suffix] = pq.read_table(path).to_pylist()
        assert "\x1b" not in path.read_text(errors="replace") or suffix == "parquet"
    for found in rows.values():
        assert {int(row["id"]) for row in found} == wrong
        for row in found:
            label, _ = test[int(row["id"])]
            assert (row["label"], row["prediction"]) == (label, predicted[int(row["id"])])
            assert set(row["words_for"].split()) <= {w for words in TOPICS.values() for w in words} | set(
                model.vocabulary_
            )
    assert rows["jsonl"] == rows["parquet"]
    assert [row["text"] for row in rows["jsonl"]] == [test[row["id"]][1] for row in rows["jsonl"]]
    probabilities = [row["probability"] for row in rows["jsonl"]]
    assert probabilities == sorted(probabilities, reverse=True)


def test_models_that_explain_nothing_still_list_their_errors(tmp_path):
    y = np.arange(60) % 2
    corpus = write_corpus(tmp_path / "c", RNG.random(size=(60, 2)) + y[:, None], y, dense=True)
    MultiplicativeMixtureClassifier(2).fit(corpus).save(tmp_path / "m")
    shown = ok("evaluate", tmp_path / "m", corpus.path, "--errors", tmp_path / "e.jsonl")
    assert "macro-F1" in shown and "ROC" not in shown
    first = json.loads((tmp_path / "e.jsonl").read_text().splitlines()[0])
    assert set(first) == {"id", "label", "prediction", "probability", "probability_of_label"}
    assert "ROC AUC" in ok("evaluate", tmp_path / "m", corpus.path, "--report")
    ok("report", tmp_path / "m", corpus.path, "-o", tmp_path / "r.html")


def test_kept_texts_of_a_corpus_are_shown(made, tmp_path):
    corpus, source = str(tmp_path / "kept.zarr"), str(made / "test.tsv")
    ok("ingest", source, corpus, "--vocabulary-from", made / "train.zarr", "--keep-text")
    for documents in (corpus, source):
        ok("evaluate", made / "m", documents, "--errors", tmp_path / f"{documents == source}.jsonl")
    theirs, ours = (
        {row["id"]: row for row in map(json.loads, (tmp_path / f"{name}.jsonl").read_text().splitlines())}
        for name in (True, False)
    )
    assert theirs.keys() == ours.keys()
    assert all(theirs[i]["text"] == ours[i]["text"] for i in theirs)
    ok("report", made / "m", corpus, "-o", tmp_path / "r.html")
    assert "&lt;img src=x" in (tmp_path / "r.html").read_text()


def test_explain(made):
    shown = ok("explain", made / "m", "goal goal \x1b[2J bank", "--against", NASTY)
    assert shown.startswith("sport ") and "[goal " in shown and "\x1b" not in shown and "prior of the classes" in shown
    piped = ok("explain", made / "m", "-", input="goal match\nsalt bread\n")
    assert piped.count("prior of the classes") == 2
    lines = ok("explain", made / "m", "--json", "goal match", "salt").splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["label"] for one in found] == ["sport", "=food"]
    for one in found:
        assert one["prior"] + one["offset"] + sum(w["part"] for w in one["words"]) == pytest.approx(one["log_odds"])
    assert "did you mean sport" in refused("explain", made / "m", "x", "--against", "spotr")
    assert "topic" in ok("explain", made / "lda", "goal match")


def test_explain_writes_a_page(made, tmp_path):
    ok("explain", made / "m", f"goal {NASTY}", "--html", tmp_path / "e.html")
    check_page((tmp_path / "e.html").read_text())


class Elements(HTMLParser):
    """Collects the elements and the attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "src")]


def check_page(page: str) -> None:
    """Nothing runs, nothing is fetched, and nothing of the data is markup."""
    elements = Elements()
    elements.feed(page)
    assert not elements.found & {"script", "img", "link", "iframe", "object", "embed", "form", "base"}
    assert not [name for name in elements.attributes if name.startswith("on")]
    assert all(link.startswith("#") for link in elements.links)
    assert not re.search(r"url\((?!#)|@import", page)
    assert "\x1b" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("model", ["m", "lda"])
@pytest.mark.parametrize("documents", ["test.tsv", "test.zarr"])
def test_report(made, tmp_path, model, documents):
    out = tmp_path / "report.html"
    ok("report", str(made / model), str(made / documents), "-o", out)
    page = out.read_text()
    check_page(page)
    for title in ("The model", "By class", "Confusion", "How far to trust probabilities", "Examples of errors"):
        assert f"<h2>{title}</h2>" in page
    assert ("<h2>Topics</h2>" in page) == (model == "lda")
    assert ("&lt;img src=x" in page) == (documents == "test.tsv")  # texts, where they are there
    accuracy = load_model(made / model).score(open_corpus(made / "test.zarr"))
    assert f"<b>{accuracy:.4f}</b><span>accuracy</span>" in page


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_errors_are_found_again_in_their_source(made, tmp_path, suffix):
    """By their places among the documents that are read, or by ids where the source has some."""
    lines = ["sport\tgoal match", "no such class\tbread", "sport\tbread oven bread salt", "sport\tgoal team"]
    pairs = [line.split("\t") for line in lines]
    source, out = tmp_path / f"t.{suffix}", tmp_path / "e.jsonl"
    if suffix == "jsonl":
        source.write_text("".join(json.dumps({"label": a, "text": b, "key": f"D{b[0]}"}) + "\n" for a, b in pairs))
    else:
        with source.open("w", newline="") as file:
            written = csv.writer(file, delimiter="\t" if suffix == "tsv" else ",", lineterminator="\n")
            written.writerows(
                [*([] if suffix == "tsv" else [("label", "text", "key")]), *([a, b, f"D{b[0]}"] for a, b in pairs)]
            )
    columns = ("--label", "0", "--text", "1") if suffix == "tsv" else ()
    for more, expected in (((), 1), (("--id", "2" if suffix == "tsv" else "key"), "Db")):
        skipping = ("--on-error", "skip", "--errors", str(out), "--overwrite", *columns, *more)
        ok("evaluate", made / "m", source, *skipping)
        assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [expected]


def test_blocks_of_errors_are_those_of_one(made, tmp_path, monkeypatch):
    """Every pass over a corpus brings many errors together; how many changes nothing."""
    for name, gathered, block in (("one", 50_000, 1000), ("many", 5, 2)):
        monkeypatch.setattr(reporting, "GATHERED", gathered)
        monkeypatch.setattr(reporting, "BLOCK", block)
        for documents in ("test.zarr", "test.tsv"):
            out = tmp_path / f"{name}-{documents}.jsonl"
            ok("evaluate", made / "m", str(made / documents), "--errors", out)
    for documents in ("test.zarr", "test.tsv"):
        one, many = ((tmp_path / f"{name}-{documents}.jsonl").read_text() for name in ("one", "many"))
        assert one == many and one.count("\n") > 7


def test_json_has_no_nan(made, tmp_path):
    source = tmp_path / "unknown.tsv"
    source.write_text("sport\tzzz\n")
    found = ok("evaluate", made / "m", source, "--json")
    json.loads(found, parse_constant=lambda name: pytest.fail(name))
    assert json.loads(found)["perplexity"] is None


def test_labels_that_the_model_lacks_are_told_from_those_of_a_corpus(made, tmp_path):
    source = tmp_path / "odd.tsv"
    source.write_text("graain\tgoal\n")
    message = refused("evaluate", made / "m", source)
    assert "'graain' is not among the classes" in message
    assert "--on-error skip" in message and "on_error=" not in message
    source.write_text(f"{'a text ' * 300}\tgrain\n")  # swapped columns
    message = refused("evaluate", made / "m", source)
    assert "a text a" in message and "…' is not among" in message and len(message) < 500


def test_an_unknown_text_is_said_to_be_unknown(made):
    for text in ("", "xyzzyqq"):
        assert "knows nothing that is in this document" in ok("explain", made / "m", text)
    shown = ok("explain", made / "m", "goal match")
    assert "knows nothing" not in shown and "Each place in the text has its share" in shown


@pytest.mark.parametrize("name", ["train.tsv", "train.zarr"])
def test_documents_of_the_training_are_named_as_such(made, name):
    said = f"{made / name} is what {made / 'm'} was trained on: new documents will do worse"
    assert said in run("evaluate", made / "m", str(made / name)).stderr
    assert "trained on" not in run("evaluate", made / "m", str(made / name.replace("train", "test"))).stderr


def test_errors_say_how_their_documents_are_counted(made, tmp_path):
    command = ("evaluate", str(made / "m"), str(made / "test.tsv"), "--errors", str(tmp_path / "e.csv"), "--overwrite")
    assert "their ids count the documents from 0" in run(*command).stderr
    assert "count" not in run(*command, "--id", "0").stderr
