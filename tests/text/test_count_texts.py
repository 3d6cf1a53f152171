"""Counting by kernels gives what scikit-learn gives, to the last count, for every text that Python can hold."""

from __future__ import annotations

import lzma
import sys
import unicodedata
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import regex
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from sdem_dist.storage.threads import in_threads
from sdem_dist.text import VectorizerSettings, count_texts
from sdem_dist.text.terms import Trie, sorted_terms
from sdem_dist.text.texts import parts_of_strings, texts_of_strings
from sdem_dist.text.tokens import CHANGING, NgramCounter, every_code_point
from sdem_dist.text.transform import TextTransformer, arranged
from sdem_dist.text.vectorizer import KERNEL_PATTERN

# Letters that change their number when they turn small, final sigmas, accents alone and composed, ligatures, digits of
# other scripts, spaces that are none in ASCII, surrogates, a private code point, an unassigned one, the last one.
ODD = (
    "aAbZ_09 \t\n\x00\x01\x0b\x1c\x85\xa0éÉe\u0301İ\u0131ßẞ\u03a3\u03c3ς\u0391\u039fΔ\u03bfŉǅﬁﷺ½²Ⅷ٣東京ㄱ한글각Ⱥ"
    "\u2028\u3000\ud800\udfff\ue000\U0001f600\U00010400\U000e0041\u0378\U0010ffff'-."
)
TEXT = st.one_of(
    st.text(st.sampled_from(ODD), max_size=30),
    st.text(st.characters(), max_size=20),
    st.text(st.sampled_from("ab ,"), max_size=40),
    st.lists(st.sampled_from(["the", "cat", "über", "internationalisation", "internationalisations", "東京", "a"])).map(
        " ".join
    ),
)
TEXTS = st.lists(TEXT, max_size=6)


@st.composite
def options(draw):
    analyzer = draw(st.sampled_from(["word", "word", "char", "char_wb"]))
    first = draw(st.integers(1, 3))
    chosen = {
        "analyzer": analyzer,
        "ngram_range": (first, first + draw(st.integers(0, 3))),
        "lowercase": draw(st.booleans()),
        "strip_accents": draw(st.sampled_from([None, None, "ascii", "unicode"])),
    }
    if analyzer == "word":
        chosen["token_pattern"] = draw(
            st.sampled_from([r"(?u)\b\w\w+\b", r"\S+", r"(?u)\b\w+\b", r"\S\S+", r"[a-z]+", r"\w+-\w+|\w+"])
        )
        chosen["stop_words"] = draw(st.sampled_from([None, None, ("the", "b", "ab", "", "東京")]))
    return chosen


def for_scikit_learn(chosen):
    """Return options as scikit-learn takes them; odd patterns are those of the library regex."""
    chosen = {**chosen, "stop_words": list(chosen["stop_words"]) if chosen.get("stop_words") else None}
    pattern = chosen.get("token_pattern")
    if pattern is not None and not KERNEL_PATTERN.fullmatch(pattern):
        chosen |= {"token_pattern": None, "tokenizer": regex.compile(pattern).findall}
    return chosen


def reference(texts, chosen, **more):
    """Return what scikit-learn counts, sorted as it sorts, and its terms."""
    vectorizer = CountVectorizer(**for_scikit_learn(chosen), **more)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no term at all
        return sp.csr_matrix((len(texts), 0), dtype=np.int64), []
    counts.sort_indices()
    return counts, vectorizer.get_feature_names_out().tolist()


def same(found, expected):
    return found.shape == expected.shape and all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("indptr", "indices", "data")
    )


@hypothesis_settings(deadline=None, max_examples=300)
@given(TEXTS, options())
@example(["a\x01 b", "a b", "a"], {"token_pattern": r"\S+", "ngram_range": (1, 2), "analyzer": "word"})
@example(["ΑΣ ΑΣΑ", "ΟΔΟΣ"], {"analyzer": "word", "lowercase": True, "ngram_range": (1, 1)})
@pytest.mark.filterwarnings("ignore")
def test_counts_and_terms_are_count_vectorizers(texts, chosen):
    counts, terms = reference(texts, chosen)
    found, words = count_texts(texts, VectorizerSettings(**chosen))
    assert words == terms and same(found, counts) and found.dtype == np.int64


@hypothesis_settings(deadline=None, max_examples=100)
@given(TEXTS, TEXTS, options(), st.randoms(use_true_random=False))
@pytest.mark.filterwarnings("ignore")
def test_a_vocabulary_that_is_given(learned, texts, chosen, random):
    settings = VectorizerSettings(**chosen)
    terms = count_texts(learned, settings)[1]
    terms = random.sample(terms, len(terms) // 2 + 1) if terms else ["nothing"]
    expected, _ = reference(texts, chosen, vocabulary=terms)
    found, words = count_texts(texts, settings, terms)
    assert words == terms
    assert same(found, expected if expected.shape[1] else sp.csr_matrix((len(texts), len(terms)), dtype=np.int64))


@hypothesis_settings(deadline=None, max_examples=100)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4), options(), st.integers(1, 99)
)
@example(["0\U000134400"], {"analyzer": "word", "token_pattern": r"\w+-\w+|\w+", "ngram_range": (1, 1)}, 7)
@pytest.mark.filterwarnings("ignore")
def test_hashing_is_scikit_learns(texts, chosen, n_features):
    hashing = HashingVectorizer(**for_scikit_learn(chosen), n_features=n_features, alternate_sign=False, norm=None)
    found = count_texts(texts, VectorizerSettings(kind="hashing", n_features=n_features, **chosen))[0]
    expected = hashing.transform(texts) if texts else sp.csr_matrix((0, n_features))
    assert found.shape == expected.shape and (found != expected).nnz == 0 and found.has_sorted_indices


@hypothesis_settings(deadline=None, max_examples=50)
@given(st.lists(TEXT, min_size=1, max_size=6), options(), st.integers(1, 60))
@pytest.mark.filterwarnings("ignore")
def test_pieces_do_not_matter(texts, chosen, size):
    whole = count_texts(texts, VectorizerSettings(**chosen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdem_dist.text.tokens.PIECE", size)
        patch.setattr("sdem_dist.text.texts.JOINED_CHARACTERS", 2 * size)
        patch.setattr("sdem_dist.text.transform.SPELLED_AT_A_TIME", size)
        assert [text for part in parts_of_strings(texts) for text in part] == texts == list(texts_of_strings(texts))
        cut = count_texts(texts, VectorizerSettings(**chosen))
    assert cut[1] == whole[1] and same(cut[0], whole[0])


@hypothesis_settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=4), options(), st.integers(1, 3), st.integers(0, 3), st.integers(1, 9))
@pytest.mark.filterwarnings("ignore")
def test_terms_of_several_counters_are_those_of_one(lists, chosen, n_jobs, least, most):
    """Threads learn for themselves: merged, their terms are those of one counter, and so are documents and occurrences."""

    def found(lists):
        counters = [NgramCounter(VectorizerSettings(**chosen)) for _ in lists]
        parts = [
            counter.parts(texts_of_strings(texts), np.ones(len(texts), bool))
            for counter, texts in zip(counters, lists, strict=True)
        ]
        terms = sorted_terms(list(map(Trie.of, counters)), (least, most), with_totals=True, n_jobs=n_jobs)
        counts = [arranged(part, columns, np.int32) for part, columns in zip(parts, terms.columns, strict=True)]
        return (
            [terms.data[a:b].tobytes() for a, b in pairwise(terms.offsets)],
            terms.totals.tolist(),
            [
                list(zip(indices.tolist(), values.tolist(), strict=True))
                for csr in counts
                for indices, values in zip(
                    *(np.split(a, csr.indptr[1:-1]) for a in (csr.nodes, csr.counts)), strict=True
                )
            ],
        )

    several, one = found(lists), found([[text for texts in lists for text in texts]])
    assert several[0] == sorted(several[0]) and several[:2] == one[:2]
    assert [row for row in several[2] if row] == [row for row in one[2] if row]


@pytest.mark.parametrize("strip_accents", [None, "ascii", "unicode"])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_every_code_point(analyzer, strip_accents):
    everything = every_code_point()
    texts = [everything[i : i + 4096] for i in range(0, sys.maxunicode + 1, 4096)]
    texts += [" ".join(f"x{c}y {c}" for c in text) for text in texts[:48]]
    chosen = {"analyzer": analyzer, "strip_accents": strip_accents}
    counts, terms = reference(texts, chosen)
    found, words = count_texts(texts, VectorizerSettings(**chosen))
    assert words == terms and same(found, counts)


def test_what_the_tables_take_for_granted():
    later = every_code_point()[CHANGING:]
    assert later.lower() == later
    assert not any(unicodedata.combining(c) or unicodedata.decomposition(c) for c in later)
    assert all(c.lower().lower() == c.lower() for c in every_code_point())


def test_stems_are_made_of_distinct_words_and_merge():
    stemmer = pytest.importorskip("Stemmer").Stemmer("english")
    texts = ["Running runs ran, the runner runs", "banks banked banking", "", "the running bank"]

    def analyze(text):
        words = [w for w in CountVectorizer().build_analyzer()(text) if w not in ("the", "ran")]
        stems = stemmer.stemWords(words)
        return stems + [" ".join(pair) for pair in pairwise(stems)]

    expected = CountVectorizer(analyzer=analyze).fit(texts)
    settings = VectorizerSettings(stem="english", stop_words=("the", "ran"), ngram_range=(1, 2))
    found, words = count_texts(texts, settings)
    assert words == expected.get_feature_names_out().tolist() and (found != expected.transform(texts)).nnz == 0
    assert (count_texts(texts, settings, words)[0] != found).nnz == 0


def test_many_words_that_begin_alike(monkeypatch):
    rng = np.random.default_rng(0)
    stems = ["", "a", "ab" * 4, "ab" * 8, "ab" * 9, "x" * 70, "é" * 30]
    words = [f"{stems[i % 7]}{'y' * int(rng.integers(9))}{rng.integers(2000)}" for i in range(30_000)]
    texts = [" ".join(words[i : i + 100]) for i in range(0, len(words), 100)]
    chosen = {"ngram_range": (1, 2)}
    counts, terms = reference(texts, chosen)
    found, named = count_texts(texts, VectorizerSettings(**chosen))
    assert named == terms and same(found, counts)


def test_a_text_of_ten_megabytes():
    text = "one two 東京 " * 700_000 + "x" * 1_000_000
    for analyzer in ("word", "char"):
        counts, terms = reference([text, "two"], {"analyzer": analyzer})
        found, words = count_texts([text, "two"], VectorizerSettings(analyzer=analyzer))
        assert words == terms and same(found, counts)


@pytest.mark.parametrize("texts", [pa.array(["a", None]), pd.Series(["a", None]), ["a", 3], pa.array([1, 2])])
def test_what_is_no_text_is_named(texts):
    with pytest.raises(ValueError, match=r"text \d \(from 0\) is .*, not a text"):
        count_texts(texts, VectorizerSettings())


def test_the_slow_road_says_so(caplog):
    with caplog.at_level("INFO", "sdem_dist"):
        count_texts(["a b"], VectorizerSettings(token_pattern="[a-z]+"))
        assert "not one that kernels know" in caplog.text
        caplog.clear()
        count_texts(["a b"], VectorizerSettings(token_pattern=r"\S+"))
        assert not caplog.text


REAL = ["imdb/imdb-train.tsv.xz", "nsmc/nsmc-raw-ratings.tsv.xz", "cachopo/20ng-train-all-terms.txt.xz"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    ("analyzer", "ngrams"), [("word", (1, 1)), ("word", (1, 2)), ("char", (1, 2)), ("char_wb", (2, 3))]
)
def test_real_corpora(corpora, name, analyzer, ngrams):
    with lzma.open(corpora / name, "rt", encoding="utf-8", newline="\n") as file:
        texts = [line.rstrip("\n").rsplit("\t", 1)[-1] for line in file]
    chosen = {"analyzer": analyzer, "ngram_range": ngrams}
    counts, terms = reference(texts, chosen)
    found, words = count_texts(texts, VectorizerSettings(**chosen))
    assert words == terms and same(found, counts)


def test_threads_that_share_a_vocabulary_do_not_disturb_each_other():
    # Words with accents are marked in memory that each counter needs for itself.
    texts = texts_of_strings([" ".join(f"{'ö' * (i % 5)}wörd{j % 70} naïve" for j in range(3000)) for i in range(40)])
    expected, terms = count_texts(texts, VectorizerSettings(ngram_range=(1, 2)))
    transformer = TextTransformer(VectorizerSettings(ngram_range=(1, 2)), terms)
    blocks = [texts.take(slice(i, i + 4)) for i in range(0, 40, 4)] * 10
    for row, counts in enumerate(in_threads(blocks, transformer.counter, 2)):
        assert (counts != expected[4 * (row % 10) : 4 * (row % 10) + 4]).nnz == 0


def test_the_share_of_unknown_words():
    transformer = TextTransformer(VectorizerSettings(stop_words="english"), ["apple", "pear"])
    assert transformer.unknown_share is None
    count = transformer.counter()
    count(texts_of_strings(["apple the plum", "PEAR pear"]))
    transformer.counter()(texts_of_strings(["quince apple apple"]))  # another thread's
    assert transformer.unknown_share == pytest.approx(2 / 7)
    hashing = TextTransformer(VectorizerSettings(kind="hashing", n_features=8))
    hashing.counter()(texts_of_strings(["apple"]))
    characters = TextTransformer(VectorizerSettings(analyzer="char"), ["a"])
    characters.counter()(texts_of_strings(["apple"]))
    assert hashing.unknown_share is None and characters.unknown_share is None
