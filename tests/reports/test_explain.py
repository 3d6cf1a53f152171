"""Explanations: the parts sum to the answer, and marks lie on the words of the text."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.feature_extraction.text import CountVectorizer

import sdem_dist as sd
from sdem_dist.reports.explanation import Explanation, NumberExplanation, WordPart
from sdem_dist.reports.occurrences import terms
from sdem_dist.text import VectorizerSettings
from sdem_dist.text.patterns import expression_of

RNG = np.random.default_rng(0)
TOPICS = {"sport": "goal match team score", "money": "bank share profit market", "food": "salt bread oven taste"}
LABELS = list(TOPICS) * 40
TEXTS = [" ".join(RNG.choice([*TOPICS[label].split(), "the", "of", "and"], 9)) for label in LABELS]
NASTY = "bread <script>alert('x')</script> \x1b[31m goal"
NEW = ["The goal of the bank, and the TEAM", "salt", "", "unknown words only", NASTY]
MODELS = {
    "hinge": sd.MultinomialNB(),
    "counts": sd.MultinomialNB(loss="nll"),
    "no prior": sd.MultinomialNB(loss="ncll", fit_prior=False, n_epochs=2),
    "lda": sd.LDAClassifier(n_epochs=2),
    "gibbs": sd.LDAClassifier(n_epochs=1, inference="gibbs"),
    "supervised": sd.SupervisedLDAClassifier(n_components=4, n_epochs=2),
    "mixture": sd.EMMixtureClassifier(2, components="multinomial", n_epochs=3),
}
SETTINGS = {
    "words": VectorizerSettings(),
    "bigrams": VectorizerSettings(ngram_range=(1, 2)),
    "hashed": VectorizerSettings(kind="hashing", n_features=64, ngram_range=(1, 2)),
    "characters": VectorizerSettings(analyzer="char", ngram_range=(2, 3)),
    "in words": VectorizerSettings(analyzer="char_wb", ngram_range=(2, 3)),
    "stems": VectorizerSettings(stem="english", stop_words=("the",), ngram_range=(1, 2)),
    "accents": VectorizerSettings(strip_accents="unicode"),
    "both": VectorizerSettings(features="words+characters"),
    "both hashed": VectorizerSettings(kind="hashing", n_features=99, features="words+characters", stop_words=("the",)),
}


@pytest.fixture(scope="module", autouse=True)
def fitted():
    for model in MODELS.values():
        model.fit(TEXTS, LABELS)


def check_sum(explanation, log_odds):
    total = explanation.prior + explanation.offset + sum(w.part for w in explanation.words)
    assert total == pytest.approx(log_odds, abs=1e-9) == pytest.approx(explanation.log_odds, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_parts_sum_to_the_log_odds(name):
    model = MODELS[name]
    classes = model.classes_.tolist()
    log_p = log_softmax(model._class_scores(model.vectorize(NEW)), axis=1)
    for one, row in zip(model.explain(NEW), log_p, strict=True):
        a, b = classes.index(one.label), classes.index(one.against)
        assert row[a] == row.max()
        check_sum(one, row[a] - row[b])
        assert sum(m[2] for m in one.marks) == pytest.approx(sum(w.part for w in one.words), abs=1e-9)
        json.dumps(one.to_dict(), allow_nan=False)
    shares = [sum(t.share for t in one.topics) for one in model.explain(["goal match"]) if one.topics]
    assert shares == pytest.approx([1.0] * (name in ("lda", "gibbs", "supervised")))


def test_words_that_the_model_does_not_know_are_named():
    model = MODELS["counts"]
    one = model.explain(["Goals, goal and \x1b[2J goals; match"])[0]
    assert one.unknown == ("Goals", ",", "[", "2J", "goals", ";") == tuple(one.to_dict()["unknown"])
    assert "Goals , [ 2J goals ;" in str(one) and repr(one) == str(one)
    assert model.explain(["goal"])[0].unknown == ()


@pytest.mark.parametrize("name", ["hinge", "counts"])
def test_naive_bayes_is_exact(name):
    model = MODELS[name]
    one = model.explain(["goal goal bank"], against="money")[0]
    assert (one.label, one.against, one.offset) == ("sport", "money", 0.0)
    a, b = (model.classes_.tolist().index(c) for c in ("sport", "money"))
    for word in one.words:
        p, q = model.feature_log_prob_[[a, b], model.vocabulary_.index(word.word)]
        assert (word.log_p, word.log_p_against) == pytest.approx((p, q))
        assert word.part == pytest.approx(word.weight * (p - q) / model.temperature_)
    prior = (model.class_log_prior_[a] - model.class_log_prior_[b]) / model.temperature_
    assert one.prior == pytest.approx(prior, abs=1e-9)


def test_topics_come_first():
    one = MODELS["supervised"].explain(["goal match"])[0]
    assert sum(t.part for t in one.topics) == pytest.approx(one.log_odds)
    assert str(one).index("topic") < str(one).index("word  ")


@pytest.mark.parametrize("name", SETTINGS)
def test_marks_lie_on_the_text(name):
    if name == "stems":
        pytest.importorskip("Stemmer")
    model = sd.MultinomialNB(vectorizer=SETTINGS[name]).fit(TEXTS, LABELS)
    for text, one in zip(NEW, model.explain(NEW), strict=True):
        spans = [m[:2] for m in one.marks]
        assert spans == sorted(spans) and all(0 <= a < b <= len(text) for a, b in spans)
        check_sum(one, one.log_odds)
        assert sum(m[2] for m in one.marks) == pytest.approx(sum(w.part for w in one.words), abs=1e-9)
        assert "".join(stretch for stretch, *_ in one.stretches()) == text
        assert "\x1b" not in str(one) + one._repr_html_() and "<script>" not in one._repr_html_()
    assert "<mark" in one._repr_html_() and (name != "words" or "[bread " in str(one))
    if name == "stems":
        (one,) = model.explain(["The goals, the Markets"])
        assert {one.text[start:stop] for start, stop, _ in one.marks} == {"goals", "Markets"}
    if name == "both":  # a word that training did not have speaks by its characters
        (one,) = model.explain(["Markets' goalkeeper"])
        assert {word.word for word in one.words} == {"markets", "goalkeeper"} and one.label in ("money", "sport")
        assert {one.text[start:stop] for start, stop, _ in one.marks} == {"Markets", "goalkeeper"}


@settings(max_examples=60)
@given(st.text(max_size=40), st.sampled_from(["word", "char", "char_wb"]), st.sampled_from([None, "ascii", "unicode"]))
def test_terms_are_those_of_scikit_learn(text, analyzer, accents):
    shared = {"analyzer": analyzer, "ngram_range": (1, 3), "strip_accents": accents}
    expected = CountVectorizer(**shared, token_pattern=expression_of("words+signs")).build_analyzer()(text)
    assert sorted(term for term, _ in terms(text, VectorizerSettings(**shared))) == sorted(expected)


@pytest.mark.parametrize("components", ["", "gaussian", "exponential"])
@pytest.mark.parametrize("kind", [sd.EMMixtureClassifier, sd.SdemMixtureClassifier])
def test_columns_of_tables(kind, components):
    y = np.arange(90) % 3
    table = pd.DataFrame(RNG.exponential(size=(90, 4)) + (y[:, None] == np.arange(4)) * 2.0, columns=list("abcd"))
    with_missing = table.mask((np.arange(90) % 4 == 0)[:, None] & (np.arange(4) == 1))
    settings = {"components": components, "offset": 0.1 if components == "exponential" else 0.0}
    models = [kind(n, **settings) for n in (2, 1)] if components else [sd.GaussianNB()]
    for model in models:
        explained = model.fit(table, y).explain(with_missing)
        for one, row in zip(explained, model.predict_log_proba(with_missing), strict=True):
            check_sum(one, row[one.label] - row[one.against])
        assert {w.word for w in explained[0].words} == set("acd")
    assert all(abs(one.offset) < 1e-9 for one in explained)  # the last one mixes nothing


@pytest.mark.parametrize("n_missing", [0, 2])
def test_numbers_of_tables_are_sums_over_columns(n_missing):
    table = pd.DataFrame(RNG.normal(size=(80, 4)) @ RNG.normal(size=(4, 4)), columns=list("abcd"))
    model = sd.GaussianRegressor().fit(table, table @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=80))
    table = table.mask(RNG.random(table.shape) < 0.1 * n_missing)
    explained = model.explain(table)
    for one, prediction in zip(explained, model.predict(table), strict=True):
        assert one.mean + sum(w.part for w in one.words) == pytest.approx(prediction) and one.offset == 0.0
        assert one.prediction == pytest.approx(prediction)
    if not n_missing:
        parts = {w.word: w.part for w in explained[0].words}
        np.testing.assert_allclose([parts[c] for c in "abcd"], model.coef_ * (table.iloc[0] - table.mean()), rtol=1e-6)
    assert json.loads(json.dumps(explained[0].to_dict(), allow_nan=False))["mean"] == explained[0].mean
    assert all(words in str(explained[0]) for words in ("(training mean ", "\ncolumn "))
    assert "</td>" in explained[0]._repr_html_()


def test_numbers_of_texts_are_sums_over_topics_and_words():
    stars = np.array([{"sport": 5.0, "money": 1.0, "food": 3.0}[label] for label in LABELS])
    model = sd.SupervisedLDARegressor(n_components=3, n_epochs=4).fit(TEXTS, np.stack([stars, -stars], axis=1))
    for target in (0, 1):
        for one, prediction in zip(model.explain(NEW, target), model.predict(NEW)[:, target], strict=True):
            assert one.mean + one.offset + sum(w.part for w in one.words) == pytest.approx(prediction)
            assert one.mean + sum(t.part for t in one.topics) == pytest.approx(prediction)
            assert all(one.text[a:b].lower() in {w.word for w in one.words} for a, b, _ in one.marks)
            assert "<script>" not in one._repr_html_() and "\x1b" not in str(one)
    np.testing.assert_raises_regex(ValueError, "2 targets", model.explain, NEW, target=2)


def test_what_each_document_is_compared_with():
    model, wanted = MODELS["hinge"], ["food", "money", "food"]
    for several in (wanted, tuple(wanted), np.array(wanted), pd.Series(wanted)):
        assert [e.against for e in model.explain(["goal goal match"] * 3, against=several)] == wanted
    same = model.explain(["goal"], against="sport")[0]
    assert same.label == "sport" and same.against != "sport"
    for wrong in (wanted[:2], "weather"):
        np.testing.assert_raises_regex(ValueError, r"against|weather", model.explain, ["goal"] * 3, against=wrong)
    dense = sd.MultiplicativeMixtureClassifier(2).fit(RNG.random(size=(40, 2)), np.arange(40) % 2)
    np.testing.assert_raises_regex(sd.ModelError, "sum over their words", dense.explain, np.zeros((1, 2)))


def test_a_class_that_cannot_be_has_a_prior_and_plain_json():
    model = sd.MultinomialNB(loss="nll", class_prior=[0.5, 0.0, 0.5]).fit(TEXTS, LABELS)
    one = model.explain(["goal match"], against=model.classes_[1])[0]
    assert one.log_odds == one.prior == np.inf and one.offset == 0.0
    plain = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert plain["log_odds"] is None and plain["words"][0]["part"] == one.words[0].part


def test_many_columns_take_little_memory():
    n, y = 600, np.arange(60) % 2
    table = RNG.normal(size=(60, n)) + y[:, None]
    model = sd.GaussianNB(loss="nll").fit(table, y)
    table[0, 3] = np.nan
    tracemalloc.start()
    one = model.explain(table[:1], against=1)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * n  # a square of the columns would have 8 bytes an entry
    assert len(one.words) == n - 1 and one.prior + sum(w.part for w in one.words) == pytest.approx(one.log_odds)


def test_parts_that_round_to_nothing_are_not_shown():
    words = tuple(WordPart(f"w{i}", 1.0, 0.004 - i * 1e-5) for i in range(300))
    text, ends = " ".join(w.word for w in words), np.cumsum([len(w.word) + 1 for w in words]) - 1
    marks = tuple((int(end) - len(w.word), int(end), w.part) for w, end in zip(words, ends, strict=True))
    answer = {"label": "a", "against": "b", "probability": 0.6, "probability_against": 0.4, "log_odds": 0.5}
    faint = Explanation(**answer, prior=0.0, words=words, text=text, marks=marks)
    assert "[" not in faint.marked_text()
    assert replace(faint, marks=((0, 2, 0.5), *marks[1:])).marked_text().startswith("[w0 +0.50] w1 w2")
    small = replace(faint, words=(words[0], WordPart("faint", 1.0, 1e-4), WordPart("fainter", 1.0, 1e-5)))
    rows = [line.split() for line in str(replace(small, text=None)).splitlines()]
    assert ["w0", "+0.004", "1"] in rows and ["2", "other", "words", "+0.000"] in rows
    one = {"words": (WordPart("w0", 1.0, 4e-6),), "text": "w0", "marks": ((0, 2, 4e-6),)}
    assert "[w0 +4e-06]" in str(NumberExplanation(prediction=0.004, mean=0.002, **one))
