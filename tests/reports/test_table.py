"""One table for all: the same cells as text, HTML, Markdown and a frame, harmless in each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sdem_dist import GaussianRegressor, LDAClassifier, MultiLabelNB, MultinomialMixture, MultinomialNB
from sdem_dist.reports.report import Html, Table

ODD = "<b>|\x1b[1m `x` a.name"
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 90)
X = RNG.poisson(0.3 + 2 * (np.arange(9) % 3 == Y[:, None]))
REPORTS = {
    "classes": lambda: MultinomialNB(n_epochs=1).fit(X, Y).report(X, Y),
    "labels": lambda: MultiLabelNB(n_epochs=1).fit(X, np.eye(3, dtype=int)[Y]).report(X, np.eye(3, dtype=int)[Y]),
    "numbers": lambda: GaussianRegressor().fit(X, Y * 1.5).report(X, Y * 1.5),
    "clusters": lambda: MultinomialMixture(3, n_init=1, n_epochs=2).fit(X).report(X, Y),
    "topics": lambda: LDAClassifier(n_epochs=1).fit(X, Y).report(X, Y),
}


def test_cells_are_harmless_everywhere():
    table = Table(("name", "n"), [(ODD, 1), (Html("<i>kept</i>"), 22)], caption=ODD, note=ODD)
    for shown in (table.text(), table.html(), table.markdown()):
        assert "\x1b" not in shown
    assert "<b>" not in table.html().replace("<i>kept</i>", "") and "<i>kept</i>" in table.html()
    assert "a.<wbr>name" in table.html()
    assert all(line.count(" | ") == 1 for line in table.markdown().splitlines())
    assert table.frame().shape == (2, 2) and list(table.frame().columns) == ["name", "n"]


def test_lines_are_aligned_and_names_cut():
    lines = Table(("name", "n"), [("x" * 30, 1), ("y", 1_000)], widths={0: 10}).text().splitlines()
    assert {len(line) for line in lines} == {10 + 2 + 4}
    assert Table((), [("a", "b")]).text() == "a  b"
    assert "<th" not in Table(("", ""), [("a", "b")]).html()


def test_bars_are_as_long_as_their_numbers():
    html = Table(("name", "share"), [("a", "0.250"), ("b", "1.000")], bars=[1]).html()
    assert "25.0%" in html and "100.0%" in html


@pytest.mark.parametrize("kind", REPORTS)
def test_every_report_shows_itself_in_every_form(kind):
    report = REPORTS[kind]()
    assert str(report).startswith("90 documents") and repr(report) == str(report)
    for table in report.tables():
        assert table.text() in str(report)
        assert len(table.markdown().splitlines()) == len(table.rows) + 2
    assert report._repr_html_().count("<table>") >= 1
    assert isinstance(report.to_frame(), pd.DataFrame) and report.to_dict()["documents"] == 90
    assert set(report.figures) <= set(report.to_dict())
