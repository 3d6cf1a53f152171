"""Words and n-grams of characters: two kinds of columns of one table, of which each has its own length."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import norm
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

import sdem_dist as sd
from sdem_dist.inputs.source import documents_of
from sdem_dist.text import VectorizerSettings, count_texts, tokens
from sdem_dist.text.patterns import expression_of
from sdem_dist.text.texts import texts_of_strings
from sdem_dist.text.transform import TextTransformer

RNG = np.random.default_rng(0)
BOTH = VectorizerSettings(features="words+characters")
WORDS = ["goal", "goals", "bank", "banker", "Don't", "東京", "naïve", "!", "x" * 40, "½"]
TEXTS = [" ".join(RNG.choice(WORDS[i % 2 :: 2], RNG.integers(0, 9))) for i in range(150)]
LABELS = ["a", "b"] * 75
TEXT = st.lists(st.sampled_from([*WORDS, "Σας", "İ", " ", "\n"])).map(" ".join)


def of_scikit_learn(kind=CountVectorizer, n_features=(), **how):
    """Return the vectorizers of words and of characters."""
    words, characters = ({"n_features": n} for n in n_features) if n_features else ({}, {})
    of_words = {"token_pattern": expression_of("words+signs"), "ngram_range": (1, 2)}
    return kind(**of_words, **words, **how), kind(analyzer="char_wb", ngram_range=(3, 4), **characters, **how)


@settings(max_examples=60)
@given(st.lists(TEXT, max_size=6), st.lists(TEXT, max_size=6), st.sampled_from([(2, 1 << 10), (1 << 22, 0)]))
def test_columns_are_those_of_two_vectorizers(texts, others, limits):
    kept = tokens.MOST_KNOWN, tokens.NEW_WORDS
    tokens.MOST_KNOWN, tokens.NEW_WORDS = limits
    try:
        kinds = of_scikit_learn()
        expected = sp.hstack([kind.fit_transform([*texts, "a"]) for kind in kinds]).tocsr()
        counts, vocabulary = count_texts([*texts, "a"], BOTH)
        names = [kind.get_feature_names_out().tolist() for kind in kinds]
        assert vocabulary == [*names[0], *(f" {name}" for name in names[1])]
        assert (counts != expected).nnz == 0 and counts.has_sorted_indices
        transformer = TextTransformer(BOTH, vocabulary)
        for some in (others, texts, others):  # words that are known, and new ones
            found = transformer.counts(texts_of_strings(some))
            expected = sp.hstack([kind.transform(some) for kind in kinds]) if some else sp.csr_matrix(found.shape)
            assert (found != expected.tocsr()).nnz == 0
        for n in (5, 2**20):  # few entries among very many columns are sorted in another way
            hashing = VectorizerSettings(kind="hashing", features="words+characters", n_features=n)
            kinds = of_scikit_learn(HashingVectorizer, (n // 2, n - n // 2), alternate_sign=False, norm=None)
            expected = sp.hstack([kind.transform([*texts, "a"]) for kind in kinds]).tocsr()
            assert (count_texts([*texts, "a"], hashing)[0] != expected).nnz == 0
    finally:
        tokens.MOST_KNOWN, tokens.NEW_WORDS = kept


def test_one_parameter_takes_word_bigrams_and_leaves_out_what_is_rare():
    texts, labels, kinds = [*TEXTS, "solitary words"], [*LABELS, "a"], of_scikit_learn(min_df=2)
    model = sd.MultinomialNB(vectorizer=BOTH).fit(texts, labels)
    names = [kind.fit(texts).get_feature_names_out() for kind in kinds]
    assert model.vocabulary_ == [*names[0], *(f" {name}" for name in names[1])]
    assert model.weighting_.boundary == len(names[0])
    model = sd.MultinomialNB(vectorizer=BOTH).fit(texts, labels, sample_weight=[1.0] * 150 + [0.0])
    assert model.vocabulary_ == [*names[0], *(n for n in (f" {name}" for name in names[1]) if n in model.vocabulary_)]


@pytest.mark.parametrize("settings", [BOTH, VectorizerSettings("hashing", "words+characters", n_features=300)])
def test_each_kind_has_its_own_length(settings):
    model = sd.MultinomialNB(vectorizer=settings).fit(TEXTS, LABELS)
    rows, boundary = documents_of(model, TEXTS).to_csr(), model.weighting_.boundary
    lengths = [norm(part, axis=1) for part in (rows[:, :boundary], rows[:, boundary:])]
    for length in lengths:
        np.testing.assert_allclose(length, np.where([text.strip() != "" for text in TEXTS], 50**0.5, 0.0), rtol=1e-5)
    clusters = sd.KMeans(2, vectorizer=settings).fit(TEXTS)
    np.testing.assert_allclose(norm(documents_of(clusters, TEXTS[1:2]).to_csr()[:, :boundary]), 0.5**0.5, rtol=1e-5)


def test_memory_corpora_files_and_threads_agree(tmp_path):
    (tmp_path / "s.tsv").write_text("".join(f"{y}\t{text}\n" for y, text in zip(LABELS, TEXTS, strict=True)), "utf-8")
    for n_jobs in (1, 3):
        sd.ingest(tmp_path / "s.tsv", tmp_path / f"c{n_jobs}", BOTH, n_jobs=n_jobs, block_documents=40)
    corpus, other = sd.open_corpus(tmp_path / "c1"), sd.open_corpus(tmp_path / "c3")
    model, in_memory = sd.MultinomialNB().fit(corpus), sd.MultinomialNB(vectorizer=BOTH).fit(TEXTS, LABELS)
    assert corpus.header.uid == other.header.uid and model.vocabulary_ == in_memory.vocabulary_
    assert model.weighting_ == in_memory.weighting_
    model.save(tmp_path / "m")
    for same in (sd.MultinomialNB(n_jobs=2).fit(other), sd.load_model(tmp_path / "m")):
        np.testing.assert_array_equal(same.predict_proba(TEXTS), model.predict_proba(TEXTS))
    np.testing.assert_allclose(in_memory.predict_proba(TEXTS), model.predict_proba(TEXTS), atol=0.1)
    sd.ingest(tmp_path / "s.tsv", tmp_path / "words")
    np.testing.assert_raises(sd.CorpusError, model.evaluate, sd.open_corpus(tmp_path / "words"))


def test_searches_of_texts_try_both_kinds_and_parts_of_documents_have_their_own_limits(tmp_path):
    search = sd.CorpusSearchCV(sd.MultinomialNB(n_epochs=1), cv=2, n_trials=5, halving=False).fit(TEXTS, LABELS)
    tried = [params["vectorizer"] for params in search.cv_results_["params"] if "vectorizer" in params]
    assert tried and set(tried) == {BOTH} and "vectorizer" not in search.cv_results_["params"][0]
    (tmp_path / "s.tsv").write_text("".join(f"{y}\t{text}\n" for y, text in zip(LABELS, TEXTS, strict=True)), "utf-8")
    sd.ingest(tmp_path / "s.tsv", tmp_path / "c", BOTH)
    corpus = sd.open_corpus(tmp_path / "c")
    part, whole = (sd.MultinomialNB(n_epochs=1).fit(some) for some in (corpus.folds(3).train(0), corpus))
    assert (whole.weighting_.min_df, part.weighting_.min_df) == (1, 2)
