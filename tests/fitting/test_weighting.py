"""Weighting, length and columns are the model's from memory, from disk and at prediction; which loss the default takes."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts
from sklearn.feature_extraction.text import TfidfTransformer

from sdem_dist import MultinomialNB, ingest, load_model, open_corpus, write_corpus
from sdem_dist.corpus.base import MemoryCorpus
from sdem_dist.fitting.plans import PriorStart
from sdem_dist.inputs.source import documents_of, source_of
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.weighting import Weighting
from sdem_dist.text import VectorizerSettings

ALL, LABELS = random_counts(600, 60, 3, seed=4, length=20.0)
(X, Y), (X_NEW, Y_NEW) = (ALL[:400], LABELS[:400]), (ALL[400:], LABELS[400:])
WEIGHTS = {"counts": lambda x: x, "log": np.log1p, "binary": lambda x: (x > 0) * 1.0}


def trained_rows(model, X, y=None):
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


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("norm", [None, 2.0])
def test_other_weightings(weighting, norm):
    model = MultinomialNB(weighting=weighting, norm=norm).fit(X, Y)
    seen, expected = documents_of(model, X_NEW).to_csr().toarray(), WEIGHTS[weighting](X_NEW.toarray().astype(float))
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
        with pytest.raises(ValueError, match="needs integers, but"):
            MultinomialNB(weighting=weighting).fit(rows, np.arange(40) % 2)


def test_n_grams_are_chosen_from_texts_in_memory_too():
    texts, y = ["aa bb cc", "dd ee ff", "aa bb", "dd ee"] * 15, [0, 1, 0, 1] * 15
    model = MultinomialNB(ngram_range=(2, 2), vectorizer=VectorizerSettings(ngram_range=(1, 2))).fit(texts, y)
    assert model.predict(["aa bb", "dd ee"]).tolist() == [0, 1]
    np.testing.assert_allclose(model.predict_proba(["aa", "dd"])[0], model.predict_proba(["dd", "aa"])[0])
    assert model.evaluate(texts, y)["accuracy"] == 1.0


@pytest.mark.parametrize(("form", "power"), [("tfidf", 1 / 8), ("counts", 1 / 8), ("log", 3 / 8), ("binary", 3 / 8)])
def test_pseudo_counts_are_powers_of_document_frequencies(form, power):
    X, Y = random_counts(60, 30, 3)
    prior = PriorStart(NaiveBayes(30, Classes(3), 2.0), MemoryCorpus(X, Y, (0, 1, 2)), Weighting(form, 10.0)).prior
    frequency = np.maximum(np.asarray((X > 0).sum(axis=0)).ravel(), 1)
    np.testing.assert_allclose(prior, 2.0 * frequency**power)


def documents(n_documents: int, n_classes: int, own_words: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return documents of 30 words each, so many of which are words of their class; neighbouring classes share half."""
    rng = np.random.default_rng(0)
    y, words = rng.integers(n_classes, size=n_documents), rng.integers(200, size=(n_documents, 30))
    words[:, :own_words] = 200 + 10 * y[:, None] + rng.integers(20, size=(n_documents, own_words))
    rows = np.repeat(np.arange(n_documents), 30)
    return sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n_documents, 400)), y


@pytest.mark.parametrize(
    ("n_documents", "n_classes", "own_words", "loss"),
    [(900, 4, 2, "ncll"), (4000, 4, 2, "ncll"), (4000, 4, 10, "hinge"), (4000, 2, 1, "hinge")],
    ids=["folds", "held out", "apart", "two"],
)
def test_ncll_where_several_classes_overlap_and_hinge_elsewhere(n_documents, n_classes, own_words, loss, tmp_path):
    X, y = documents(n_documents, n_classes, own_words)
    auto, ncll, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll", "hinge"))
    assert auto.loss_ == loss
    np.testing.assert_array_equal(auto.predict_proba(X), (ncll if loss == "ncll" else hinge).predict_proba(X))
    if loss == "ncll":
        prefix = "fold" if "fold_accuracy" in hinge.best_entry_ else "held_out"
        assert hinge.best_entry_[f"{prefix}_accuracy"] < 0.8
        assert auto.best_entry_[f"{prefix}_log_loss"] < hinge.best_entry_[f"{prefix}_log_loss"]
    auto.save(tmp_path / "m")
    assert load_model(tmp_path / "m").loss_ == loss


def of_sizes(sizes: list[int], own_words: int = 10) -> tuple[sp.csr_matrix, np.ndarray]:
    X, y = documents(40 * len(sizes), len(sizes), own_words)
    rows = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate(sizes)])
    rows = np.random.default_rng(1).permutation(rows)
    assert len(rows) == sum(sizes)
    return X[rows], y[rows]


@pytest.mark.parametrize(("sizes", "loss"), [
    ([8] * 4, "ncll"),
    ([10, 8, 8, 6], "ncll"),
    ([11, 8, 8, 8], "hinge"),
    ([8, 8, 8, 8, 2], "ncll"),
    ([29] * 3, "ncll"),
    ([30] * 3, "hinge"),
    ([8, 8], "hinge"),
])  # fmt: skip
def test_sizes_of_classes_decide_the_loss_of_few_documents(sizes, loss, tmp_path, caplog):
    X, y = of_sizes(sizes)
    in_memory = MultinomialNB()
    with caplog.at_level("INFO", "sdem_dist"):
        in_memory.fit(X, y)
    assert ("few documents" in caplog.text) == (sum(sizes) < 30 * len(sizes))
    corpus = write_corpus(tmp_path / "c", X, y)
    on_disk = MultinomialNB(n_jobs=2).fit(corpus)
    assert in_memory.loss_ == on_disk.loss_ == loss
    named = MultinomialNB(loss=loss)
    np.testing.assert_array_equal(in_memory.predict_proba(X), named.fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(on_disk.predict_proba(X), named.fit(corpus).predict_proba(X))


def test_ncll_is_not_tried_of_few_documents_of_uneven_classes():
    X, y = of_sizes([20, 5, 5, 5], own_words=2)
    auto, ncll, hinge = (MultinomialNB(loss=loss).fit(X, y) for loss in ("auto", "ncll", "hinge"))
    assert hinge.best_entry_["fold_accuracy"] < 0.8
    assert ncll.best_entry_["fold_log_loss"] < hinge.best_entry_["fold_log_loss"]
    assert auto.loss_ == "hinge"


def test_classes_are_even_by_weight_and_without_those_of_no_document(tmp_path):
    X, y = of_sizes([8] * 4)
    assert MultinomialNB().fit(X, y, sample_weight=np.where(y == 0, 2.0, 1.0)).loss_ == "hinge"
    assert MultinomialNB().fit(X, y, sample_weight=np.full(len(y), 2.0)).loss_ == "ncll"
    corpus = write_corpus(tmp_path / "c", X, y)
    assert MultinomialNB().fit(corpus.subset(np.flatnonzero(corpus.labels() > 0))).loss_ == "ncll"


def test_labelled_documents_alone_decide():
    """With a weight of 0 for the others, training is that of the labelled ones."""
    X, y = of_sizes([8, 8, 8, 30])
    hidden = np.where((y == 3) & (np.cumsum(y == 3) > 8), -1, y)
    model = MultinomialNB(unlabelled=-1, unlabelled_weight=0.0).fit(X, hidden)
    assert model.loss_ == MultinomialNB().fit(X[hidden >= 0], hidden[hidden >= 0]).loss_ == "ncll"
    assert MultinomialNB().fit(X, y).loss_ == "hinge"
