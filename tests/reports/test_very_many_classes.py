"""Reports of very many classes show those with most errors, and say where the others are."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from sdem_dist import plots
from sdem_dist.reports.classification import ClassificationReport, classification_report
from sdem_dist.reports.labels import LabelReport
from sdem_dist.reports.report import MAX_ROWS

N = 5_000


def report_of(n_classes: int, wrong: dict[int, int]) -> ClassificationReport:
    """Return a report of two documents a class, of which the first is taken for another class where `wrong` says so."""
    labels = np.repeat(np.arange(n_classes), 2)
    predictions = labels.copy()
    for label, prediction in wrong.items():
        predictions[2 * label] = prediction
    log_p = np.full((len(labels), n_classes), -20.0, np.float32)
    log_p[np.arange(len(labels)), predictions] = -0.01
    return classification_report(np.array([f"c{k}" for k in range(n_classes)]), labels, log_p)


@pytest.fixture(scope="module")
def large():
    return report_of(N, {4000: 4001, 4002: 4001, 17: 18})


def test_the_classes_with_errors_are_shown_and_the_others_counted(large):
    shown = large.details()
    rows = [line.split()[0] for line in shown.splitlines() if line.startswith("c") and line.count(".") == 3]
    assert len(rows) == MAX_ROWS and set(rows[:5]) == {"c4000", "c4002", "c17", "c18", "c4001"}
    assert f"{N - MAX_ROWS:,} others ({2 * (N - MAX_ROWS):,} documents) are in to_frame() and in sdem evaluate" in shown
    assert large._repr_html_().count("<tr>") < MAX_ROWS + 20
    assert len(large.to_frame()) == len(large.to_dict()["classes"]) == N


def test_confusions_need_no_table_of_all_pairs(large):
    assert [tuple(one) for one in large.confusions()] == [
        ("c17", "c18", 1, 0.5),
        ("c4000", "c4001", 1, 0.5),
        ("c4002", "c4001", 1, 0.5),
    ]
    assert "confusion" not in vars(large), "25 million cells"
    among = large.confusion_among(np.array([17, 18, 4001]))
    assert among.tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 2]]


def test_the_picture_of_confusions_is_of_the_classes_with_most_errors(large):
    found = plots.confusion(large, Figure().subplots())
    assert "confusion" not in vars(large), "25 million cells"
    shares = found.images[0].get_array()
    assert shares.shape == (MAX_ROWS, MAX_ROWS)
    names = [t.get_text() for t in found.get_yticklabels()]
    assert shares[names.index("c17"), names.index("c18")] == 0.5
    assert found.get_title() == "Confusion of the 60 classes with most errors, of 5,000"
    few = report_of(20, {3: 5})
    np.testing.assert_allclose(plots.confusion(few, Figure().subplots()).images[0].get_array(), few.confusion / 2)


def test_as_many_classes_as_fit_are_all_shown():
    report = report_of(MAX_ROWS, {3: 5})
    assert "By class, lowest F1 first:" in report.details() and "left out" not in report.details()
    np.testing.assert_array_equal(report.confusion, report.confusion_among(np.arange(MAX_ROWS)))


def test_labels_too():
    rng = np.random.default_rng(0)
    members = rng.random((300, 200)) < 0.05
    scores = np.where(members, 2.0, -2.0)
    scores[:, 123] *= -1.0
    report = LabelReport(
        np.array([f"l{k}" for k in range(200)]), members, scores, np.full(200, 0.5), np.arange(len(members))
    )
    shown = report.details()
    assert "the 60 with most errors" in shown and "140 others" in shown and len(report.to_frame()) == 200
    assert shown.splitlines()[3].split()[0] == "l123"
