"""Settings survive JSON and refuse nonsense; text becomes what scikit-learn makes of it."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, HashingVectorizer

from sdem_dist.text.transform import TextTransformer, count_texts
from sdem_dist.text.vectorizer import VectorizerSettings, build_analyzer

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
    ),
    st.builds(VectorizerSettings, kind=st.just("hashing"), n_features=st.integers(1, 99)),
    st.builds(VectorizerSettings, kind=st.just("matrix")),
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
        ({"stop_words": "german"}, "stop_words is 'english'"),
        ({"token_pattern": "("}, "not a regular expression"),
        ({"token_pattern": "(a)(b)"}, "2 groups"),
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

    found, words = count_texts(texts, settings)
    reference = CountVectorizer(analyzer=analyze)
    assert (found != reference.fit_transform(texts)).nnz == 0 and words == reference.get_feature_names_out().tolist()
    assert build_analyzer(settings)(texts[0]) == analyze(texts[0].lower())
    assert "merg bank" in words and "becaus" not in words


def test_prediction_text_is_counted_like_scikit_learn():
    reference = CountVectorizer(ngram_range=(1, 2), stop_words=["the"]).fit(TEXTS)
    words = reference.get_feature_names_out().tolist()
    settings = VectorizerSettings(ngram_range=(1, 2), stop_words=("the",))
    new = [*TEXTS, "unheard words, and the bank bank"]
    found = count_texts(new, settings, words)[0]
    assert found.dtype == np.int64 and (found != reference.transform(new)).nnz == 0


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_hashing_is_scikit_learns_without_signs(analyzer):
    settings = VectorizerSettings(kind="hashing", n_features=16, analyzer=analyzer)
    reference = HashingVectorizer(n_features=16, analyzer=analyzer, alternate_sign=False, norm=None)
    assert (count_texts(TEXTS, settings)[0] != reference.transform(TEXTS)).nnz == 0


def test_what_a_model_must_carry():
    with pytest.raises(ValueError, match="vocabulary"):
        TextTransformer(VectorizerSettings())
    with pytest.raises(ValueError, match="came as numbers"):
        TextTransformer(VectorizerSettings(kind="matrix"), ["bank"])
