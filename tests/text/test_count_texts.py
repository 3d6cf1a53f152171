"""Counting by kernels gives what scikit-learn gives, to the last count, for every text that Python can hold."""

import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import regex
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from sdem_dist.text import VectorizerSettings, count_texts
from sdem_dist.text.patterns import expression_of, is_of_kernels

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
    st.lists(st.sampled_from(["the", "cat", "über", "international" * 2, "internationals" * 2, "東京"])).map(" ".join),
)
TEXTS, ENCODED = st.lists(TEXT, max_size=6), st.characters(exclude_categories=["Cs"])
REAL = ["imdb/imdb-train.tsv.xz", "nsmc/nsmc-raw-ratings.tsv.xz", "cachopo/20ng-train-all-terms.txt.xz"]


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
        patterns = ["words+signs", "words+signs", "words", r"\S+", r"(?u)\b\w+\b", r"\S\S+", r"[a-z]+", r"\w+-\w+|\w+"]
        chosen["token_pattern"] = draw(st.sampled_from(patterns))
        chosen["stop_words"] = draw(st.sampled_from([None, None, ("the", "b", "ab", "", "東京")]))
    return chosen


def for_scikit_learn(chosen):
    """Return options as scikit-learn takes them; odd patterns are those of the library regex."""
    chosen = {**chosen, "stop_words": list(chosen["stop_words"]) if chosen.get("stop_words") else None}
    pattern = chosen.get("token_pattern", "words+signs")
    if not is_of_kernels(pattern):
        return {**chosen, "token_pattern": None, "tokenizer": regex.compile(pattern).findall}
    return {**chosen, "token_pattern": expression_of(pattern)}


def reference(texts, chosen, **more):
    vectorizer = CountVectorizer(**for_scikit_learn(chosen), **more)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no term at all
        return sp.csr_matrix((len(texts), 0), dtype=np.int64), []
    counts.sort_indices()
    return counts, vectorizer.get_feature_names_out().tolist()


def same(found, expected):
    one, other = ((of.indptr, of.indices, of.data) for of in (found, expected))
    return found.shape == expected.shape and all(map(np.array_equal, one, other))


def check(texts, **chosen):
    counts, terms = reference(texts, chosen)
    found, words = count_texts(texts, VectorizerSettings(**chosen))
    assert words == terms and same(found, counts) and found.dtype == np.int64


@hypothesis_settings(deadline=None, max_examples=100)
@given(TEXTS, options())
@example(["a\x01 b", "a b", "a"], {"token_pattern": r"\S+", "ngram_range": (1, 2), "analyzer": "word"})
@example(["ΑΣ ΑΣΑ", "ΟΔΟΣ"], {"analyzer": "word", "lowercase": True, "ngram_range": (1, 1)})
@pytest.mark.filterwarnings("ignore")
def test_counts_and_terms_are_count_vectorizers(texts, chosen):
    check(texts, **chosen)


@pytest.mark.parametrize("strip_accents", [None, "ascii", "unicode"])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_every_code_point(analyzer, strip_accents):
    codes = [c for c in range(sys.maxunicode) if c < 0x40000 or c % 17 == 0 or c >> 16 == 14]  # other planes are empty
    everything = "".join(map(chr, [*codes, sys.maxunicode]))
    texts = [everything[i : i + 4096] for i in range(0, len(everything), 4096)]
    texts += [" ".join(f"x{c}y {c}" for c in text) for text in texts[:48]]
    check(texts, analyzer=analyzer, strip_accents=strip_accents)


def test_many_words_that_begin_alike_and_a_text_of_megabytes():
    rng = np.random.default_rng(0)
    stems = ["", "a", "ab" * 4, "ab" * 8, "ab" * 9, "x" * 70, "é" * 30]
    words = [f"{stems[i % 7]}{'y' * int(rng.integers(9))}{rng.integers(2000)}" for i in range(30_000)]
    check([" ".join(words[i : i + 100]) for i in range(0, len(words), 100)], ngram_range=(1, 2))
    long = "one two 東京 " * 200_000 + "x" * 1_000_000
    for analyzer in ("word", "char"):
        check([long, "two"], analyzer=analyzer)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif("SDEM_CORPORA" not in os.environ, reason="set SDEM_CORPORA to the folder of the real corpora")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(("analyzer", "n"), [("word", (1, 1)), ("word", (1, 2)), ("char", (1, 2)), ("char_wb", (2, 3))])
def test_real_corpora(name, analyzer, n):
    with lzma.open(Path(os.environ["SDEM_CORPORA"], name), "rt", encoding="utf-8", newline="\n") as file:
        check([line.rstrip("\n").rsplit("\t", 1)[-1] for line in file], analyzer=analyzer, ngram_range=n)


@hypothesis_settings(deadline=None, max_examples=60)
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


@hypothesis_settings(deadline=None, max_examples=60)
@given(st.lists(st.text(ENCODED, max_size=20), max_size=4), options(), st.integers(1, 99))
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
        cut = count_texts(texts, VectorizerSettings(**chosen))
    assert cut[1] == whole[1] and same(cut[0], whole[0])


def test_the_slow_road_says_so(caplog):
    with caplog.at_level("INFO", "sdem_dist"):
        count_texts(["a b"], VectorizerSettings(token_pattern="[a-z]+"))
        assert "has no compiled kernel" in caplog.text
        caplog.clear()
        count_texts(["a b"], VectorizerSettings(token_pattern=r"\S+"))
        assert not caplog.text


def test_threads_that_share_a_vocabulary_do_not_disturb_each_other():
    # Words with accents are marked in memory that each thread needs for itself.
    texts = [" ".join(f"{'ö' * (i % 5)}wörd{j % 70} naïve" for j in range(3000)) for i in range(40)]
    settings = VectorizerSettings(ngram_range=(1, 2))
    expected, terms = count_texts(texts, settings)
    blocks = [texts[i : i + 4] for i in range(0, 40, 4)] * 4
    with ThreadPoolExecutor(2) as pool:
        for row, (counts, _) in enumerate(pool.map(lambda block: count_texts(block, settings, terms), blocks)):
            assert (counts != expected[4 * (row % 10) : 4 * (row % 10) + 4]).nnz == 0
