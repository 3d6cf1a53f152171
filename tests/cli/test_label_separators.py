"""What stands between the labels of a document: said once, at the training."""

from __future__ import annotations

import csv
import json

import pytest
from commands import ok, refused, run

import sdem_dist as sd

LINES = "sport\ta late goal wins\nmoney\trates fall\nmoney|sport\tthe club buys shares\n\tthe weather is fine\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("separators")
    (folder / "posts.tsv").write_text(LINES * 15, encoding="utf-8")
    more = ("--estimator", "MultiLabelNB", "--label-separator", "|", "--quiet")
    ok("train", folder / "posts.tsv", folder / "posts.model", *more)
    return folder


def figures(folder, *more):
    return json.loads(ok("evaluate", folder / "posts.model", folder / "posts.tsv", "--json", *more))


def test_a_model_remembers_its_separator(trained, tmp_path):
    model, posts = str(trained / "posts.model"), str(trained / "posts.tsv")
    assert sd.load_model(model).label_separator_ == "|"
    found = figures(trained)
    assert found == figures(trained, "--label-separator", "|") and found["accuracy"] == 1.0
    assert figures(trained, "--on-error", "skip") == found  # nothing is left out
    ok("report", model, posts, "-o", tmp_path / "page.html")
    (tmp_path / "other.tsv").write_text((LINES * 15).replace("|", ";"), encoding="utf-8")
    other = ok("evaluate", model, tmp_path / "other.tsv", "--json", "--label-separator", ";")
    assert json.loads(other) == found


def test_workers_know_it_too(trained):
    found = run("evaluate", str(trained / "posts.model"), str(trained / "posts.tsv"), "--json", "--workers", "1")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == pytest.approx(figures(trained))


@pytest.mark.parametrize("estimator", ["MultiLabelNB", "SupervisedLDAClassifier"])
def test_corpora_tell_it_to_their_models(trained, tmp_path, estimator):
    for part in "ab":
        ok("ingest", str(trained / "posts.tsv"), tmp_path / f"{part}.zarr", "--label-separator", "|",
           *(["--vocabulary-from", str(tmp_path / "a.zarr")] if part == "b" else []))  # fmt: skip
    parts = [str(tmp_path / f"{part}.zarr") for part in "ab"]
    ok("train", *parts, tmp_path / "m", "--estimator", estimator, "--epochs", "1", "--quiet")
    assert sd.load_model(tmp_path / "m").label_separator_ == "|"


def test_an_unknown_label_names_the_option(trained, tmp_path):
    (tmp_path / "odd.tsv").write_text("sport;money\tgoal\n", encoding="utf-8")
    said = refused("evaluate", str(trained / "posts.model"), tmp_path / "odd.tsv")
    assert "label 'sport;money' is not among the classes (money, sport)" in said
    assert "labels are cut at '|', or at --label-separator" in said


def test_a_model_of_one_label_has_no_separator(trained, tmp_path):
    sd.MultinomialNB(n_epochs=1).fit(["a goal", "rates"] * 5, ["sport", "money"] * 5).save(tmp_path / "one.model")
    said = refused("evaluate", tmp_path / "one.model", str(trained / "posts.tsv"), "--label-separator", "|", code=2)
    assert "--label-separator is for models of several labels" in said


def test_errors_of_several_labels_are_written(trained, tmp_path):
    lines = (
        "money|sport\ta late goal wins\nmoney\trates fall\nmoney\tthe club buys shares\nsport\tthe weather is fine\n"
    )
    (tmp_path / "test.tsv").write_text(lines, encoding="utf-8")
    model, test = str(trained / "posts.model"), str(tmp_path / "test.tsv")
    ok("evaluate", model, test, "--errors", tmp_path / "wrong.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "wrong.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {row["text"]: (row["labels"], row["predictions"], row["wrong_label"]) for row in rows}
    assert found == {
        "a late goal wins": ("money|sport", "sport", "money"),
        "the club buys shares": ("money", "money|sport", "sport"),
        "the weather is fine": ("sport", "", "sport"),
    }
    losses = [row["log_loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    clf = sd.load_model(model)
    for row in rows:
        place = clf.classes_.tolist().index(row["wrong_label"])
        assert row["probability"] == pytest.approx(clf.predict_proba([row["text"]])[0, place])
        assert (row["probability"] >= clf.thresholds_[place]) == (row["wrong_label"] in row["predictions"].split("|"))
    given = next(row for row in rows if row["wrong_label"] == "sport" and row["predictions"])
    assert given["words_for"] and set(given["words_for"].split()) <= set(given["text"].split())
    ok("evaluate", model, str(trained / "posts.tsv"), "--errors", tmp_path / "none.parquet")  # there is none
    ok("report", model, test, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Examples of errors" in page and ", not sport " in page
    assert "sport is wrongly given" in page and "sport is missing" in page and "money is missing" in page
    ok("report", model, str(trained / "posts.tsv"), "-o", tmp_path / "right.html")
    assert "Examples of errors" not in (tmp_path / "right.html").read_text(encoding="utf-8")


def test_a_report_of_several_labels_has_the_table_that_others_have():
    X, lists = ["a goal", "rates", "a club buys"] * 9, [["sport"], ["money"], ["money", "sport"]] * 9
    clf = sd.MultiLabelNB(n_epochs=3).fit(X, lists)
    frame = clf.report(["a goal", "rates", "goal"], [["sport"], ["sport"], ["money"]]).confusion_frame()
    assert (frame.sum(axis=1) == 3).all()
    assert frame.loc["sport"].tolist() == [1, 1, 1, 0] and frame.loc["money"].tolist() == [0, 1, 1, 1]


def test_the_figures_of_a_report_are_there_once(trained):
    said = ok("evaluate", str(trained / "posts.model"), str(trained / "posts.tsv"), "--report")
    assert said.count("micro-F1") == said.count("60 documents of") == said.count("threshold") == 1
    assert "By label" in said and "60 documents, 2 labels" not in said


def test_an_estimator_of_one_label_is_refused_before_anything_is_read(trained, tmp_path):
    for command in ("train", "tune"):
        said = refused(command, str(trained / "posts.tsv"), tmp_path / "m", "--label-separator", "|", code=2)
        assert (
            "--label-separator is for several labels per document, and MultinomialNB learns one: add --estimator"
            in said
        )
    ok("ingest", str(trained / "posts.tsv"), tmp_path / "c.zarr", "--label-separator", "|")
    said = refused("train", tmp_path / "c.zarr", tmp_path / "m")
    assert "MultinomialNB learns one: train MultiLabelNB or SupervisedLDAClassifier (--estimator)" in said


def test_a_separator_that_never_occurs_is_named(trained, tmp_path):
    posts, wrong = str(trained / "posts.tsv"), ("--label-separator", ";")
    warning = "Warning: no document has more than one label, such as 'sport': does ';' stand between labels?"
    model = (str(tmp_path / "m"), "--estimator", "MultiLabelNB", "--epochs", "1", "--quiet")
    assert warning in run("train", posts, *model, *wrong).stderr
    assert warning in run("ingest", posts, tmp_path / "c.zarr", *wrong).stderr
    for command, *more in (["train", *model, "--overwrite"], ["ingest", str(tmp_path / "d.zarr")]):
        found = run(command, posts, *more, "--label-separator", "|")
        assert found.exit_code == 0 and "Warning" not in found.stderr


def test_labels_with_the_sign_between_labels_can_be_told_apart(tmp_path):
    lines = "a|b,c\tant cow\na|b\tant arm\nc\tcow cat\nc\tant arm\n"  # of the last one the label is wrong
    (tmp_path / "p.tsv").write_text(lines * 20, encoding="utf-8")
    paths = [str(tmp_path / name) for name in ("p.tsv", "m")]
    ok("train", *paths, "--estimator", "MultiLabelNB", "--label-separator", ",", "--quiet")
    ok("evaluate", paths[1], paths[0], "--errors", tmp_path / "wrong.csv")
    ok("predict", paths[1], paths[0], "-o", tmp_path / "said.csv")
    with (tmp_path / "wrong.csv").open(newline="", encoding="utf-8") as file:
        cells = {cell for row in csv.DictReader(file) for cell in (row["labels"], row["predictions"])}
    with (tmp_path / "said.csv").open(newline="", encoding="utf-8") as file:
        cells |= {row["labels"] for row in csv.DictReader(file)}
    read = {tuple(json.loads(cell)) if cell.startswith("[") else tuple(filter(None, cell.split("|"))) for cell in cells}
    assert ("a|b",) in read and all(set(labels) <= {"a|b", "c"} for labels in read)
