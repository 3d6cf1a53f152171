"""ManyClassNB is MultinomialNB without its table: the laws of learners, and how little it keeps."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok
from reference.random_documents import documents_of, one_round
from scipy.special import log_softmax

import sdem_dist as sd
from sdem_dist.cli import predict as prediction
from sdem_dist.kernels.many_classes import ENTRIES
from sdem_dist.learners.rules import AddSteps, ClosedForm, margin_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models import many_classes
from sdem_dist.models.heads import unit_of
from sdem_dist.models.many_classes import SparseCounts, VeryManyClasses, joint_scores
from sdem_dist.testing import check_learner

N, WIDTH, K = 1_200, 500, 150
RNG = np.random.default_rng(0)
Y = np.arange(N) % K
OWN = RNG.integers(0, WIDTH, (K, 12))
FROM_OWN, OF_CLASS = RNG.random((N, 20)) < 0.4, OWN[Y[:, None], RNG.integers(0, 12, (N, 20))]
WORDS = np.where(FROM_OWN, OF_CLASS, RNG.integers(0, WIDTH, (N, 20)))
X = sp.csr_matrix((np.ones(WORDS.size), (np.repeat(np.arange(N), 20), WORDS.ravel())), shape=(N, WIDTH))
TRAIN, TEST = slice(0, 900), slice(900, N)
FIXED = {"n_epochs": 3, "calibrate": False}
ONE_COMPONENT = partial(sd.EMMixtureClassifier, 1, components="multinomial")


def test_nll_is_that_of_multinomial_nb():
    dense, found = (kind(loss="nll", alpha=0.3).fit(X[TRAIN], Y[TRAIN]) for kind in (sd.MultinomialNB, sd.ManyClassNB))
    joint = found.predict_joint_log_proba(X[TEST])
    np.testing.assert_allclose(joint, dense.predict_joint_log_proba(X[TEST]), rtol=1e-10)
    np.testing.assert_allclose(found.class_log_prior_, dense.class_log_prior_)
    expected, metrics = dense.evaluate(X[TEST], Y[TEST]), found.evaluate(X[TEST], Y[TEST])
    assert metrics == pytest.approx({name: expected[name] for name in metrics}, rel=1e-9)


@pytest.mark.parametrize("settings", [{}, {"weighting": "counts"}, {"weighting": "log", "min_df": 3}])
def test_hinge_is_that_of_multinomial_nb(settings):
    dense = sd.MultinomialNB(loss="hinge", validation_fraction=0, **FIXED, **settings).fit(X[TRAIN], Y[TRAIN])
    found = sd.ManyClassNB(**FIXED, **settings).fit(X[TRAIN], Y[TRAIN])
    a, b = dense.decision_function(X[TEST]), found.decision_function(X[TEST])
    # Single precision: two rivals that are equally strong may change places.
    assert np.abs(a - b).max() < 0.02 * np.ptp(a)
    assert (dense.predict(X[TEST]) == found.predict(X[TEST])).mean() > 0.97
    assert found.score(X[TEST], Y[TEST]) > 0.8


def test_rivals_among_rare_words_do_as_well():
    y = np.arange(N) % 400  # more classes than one looks at: words are in hundreds of them
    common = sp.hstack([X, sp.csr_matrix(RNG.poisson(0.5, (N, 60)))]).tocsr()
    model = sd.ManyClassNB(n_epochs=2, calibrate=False).fit(common[TRAIN], y[TRAIN])
    assert np.bincount(model.state_.split()[0])[-60:].sum() > ENTRIES
    assert model.score(common[TRAIN], y[TRAIN]) > 0.95


def test_predictions_do_not_depend_on_how_many_are_scored_at_a_time(monkeypatch):
    model = sd.ManyClassNB().fit(X[TRAIN], Y[TRAIN])
    scores, metrics = model.predict_joint_log_proba(X[TEST]), model.evaluate(X[TEST], Y[TEST])
    monkeypatch.setattr(many_classes, "SCORES", 7 * K)
    np.testing.assert_array_equal(model.predict(X[TEST]), model.classes_[scores.argmax(axis=1)])
    assert model.evaluate(X[TEST], Y[TEST]) == pytest.approx(metrics)


def test_held_out_documents_give_the_temperature():
    model = sd.ManyClassNB().fit(X[TRAIN], Y[TRAIN])
    plain = sd.ManyClassNB(calibrate=False).fit(X[TRAIN], Y[TRAIN])
    assert plain.temperature_ == 1.0 != model.temperature_ and (plain.n_iter_, model.n_iter_) == (3, 4)
    assert model.history_[-1]["held_out_accuracy"] > 0.5
    assert model.evaluate(X[TEST], Y[TEST])["ncll"] < 0.5 * plain.evaluate(X[TEST], Y[TEST])["ncll"]


def log_losses(model, X, y):
    scores = model.predict_joint_log_proba(X)
    return lambda temperature: -log_softmax(scores / temperature, axis=1)[np.arange(len(y)), y].mean()


@pytest.mark.parametrize("weighting", ["auto", "counts"])
def test_the_temperature_is_near_the_best_one(weighting):
    model = sd.ManyClassNB(weighting=weighting).fit(X[TRAIN], Y[TRAIN])
    loss = log_losses(model, X[TEST], Y[TEST])
    assert loss(model.temperature_) < 1.1 * min(map(loss, np.geomspace(1e-5, 10.0, 100)))


@pytest.mark.parametrize("kind", [sd.ManyClassNB, sd.MultinomialNB, ONE_COMPONENT])
def test_documents_without_an_error_do_not_show_that_there_are_none(kind):
    easy, y = np.tile(9 * np.eye(4), (100, 1)), np.arange(400) % 4
    model = kind().fit(easy, y)
    assert max(e.get("fold_accuracy", e.get("held_out_accuracy", 0.0)) for e in model.history_) == 1.0
    p = model.predict_proba(easy)
    assert 0.9 < p.max(axis=1).min() <= p.max() < 0.9995  # some 40 documents, or 200 of folds


@pytest.mark.parametrize("weighting", ["auto", "counts"])
def test_classes_that_training_has_not_seen_say_nothing_of_the_temperature(weighting, caplog):
    y = np.arange(400)  # one document each: whoever is held out is of a class without documents
    model = sd.ManyClassNB(weighting=weighting).fit(X[:400], y)
    assert "using a default temperature" in caplog.text
    assert "held_out_accuracy" not in model.history_[-1]
    again = X[:400].copy()
    again.data[::2] = 0.0  # half the words of each
    loss = log_losses(model, again, y)
    assert loss(model.temperature_) < min(0.5, 0.5 * loss(1.0))


def test_held_out_documents_of_weight_zero_say_nothing_of_the_temperature(caplog, tmp_path):
    weights = np.where(np.arange(900) % 90 == 0, 1.0, 0.0)
    corpus = sd.write_corpus(tmp_path / "c", X[TRAIN], np.arange(900) // 90 % 2, sample_weight=weights)
    model = sd.ManyClassNB().fit(corpus)
    assert "using a default temperature" in caplog.text
    assert np.isfinite(model.predict_proba(X[TEST])).all()


def test_patience_is_refused_where_it_would_not_be_heard():
    with pytest.raises(ValueError, match="patience needs calibrate=False"):
        sd.ManyClassNB(patience=1).fit(X[TRAIN], Y[TRAIN], validation=(X[TEST], Y[TEST]))
    model = sd.ManyClassNB(patience=1, n_epochs=30, calibrate=False)
    model.fit(X[TRAIN], Y[TRAIN], validation=(X[TEST], Y[TEST]))
    assert model.n_iter_ < 30 and "validation_ncll" in model.history_[0]


def test_explanations_add_up():
    model = sd.ManyClassNB().fit(X[TRAIN], Y[TRAIN])
    scores = model.decision_function(X[TEST][:20])
    for row, found in zip(np.sort(scores, axis=1), model.explain(X[TEST][:20]), strict=True):
        assert found.log_odds == pytest.approx(row[-1] - row[-2], rel=1e-9)
        assert found.log_odds == pytest.approx(found.prior + sum(word.part for word in found.words), rel=1e-9)


def test_commands_show_the_best_of_very_many_classes(tmp_path, monkeypatch):
    lines = [f"class {y}\t" + " ".join(f"w{w}" for w in words) for y, words in zip(Y, WORDS, strict=True)]
    for name, part in (("train", lines[TRAIN]), ("test", lines[TEST][:5])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(part) + "\n", encoding="utf-8")
    ok("train", str(tmp_path / "train.tsv"), str(tmp_path / "m"), "--estimator", "ManyClassNB", "--quiet")
    predict = "predict", str(tmp_path / "m"), str(tmp_path / "test.tsv")
    assert ok(*predict).splitlines()[0].count("=") == K
    monkeypatch.setattr(prediction, "MANY", 100)
    first = ok(*predict).splitlines()[0].split("\t")
    assert first[0] == f"class {Y[900]}" and first[1].startswith(f"{first[0]}=") and len(first) == 2


N_LAWS, WIDTH_LAWS, K_LAWS = 60, 40, 90
RNG_LAWS = np.random.default_rng(3)
X_LAWS = sp.csr_matrix(RNG_LAWS.poisson(0.3, (N_LAWS, WIDTH_LAWS)).astype(np.uint8))
LABELS = RNG_LAWS.integers(0, K_LAWS, N_LAWS).astype(np.int32)
PRIOR = RNG_LAWS.gamma(5.0, 0.2, WIDTH_LAWS)
DOCUMENTS = documents_of(X_LAWS, LABELS, weights=RNG_LAWS.random(N_LAWS) + 0.5)
MODEL = SparseCounts(WIDTH_LAWS, VeryManyClasses(K_LAWS), 0.7)
STEPS = margin_steps(2.0, unit_of(DOCUMENTS, PRIOR), 0.7, 1.0)
COUNTING = SdEM(replace(MODEL, class_alpha=0.0), float(N_LAWS), ClosedForm(complete=True))
HINGE = SdEM(MODEL, float(N_LAWS), AddSteps(STEPS), "hinge")


def test_laws_of_learners():
    check_learner(COUNTING, DOCUMENTS, additive=True)
    check_learner(HINGE, DOCUMENTS, state=MODEL.start(PRIOR))


def trained(epochs=3):
    state = MODEL.start(PRIOR)
    for epoch in range(epochs):
        state = one_round(HINGE, state, DOCUMENTS, epoch)
    return state


def test_only_words_of_a_document_for_its_class_and_a_rival_are_kept():
    counted = one_round(COUNTING, COUNTING.init(), DOCUMENTS)
    of_label = {(w, k) for d, k in enumerate(LABELS) for w in X_LAWS[d].indices}
    assert set(zip(*(part.tolist() for part in counted.split()), strict=True)) == of_label
    assert len(of_label) < len(trained(1).pairs) <= 2 * X_LAWS.nnz


def test_the_temperature_is_of_documents_with_a_weight_and_of_classes_that_were_trained():
    state, held = trained(), replace(HINGE, held_out=0.5, temperature=0.1)
    found = held.prepare(DOCUMENTS)
    plain = held.metrics(held.evaluate(state, [found]))
    assert plain["temperature"] > 0
    assert held.metrics(held.evaluate(state, [replace(found, weights=10.0 * found.weights)])) == pytest.approx(plain)
    strangers = replace(found, labels=np.full(N_LAWS, np.setdiff1d(np.arange(K_LAWS), LABELS)[0], np.int32))
    nobody = replace(found, labels=(LABELS + 1).astype(np.int32) % K_LAWS, weights=np.zeros(N_LAWS))
    assert held.metrics(held.evaluate(state, [found, strangers, nobody])) == pytest.approx(plain)
    for others in ([strangers], [nobody], [found[:5]]):
        assert np.isnan(held.metrics(held.evaluate(state, others))["temperature"])


def test_totals_are_sums_of_counts():
    state = trained()
    counts = np.repeat(PRIOR[:, None], K_LAWS, axis=1)
    counts[state.split()] += state.changes
    assert (counts > 0).all()
    np.testing.assert_allclose(state.totals, counts.sum(axis=0), rtol=1e-12)
    expected = np.log(state.class_counts / state.class_counts.sum()) + X_LAWS @ np.log(counts / state.totals)
    np.testing.assert_allclose(joint_scores(HINGE.parameters(state), HINGE.prepare(DOCUMENTS)), expected, rtol=1e-9)


@pytest.mark.parametrize("wrong", [
    {"pairs": np.array([3.0, 2.0]), "changes": np.ones(2)},
    {"pairs": np.array([2.5]), "changes": np.ones(1)},
    {"pairs": np.array([float(WIDTH_LAWS * K_LAWS)]), "changes": np.ones(1)},
    {"pairs": np.array([2.0]), "changes": np.ones(2)},
    {"pairs": np.array([2.0]), "changes": np.array([-50.0])},
])  # fmt: skip
def test_states_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="array '(pairs|changes)'"):
        HINGE.check_state(MODEL.start(PRIOR)._replace(**wrong))
