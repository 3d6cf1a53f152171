"""Reports of classifiers: figures by hand, agreement with the evaluation that workers add up, and harmless output."""

from __future__ import annotations

import pickle  # noqa: TID251  as joblib and Dask send reports

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cli.commands import ok
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from sdem_dist import (
    EMMixtureClassifier,
    GaussianNB,
    MultinomialNB,
    MultiplicativeMixtureClassifier,
    SupervisedLDAClassifier,
    write_corpus,
)
from sdem_dist.reports.classification import classification_report

RNG = np.random.default_rng(0)
NASTY = ["<script>alert(1)</script>", "tab\there 'quoted' \"twice\"", "\x1b[31mred", "x" * 60]


def random_report(n=200, classes=("a", "b", "c"), names=None):
    labels = RNG.integers(-1, len(classes), n)
    scores = RNG.normal(size=(n, len(classes))) + 1.5 * (labels[:, None] == np.arange(len(classes)))
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return classification_report(np.array(names or classes), labels, log_p), labels, log_p


def test_figures_are_those_of_scikit_learn():
    report, labels, log_p = random_report()
    known = labels >= 0
    y, p = labels[known], np.exp(log_p[known])
    assert report.n_documents == known.sum()
    assert report.log_loss == pytest.approx(log_loss(y, p, labels=[0, 1, 2]))
    assert report.macro_f1 == pytest.approx(f1_score(y, p.argmax(axis=1), average="macro"))
    assert report.brier == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(axis=1).mean())
    assert report.confusion.sum() == known.sum() and np.trace(report.confusion) == report.right.sum()
    np.testing.assert_array_equal(report.support, np.bincount(y))
    assert report.roc_auc is None and "roc_auc" not in report.figures
    two, labels, log_p = random_report(classes=(0, 1))
    known = labels >= 0
    assert two.roc_auc == pytest.approx(roc_auc_score(labels[known], log_p[known, 1]))


def test_reliability_by_hand():
    p = np.array([[0.9, 0.1], [0.95, 0.05], [0.6, 0.4], [0.4, 0.6]])
    report = classification_report(np.array(["a", "b"]), np.array([0, 1, 0, 1]), np.log(p))
    assert report.reliability.documents.sum() == 4
    # Bins of 1/15: .9 (right) in 13, .95 (wrong) in 14, .6 twice (both right) in 9.
    assert report.ece == pytest.approx((abs(1 - 0.9) + abs(0 - 0.95) + 2 * abs(1 - 0.6)) / 4)


def test_errors_and_confusions():
    p = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.7, 0.3, 0.0], [0.1, 0.2, 0.7]]) + 1e-9
    report = classification_report(np.array(list("abc")), np.array([1, 0, 1, -1]), np.log(p / p.sum(axis=1)[:, None]))
    assert report.positions[report.errors].tolist() == [0, 1, 2]
    assert [(c.label, c.prediction, c.documents, c.share) for c in report.confusions()] == [
        ("b", "a", 2, 1.0),
        ("a", "b", 1, 1.0),
    ]
    assert report.accuracy == 0.0 and report.macro_f1 == 0.0


def test_nothing_labelled_is_refused():
    with pytest.raises(ValueError, match="label"):
        classification_report(np.array(["a", "b"]), np.array([-1]), np.log([[0.5, 0.5]]))


def test_text_of_anybody_harms_no_output():
    report, *_ = random_report(classes=(0, 1, 2, 3), names=NASTY)
    shown, html = str(report), report._repr_html_()
    assert "\x1b" not in shown and "\x1b" not in html and r"\x1b[31mred" in shown
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert all("\t" not in line and len(line) <= 100 for line in shown.splitlines())


def test_tables_are_sorted_by_what_matters_and_hold_at_80_columns():
    report, *_ = random_report()
    lines = str(report).splitlines()
    assert all(len(line) <= 80 for line in lines)
    first = next(i for i, line in enumerate(lines) if line.startswith("class "))
    order = [line.split()[0] for line in lines[first + 1 : first + 4]]
    assert order == [report.classes[k] for k in np.argsort(report.f1)]
    frame = report.to_frame()
    assert frame.index.tolist() == list("abc") and frame["support"].tolist() == report.support.tolist()


def corpus_of_counts(tmp_path):
    y = RNG.integers(0, 3, 120)
    X = sp.csr_matrix(RNG.poisson(0.5 + 2 * (np.arange(12) % 3 == y[:, None])))
    return X, y, write_corpus(tmp_path / "c", X, y)


@pytest.mark.parametrize("loss", ["hinge", "nll"])
def test_reports_agree_with_evaluate(tmp_path, loss):
    X, y, corpus = corpus_of_counts(tmp_path)
    model = MultinomialNB(loss=loss).fit(X[:60], y[:60])
    metrics, figures = model.evaluate(corpus), model.report(corpus).figures
    for theirs, ours in {"accuracy": "accuracy", "ncll": "log_loss", "macro_f1": "macro_f1", "brier": "brier"}.items():
        assert figures[ours] == pytest.approx(metrics[theirs], rel=1e-10)
    assert figures["ece"] == pytest.approx(metrics["ece"], abs=1e-10)
    assert model.report(X, y).figures == pytest.approx(figures)


@pytest.mark.parametrize("kind", [GaussianNB, EMMixtureClassifier, MultiplicativeMixtureClassifier])
def test_every_classifier_measures_what_its_report_does(kind):
    y = RNG.integers(0, 3, 90)
    X = RNG.random(size=(90, 4)) + (y[:, None] == np.arange(4))
    weights = np.arange(90) % 3 != 1
    model = kind().fit(X, y, weights.astype(float))
    metrics, figures = model.evaluate(X, y), model.report(X, y).figures
    for name in ("accuracy", "macro_f1", "brier", "ece"):
        assert metrics[name] == pytest.approx(figures[name], rel=1e-10, abs=1e-12)
    assert metrics["macro_f1"] == pytest.approx(f1_score(y, model.predict(X), average="macro"))
    assert ("temperature" in metrics) == (kind is not GaussianNB)


def test_a_small_confusion_matrix_is_shown_on_80_columns():
    report, *_ = random_report(names=[*NASTY[:2], "c"])
    shown = report.details()
    lines = shown.partition("Documents by class")[2].splitlines()[2:6]
    assert [[int(n) for n in line.split()[-3:] if n != "."] for line in lines[1:]] == [
        [n for n in row if n] for row in report.confusion.tolist()
    ]
    assert max(map(len, shown.splitlines())) <= 80 and "\x1b" not in shown
    wide, *_ = random_report(classes=tuple(f"class {k}" for k in range(13)))
    assert "Documents by class" not in wide.details()


def test_a_table_has_a_report():
    y = RNG.integers(0, 2, 80)
    X = RNG.normal(size=(80, 3)) + 2.0 * y[:, None]
    report = GaussianNB().fit(X, y).report(X, y)
    assert report.accuracy > 0.8 and report.roc_auc > 0.8


def test_tables_with_names():
    classes = np.array(["a", "<b>", "c"])
    log_p = np.log([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.9, 0.05, 0.05]])
    report = classification_report(classes, np.array([0, 1, 1, 1]), log_p)
    frame = report.confusion_frame()
    assert frame.index.name == "class" and frame.columns.name == "prediction"
    assert frame.loc["<b>", "a"] == 2 and frame.loc["a", "<b>"] == 0 and frame.to_numpy().sum() == 4
    errors = report.errors_frame()
    assert errors.index.tolist() == [3, 1] and errors.prediction.tolist() == ["a", "a"]
    assert errors.probability_of_label.tolist() == pytest.approx([0.05, 0.3])


def test_tables_of_errors_have_texts_where_they_are_known():
    texts, y = ["goal match", "bank share"] * 6, ["sport", "money"] * 6
    model = MultinomialNB(loss="nll").fit(texts, y)
    for X in (texts, np.array(texts), pd.Series(texts, index=range(5, 17))):
        errors = model.report(X, ["money", *y[1:]]).errors_frame()
        assert errors.text.tolist() == ["goal match"] and errors.index.tolist() == [0]
        assert errors.words_for_prediction.tolist() == ["goal match"] and errors.words_for_label.tolist() == [""]
        again = pickle.loads(pickle.dumps(model.report(X, ["money", *y[1:]])))  # noqa: S301
        assert again.errors_frame().equals(errors)
        assert b"bank share" not in pickle.dumps(again), "texts without an error are kept"
    counts = model.vectorize(texts)
    of_counts = model.report(counts, ["money", *y[1:]]).errors_frame()
    assert "text" not in of_counts and of_counts.words_for_prediction.tolist() == ["goal match"]
    assert list(model.report(texts, y).errors_frame()) == list(errors), "the same columns without an error"


def test_tables_of_errors_are_those_of_the_command(tmp_path):
    rng = np.random.default_rng(0)
    names = ["sport", "money"] * 100
    texts = [" ".join(rng.choice(["goal", "match", "bank", "share"], 4)) for _ in names]
    corpus = write_corpus(tmp_path / "c.zarr", MultinomialNB().fit(texts, names).vectorize(texts), names)
    model = MultinomialNB().fit(corpus)
    model.save(tmp_path / "m")
    ok("evaluate", str(tmp_path / "m"), str(corpus.path), "--errors", str(tmp_path / "e.jsonl"))
    written = pd.read_json(tmp_path / "e.jsonl", lines=True)
    frame = model.report(corpus).errors_frame()
    assert len(frame) > 20 and set(written) - {"id"} == set(frame)
    shared = ["label", "prediction", "words_for_prediction", "words_for_label"]
    assert frame[shared].reset_index(drop=True).equals(written[shared])
    part = model.report(corpus.subset(np.arange(200) % 3 > 0)).errors_frame()
    assert 0 < len(part) < len(frame) and part[shared].equals(frame.loc[part.index, shared])


@pytest.mark.parametrize("kind", [np.asarray, sp.coo_matrix, sp.csc_array, pd.DataFrame])
def test_telling_words_of_counts_and_columns_of_any_kind(kind):
    X = RNG.poisson(1.0, (60, 4))
    y = RNG.integers(0, 2, 60)
    frame = MultinomialNB().fit(X, y).report(kind(X), y).errors_frame()
    assert len(frame) > 5 and frame.words_for_prediction.str.len().max() > 0
    if kind in (np.asarray, pd.DataFrame):
        table = GaussianNB().fit(kind(X), y).report(kind(X), y).errors_frame()
        assert table.words_for_prediction.str.len().max() > 0
    none = SupervisedLDAClassifier(n_epochs=1, n_components=2).fit(X, y).report(kind(X), y).errors_frame()
    assert "words_for_label" in none


def test_classes_without_documents_are_named():
    classes, log_p = np.array(["a", "b", "<c>"]), np.log([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]])
    report = classification_report(classes, np.array([0, 1]), log_p)
    assert "No documents, and never predicted: <c>. Macro-F1 is the mean of the other 2 classes." in report.details()
    assert "never predicted: &lt;c&gt;" in report._repr_html_()
    assert "never predicted" not in classification_report(classes[:2], np.array([0, 1]), log_p[:, :2]).details()
