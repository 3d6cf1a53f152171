"""Classes of few documents among many: weights count, and figures say how they fare."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import recall_score

import sdem_dist as sd


def drawn(n: int, seed: int, rate: float = 1 / 150) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return documents of 30 words, the rare ones with four words that others have less often."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rate).astype(int)
    words = rng.integers(400, size=(n, 30))
    words[:, :4] = np.where(y[:, None] == 1, 340 + rng.integers(80, size=(n, 4)), words[:, :4])
    rows = np.repeat(np.arange(n), 30)
    return sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n, 420)), y


X, Y = drawn(8000, 0)
X_NEW, Y_NEW = drawn(8000, 1)
CLASSIFIERS = {
    "hinge": sd.MultinomialNB(loss="hinge"),
    "ncll": sd.MultinomialNB(loss="ncll"),
    "summed": sd.MultinomialNB(loss="ncll", merge="sum", n_epochs=3),
    "PoissonNB": sd.PoissonNB(n_epochs=10),
    "LDAClassifier": sd.LDAClassifier(n_epochs=3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_weights_find_more_of_a_rare_class(name):
    model = CLASSIFIERS[name]
    rows = (X.toarray(), X_NEW.toarray()) if name == "PoissonNB" else (X, X_NEW)
    recalls = [
        recall_score(Y_NEW, model.set_params(class_weight=weight).fit(rows[0], Y).predict(rows[1]))
        for weight in (None, "balanced")
    ]
    assert recalls[1] > recalls[0] + 0.05, recalls


OF_TABLES = ("GaussianNB", "BernoulliNB", "PoissonNB", "SdemMixtureClassifier", "MultiplicativeMixtureClassifier")
OF_WORDS = {
    "hinge": sd.MultinomialNB(loss="hinge"),
    "paper": sd.MultinomialNB(loss="ncll", steps="paper", n_epochs=3),
    "topics": sd.LDAClassifier(n_epochs=3),
}


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("name", [*OF_WORDS, *OF_TABLES])
def test_discriminative_losses_know_no_scale_of_class_weights(name, factor):
    model = OF_WORDS[name] if name in OF_WORDS else getattr(sd, name)(n_epochs=5)
    rows = X[:1000] if name in OF_WORDS else np.minimum(X[:1000, 330:].toarray(), 1)
    y = Y[:1000] + 2 * (np.arange(1000) % 2)  # four classes, two of them rare
    expected = clone(model).fit(rows, y).predict_proba(rows)
    weighted = clone(model).set_params(class_weight=dict.fromkeys(range(4), factor)).fit(rows, y)
    np.testing.assert_allclose(weighted.predict_proba(rows), expected, atol=1e-6)


@pytest.mark.parametrize("n", [1500, 8000], ids=["folds", "held out"])
def test_macro_f1_is_shown_where_classes_are_rare(n):
    model = sd.MultinomialNB().fit(X[:n], Y[:n])
    assert 0.4 < model.best_entry_["held_out_macro_f1"] < model.best_entry_["held_out_accuracy"]
    assert "held_out_macro_f1" not in sd.MultinomialNB().fit(X[:n], np.arange(n) % 2).best_entry_


def test_of_very_many_classes_another_estimator_is_named():
    y = np.arange(2000) % 1000
    with pytest.warns(UserWarning, match="ManyClassNB"):
        sd.MultinomialNB(n_epochs=1, calibrate=False).fit(X[:2000], y)
    for quiet in (sd.ManyClassNB(n_epochs=1), sd.MultinomialNB(loss="nll")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quiet.fit(X[:2000], y)
