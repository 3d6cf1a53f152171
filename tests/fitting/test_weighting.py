"""Weighting, length and columns are the model's: the same from memory, from disk and at prediction."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts
from sklearn.feature_extraction.text import TfidfTransformer

from sdem_dist import MultinomialNB, ingest, open_corpus, write_corpus
from sdem_dist.corpus.base import MemoryCorpus
from sdem_dist.fitting.plans import PriorStart
from sdem_dist.inputs.source import documents_of, source_of
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.weighting import Weighting
from sdem_dist.text import VectorizerSettings

ALL, LABELS = random_counts(600, 60, 3, seed=4, length=20.0)
(X, Y), (X_NEW, Y_NEW) = (ALL[:400], LABELS[:400]), (ALL[400:], LABELS[400:])


def trained_rows(model, X, y=None):
    """Return what a fitted model sees of documents that it is to be scored on."""
    source = source_of(model, X, y, use="score")
    return source.documents.read(0, source.n_documents).to_csr()


def test_documents_in_memory_on_disk_and_at_prediction_are_sublinear_tfidf_of_length_10(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, shuffle=False, shard_documents=70)
    new = write_corpus(tmp_path / "new", X_NEW, Y_NEW, shuffle=False)
    peer = TfidfTransformer(sublinear_tf=True).fit(X)
    expected = (10.0 * peer.transform(X_NEW)).toarray()
    for model in (MultinomialNB().fit(X, Y), MultinomialNB().fit(corpus)):
        for seen in (documents_of(model, X_NEW).to_csr(), trained_rows(model, X_NEW, Y_NEW), trained_rows(model, new)):
            np.testing.assert_allclose(seen.toarray(), expected, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(trained_rows(model, corpus).toarray(), 10.0 * peer.transform(X).toarray(), rtol=2e-6)


@pytest.mark.parametrize(
    ("weighting", "weight"), [("counts", lambda x: x), ("log", np.log1p), ("binary", lambda x: (x > 0) * 1.0)]
)
@pytest.mark.parametrize("norm", [None, 2.0])
def test_other_weightings(weighting, weight, norm):
    model = MultinomialNB(weighting=weighting, norm=norm).fit(X, Y)
    seen, expected = documents_of(model, X_NEW).to_csr().toarray(), weight(X_NEW.toarray().astype(float))
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    if norm:
        expected *= norm / np.where(lengths > 0, lengths, 1.0)
    else:  # one factor for all, which gives training documents a mean squared length of 100
        expected *= model.weighting_.scale
        all_of_it = trained_rows(model, X, Y)
        squares = np.asarray(all_of_it.multiply(all_of_it).sum(axis=1))
        assert squares[squares > 0].mean() == pytest.approx(100.0, rel=1e-5)
    np.testing.assert_allclose(seen, expected, rtol=2e-6)


def test_min_df_is_the_same_as_leaving_columns_out():
    frequent = np.asarray((X > 0).sum(axis=0)).ravel() >= 120
    assert 10 < frequent.sum() < 50
    settings = {"weighting": "binary", "alpha": 0.5, "calibrate": False}  # folds count words for themselves
    chosen = MultinomialNB(min_df=120, **settings).fit(X, Y)
    assert (documents_of(chosen, X_NEW).to_csr().toarray()[:, ~frequent] == 0).all()
    only = MultinomialNB(**settings).fit(X[:, frequent], Y)
    np.testing.assert_allclose(chosen.predict_proba(X_NEW), only.predict_proba(X_NEW[:, frequent]), atol=1e-5)


def test_orders_of_n_grams_choose_columns_of_a_corpus(tmp_path):
    words = np.array([f"w{i:02d}" for i in range(60)])
    lines = [f"c{k}\t{' '.join(np.repeat(words, row))}\n" for k, row in zip(Y, X.toarray(), strict=True)]
    (tmp_path / "docs.tsv").write_text("".join(lines))
    for name, settings in (("both", VectorizerSettings(ngram_range=(1, 2))), ("one", VectorizerSettings())):
        ingest([tmp_path / "docs.tsv"], tmp_path / name, settings, n_jobs=1)
    both = open_corpus(tmp_path / "both")
    model = MultinomialNB(ngram_range=(1, 1), n_epochs=2).fit(both)
    single = np.array([" " not in term for term in both.vocabulary()])
    assert 0 < single.sum() < len(single)
    texts = [line.partition("\t")[2] for line in lines[:50]]
    seen = documents_of(model, model.vectorize(texts)).to_csr().toarray()
    assert (seen[:, ~single] == 0).all()
    one = open_corpus(tmp_path / "one")
    peer = MultinomialNB(n_epochs=2).fit(one)
    assert [t for t, s in zip(both.vocabulary(), single, strict=True) if s] == one.vocabulary()
    np.testing.assert_allclose(seen[:, single], documents_of(peer, peer.vectorize(texts)).to_csr().toarray(), rtol=2e-6)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_the_length_of_real_valued_rows_does_not_matter(loss):
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    new = TfidfTransformer(sublinear_tf=True).fit(X).transform(X_NEW)
    reference = MultinomialNB(loss=loss).fit(10.0 * rows, Y)
    for norm in (1.0, 3.0, 100.0):
        model = MultinomialNB(loss=loss).fit(norm * rows, Y)
        assert model.weighting_.scale == pytest.approx(10.0 / norm, rel=1e-5)
        np.testing.assert_array_equal(model.predict(norm * new), reference.predict(10.0 * new))
        np.testing.assert_allclose(model.predict_proba(norm * new), reference.predict_proba(10.0 * new), atol=1e-3)


def test_the_pseudo_count_hardly_matters():
    scores = [MultinomialNB(alpha=alpha).fit(X, Y).score(X_NEW, Y_NEW) for alpha in (0.1, 0.3, 1.0, 3.0)]
    assert max(scores) - min(scores) <= 0.02


def test_only_counts_are_weighed():
    rows = sp.csr_matrix(np.random.default_rng(0).random((40, 6)))
    for weighting in ("tfidf", "log", "binary"):
        with pytest.raises(ValueError, match="is for whole counts, and there are other numbers in"):
            MultinomialNB(weighting=weighting).fit(rows, np.arange(40) % 2)


def test_n_grams_are_chosen_from_texts_in_memory_too():
    texts, y = ["aa bb cc", "dd ee ff", "aa bb", "dd ee"] * 15, [0, 1, 0, 1] * 15
    settings = VectorizerSettings(ngram_range=(1, 2))
    model = MultinomialNB(ngram_range=(2, 2), vectorizer=settings).fit(texts, y)
    assert model.predict(["aa bb", "dd ee"]).tolist() == [0, 1]
    np.testing.assert_allclose(model.predict_proba(["aa", "dd"])[0], model.predict_proba(["dd", "aa"])[0])
    assert model.evaluate(texts, y)["accuracy"] == 1.0


@pytest.mark.parametrize(("form", "power"), [("tfidf", 1 / 8), ("counts", 1 / 8), ("log", 3 / 8), ("binary", 3 / 8)])
def test_pseudo_counts_are_powers_of_document_frequencies(form, power):
    X, Y = random_counts(60, 30, 3)
    corpus = MemoryCorpus(X, Y, (0, 1, 2))
    prior = PriorStart(NaiveBayes(30, Classes(3), 2.0), corpus, Weighting(form, 10.0)).prior
    frequency = np.maximum(np.asarray((X > 0).sum(axis=0)).ravel(), 1)
    np.testing.assert_allclose(prior, 2.0 * frequency**power)
