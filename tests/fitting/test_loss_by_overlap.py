"""The default loss: the hinge loss, and NCLL where classes overlap or documents are few."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import MultinomialNB, load_model


def documents(n_documents: int, n_classes: int, own_words: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return documents of 30 words each, so many of which are words of their class; neighbouring classes share half."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_documents)
    words = rng.integers(200, size=(n_documents, 30))
    words[:, :own_words] = 200 + 10 * y[:, None] + rng.integers(20, size=(n_documents, own_words))
    rows = np.repeat(np.arange(n_documents), 30)
    return sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n_documents, 400)), y


@pytest.mark.parametrize("n_documents", [900, 4000], ids=["folds", "held out"])
def test_ncll_where_classes_overlap(n_documents, tmp_path):
    X, y = documents(n_documents, 4, 2)
    auto, ncll, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll", "hinge"))
    assert hinge.kept_["held_out_accuracy"] < 0.8
    assert auto.loss_ == "ncll"
    np.testing.assert_array_equal(auto.predict_proba(X), ncll.predict_proba(X))
    assert auto.kept_["held_out_log_loss"] < hinge.kept_["held_out_log_loss"]
    auto.save(tmp_path / "m")
    assert load_model(tmp_path / "m").loss_ == "ncll"


@pytest.mark.parametrize(("n_documents", "n_classes", "own_words"), [(119, 4, 10), (59, 2, 10)])
def test_ncll_of_few_documents(n_documents, n_classes, own_words):
    X, y = documents(n_documents, n_classes, own_words)
    auto, ncll = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll"))
    assert auto.loss_ == "ncll"
    np.testing.assert_array_equal(auto.predict_proba(X), ncll.predict_proba(X))


@pytest.mark.parametrize(
    ("n_documents", "n_classes", "own_words"),
    [(4000, 4, 10), (4000, 2, 1), (120, 4, 10), (60, 2, 10)],
    ids=["apart", "two", "enough of four", "enough of two"],
)
def test_the_hinge_loss_elsewhere(n_documents, n_classes, own_words):
    X, y = documents(n_documents, n_classes, own_words)
    auto, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "hinge"))
    assert auto.loss_ == "hinge"
    np.testing.assert_array_equal(auto.predict_proba(X), hinge.predict_proba(X))
