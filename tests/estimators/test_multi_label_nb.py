"""MultiLabelNB: each label is what a binary classifier of it would be, however labels are written down."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from reference.random_documents import documents_of
from sklearn.metrics import accuracy_score, f1_score, log_loss

import sdem_dist as sd
from sdem_dist.evaluation import best_thresholds, fitting_sums
from sdem_dist.losses import NAMED, Blend, CostSensitiveHinge, Hinge
from sdem_dist.models.heads import Classes, Labels
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.word_counts import localised

N, WORDS, LABELS = 400, 60, 5
NAMES = ("ant", "bee", "cow", "dog", "emu")


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(1).dirichlet(np.full(WORDS, 0.3), LABELS + 1)
    Y = (rng.random((N, LABELS)) < [0.5, 0.3, 0.3, 0.2, 0.1]).astype(int)
    mixed = (Y @ topics[:LABELS] + topics[LABELS]) / (Y.sum(axis=1, keepdims=True) + 1)
    return sp.csr_matrix(np.array([rng.multinomial(40, p) for p in mixed])), Y


X, Y = drawn()
LISTS = [[NAMES[k] for k in np.flatnonzero(row)] for row in Y]
FIXED = {"n_epochs": 3, "validation_fraction": 0}


@pytest.mark.parametrize(
    "loss", ["hinge", "ncll", Hinge(0.0), Blend(Hinge(), 0.2), CostSensitiveHinge(((0, 1), (3, 0)))]
)
def test_one_lane_is_a_binary_fit_for_each_label(loss):
    odds = sd.MultiLabelNB(loss=loss, **FIXED).fit(X, Y).decision_function(X)
    for label in range(LABELS):
        alone = sd.MultinomialNB(loss=loss, **FIXED).fit(X, Y[:, label]).decision_function(X)
        np.testing.assert_allclose(odds[:, label], alone, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "ncll"])
def test_statistics_at_one_theta_are_those_of_each_label(loss):
    rng = np.random.default_rng(2)
    whole, binary = NaiveBayes(WORDS, Labels(LABELS)), NaiveBayes(WORDS, Classes(2))
    state = whole.start(0, WORDS, 0)._replace(words=rng.gamma(2.0, 1.0, (WORDS, 2 * LABELS)))
    state = state._replace(totals=state.words.sum(axis=0), class_counts=rng.gamma(2.0, 1.0, 2 * LABELS))
    local = localised(documents_of(X.astype(float)), np.zeros(N, np.int32), rng.random(N), Y.astype(np.uint8))
    found = whole.expected(state, local, NAMED[loss], np.empty(0), 0.0)
    for label in range(LABELS):
        pair = slice(2 * label, 2 * label + 2)
        words, totals, counts = state.words[:, pair], state.totals[pair], state.class_counts[pair]
        own = state._replace(words=words, totals=totals, class_counts=counts)
        alone = binary.expected(own, local._replace(labels=Y[:, label]), NAMED[loss], np.empty(0), 0.0)
        np.testing.assert_allclose(found.rows[:, pair], alone.rows, atol=1e-9)
        np.testing.assert_allclose(found.class_counts[pair], alone.class_counts, atol=1e-9)


def test_labels_may_be_written_in_any_way():
    reference = sd.MultiLabelNB().fit(X, Y)
    numbers = [tuple(np.flatnonzero(row).tolist()) for row in Y]
    for y in (sp.csr_matrix(Y), Y.tolist(), Y.astype(bool), numbers, [set(row) for row in numbers]):
        found = sd.MultiLabelNB().fit(X, y)
        assert found.classes_.tolist() == list(range(LABELS))
        np.testing.assert_array_equal(found.state_.words, reference.state_.words)
    named = sd.MultiLabelNB().fit(X, pl.Series(LISTS))
    assert tuple(named.classes_) == NAMES
    np.testing.assert_array_equal(named.predict(X), reference.predict(X))
    assert named.evaluate(X, LISTS) == reference.evaluate(X, Y) == named.evaluate(X, Y)


def test_figures_are_scikit_learns():
    model = sd.MultiLabelNB().fit(X[:200], Y[:200])
    P, given, found = model.predict_proba(X[200:]), model.predict(X[200:]), model.evaluate(X[200:], Y[200:])
    truth = Y[200:]
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, given)) == model.score(X[200:], truth)
    for mean in ("micro", "macro"):
        assert found[f"{mean}_f1"] == pytest.approx(f1_score(truth, given, average=mean))
    assert found["label_log_loss"] == pytest.approx(log_loss(truth.ravel(), P.ravel()))
    best = np.argsort(-model.decision_function(X[200:]), axis=1)[:, :3]
    assert found["precision_at_3"] == pytest.approx(np.take_along_axis(truth, best, axis=1).mean())
    report = model.report(X[200:], truth)
    assert report.figures == pytest.approx(found) and "precision_at_5" not in found, "of 5 labels"
    np.testing.assert_allclose(report.to_frame()["f1"], f1_score(truth, given, average=None))
    assert f" documents, {len(model.classes_)} labels\n" in str(report) and "By label" in str(report)
    assert "<table" in report._repr_html_()
    errors = report.errors_frame()
    assert sorted(errors.index) == np.flatnonzero((given != truth).any(axis=1)).tolist()
    first = errors.iloc[0]
    assert first["labels"] == tuple(model.classes_[truth[errors.index[0]] == 1])
    assert first["predictions"] == tuple(model.classes_[given[errors.index[0]] == 1])
    losses = -np.log(np.where(truth == 1, P, 1 - P)).sum(axis=1)
    np.testing.assert_allclose(errors["log_loss"], np.sort(losses[errors.index])[::-1])


def test_the_thresholds_of_rare_labels_are_near_that_of_all():
    """Of labels that differ by chance alone, thresholds differ the less the rarer they are."""
    rng, spread = np.random.default_rng(0), []
    for rate in (0.01, 0.3):
        members = rng.random((1000, 60)) < rate
        odds = rng.normal(np.log(rate / (1.0 - rate)) + 2.0 * members, 1.0)
        thresholds = best_thresholds(fitting_sums(odds, members.astype(np.uint8), np.ones(1000)), np.ones(60))
        spread.append(np.std(np.log(thresholds / (1.0 - thresholds))))
    assert spread[0] < 0.15 and spread[1] < 0.4, spread


def test_thresholds_can_be_changed_and_are_saved(tmp_path):
    model = sd.MultiLabelNB(n_epochs=1).fit(X, LISTS)
    expected = np.where(np.arange(LABELS) == 1, 0.0, model.thresholds_)
    for changed in ({"bee": 0.0}, pd.Series({"bee": 0.0}), expected):
        model.thresholds_ = changed
        model.save(tmp_path / "m")
        for one in (model, sd.load_model(tmp_path / "m")):
            assert one.predict(X)[:, 1].all() and (one.thresholds_ == expected).all()
    for why, wrong in {"'fox'": {"fox": 0.5}, "'bee'": {"bee": 1.5}, "5 prob": [0.5], "betw": [np.nan] * 5}.items():
        np.testing.assert_raises_regex(ValueError, why, setattr, model, "thresholds_", wrong)
    single = sd.MultinomialNB(n_epochs=1).fit(X, Y[:, 0])
    np.testing.assert_raises_regex(AttributeError, "several labels", setattr, single, "thresholds_", [0.5, 0.5])


def test_thresholds_find_more_of_a_rare_label():
    model = sd.MultiLabelNB().fit(X, Y)
    assert model.thresholds_.shape == model.temperatures_.shape == (LABELS,)
    other_X, other_Y = drawn(5)
    at_half, fitted = model.predict_proba(other_X) >= 0.5, model.predict(other_X)
    assert f1_score(other_Y, fitted, average="macro") > f1_score(other_Y, at_half, average="macro") - 0.02
    with_none = sd.MultiLabelNB(calibrate=False, n_epochs=2).fit(X, Y)
    assert (with_none.thresholds_ == 0.5).all() and (with_none.temperatures_ == 1.0).all()


def test_corpora_and_files(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c", X, LISTS, shard_documents=90)
    assert set(corpus.header.label_sets) == {tuple(labels) for labels in LISTS}
    assert corpus.header.documents_by_label == {name: int(Y[:, k].sum()) for k, name in enumerate(NAMES)}
    model = sd.MultiLabelNB().fit(corpus)
    assert tuple(model.classes_) == NAMES
    assert model.evaluate(corpus) == pytest.approx(model.evaluate(X, LISTS))
    with pytest.raises(sd.CorpusError, match="several labels each, but MultinomialNB supports only one"):
        sd.MultinomialNB().fit(corpus)
    strange = sd.write_corpus(tmp_path / "d", X[:2], [["ant"], ["fox"]])
    np.testing.assert_raises_regex(sd.CorpusError, "'fox', which is not in the model", model.evaluate, strange)


def test_mistakes():
    model = sd.MultiLabelNB(n_epochs=1).fit(X, LISTS)
    np.testing.assert_raises_regex(ValueError, "'fox', which is not in the model", model.evaluate, X[:1], [["fox"]])
    np.testing.assert_raises_regex(ValueError, "y contains no labels", sd.MultiLabelNB().fit, X, [[]] * N)
    np.testing.assert_raises_regex(ValueError, "values must be 0 or 1", sd.MultiLabelNB().fit, X, Y * 2)
    np.testing.assert_raises_regex(sd.ModelError, "documents with one label each", model.calibrate_sets, X, LISTS)


def test_an_explanation_adds_up():
    texts = ["a late goal", "rates fall", "the club buys shares"] * 20
    labels = [["sport"], ["money"], ["money", "sport"]] * 20
    model = sd.MultiLabelNB(n_epochs=5).fit(texts, labels)
    found = model.explain(["a goal"])[0]
    assert (found.label, found.against) == ("sport", "not sport")
    assert found.log_odds == pytest.approx(model.decision_function(["a goal"])[0].max())
    assert found.prior + sum(word.part for word in found.words) == pytest.approx(found.log_odds, abs=1e-6)
