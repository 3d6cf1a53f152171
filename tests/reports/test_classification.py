"""Reports of classifiers: figures by hand, agreement with the evaluation that workers add up, errors, many classes."""

import pickle  # noqa: TID251  as joblib and Dask send reports

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.metrics import f1_score, log_loss, precision_recall_fscore_support, roc_auc_score

import sdem_dist as sd
from sdem_dist.reports.classification import MAX_ROWS, ClassificationReport, LabelReport

RNG = np.random.default_rng(0)
NASTY = ["<script>alert(1)</script>", "tab\there 'quoted' \"twice\"", "\x1b[31mred", "x" * 60]


def random_report(classes=("a", "b", "c"), n=200):
    labels = RNG.integers(-1, len(classes), n)
    scores = RNG.normal(size=(n, len(classes))) + 1.5 * (labels[:, None] == np.arange(len(classes)))
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return ClassificationReport(np.array(classes), labels, log_p), labels[labels >= 0], log_p[labels >= 0]


def test_figures_are_those_of_scikit_learn():
    report, y, log_p = random_report()
    p, names = np.exp(log_p), ("precision", "recall", "f1", "documents")
    assert report.n_documents == len(y) == report.confusion.sum() and np.trace(report.confusion) == report.right.sum()
    assert report.log_loss == pytest.approx(log_loss(y, p, labels=[0, 1, 2]))
    assert report.macro_f1 == pytest.approx(f1_score(y, p.argmax(axis=1), average="macro"))
    assert report.figures["brier"] == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(axis=1).mean())
    expected = precision_recall_fscore_support(y, p.argmax(axis=1))
    np.testing.assert_allclose([report.to_frame()[name] for name in names], expected)
    assert "roc_auc" not in report.figures
    two, y, log_p = random_report(classes=(0, 1))
    assert two.figures["roc_auc"] == pytest.approx(roc_auc_score(y, log_p[:, 1]))


def test_reliability_by_hand():
    p = np.array([[0.9, 0.1], [0.95, 0.05], [0.6, 0.4], [0.4, 0.6]])
    report = ClassificationReport(np.array(["a", "b"]), np.array([0, 1, 0, 1]), np.log(p))
    assert report.reliability.documents.sum() == 4
    # Bins of 1/15: .9 (right) in 13, .95 (wrong) in 14, .6 twice (both right) in 9.
    assert report.ece == pytest.approx((abs(1 - 0.9) + abs(0 - 0.95) + 2 * abs(1 - 0.6)) / 4)


def test_errors_and_confusions_by_hand():
    p = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.7, 0.3, 0.0], [0.1, 0.2, 0.7]]) + 1e-9
    report = ClassificationReport(np.array(["a", "<b>", "c"]), np.array([1, 0, 1, -1]), np.log(p / p.sum(1)[:, None]))
    assert report.positions[report.errors].tolist() == [0, 1, 2]
    assert [tuple(c) for c in report.confusions()] == [("<b>", "a", 2, 1.0), ("a", "<b>", 1, 1.0)]
    assert report.accuracy == 0.0 and report.macro_f1 == 0.0
    frame, errors = report.confusion_frame(), report.errors_frame()
    assert (frame.index.name, frame.columns.name) == ("class", "prediction")
    assert frame.loc["<b>", "a"] == 2 and frame.loc["a", "<b>"] == 1 and frame.to_numpy().sum() == 3
    assert errors.index.tolist() == [0, 1, 2] and errors.prediction.tolist() == ["a", "<b>", "a"]
    assert errors.probability_of_label.tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_tables_are_sorted_harmless_and_hold_at_80_columns():
    report, *_ = random_report(classes=NASTY)
    shown, html = str(report), report._repr_html_()
    assert "\x1b" not in shown + html and r"\x1b[31mred" in shown and "<script>" not in html
    lines = shown.splitlines()
    assert lines[0] == f"{report.n_documents} documents, {len(report.errors)} errors"
    assert all("\t" not in line and len(line) <= 80 for line in lines)
    first = next(i for i, line in enumerate(lines) if line.startswith("class "))
    order = [line[:2] for line in lines[first + 1 : first + 5]]
    assert order == [NASTY[k].replace("\x1b", "\\x1b")[:2] for k in np.argsort(report.columns["f1"])]
    matrix = shown.partition("Documents by class")[2].splitlines()[3:7]
    assert [[0 if n == "." else int(n) for n in line.split()[-4:]] for line in matrix] == report.confusion.tolist()
    wide, *_ = random_report(classes=tuple(f"class {k}" for k in range(13)))
    assert "Documents by class" not in wide.details()


def test_classes_without_documents_are_counted():
    classes, log_p = np.array(["a", "b", "<c>"]), np.log([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]])
    report = ClassificationReport(classes, np.array([0, 1]), log_p)
    for form in (report.details(), report._repr_html_()):
        assert "Macro-F1 is the mean over 2 classes, excluding 1 without documents or predictions." in form
    assert report.macro_f1 == 1.0
    assert "never predicted" not in ClassificationReport(classes[:2], np.array([0, 1]), log_p[:, :2]).details()


def test_tables_of_errors_have_texts_and_words_where_they_are_known():
    texts, y = ["goal match", "bank share"] * 6, ["sport", "money"] * 6
    model, wrong = sd.MultinomialNB(loss="nll").fit(texts, y), ["money", *y[1:]]
    for X in (texts, np.array(texts), pd.Series(texts, index=range(5, 17))):
        errors = model.report(X, wrong).errors_frame()
        assert errors.text.tolist() == ["goal match"] and errors.index.tolist() == [0]
        assert errors.words_for.tolist() == ["goal match"] and errors.words_against.tolist() == [""]
        assert b"bank share" not in pickle.dumps(model.report(X, wrong)), "texts without an error are kept"
    assert list(model.report(texts, y).errors_frame()) == list(errors), "the same columns without an error"
    y, counts = RNG.integers(0, 2, 60), RNG.poisson(1.0, (60, 4))
    for model in [sd.MultinomialNB(), sd.GaussianNB(), sd.SupervisedLDAClassifier(n_epochs=1, n_components=2)]:
        dense = isinstance(model, sd.GaussianNB)
        model.fit(counts, y)
        for kind in (np.asarray, pd.DataFrame) if dense else (np.asarray, sp.coo_matrix, sp.csc_array, pd.DataFrame):
            frame = model.report(kind(counts), y).errors_frame()
            assert len(frame) > 5 and frame.words_for.str.len().max() > 0 and "text" not in frame


def report_of(n_classes: int, wrong: dict[int, int]) -> ClassificationReport:
    """Return a report of two documents a class, of which the first is taken for another class where `wrong` says so."""
    labels = np.repeat(np.arange(n_classes), 2)
    predictions = labels.copy()
    for label, prediction in wrong.items():
        predictions[2 * label] = prediction
    log_p = np.full((len(labels), n_classes), -20.0, np.float32)
    log_p[np.arange(len(labels)), predictions] = -0.01
    return ClassificationReport(np.array([f"c{k}" for k in range(n_classes)]), labels, log_p)


def test_of_very_many_classes_those_with_errors_are_shown_and_the_others_counted():
    n = 2_000
    report = report_of(n, {1400: 1401, 1402: 1401, 17: 18})
    shown = report.details()
    rows = [line.split()[0] for line in shown.splitlines() if line.startswith("c") and line.count(".") == 3]
    assert len(rows) == MAX_ROWS and set(rows[:5]) == {"c1400", "c1402", "c17", "c18", "c1401"}
    assert f"{n - MAX_ROWS:,} others ({2 * (n - MAX_ROWS):,} documents)" in shown
    assert report._repr_html_().count("<tr>") < MAX_ROWS + 20
    assert len(report.to_frame()) == len(report.to_dict()["classes"]) == n
    assert [c[:3] for c in report.confusions()] == [("c17", "c18", 1), ("c1400", "c1401", 1), ("c1402", "c1401", 1)]
    assert report.confusion_among(np.array([17, 18, 1401])).tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 2]]
    axes = sd.plots.confusion(report, Figure().subplots())
    shares, names = axes.images[0].get_array(), [t.get_text() for t in axes.get_yticklabels()]
    assert shares.shape == (MAX_ROWS, MAX_ROWS) and shares[names.index("c17"), names.index("c18")] == 0.5
    assert "60 classes with the most errors (of 2,000)" in axes.get_title()
    assert "others" not in report_of(MAX_ROWS, {3: 5}).details()


def test_labels_too():
    members = np.random.default_rng(0).random((300, 200)) < 0.05
    scores = np.where(members, 2.0, -2.0)
    scores[:, 123] *= -1.0
    report = LabelReport(np.array([f"l{k}" for k in range(200)]), members, scores, np.full(200, 0.5), np.arange(300))
    shown = report.details()
    assert "the 60 with the most errors" in shown and "140 others" in shown and len(report.to_frame()) == 200
    assert shown.splitlines()[3].split()[0] == "l123"
