"""What notebooks show of searches and learning curves."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context

from sdem_dist import CorpusSearchCV, MultinomialNB, learning_curve


class Cells(HTMLParser):
    """The rows of the tables of a page."""

    def __init__(self, page):
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.rows and self.lasttag in ("td", "th"):
            self.rows[-1].append(data)


def shown(value):
    """Return the page that a notebook shows: it asks for all forms at once before it asks for HTML."""
    bundle = getattr(value, "_repr_mimebundle_", dict)()
    return bundle.get("text/html") or getattr(value, "_repr_html_", lambda: None)()


@pytest.fixture(scope="module")
def search(documents):
    made = CorpusSearchCV(MultinomialNB(), {"loss": ["nll"], "vectorizer": [None]}, cv=3, max_epochs=2, n_jobs=1)
    return made.fit(*documents[:2])


def test_a_fitted_search_shows_its_summary(search):
    page = shown(search)
    assert page == search._repr_html_() and "sk-top-container" not in page
    head, *rows = Cells(page).rows
    assert head == ["setting", "log-loss", "accuracy", "epochs"]
    assert {row[0] for row in rows} == {"the default", "loss=nll, vectorizer=None"}
    for line in search.summary().splitlines()[-3:]:
        assert line.strip() in page


def test_settings_are_escaped(documents):
    search = CorpusSearchCV(MultinomialNB(), {"loss": ["nll"]}, cv=3, max_epochs=2, n_jobs=1).fit(*documents[:2])
    search.trials_[1].params["loss"] = "<script>"
    assert "<script>" not in shown(search) and "&lt;script&gt;" in shown(search)


def test_an_unfitted_search_shows_the_diagram_and_text_stays_text(search):
    assert "sk-top-container" in shown(CorpusSearchCV(MultinomialNB()))
    with config_context(display="text"):
        assert shown(search) is None and not hasattr(search, "_repr_html_")


def test_a_learning_curve_is_a_table(documents):
    curve = learning_curve(MultinomialNB(n_jobs=1), *documents[:2], shares=[0.5, 1.0], cv=3)
    head, *rows = Cells(shown(curve)).rows
    assert head == ["documents", "accuracy", "log-loss"]
    assert [row[0] for row in rows] == [f"{n:,}" for n in curve.n_documents]
    assert rows[1][1] == f"{np.mean(curve.accuracy[1]):.4f} +- {np.std(curve.accuracy[1]):.4f}"
    assert "over 3 folds" in shown(curve)
