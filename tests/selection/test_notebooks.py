"""What notebooks show of searches and learning curves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from sdem_dist import CorpusSearchCV, MultinomialNB, learning_curve


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


def test_a_learning_curve_is_a_table(documents):
    curve = learning_curve(MultinomialNB(n_jobs=1), *documents[:2], shares=[0.5, 1.0], cv=3)
    page = shown(curve)
    assert page.count("<tr") == 3 and f"{curve.n_documents[0]:,}" in page and "over 3 folds" in page
    assert f"{np.mean(curve.accuracy[1]):.4f} +- {np.std(curve.accuracy[1]):.4f}" in page
