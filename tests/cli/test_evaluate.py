"""``sdem evaluate``, ``explain``, ``report``, ``inspect`` and ``log``: figures, errors, pages, texts of corpora."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.commands import ok, refused, rows_of, run
from cli.conftest import MARKUP, TOPICS

import sdem_dist as sd
from sdem_dist.cli.inspect import epochs
from sdem_dist.counted import metric_of, visible
from sdem_dist.reports import reporting

LANE = {"event": "LanesEnded", "read": 1.0, "prepare": 0.5, "map": 4.0, "merge": 0.25, "n_documents": 10}
ROUND = {"event": "RoundEnded", "seconds": 5.0, "n_workers": 3, "merge": 0.5}
EPOCH = {"wall": 5.0, "documents": 20, "worker_seconds": 15.0, "read": 2.0, "map": 8.0, "merge": 1.0,
         "wait": 3.0}  # fmt: skip


def test_figures_are_named_and_those_of_a_source_are_of_its_corpus(shelf):
    expected = sd.load_model("posts.model").evaluate(sd.open_corpus("test.zarr"))
    assert json.loads(ok("evaluate posts.model test.zarr --json")) == expected
    shown = ok("evaluate posts.model test.zarr")
    unsaid = {"temperature", "tempered_log_loss", "nll", "perplexity"}  # the last two mean little after the hinge loss
    assert all(metric_of(name).name in shown for name in set(expected) - unsaid)
    assert "perplexity" in expected and "perplexity" not in shown and "By class" not in shown
    assert f"{expected['accuracy']:.4f}" in shown
    assert len({len(line) for line in shown.splitlines()[1:]}) == 1  # figures are aligned to the right
    source, corpus = (ok(f"evaluate posts.model test.{kind} --report").splitlines()[1:] for kind in ("tsv", "zarr"))
    shown = "\n".join(source)
    assert source == corpus and "\x1b" not in shown
    assert "By class, lowest F1 first" in shown and "Most frequent confusions" in shown
    found = json.loads(ok("evaluate posts.model test.zarr --report --json"))
    assert {c["class"] for c in found["classes"]} == set(TOPICS)
    assert sum(c["documents"] for c in found["classes"]) == found["documents"] == 120
    said = run("evaluate posts.model bad.tsv --on-error skip").output
    for words in ("2 documents", "skipped 1 record", "documents without known words: 1"):
        assert words in said


def test_likelihoods_of_words_are_shown_where_they_mean_something(desk):
    for loss in ("hinge", "nll"):
        ok(f"train plain.tsv {loss} --quiet --loss {loss}")
        shown = ok(f"evaluate {loss} plain.tsv")
        assert ("perplexity" in shown) == ("NLL " in shown) == (loss == "nll")
        assert json.loads(ok(f"evaluate {loss} plain.tsv --json"))["perplexity"] > 0
    Path("each.tsv").write_text("".join(f"c{i}\tword{i} goal\n" for i in range(20)))
    ok("train each.tsv each --epochs 1 --quiet")
    assert "Warning" not in run("evaluate each each.tsv --report").stderr, "as many classes as documents"
    Path("unknown.tsv").write_text("sport\tzzz\n")
    assert json.loads(ok("evaluate nll unknown.tsv --json"), parse_constant=pytest.fail)["perplexity"] is None


def test_topics_are_measured_by_particles(shelf):
    shown = [line.strip() for line in ok("evaluate topics.model test.zarr").splitlines()]
    for name in ("NLL of words", "plug-in NLL of words"):
        assert sum(line.startswith(f"{name} ") for line in shown) == 1
    one, twenty = (json.loads(ok(f"evaluate topics.model test.zarr --json --particles {n}")) for n in (1, 20))
    assert one["word_nll"] != twenty["word_nll"] > twenty["plug_in_nll"]
    inspected = ok("inspect topics.model")
    assert "topic 0" in inspected and "topic 2" in inspected and "topic 3" not in inspected


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_errors_are_written_in_every_format(desk, suffix):
    model, test = sd.load_model("posts.model"), [line.split("\t") for line in Path("test.tsv").read_text().splitlines()]
    predicted = model.predict([text for _, text in test])
    assert "IDs are document numbers, starting at 0" in run(f"evaluate posts.model test.tsv --errors e.{suffix}").stderr
    rows = rows_of(f"e.{suffix}")
    assert {int(row["id"]) for row in rows} == {i for i in range(len(test)) if test[i][0] != predicted[i]} != set()
    for row in rows:
        label, text = test[int(row["id"])]
        assert (row["label"], row["prediction"]) == (label, predicted[int(row["id"])])
        assert set(row["words_for"].split()) <= set(model.vocabulary_)
        assert row["text"] == (visible(text) if suffix == "csv" else text)
    probabilities = [float(row["probability"]) for row in rows]
    assert probabilities == sorted(probabilities, reverse=True)
    ok("ingest test.tsv kept.zarr --vocabulary-from posts.zarr --keep-text")
    ok(f"evaluate posts.model kept.zarr --errors k.{suffix}")
    assert {row["id"]: row["text"] for row in rows_of(f"k.{suffix}")} == {row["id"]: row["text"] for row in rows}
    assert "--keep-text" not in ok("suspects kept.zarr -n 3")


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_errors_are_found_again_in_their_source(desk, suffix):
    """By their places among the documents that are read, or by ids where the source has some."""
    rows = [("sport", "goal match", "Da"), ("no such class", "bread", "Dn"), ("sport", "bread oven salt", "Db")]
    named, source = [dict(zip(("label", "text", "key"), row, strict=True)) for row in rows], f"source.{suffix}"
    table = map(",".join, [tuple(named[0]), *rows])
    contents = {"jsonl": map(json.dumps, named), "tsv": map("\t".join, rows), "csv": table}
    Path(source).write_text("\n".join(contents[suffix]) + "\n")
    columns = "--label 0 --text 1" if suffix == "tsv" else ""
    for more, expected in (("", 1), ("--id 2" if suffix == "tsv" else "--id key", "Db")):
        said = run(f"evaluate posts.model {source} --on-error skip --errors e.jsonl --overwrite {columns} {more}")
        assert [row["id"] for row in rows_of("e.jsonl")] == [expected] and ("at 0" in said.stderr) == (more == "")


def test_blocks_of_errors_are_those_of_one(desk, monkeypatch):
    for documents in ("test.zarr", "test.tsv"):
        for name, gathered, block in (("one", 50_000, 1000), ("many", 4, 2)):
            monkeypatch.setattr(reporting, "GATHERED", gathered)
            monkeypatch.setattr(reporting, "BLOCK", block)
            ok(f"evaluate posts.model {documents} --errors {name}-{documents}.jsonl")
        one, many = (Path(f"{name}-{documents}.jsonl").read_text() for name in ("one", "many"))
        assert one == many and one.count("\n") > 7


GIVEN = "money|sport\ta late goal wins\nmoney\trates fall\nmoney\tthe club buys shares\nsport\tthe weather is fine\n"
"""Of which all but the second are predicted otherwise."""


def test_errors_of_several_labels(desk):
    Path("wrong.tsv").write_text(GIVEN)
    ok("evaluate several.model wrong.tsv --errors wrong.jsonl")
    rows, clf = rows_of("wrong.jsonl"), sd.load_model("several.model")
    assert {row["text"]: (row["labels"], row["predictions"], row["wrong_label"]) for row in rows} == {
        "a late goal wins": ("money|sport", "sport", "money"),
        "the club buys shares": ("money", "money|sport", "sport"),
        "the weather is fine": ("sport", "", "sport"),
    }
    losses = [row["log_loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    for row in rows:
        place = clf.classes_.tolist().index(row["wrong_label"])
        assert row["probability"] == pytest.approx(clf.predict_proba([row["text"]])[0, place])
        assert (row["probability"] >= clf.thresholds_[place]) == (row["wrong_label"] in row["predictions"].split("|"))
    given = next(row for row in rows if row["wrong_label"] == "sport" and row["predictions"])
    assert given["words_for"] and set(given["words_for"].split()) <= set(given["text"].split())
    ok("evaluate several.model several.tsv --errors none.parquet")
    assert rows_of("none.parquet") == []


def test_reports_of_several_labels(desk):
    Path("wrong.tsv").write_text(GIVEN)
    for source in ("wrong", "several"):
        ok(f"report several.model {source}.tsv -o {source}.html")
    page, right = (Path(f"{source}.html").read_text(encoding="utf-8") for source in ("wrong", "several"))
    words = ["Examples of errors", ", not sport ", "sport is wrongly predicted", "sport is missing", "money is missing"]
    assert all(one in page and one not in right for one in words)
    said = ok("evaluate several.model several.tsv --report")
    assert said.count("micro-F1") == said.count("60 documents from") == said.count("threshold") == 1
    assert "By label" in said and "60 documents, 2 labels" not in said


def check_page(page: str) -> None:
    """Nothing runs, nothing is fetched, and nothing of the data is markup."""
    parser, elements = HTMLParser(), []
    parser.handle_starttag = lambda tag, attributes: elements.append((tag, attributes))
    parser.feed(page)
    assert not dict(elements).keys() & {"script", "img", "link", "iframe", "object", "embed", "form", "base"}
    attributes = [pair for _, pairs in elements for pair in pairs]
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert all(link.startswith("#") for name, link in attributes if name in ("href", "src"))
    assert not re.search(r"url\((?!#)|@import", page)
    assert "\x1b" not in page and "default-src 'none'" in page


@pytest.mark.parametrize("model", ["posts", "lda"])
@pytest.mark.parametrize("documents", ["test.tsv", "test.zarr"])
def test_report(shelf, tmp_path, model, documents):
    ok(f"report {model}.model {documents} -o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    check_page(page)
    for title in ("The model", "By class", "Confusion", "Calibration", "Examples of errors"):
        assert f"<h2>{title}</h2>" in page
    assert ("<h2>Topics</h2>" in page) == (model == "lda")
    assert ("&lt;img src=x" in page) == (documents == "test.tsv")  # texts, where they are there
    accuracy = sd.load_model(f"{model}.model").score(sd.open_corpus("test.zarr"))
    assert f"<b>{accuracy:.4f}</b><span>accuracy</span>" in page


@pytest.mark.parametrize(("name", "listed"), [("SdemMixtureClassifier", True), ("ManyClassNB", False)])
def test_the_report_lists_words_by_class_or_says_that_it_does_not(desk, name, listed):
    ok(f"train plain.tsv m --estimator {name} --quiet")
    ok("report m plain.tsv -o page.html")
    text = Path("page.html").read_text()
    assert (">goal</mark>" in text.split("Words by class")[-1].split("</section>")[0]) is listed
    assert ("not listed for ManyClassNB" in text) is not listed


def test_a_terminal_has_colours_in_explanations(shelf, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    shown = ok("explain posts.model", "goal \x1b[2J bank", "--against", MARKUP)
    assert "\x1b[1;38;5;208mgoal" in shown and "\x1b[38;5;39mbank" in shown.replace("1;38;5;39", "38;5;39")
    assert "\x1b[2J" not in shown and "[goal " not in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "[goal " in ok("explain posts.model", "goal bank")


def test_explain(shelf, tmp_path):
    shown = ok("explain posts.model", "goal goal \x1b[2J bank", "--against", MARKUP)
    assert shown.startswith("sport ") and "[goal " in shown and "\x1b" not in shown and "prior of the classes" in shown
    assert "No word of" not in shown and "Words with their" in shown
    assert ok("explain posts.model -", input="goal match\nsalt bread\n").count("prior of the classes") == 2
    found = [json.loads(line) for line in ok("explain posts.model --json", "goal match", "salt").splitlines()]
    assert [one["label"] for one in found] == ["sport", "=food"]
    for one in found:
        assert one["prior"] + one["offset"] + sum(w["part"] for w in one["words"]) == pytest.approx(one["log_odds"])
    assert "topic" in ok("explain lda.model", "goal match")
    for text in ("", "xyzzyqq"):
        assert "No word of this document" in ok("explain posts.model", text)
    ok("explain posts.model --html", tmp_path / "e.html", f"goal {MARKUP} \x1b[31m bank")
    check_page((tmp_path / "e.html").read_text())


def test_models_that_explain_nothing_still_list_their_errors(desk):
    y = np.arange(60) % 2
    sd.write_corpus("c", np.random.default_rng(0).random(size=(60, 2)) + y[:, None], y, dense=True)
    ok("train c m --estimator MultiplicativeMixtureClassifier --set n_components=2")
    shown = ok("evaluate m c --errors e.jsonl")
    assert "macro-F1" in shown and "ROC" not in shown
    assert set(rows_of("e.jsonl")[0]) == {"id", "label", "prediction", "probability", "probability_of_label"}
    assert "ROC AUC" in ok("evaluate m c --report")
    ok("report m c -o r.html")


def inspected(path, *options, code=0):
    found = run("inspect", path, *options)
    assert found.exit_code == code, found.output
    return {line.split()[0]: " ".join(line.split()[1:]) for line in found.output.splitlines() if line.strip()}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"size": rng.normal(size=40), "colour": ["red", "blue"] * 20, "town": [f"t{i}" for i in range(40)]}
    frame = pd.DataFrame(columns)
    frame.loc[:3, "size"], frame.loc[5:6, "colour"] = np.nan, None
    labels = np.array(["yes", "no", "?", "yes"] * 10)
    return sd.write_corpus(tmp_path / "c", frame, labels, dense=True, unlabelled="?", shard_documents=15)


def test_inspect_of_tables(table, tmp_path):
    shown = inspected(table.path)
    assert shown["documents"] == "40, 10 without a label" and shown["features"] == "3, with names"
    assert shown["values"].startswith("120 (float")
    assert shown["missing"] == "6 of 120 values, 5.0%; most in size (10.0%), colour (5.0%)"
    assert shown["categories"] == "colour: blue, red; town: t0, t1, t10, t11, t12 and 35 more"
    assert shown["yes"] == "20 50.0%" and not {"tokenization", "nonzeros"} & set(shown)
    assert "missing" not in inspected(table.path, "--no-check")
    shutil.rmtree(Path(table.path) / "vocabulary")
    shutil.rmtree(Path(table.path) / "shards" / "00001")
    shown = inspected(table.path, code=1)
    assert "column 0" in shown["missing"] and "damaged:" in shown
    X = np.eye(6)
    shown = inspected(sd.write_corpus(tmp_path / "n", X, np.arange(6) % 2, dense=True).path)
    assert (shown["missing"], shown["documents"], shown["features"]) == ("none", "6", "6")
    assert not {"tokenization", "categories"} & set(shown)
    assert inspected(sd.write_corpus(tmp_path / "s", X, np.arange(6) % 2).path)["tokenization"] == "not recorded"


COUNTS = np.random.default_rng(0).poisson(1.0 + 4.0 * (np.arange(60)[:, None] % 2 == np.arange(6) % 2))
TRAINED = {  # of which corpus, with which options, how its model is shown, and a figure that it has
    "MixedNB": ("table", "--epochs 2", {"model": "MixedNB, loss ncll", "classes": "2",
                                        "features": "3, columns of a table with names"}, "accuracy"),
    "GaussianRegressor": ("numbers", "", {"model": "GaussianRegressor, loss nll", "features": "2, columns of a table"},
                          "(NCLL)"),
    "MultinomialMixture": ("counts", "--set n_components=2 --epochs 2", {"model": "MultinomialMixture"}, "purity"),
    "MultiplicativeMixtureClassifier": ("counts", "--set n_components=2 --epochs 3", {"classes": "2"}, "accuracy"),
    "SdemMixtureClassifier": ("counts", "--set components=multinomial --epochs 2", {"classes": "2"}, "accuracy"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_models_are_trained_inspected_and_measured(name, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, options, said, figure = TRAINED[name]
    of_numbers = {"table": lambda: table, "numbers": lambda: sd.write_corpus("d", np.eye(9)[:, :3], dense=True)}
    corpus = of_numbers.get(kind, lambda: sd.write_corpus("d", COUNTS, np.arange(60) % 2))()
    ok(f"train {corpus.path} m --estimator {name} {options}")
    shown = inspected("m")
    assert said.items() <= {key: shown[key] for key in said}.items() and name in shown["model"]
    assert not (kind != "counts" and {"raw", "The"} & set(shown)) and ("clusters" in shown) == (figure == "purity")
    scored = ok(f"evaluate m {corpus.path}")
    assert figure in scored and "(weighted)" not in scored and ("perplexity" in scored) == (figure == "purity")
    if figure == "purity":  # of clusters, where labels are known
        model, documents = sd.load_model("m"), corpus.read(0, 60).to_csr()
        known, found = model.report(corpus).figures, model.evaluate(corpus)
        assert {name: found[name] for name in ("purity", "nmi", "ari")} == known
        assert "purity" not in model.evaluate(documents)
        assert model.evaluate(documents, corpus.labels())["nmi"] == known["nmi"]


def test_a_report_of_several_labels_has_the_table_that_others_have():
    X, lists = ["a goal", "rates", "a club buys"] * 9, [["sport"], ["money"], ["money", "sport"]] * 9
    clf = sd.MultiLabelNB(n_epochs=3).fit(X, lists)
    frame = clf.report(["a goal", "rates", "goal"], [["sport"], ["sport"], ["money"]]).confusion_frame()
    assert (frame.sum(axis=1) == 3).all()
    assert frame.loc["sport"].tolist() == [1, 1, 1, 0] and frame.loc["money"].tolist() == [0, 1, 1, 1]


def events_of(path="run.jsonl"):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_log_says_where_time_went(desk):
    log = "--log logs/run.jsonl --checkpoint ck"
    ok(f"train posts.zarr m --epochs 3 --rounds 2 --lanes 2 --set validation_fraction=0 {log}")
    events = events_of("logs/run.jsonl")
    names = [e["event"] for e in events]
    assert names[0] == "RunStarted" and names[-1] == "RunEnded"
    assert names.count("RoundEnded") == 6 and names.count("EpochEnded") == 3 and names.count("CheckpointWritten") == 3
    lanes = [e for e in events if e["event"] == "LanesEnded"]
    assert sum(e["n_documents"] for e in lanes) == 3 * len(sd.open_corpus("posts.zarr"))
    assert all(e["map"] > 0 and ":" in e["worker"] for e in lanes)
    assert events[-3]["path"].endswith(".sdem")
    shown = ok("log logs/run.jsonl")
    assert "documents/s" in shown and "of " in shown and "3 checkpoints" in shown
    ok("train posts.zarr m --epochs 4 --rounds 2 --lanes 2 --set validation_fraction=0 --resume --overwrite " + log)
    assert [e["epoch"] for e in events_of("logs/run.jsonl") if e["event"] == "EpochEnded"] == [0, 1, 2, 3]


@pytest.mark.parametrize("lost", [1, 30, 10_000])
def test_a_run_that_was_killed_while_it_wrote_its_log_goes_on_in_it(lost, desk):
    ok("train plain.tsv m --epochs 1 --log run.jsonl")
    lines = Path("run.jsonl").read_bytes().splitlines()
    Path("run.jsonl").write_bytes(b"\n".join([*lines[:-1], lines[-1][: max(5, len(lines[-1]) - lost)]]))
    ok("train plain.tsv n --epochs 1 --log run.jsonl --resume --checkpoint ck")
    assert ok("log run.jsonl")
    names = re.findall(r'"event": ?"(\w+)"', Path("run.jsonl").read_text())
    assert names.count("RunStarted") == 2 and names[-1] == "RunEnded"


def test_parts_of_an_epoch_add_up_and_a_stage_that_is_not_monitored_is_one_row():
    events, expected = [], []
    for stage, n_epochs, monitored in (("survey", 1, False), ("start", 3, False), ("train", 2, True)):
        events.append({"event": "StageStarted", "monitored": monitored})
        for epoch in range(n_epochs):
            events += [LANE, LANE, ROUND, {"event": "EpochEnded", "stage": stage, "epoch": epoch}]
        rows = [(k + 1, k + 1, 1) for k in range(n_epochs)] if monitored else [(1, n_epochs, n_epochs)]
        for first, last, times in rows:
            parts = {name: times * value for name, value in EPOCH.items()}
            expected.append({"stage": stage, "first": first, "epoch": last, **parts})
    assert [{name: row[name] for name in expected[0]} for row in epochs(events)] == expected


def test_inspect_says_in_words_what_numbers_are_and_keeps_paths_in_one_piece(tmp_path):
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    (deep / "s.tsv").write_text("[red]\tgoal one\n[/]\tbank two\n" * 5)
    ok("ingest", deep / "s.tsv", deep / "c", "--ngrams", "2")
    shown = ok("inspect", deep / "c")
    assert "values: counts of terms, ngram_range: 2 2" in shown and "sources: " in shown and "['" not in shown
    assert "[red]" in shown and "[/]" in shown  # names from data are not markup
    assert str(deep / "c") in shown.splitlines() and str(deep / "s.tsv") in shown
    assert refused("inspect", tmp_path / "absent").startswith("Error: ")
