"""Losses and weights of models of words: margins, costs, blends, losses of users; classes of few documents among many."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts
from sklearn.base import clone
from sklearn.metrics import recall_score

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
@pytest.mark.parametrize("make", [
    lambda loss: sd.MultinomialNB(loss=loss),
    lambda loss: sd.MultinomialNB(loss=loss, merge="sum", n_epochs=3),
    lambda loss: sd.LDAClassifier(loss=loss, n_epochs=3),
    lambda loss: sd.SdemMixtureClassifier(2, components="multinomial", loss=loss, n_epochs=3),
], ids=["naive Bayes", "sums", "LDA", "mixture"])  # fmt: skip
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
    taken = [(m.predict(X[200:]) == 2).sum() for m in (plain, dear)]
    assert missed[1] <= missed[0] and taken[1] > taken[0]


def test_losses_of_users_take_sums():
    assert sd.MultinomialNB(loss=Squared(), merge="sum", n_epochs=4).fit(X, Y).score(X, Y) > 0.6
    for refused in (sd.MultinomialNB(loss=Squared()), sd.LDAClassifier(loss=Squared())):
        np.testing.assert_raises_regex(ValueError, "the custom loss", refused.fit, X, Y)
    with pytest.raises(ValueError, match="costs are for 3 classes, but the data have 2"):
        sd.MultinomialNB(loss=COSTS).fit(X, Y > 0)


def drawn(n: int, seed: int, rate: float = 1 / 150) -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    y, words = (rng.random(n) < rate).astype(int), rng.integers(400, size=(n, 30))
    words[:, :4] = np.where(y[:, None] == 1, 340 + rng.integers(80, size=(n, 4)), words[:, :4])
    return sp.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), 30), words.ravel())), shape=(n, 420)), y


RARE_X, RARE_Y = drawn(8000, 0)
RARE_NEW, RARE_Y_NEW = drawn(8000, 1)
CLASSIFIERS = {
    "hinge": sd.MultinomialNB(loss="hinge"),
    "ncll": sd.MultinomialNB(loss="ncll"),
    "summed": sd.MultinomialNB(loss="ncll", merge="sum", n_epochs=3),
    "PoissonNB": sd.PoissonNB(n_epochs=10),
    "LDAClassifier": sd.LDAClassifier(n_epochs=3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_weights_find_more_of_a_rare_class(name):
    rows, new = (RARE_X.toarray(), RARE_NEW.toarray()) if name == "PoissonNB" else (RARE_X, RARE_NEW)
    fitted = (CLASSIFIERS[name].set_params(class_weight=weight).fit(rows, RARE_Y) for weight in (None, "balanced"))
    recalls = [recall_score(RARE_Y_NEW, model.predict(new)) for model in fitted]
    assert recalls[1] > recalls[0] + 0.05, recalls


OF_TABLES = ("GaussianNB", "BernoulliNB", "PoissonNB", "SdemMixtureClassifier", "MultiplicativeMixtureClassifier")
OF_WORDS = {"hinge": sd.MultinomialNB(loss="hinge"), "topics": sd.LDAClassifier(n_epochs=3)}
OF_WORDS |= {"paper": sd.MultinomialNB(loss="ncll", steps="paper", n_epochs=3)}


@pytest.mark.parametrize("name", [*OF_WORDS, *OF_TABLES])
def test_discriminative_losses_know_no_scale_of_class_weights(name):
    model = OF_WORDS[name] if name in OF_WORDS else getattr(sd, name)(n_epochs=5)
    rows = RARE_X[:1000] if name in OF_WORDS else np.minimum(RARE_X[:1000, 330:].toarray(), 1)
    y = RARE_Y[:1000] + 2 * (np.arange(1000) % 2)  # four classes, two of them rare
    expected = clone(model).fit(rows, y).predict_proba(rows)
    weighted = clone(model).set_params(class_weight=dict.fromkeys(range(4), 1e-3)).fit(rows, y)
    np.testing.assert_allclose(weighted.predict_proba(rows), expected, atol=1e-6)


@pytest.mark.parametrize(("name", "n"), [("MultinomialNB", 1500), ("MultinomialNB", 8000), ("ManyClassNB", 8000)])
def test_macro_f1_is_shown_where_classes_are_rare(name, n):
    model = getattr(sd, name)().fit(RARE_X[:n], RARE_Y[:n])
    prefix = "fold" if n == 1500 else "held_out"
    assert 0.4 < model.best_entry_[f"{prefix}_macro_f1"] <= model.best_entry_[f"{prefix}_accuracy"]
    assert f"{prefix}_macro_f1" not in getattr(sd, name)().fit(RARE_X[:n], np.arange(n) % 2).best_entry_


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_documents_of_one_class_do_not_end_the_training(seed):
    model = sd.MultinomialNB(class_weight="balanced", random_state=seed).fit(RARE_X[-2500:], RARE_Y[-2500:])
    assert model.n_iter_ == 6 and model.score(RARE_NEW, RARE_Y_NEW) > 0.8


def test_of_very_many_classes_another_estimator_is_named():
    y = np.arange(2000) % 1000
    with pytest.warns(UserWarning, match="ManyClassNB"):
        sd.MultinomialNB(n_epochs=1, calibrate=False).fit(RARE_X[:2000], y)
    for quiet in (sd.ManyClassNB(n_epochs=1), sd.MultinomialNB(loss="nll")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet.fit(RARE_X[:2000], y)
