"""Models that are fitted one by one predict at temperatures of their own, which a search leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.naive_bayes import MultinomialNB as Theirs

from sdem_dist import CorpusSearchCV, MultiLabelNB, MultinomialNB, cross_validate

RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(300, 0.1), 4)
Y = RNG.integers(0, 4, 1200)
X = np.array([RNG.multinomial(15, 0.3 * TOPICS[label] + 0.7 / 300) for label in Y]).astype(float)
SETS = np.array([RNG.random(4) < 0.3 for _ in Y])
OF_SETS = np.array([RNG.multinomial(20, (p := s @ TOPICS + 0.3 / 300) / p.sum()) for s in SETS]).astype(float)
TRAINED, TESTED = slice(0, 800), slice(800, None)


class OwnNB(MultinomialNB):
    """Of a user."""


class OwnLabelNB(MultiLabelNB):
    """Of a user."""


def searched(estimator, X, y):
    found = CorpusSearchCV(estimator, {}, cv=3, random_state=0, n_jobs=1).fit(X[TRAINED], y[TRAINED])
    return found, type(estimator)(**estimator.get_params()).fit(X[TRAINED], y[TRAINED])


def test_of_one_label():
    found, alone = searched(OwnNB(loss="hinge", n_jobs=1), X, Y)
    model = found.best_estimator_
    assert model.learner_ == alone.learner_ and alone.temperature_ != 1.0
    assert log_loss(Y[TESTED], model.predict_proba(X[TESTED])) == log_loss(Y[TESTED], alone.predict_proba(X[TESTED]))
    assert found.best_score_ == pytest.approx(-log_loss(Y[TRAINED], found.oof_proba_), abs=0.01)


def test_of_several_labels():
    found, alone = searched(OwnLabelNB(loss="hinge", n_jobs=1), OF_SETS, SETS.astype(int))
    model = found.best_estimator_
    np.testing.assert_array_equal(model.temperatures_, alone.temperatures_)
    assert (model.thresholds_ != alone.thresholds_).any()  # those of all folds
    of = [of.evaluate(OF_SETS[TESTED], SETS[TESTED].astype(int))["label_log_loss"] for of in (model, alone)]
    assert of[0] == pytest.approx(of[1])
    losses = -np.where(SETS[TRAINED], np.log(found.oof_proba_), np.log1p(-found.oof_proba_)).mean()
    assert found.trials_[0].scores["log-loss"].mean() == pytest.approx(losses, abs=0.01)


def test_counting_has_no_temperature_in_a_search_as_it_has_none_in_a_fit():
    found, alone = searched(MultinomialNB(loss="nll", n_jobs=1), X, Y)
    model = found.best_estimator_
    assert model.temperature_ == alone.temperature_ == found.temperature_ == 1.0
    np.testing.assert_array_equal(model.predict_proba(X[TESTED]), alone.predict_proba(X[TESTED]))
    of = cross_validate(MultinomialNB(loss="nll"), X, Y, cv=3, n_jobs=1)
    theirs = cross_val_predict(Theirs(), X, Y, cv=PredefinedSplit(of.folds), method="predict_proba")
    np.testing.assert_allclose(of.proba, theirs, rtol=1e-3, atol=1e-6)
    losses = [log_loss(Y[of.folds == fold], theirs[of.folds == fold]) for fold in range(3)]
    np.testing.assert_allclose(of.scores["log-loss"], losses, rtol=1e-4)
