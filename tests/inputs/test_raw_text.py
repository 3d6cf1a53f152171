"""Texts where documents go in: counted as scikit-learn counts them, and carried by the model."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

import sdem_dist as sd
from sdem_dist.text import VectorizerSettings

RNG = np.random.default_rng(0)
WORDS = [["goal", "match", "team"], ["bank", "rate", "loan"], ["disk", "code", "bug"]]
Y = RNG.integers(3, size=240)
TEXTS = [" ".join([*RNG.choice(WORDS[k], 4), *RNG.choice(["the", "a1", "of"], 6)]) for k in Y]
X = CountVectorizer().fit_transform(TEXTS)
OF_COUNTS = {
    "naive Bayes": sd.MultinomialNB(),
    "counted": sd.MultinomialNB(loss="nll"),
    "LDA": sd.LDAClassifier(n_epochs=2),
    "mixture": sd.SdemMixtureClassifier(2, components="multinomial", n_em_epochs=2, n_epochs=2),
    "multiplicative": sd.MultiplicativeMixtureClassifier(2, n_epochs=3),
    "supervised topics": sd.SupervisedLDAClassifier(3, n_epochs=1),
}


@pytest.mark.parametrize("name", OF_COUNTS)
def test_texts_are_their_counts(name):
    ours, theirs = clone(OF_COUNTS[name]).fit(TEXTS, Y), clone(OF_COUNTS[name]).fit(X, Y)
    np.testing.assert_array_equal(ours.predict_proba(TEXTS[:50]), theirs.predict_proba(X[:50]))
    assert ours.vocabulary_ == CountVectorizer().fit(TEXTS).get_feature_names_out().tolist()
    assert ours.score(TEXTS, Y) == theirs.score(X, Y)


def test_held_out_texts_are_evaluated_while_a_model_of_texts_trains():
    of_texts = sd.MultinomialNB(n_epochs=2).fit(TEXTS[:200], Y[:200], validation=(TEXTS[200:], Y[200:]))
    known = CountVectorizer().fit(TEXTS[:200])
    X_train, X_new = known.transform(TEXTS[:200]), known.transform(TEXTS[200:])
    of_counts = sd.MultinomialNB(n_epochs=2).fit(X_train, Y[:200], validation=(X_new, Y[200:]))
    for name in ("validation_accuracy", "validation_ncll"):
        assert [entry[name] for entry in of_texts.history_] == [entry[name] for entry in of_counts.history_]


def test_topics_and_clusters_of_texts():
    topics = sd.LatentDirichletAllocation(2, n_epochs=1).fit(TEXTS)
    assert topics.transform(TEXTS[:4]).shape == (4, 2)
    assert sd.MultinomialMixture(3, n_epochs=2).fit(TEXTS).predict(TEXTS[:4]).shape == (4,)


def test_the_model_carries_how_texts_were_counted(tmp_path):
    settings = VectorizerSettings(ngram_range=(1, 2), stop_words="english")
    model = sd.MultinomialNB(vectorizer=settings).fit(TEXTS, Y)
    assert any(" " in term for term in model.vocabulary_)
    model.save(tmp_path / "m")
    again = sd.load_model(tmp_path / "m")
    assert again.vectorizer == settings
    np.testing.assert_array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))


@pytest.mark.filterwarnings("ignore:partial_fit takes the words of its first batch")
def test_batches_have_the_words_of_the_first_or_are_hashed():
    for settings in (None, VectorizerSettings(kind="hashing", n_features=64)):
        model = sd.MultinomialNB(vectorizer=settings)
        model.partial_fit(TEXTS[:120], Y[:120], classes=[0, 1, 2])
        model.partial_fit(TEXTS[120:], Y[120:])
        assert model.score(TEXTS, Y) > 0.9


def test_a_model_counts_texts_anew_after_each_fit_and_when_it_is_copied():
    texts, labels = ["a late goal", "the bank", "goal", "bank"], ["sport", "money", "sport", "money"]
    model = sd.MultinomialNB(n_epochs=2).fit(texts, labels)
    first = model.predict_proba(["the goal", "bank"])
    np.testing.assert_array_equal(model.predict_proba(["the goal", "bank"]), first)
    other = copy.deepcopy(model)
    np.testing.assert_array_equal(other.predict_proba(["the goal", "bank"]), first)
    model.fit(["red wine", "white wine", "red", "white"], ["r", "w", "r", "w"])
    assert model.predict(["red", "white wine"]).tolist() == ["r", "w"]
