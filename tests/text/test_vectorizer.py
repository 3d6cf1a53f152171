"""Settings survive JSON and refuse nonsense; text becomes what scikit-learn makes of it."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import (
    ENGLISH_STOP_WORDS,
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)

from sdem_dist.text.vectorizer import VectorizerSettings, build_vectorizer
from sdem_dist.text.weighting import smooth_idf, transform_texts, weigh

TEXTS = [
    "shares of the bank were bought",
    "the bank earned more, the shares rose",
    "",
    'naïve café "quoted", 東京 bank',
    "oil oil oil and a tanker",
    "the merger was called off",
]

settings_of_any_kind = st.one_of(
    st.builds(
        VectorizerSettings,
        stop_words=st.sampled_from([None, "english", ("the", "a")]),
        ngram_range=st.sampled_from([(1, 1), (1, 2), (2, 3)]),
        min_df=st.one_of(st.integers(1, 9), st.floats(0, 1)),
        max_df=st.one_of(st.integers(1, 9), st.floats(0, 1)),
        max_features=st.one_of(st.none(), st.integers(1, 9)),
        norm=st.one_of(st.none(), st.floats(0.1, 10)),
        weighting=st.sampled_from(["raw", "tfidf"]),
    ),
    st.builds(VectorizerSettings, kind=st.just("hashing"), n_features=st.integers(1, 99), binary=st.booleans()),
    st.builds(VectorizerSettings, kind=st.just("matrix"), norm=st.floats(0.1, 10)),
)


@given(settings_of_any_kind)
def test_settings_survive_json(settings):
    assert VectorizerSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "tfidf"}, "kind is one of"),
        ({"kind": "hashing"}, "needs n_features"),
        ({"kind": "hashing", "n_features": 8, "min_df": 2}, "min_df does not apply to kind 'hashing'"),
        ({"kind": "matrix", "lowercase": False}, "lowercase does not apply"),
        ({"n_features": 8}, "n_features does not apply"),
        ({"analyzer": "char", "stem": "english"}, "stem does not apply"),
        ({"analyzer": "char", "token_pattern": "x"}, "token_pattern does not apply"),
        ({"ngram_range": (2, 1)}, "ngram_range is two lengths"),
        ({"min_df": 0}, "min_df is a whole number"),
        ({"max_df": 1.5}, "max_df is a whole number"),
        ({"max_features": 0}, "max_features is a whole number"),
        ({"norm": 0.0}, "norm is a length"),
        ({"stop_words": "german"}, "stop_words is 'english'"),
        ({"token_pattern": "("}, "no regular expression"),
        ({"token_pattern": "(a)(b)"}, "2 groups"),
        ({"weighting": "bm25"}, "weighting is one of"),
    ],
)
def test_nonsense_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        VectorizerSettings(**values)


def test_settings_of_a_newer_version_are_refused():
    with pytest.raises(ValueError, match="unknown settings of text: bm25"):
        VectorizerSettings.from_json({"kind": "count", "bm25": True})


def test_unknown_language_is_refused():
    pytest.importorskip("Stemmer")
    with pytest.raises(ValueError, match=r"stem is one of .*english"):
        VectorizerSettings(stem="klingon")


def test_stop_words_are_left_out_before_stemming_and_stemming_comes_before_ngrams():
    stemmer = pytest.importorskip("Stemmer").Stemmer("english")
    settings = VectorizerSettings(stem="english", stop_words="english", ngram_range=(1, 2))
    texts = ["Because the merging banks merged, banking mergers became merged"]

    def analyze(text):
        split = CountVectorizer().build_analyzer()(text)
        stems = [stemmer.stemWord(w) for w in split if w not in ENGLISH_STOP_WORDS]
        return stems + [" ".join(pair) for pair in pairwise(stems)]

    ours, reference = build_vectorizer(settings), CountVectorizer(analyzer=analyze)
    assert (ours.fit_transform(texts) != reference.fit_transform(texts)).nnz == 0
    assert ours.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
    assert "merg bank" in ours.vocabulary_ and "becaus" not in ours.vocabulary_


def test_prediction_text_is_counted_like_scikit_learn():
    reference = CountVectorizer(ngram_range=(1, 2), stop_words=["the"], binary=True).fit(TEXTS)
    words = reference.get_feature_names_out().tolist()
    settings = VectorizerSettings(ngram_range=(1, 2), stop_words=("the",), binary=True)
    new = [*TEXTS, "unheard words, and the bank bank"]
    found = transform_texts(new, settings, words)
    assert found.dtype == np.int64 and (found != reference.transform(new)).nnz == 0


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_hashing_is_scikit_learns_without_signs(analyzer):
    settings = VectorizerSettings(kind="hashing", n_features=16, analyzer=analyzer)
    reference = HashingVectorizer(n_features=16, analyzer=analyzer, alternate_sign=False, norm=None)
    assert (transform_texts(TEXTS, settings) != reference.transform(TEXTS)).nnz == 0


def test_tfidf_is_scikit_learns_with_rows_of_the_asked_length():
    reference = TfidfVectorizer(sublinear_tf=True).fit(TEXTS)
    settings = VectorizerSettings(weighting="tfidf", norm=5.0)
    found = transform_texts(TEXTS, settings, reference.get_feature_names_out(), reference.idf_)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), 5 * reference.transform(TEXTS).toarray(), rtol=1e-6)
    lengths = np.sqrt(found.multiply(found).sum(axis=1))
    np.testing.assert_allclose(np.ravel(lengths), [5, 5, 0, 5, 5, 5], rtol=1e-6)


def test_idf_is_scikit_learns_to_the_bit():
    counts = CountVectorizer().fit_transform(TEXTS)
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    assert (smooth_idf(frequency, len(TEXTS)) == TfidfTransformer().fit(counts).idf_).all()


def test_counts_without_weights_pass_as_they_are():
    counts = CountVectorizer().fit_transform(TEXTS)
    assert weigh(counts, None, None) is counts


def test_what_a_model_must_carry():
    with pytest.raises(ValueError, match="vocabulary"):
        transform_texts(TEXTS, VectorizerSettings())
    with pytest.raises(ValueError, match="idf"):
        transform_texts(TEXTS, VectorizerSettings(weighting="tfidf"), ["bank"])
    with pytest.raises(ValueError, match="came as numbers"):
        transform_texts(TEXTS, VectorizerSettings(kind="matrix"), ["bank"])
