"""Batch after batch: `partial_fit` of MultinomialNB."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import MultinomialNB, load_model

X, Y = random_counts(240, 30, 3, seed=2)
X_NEW, Y_NEW = random_counts(150, 30, 3, seed=12)
LOSSES = ("ncll", "hinge", "nll")


@pytest.mark.parametrize("loss", LOSSES)
def test_partial_fit_with_batches_that_lack_classes(loss):
    order = np.argsort(Y, kind="stable")
    model = MultinomialNB(loss=loss)
    for part in np.array_split(order, 5):
        model.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    assert model.n_iter_ == 5
    assert np.isfinite(model.feature_log_prob_).all()
    assert model.state_.t == 240


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_partial_fit_goes_on_learning(loss):
    model = MultinomialNB(loss=loss)
    for _ in range(5):
        for part in np.array_split(np.arange(240), 4):
            model.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    first = MultinomialNB(loss=loss).partial_fit(X[:60], Y[:60], classes=[0, 1, 2])
    assert model.evaluate(X, Y)[loss] < first.evaluate(X, Y)[loss]


def test_partial_fit_after_fit_changes_the_model():
    model = MultinomialNB(n_epochs=4).fit(X, Y)
    before = model.feature_log_prob_.copy()
    model.partial_fit(X_NEW, Y_NEW)
    assert not np.allclose(model.feature_log_prob_, before)
    np.testing.assert_allclose(np.exp(model.feature_log_prob_).sum(axis=1), 1.0)


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_a_first_call_that_failed_leaves_nothing_to_go_on_from(first, monkeypatch):
    from sdem_dist.engine import tasks

    model = MultinomialNB(n_jobs=1)
    call = {"fit": model.fit, "partial_fit": partial(model.partial_fit, classes=[0, 1, 2])}[first]
    with monkeypatch.context() as broken:
        broken.setattr(tasks, "update", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call(X, Y)
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X, Y)
    model.partial_fit(X[:, :10], Y, classes=[0, 1, 2])
    assert model.n_iter_ == 1
    assert bits(model) == bits(MultinomialNB().partial_fit(X[:, :10], Y, classes=[0, 1, 2]))


def test_partial_fit_says_what_is_wrong():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        MultinomialNB().partial_fit(X, Y)
    with pytest.raises(ValueError, match="one class only"):
        MultinomialNB().partial_fit(X, np.zeros(240), classes=[0])
    model = MultinomialNB().partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="not among the classes: 7"):
        model.partial_fit(X, np.where(Y == 0, 7, Y))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :10], Y)


@pytest.mark.parametrize("begin", ["fit", "partial_fit", "load_model"])
def test_what_cannot_change_between_batches_is_refused(begin, tmp_path):
    model = MultinomialNB(loss="hinge", n_epochs=1, class_prior=[0.2, 0.3, 0.5])
    model = model.fit(X, Y) if begin == "fit" else model.partial_fit(X, Y, classes=[0, 1, 2])
    if begin == "load_model":
        model.save(tmp_path / "m")
        model = load_model(tmp_path / "m")
    for name, value in {"loss": "ncll", "alpha": 0.1, "step": 2.0, "weighting": "binary", "class_prior": None}.items():
        then = getattr(model, name)
        with pytest.raises(ValueError, match=rf"{name} is {value!r}, and was .* when training began"):
            model.set_params(**{name: value}).partial_fit(X_NEW, Y_NEW)
        model.set_params(**{name: then})
    model.set_params(n_jobs=1, class_weight="balanced", class_prior=[0.2, 0.3, 0.5]).partial_fit(X_NEW, Y_NEW)
    assert model.learner_.class_weight is not None
