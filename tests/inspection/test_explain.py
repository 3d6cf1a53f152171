"""Explanations: the parts sum to the log-odds, and marks lie on the words of the text."""

from __future__ import annotations

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

from sdem_dist import (
    EMMixtureClassifier,
    GaussianNB,
    GaussianRegressor,
    LDAClassifier,
    ModelError,
    MultinomialNB,
    MultiplicativeMixtureClassifier,
    SdemMixtureClassifier,
    SupervisedLDAClassifier,
    SupervisedLDARegressor,
)
from sdem_dist.reports.explanation import Explanation, NumberExplanation, NumberPart, WordPart
from sdem_dist.text import VectorizerSettings
from sdem_dist.text.marking import marked, terms

RNG = np.random.default_rng(0)
TOPICS = {"sport": "goal match team score", "money": "bank share profit market", "food": "salt bread oven taste"}
LABELS = list(TOPICS) * 40
TEXTS = [" ".join(RNG.choice([*TOPICS[label].split(), "the", "of", "and"], 9)) for label in LABELS]
NEW = [
    "The goal of the bank, and the TEAM",
    "salt",
    "",
    "unknown words only",
    "bread <script>alert('x')</script> \x1b[31m goal",
]

MODELS = {
    "hinge": lambda **kw: MultinomialNB(**kw),
    "counts": lambda **kw: MultinomialNB(loss="nll", **kw),
    "no prior": lambda **kw: MultinomialNB(loss="ncll", fit_prior=False, n_epochs=2, **kw),
    "lda": lambda **kw: LDAClassifier(n_epochs=2, **kw),
    "gibbs": lambda **kw: LDAClassifier(n_epochs=1, inference="gibbs", **kw),
    "supervised": lambda **kw: SupervisedLDAClassifier(n_components=4, n_epochs=2, **kw),
    "mixture": lambda **kw: EMMixtureClassifier(2, components="multinomial", n_epochs=3, **kw),
}
SETTINGS = {
    "words": VectorizerSettings(),
    "bigrams": VectorizerSettings(ngram_range=(1, 2)),
    "hashed": VectorizerSettings(kind="hashing", n_features=64, ngram_range=(1, 2)),
    "characters": VectorizerSettings(analyzer="char", ngram_range=(2, 3)),
    "in words": VectorizerSettings(analyzer="char_wb", ngram_range=(2, 3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_parts_sum_to_the_log_odds(name):
    model = MODELS[name]().fit(TEXTS, LABELS)
    log_p = log_softmax(model._class_scores(model.vectorize(NEW)), axis=1)
    for found, row in zip(model.explain(NEW), log_p, strict=True):
        a, b = model.classes_.tolist().index(found.label), model.classes_.tolist().index(found.against)
        assert row[a] == row.max()
        assert found.log_odds == pytest.approx(row[a] - row[b])
        total = found.prior + found.offset + sum(w.part for w in found.words)
        assert total == pytest.approx(found.log_odds, abs=1e-9)
        assert sum(m[2] for m in found.marks) == pytest.approx(sum(w.part for w in found.words), abs=1e-9)
        json.dumps(found.to_dict(), allow_nan=False)


def test_words_that_the_model_does_not_know_are_named():
    model = MultinomialNB(loss="nll").fit(["goal match", "bank share"] * 6, ["sport", "money"] * 6)
    found = model.explain(["Goals, goal and \x1b[2J goals; match"])[0]
    assert found.unknown == ("Goals", "and", "2J", "goals")
    assert "Unknown to the model: Goals, and, 2J, goals" in str(found) and found.to_dict()["unknown"][0] == "Goals"
    assert repr(found) == str(found) and len(repr(found)) < 2000
    assert model.explain(["goal"])[0].unknown == ()
    assert "Unknown" not in str(model.explain(["goal"])[0])


def test_naive_bayes_is_exact():
    model = MultinomialNB().fit(TEXTS, LABELS)
    found = model.explain(["goal goal bank"], against="money")[0]
    assert (found.label, found.against, found.offset) == ("sport", "money", 0.0)
    a, b = (model.classes_.tolist().index(c) for c in ("sport", "money"))
    for word in found.words:
        column = model.vocabulary_.index(word.word)
        p, q = model.feature_log_prob_[[a, b], column]
        assert (word.log_p, word.log_p_against) == pytest.approx((p, q))
        assert word.part == pytest.approx(word.weight * (p - q) / model.temperature_)
    prior = (model.class_log_prior_[a] - model.class_log_prior_[b]) / model.temperature_
    assert found.prior == pytest.approx(prior, abs=1e-9)


def test_topics_come_first():
    model = SupervisedLDAClassifier(n_components=4, n_epochs=2).fit(TEXTS, LABELS)
    found = model.explain(["goal match"])[0]
    assert sum(t.part for t in found.topics) == pytest.approx(found.log_odds)
    assert sum(t.share for t in found.topics) == pytest.approx(1.0)
    assert str(found).index("topic") < str(found).index("word  ")
    own = LDAClassifier(n_epochs=2).fit(TEXTS, LABELS).explain(["goal match"])[0]
    assert sum(t.share for t in own.topics) == pytest.approx(1.0)


@pytest.mark.parametrize("name", SETTINGS)
def test_marks_lie_on_the_text(name):
    model = MultinomialNB(vectorizer=SETTINGS[name]).fit(TEXTS, LABELS)
    for text, found in zip(NEW, model.explain(NEW), strict=True):
        spans = [m[:2] for m in found.marks]
        assert spans == sorted(spans) and all(0 <= a < b <= len(text) for a, b in spans)
        assert sum(m[2] for m in found.marks) == pytest.approx(sum(w.part for w in found.words), abs=1e-9)
        assert "".join(piece for piece, _ in found.stretches()) == text


@settings(max_examples=60)
@given(st.text(max_size=40), st.sampled_from(["word", "char", "char_wb"]), st.sampled_from([None, "ascii", "unicode"]))
def test_terms_are_those_of_scikit_learn(text, analyzer, accents):
    shared = {"analyzer": analyzer, "ngram_range": (1, 3), "strip_accents": accents}
    expected = CountVectorizer(**shared).build_analyzer()(text)
    ours = [term for term, _ in terms(text, VectorizerSettings(**shared))]
    assert sorted(ours) == sorted(expected)


def test_stop_words_and_stems():
    pytest.importorskip("Stemmer")
    chosen = VectorizerSettings(stop_words=("the",), stem="english", ngram_range=(1, 2))
    text = "The banks, the Markets"
    assert [t for t, _ in terms(text, chosen)] == ["bank", "market", "bank market"]
    marks = marked(terms(text, chosen), {"bank market": 1.0, "market": 2.0})
    assert [(text[m.start : m.stop], m.value) for m in marks] == [("banks", 0.5), ("Markets", 2.5)]


def test_columns_of_tables():
    y = np.arange(60) % 2
    table = pd.DataFrame({"a": RNG.normal(size=60) + 3 * y, "b": RNG.normal(size=60)})
    model = GaussianNB().fit(table, y)
    table.iloc[0, 1] = np.nan
    for found, row in zip(model.explain(table), model.predict_log_proba(table), strict=True):
        total = found.prior + found.offset + sum(w.part for w in found.words)
        assert total == pytest.approx(row[found.label] - row[found.against])
    assert [w.word for w in model.explain(table[:1])[0].words] == ["a"]


@pytest.mark.parametrize("kind", [EMMixtureClassifier, SdemMixtureClassifier])
@pytest.mark.parametrize("components", ["gaussian", "exponential"])
def test_columns_of_mixtures(kind, components):
    y = np.arange(90) % 3
    table = RNG.exponential(size=(90, 4)) + (y[:, None] == np.arange(4)) * 2.0
    model = kind(2, components=components, offset=0.1 if components == "exponential" else 0.0).fit(table, y)
    alone = kind(1, components=components, offset=0.1 if components == "exponential" else 0.0).fit(table, y)
    table[::4, 1] = np.nan
    for found, row in zip(model.explain(table), model.predict_log_proba(table), strict=True):
        total = found.prior + found.offset + sum(w.part for w in found.words)
        assert total == pytest.approx(row[found.label] - row[found.against])
    assert all(abs(found.offset) < 1e-9 for found in alone.explain(table))  # nothing is mixed


@pytest.mark.parametrize("n_missing", [0, 2])
def test_numbers_of_tables_are_sums_over_columns(n_missing):
    table = pd.DataFrame(RNG.normal(size=(80, 4)) @ RNG.normal(size=(4, 4)), columns=list("abcd"))
    model = GaussianRegressor().fit(table, table @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=80))
    table = table.mask(RNG.random(table.shape) < 0.1 * n_missing)
    found = model.explain(table)
    for one, prediction in zip(found, model.predict(table), strict=True):
        assert one.mean + sum(w.part for w in one.words) == pytest.approx(prediction) and one.offset == 0.0
        assert one.prediction == pytest.approx(prediction)
    if not n_missing:
        parts = {w.word: w.part for w in found[0].words}
        centred = table.iloc[0] - table.mean()
        np.testing.assert_allclose([parts[c] for c in "abcd"], model.coef_ * centred, rtol=1e-6)
    assert json.loads(json.dumps(found[0].to_dict(), allow_nan=False))["mean"] == found[0].mean
    assert "from the mean of training" in str(found) and "</td>" in found._repr_html_()


def test_numbers_of_texts_are_sums_over_topics_and_words():
    stars = np.array([{"sport": 5.0, "money": 1.0, "food": 3.0}[label] for label in LABELS])
    model = SupervisedLDARegressor(n_components=3, n_epochs=4).fit(TEXTS, np.stack([stars, -stars], axis=1))
    for target in (0, 1):
        for one, prediction in zip(model.explain(NEW, target), model.predict(NEW)[:, target], strict=True):
            assert one.mean + one.offset + sum(w.part for w in one.words) == pytest.approx(prediction)
            assert one.mean + sum(t.part for t in one.topics) == pytest.approx(prediction)
            assert all(one.text[a:b].lower() in {w.word for w in one.words} for a, b, _ in one.marks)
    shown = model.explain(NEW)[-1]
    assert "<script>" not in shown._repr_html_() and "\x1b" not in str(shown)
    with pytest.raises(ValueError, match="target 2 is not among the model's 2 targets"):
        model.explain(NEW, target=2)


def test_harmless_and_marked():
    model = MultinomialNB().fit(TEXTS, LABELS)
    found = model.explain(NEW)[-1]
    html = found._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "<mark" in html and "\x1b" not in html
    assert "\x1b" not in str(found) and "[bread " in str(found)


def test_refusals():
    model = MultinomialNB().fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="'weather' is not among"):
        model.explain(["goal"], against="weather")
    dense = MultiplicativeMixtureClassifier(2).fit(RNG.random(size=(40, 2)), np.arange(40) % 2)
    with pytest.raises(ModelError, match="sum over their words"):
        dense.explain(np.zeros((1, 2)))
    same = model.explain(["goal"], against="sport")[0]
    assert same.label == "sport" and same.against != "sport"


def test_a_class_that_cannot_be_has_a_prior_and_plain_json():
    model = MultinomialNB(loss="nll", class_prior=[0.5, 0.0, 0.5]).fit(TEXTS, LABELS)
    found = model.explain(["goal match"], against=model.classes_[1])[0]
    assert found.log_odds == found.prior == np.inf and found.offset == 0.0
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["log_odds"] is None and plain["words"][0]["part"] == found.words[0].part


def test_what_each_document_is_compared_with():
    model = MultinomialNB().fit(TEXTS, LABELS)
    wanted = ["food", "money", "food"]
    for several in (wanted, tuple(wanted), np.array(wanted), pd.Series(wanted)):
        assert [e.against for e in model.explain(["goal goal match"] * 3, against=several)] == wanted
    with pytest.raises(ValueError, match="against has 2 classes, and X has 3 documents"):
        model.explain(["goal"] * 3, against=wanted[:2])


def test_many_columns_take_little_memory():
    n = 600
    y = np.arange(60) % 2
    table = RNG.normal(size=(60, n)) + y[:, None]
    model = GaussianNB(loss="nll").fit(table, y)
    table[0, 3] = np.nan
    tracemalloc.start()
    found = model.explain(table[:1], against=1)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * n  # a square of the columns would have 8 bytes an entry
    total = found.prior + sum(w.part for w in found.words)
    assert len(found.words) == n - 1 and total == pytest.approx(found.log_odds, rel=1e-9)
    alone = np.full((1, n), np.nan)
    alone[0, 5] = table[0, 5]
    a, b = (model.classes_.tolist().index(c) for c in (found.label, found.against))
    said = model._joint_log_proba(alone)[0] - model._joint_log_proba(np.full((1, n), np.nan))[0]
    word = next(w for w in found.words if w.word == "#5")
    assert (word.log_p, word.log_p_against) == pytest.approx((said[a], said[b]))


def test_parts_that_round_to_nothing_are_counted_and_not_shown():
    words = tuple(WordPart(f"w{i}", 1.0, np.nan, np.nan, 0.004 - i * 1e-5) for i in range(300))
    text = " ".join(w.word for w in words)
    ends = np.cumsum([len(w.word) + 1 for w in words]) - 1
    marks = tuple((int(end) - len(w.word), int(end), w.part) for w, end in zip(words, ends, strict=True))
    faint = Explanation("a", "b", 0.6, 0.4, 0.5, 0.0, 0.0, "", words, text=text, marks=marks)
    shown = str(faint)
    assert "+0.00]" not in shown and "but 300 places whose share rounds to 0" in shown
    loud = replace(faint, marks=((0, 2, 0.5), *marks[1:]))
    assert loud.marked_text().startswith("[w0 +0.50] w1 w2") and "rounds to 0" not in str(loud)
    small = replace(faint, words=(words[0], WordPart("faint", 1.0, np.nan, np.nan, 1e-4), words[1]._replace(part=1e-5)))
    rows = [line.split() for line in small.without_text().splitlines()]
    assert ["w0", "+0.004", "1"] in rows and ["2", "other", "words", "+0.000"] in rows
    number = NumberExplanation(0.004, 0.002, 0.0, "", (NumberPart("w0", 1.0, 4e-6),), text="w0", marks=((0, 2, 4e-6),))
    assert "[w0 +4e-06]" in str(number)


def test_the_table_can_be_checked_by_eye():
    found = MODELS["counts"]().fit(TEXTS, LABELS).explain(["The goal of the bank"])[0]
    ours, theirs = (f"p(word|{label})" for label in (found.label, found.against))
    divided = "" if found.temperature == 1.0 else f" / temperature {found.temperature:.3g}"
    assert f"; of a word: weight x ln({ours} / {theirs}){divided}\n" in str(found)
    part, weight, p, p_against = map(
        float, next(line for line in str(found).splitlines() if "goal " in line).split()[1:]
    )
    assert part == pytest.approx(weight * np.log(p / p_against) / found.temperature, rel=0.02, abs=1e-3)


def test_a_table_that_does_not_give_the_parts_does_not_say_so():
    assert "of a word:" not in str(MODELS["supervised"]().fit(TEXTS, LABELS).explain(["The goal of the bank"])[0])


@pytest.mark.parametrize("loss", ["auto", "hinge", "ncll", "nll"])
def test_probabilities_of_words_are_shown_of_generative_models_alone(loss):
    model = MultinomialNB(loss=loss, verbose=0).fit(["good film", "bad film"] * 10, [1, 0] * 10)
    (explanation,) = model.explain(["good film"])
    assert ("p(word" in str(explanation)) == ("p(word" in explanation._repr_html_()) == (loss == "nll")
