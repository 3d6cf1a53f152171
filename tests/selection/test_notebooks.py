"""What notebooks show of searches."""

from __future__ import annotations

import pytest
from sklearn import config_context

from sdem_dist import CorpusSearchCV, MultinomialNB


def shown(value):
    """Return the page that a notebook shows: it asks for all forms at once before it asks for HTML."""
    bundle = getattr(value, "_repr_mimebundle_", dict)()
    return bundle.get("text/html") or getattr(value, "_repr_html_", lambda: None)()


@pytest.fixture(scope="module")
def search(documents):
    return CorpusSearchCV(MultinomialNB(), {"loss": ["nll"]}, cv=3, n_jobs=1).fit(*documents[:2])


def test_a_fitted_search_shows_its_summary(search):
    page = shown(search)
    assert page == search._repr_html_() and "sk-top-container" not in page
    assert page.count("<tr") == 3 and "the default" in page and "loss=nll" in page
    for line in search.summary().splitlines()[-3:]:
        assert line.strip() in page
    assert max(map(len, search.summary().splitlines())) <= 80
    search.trials_[1].params["loss"] = "<script>"
    assert "<script>" not in shown(search) and "&lt;script&gt;" in shown(search)


def test_an_unfitted_search_shows_the_diagram_and_text_stays_text(search):
    assert "sk-top-container" in shown(CorpusSearchCV(MultinomialNB()))
    with config_context(display="text"):
        assert shown(search) is None and not hasattr(search, "_repr_html_")
