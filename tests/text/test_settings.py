"""Settings of text survive JSON and refuse nonsense; a pattern that takes for ever on a text ends in an error."""

import json
from itertools import pairwise

import numpy as np
import pytest
from cli.commands import refused
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from sdem_dist import MultinomialNB
from sdem_dist.text import VectorizerSettings, count_texts, ingest, patterns
from sdem_dist.text.vectorizer import build_analyzer

SLOW = [r"(a|aa)+$", r"(?:a|aa)+$"]
TEXT = "a" * 60 + "!"


@pytest.fixture(autouse=True)
def little_time(monkeypatch):
    monkeypatch.setattr(patterns, "TEXT_SECONDS", 0.05)


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_takes_for_ever_ends_in_an_error(pattern, tmp_path):
    settings = VectorizerSettings(token_pattern=pattern)
    texts, labels = ["a", "aa x", "a", "x aa"], [0, 1, 0, 1]
    model = MultinomialNB(vectorizer=settings).fit(texts, labels)
    (tmp_path / "s.tsv").write_text(f"one\ta x\ntwo\t{TEXT}\n")
    for hangs in (
        lambda: count_texts([TEXT], settings),
        lambda: ingest(tmp_path / "s.tsv", tmp_path / "c", settings),
        lambda: model.predict([TEXT]),
        lambda: model.explain([TEXT]),
    ):
        with pytest.raises(patterns.PatternError) as slow:
            hangs()
        assert slow.value.pattern == pattern and pattern in str(slow.value)
    with pytest.raises(patterns.PatternError):  # which holds itself
        count_texts(["a"], VectorizerSettings(token_pattern=r"(?:(?R)|a)+"))


@pytest.mark.parametrize(
    "command",
    ["predict slow.model new.txt", "evaluate slow.model new.tsv --scheduler {}", "report slow.model new.tsv -o r.html",
     f"explain slow.model {TEXT}"],
    ids=lambda command: command.split()[0],
)  # fmt: skip
def test_the_command_names_pattern_and_model(command, tmp_path, monkeypatch, scheduler):
    monkeypatch.chdir(tmp_path)
    MultinomialNB(vectorizer=VectorizerSettings(token_pattern=SLOW[0])).fit(["a", "aa"], [0, 1]).save("slow.model")
    (tmp_path / "new.tsv").write_text(f"0\t{TEXT}\n")
    (tmp_path / "new.txt").write_text(f"{TEXT}\n")
    said = refused(command.format(scheduler))
    assert "slow.model" in said and SLOW[0] in said


@pytest.mark.parametrize(("pattern", "words"), [
    (r"(?u)\b\w\w+\b", ["naïve", "over", "the", "top"]),
    (r"\S+", ["A", "naïve,", "over-the-top", "#9!"]),
    (r"(?:\w+-)*\w+", ["A", "naïve", "over-the-top", "9"]),
    (r"[a-z]+(?:'[a-z]+)?", ["na", "ve", "over", "the", "top"]),
    (r"\b(\w)\w+", ["n", "o", "t", "t"]),
    (r"\p{L}{2,}", ["naïve", "over", "the", "top"]),
    (r"(?:a+)+b|\d", ["9"]),
])  # fmt: skip
def test_patterns_that_people_use(pattern, words):
    settings = VectorizerSettings(token_pattern=pattern, lowercase=False)
    counts, found = count_texts(["A naïve, over-the-top #9!"], settings)
    assert sorted(words) == [word for word, n in zip(found, counts.toarray()[0], strict=True) for _ in range(n)]


@pytest.mark.parametrize("settings", [
    {"stop_words": "english", "ngram_range": (1, 2), "min_df": 0.5, "max_df": 7},
    {"stop_words": ("the", "a"), "min_df": 3, "max_df": 1.0, "max_features": 9},
    {"kind": "hashing", "n_features": 99},
    {"kind": "matrix"},
    {"features": "words+characters", "min_df": 1},
])  # fmt: skip
def test_settings_survive_json(settings):
    made = VectorizerSettings(**settings)
    assert VectorizerSettings.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(("language", "text", "stems"), [
    ("english", "Because the merging banks merged, banking mergers became merged", {"merg bank"}),
    ("turkish", "Ankara'da ev' var", {"'", "' da", "ankar '"}),  # whose stem of ' is empty
    ("persian", "a \u200d \u200c b", {"\u200d", "\u200d \u200c"}),
])  # fmt: skip
def test_stop_words_are_left_out_before_stemming_and_stemming_comes_before_ngrams(language, text, stems):
    stemmer, texts = pytest.importorskip("Stemmer").Stemmer(language), [text]
    settings = VectorizerSettings(stem=language, stop_words="english", ngram_range=(1, 2))
    np.testing.assert_raises(ValueError, VectorizerSettings, stem="klingon")

    def analyze(text):
        split = CountVectorizer(token_pattern=patterns.expression_of("words+signs")).build_analyzer()(text)
        stems = [stemmer.stemWord(w) or w for w in split if w not in ENGLISH_STOP_WORDS]
        return stems + [" ".join(pair) for pair in pairwise(stems)]

    found, words = count_texts(texts, settings)
    reference = CountVectorizer(analyzer=analyze)
    assert (found != reference.fit_transform(texts)).nnz == 0 and words == reference.get_feature_names_out().tolist()
    assert (count_texts(texts, settings, words)[0] != found).nnz == 0
    assert stems < {*words} == {*build_analyzer(settings)(text)} and not {"", "becaus"} & {*words}
