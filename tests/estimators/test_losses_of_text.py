"""Losses beside the named ones train models of words: margins, costs of confusions, blends, and losses of users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from reference.random_documents import random_counts

import sdem_dist as sd
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll
from sdem_dist.records import record

X, Y = random_counts(300, 40, 3, seed=1, length=15.0)
COSTS = CostSensitiveHinge(((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (9.0, 9.0, 0.0)))
LOSSES = [Hinge(0.0), Hinge(2.0), COSTS, Blend(Ncll(), 0.3), Blend(Hinge(), 0.3)]


@record
@dataclass(frozen=True)
class Squared:
    """(1 - p(y | d))^2: a loss of a user."""

    def value(self, scores, labels):
        return (1.0 - np.exp(-Ncll().value(scores, labels))) ** 2

    def weights(self, scores, labels):
        p = np.exp(-Ncll().value(scores, labels))
        return (2.0 * (1.0 - p) * p)[:, None] * Ncll().weights(scores, labels)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda loss: sd.MultinomialNB(loss=loss),
        lambda loss: sd.MultinomialNB(loss=loss, merge="sum", n_epochs=3),
        lambda loss: sd.LDAClassifier(loss=loss, n_epochs=3),
        lambda loss: sd.SdemMixtureClassifier(2, components="multinomial", loss=loss, n_epochs=3),
    ],
    ids=["naive Bayes", "sums", "LDA", "mixture"],
)
def test_they_train_and_are_saved(make, loss, tmp_path):
    model = make(loss).fit(X, Y)
    assert model.score(X, Y) > 0.6
    model.save(tmp_path / "model")
    assert sd.load_model(tmp_path / "model").get_params()["loss"] == loss


def test_the_hinge_of_margin_one_is_the_named_one():
    one, other = (sd.MultinomialNB(loss=loss).fit(X, Y) for loss in ("hinge", Hinge(1.0)))
    np.testing.assert_array_equal(one.state_.words, other.state_.words)


def test_costs_move_predictions_towards_the_class_that_is_dear_to_miss():
    plain, dear = (sd.MultinomialNB(loss=loss, n_epochs=5, calibrate=False) for loss in (Hinge(), COSTS))
    missed = [(m.fit(X[:200], Y[:200]).predict(X[200:])[Y[200:] == 2] != 2).sum() for m in (plain, dear)]
    assert missed[1] <= missed[0]
    taken = [(m.predict(X[200:]) == 2).sum() for m in (plain, dear)]
    assert taken[1] > taken[0]


def test_losses_of_users_take_sums():
    model = sd.MultinomialNB(loss=Squared(), merge="sum", n_epochs=4).fit(X, Y)
    assert model.score(X, Y) > 0.6
    for refused in (sd.MultinomialNB(loss=Squared()), sd.LDAClassifier(loss=Squared())):
        with pytest.raises(ValueError, match="a loss of your own"):
            refused.fit(X, Y)
    with pytest.raises(ValueError, match="costs are of 3 classes, and there are 2"):
        sd.MultinomialNB(loss=COSTS).fit(X, Y > 0)
