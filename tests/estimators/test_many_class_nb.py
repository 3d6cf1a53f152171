"""ManyClassNB is MultinomialNB without its table."""

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok
from scipy.special import log_softmax

import sdem_dist as sd
from sdem_dist.cli import predict as prediction
from sdem_dist.kernels.many_classes import ENTRIES
from sdem_dist.models import many_classes

N, WIDTH, K = 1_200, 500, 150
RNG = np.random.default_rng(0)
Y = np.arange(N) % K
OWN = RNG.integers(0, WIDTH, (K, 12))
WORDS = np.where(
    RNG.random((N, 20)) < 0.4, OWN[Y[:, None], RNG.integers(0, 12, (N, 20))], RNG.integers(0, WIDTH, (N, 20))
)
X = sp.csr_matrix((np.ones(WORDS.size), (np.repeat(np.arange(N), 20), WORDS.ravel())), shape=(N, WIDTH))
TRAIN, TEST = slice(0, 900), slice(900, N)
FIXED = {"n_epochs": 3, "calibrate": False}


def test_nll_is_that_of_multinomial_nb():
    dense = sd.MultinomialNB(loss="nll", alpha=0.3).fit(X[TRAIN], Y[TRAIN])
    found = sd.ManyClassNB(loss="nll", alpha=0.3).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(
        found.predict_joint_log_proba(X[TEST]), dense.predict_joint_log_proba(X[TEST]), rtol=1e-10
    )
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
    longest = np.bincount(model.state_.split()[0])
    assert longest[-60:].sum() > ENTRIES
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
    assert plain.temperature_ == 1.0 != model.temperature_
    assert (plain.n_iter_, model.n_iter_) == (3, 4)
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


def test_documents_without_an_error_do_not_show_that_there_are_none():
    easy = sp.csr_matrix(np.eye(6)[np.arange(400) % 6])
    model = sd.ManyClassNB().fit(easy, np.arange(400) % 6)
    assert model.history_[-1]["held_out_accuracy"] == 1.0
    assert 0.9 < model.predict_proba(easy).max(axis=1).min() < 0.999  # some 40 documents


@pytest.mark.parametrize("weighting", ["auto", "counts"])
def test_classes_that_training_has_not_seen_say_nothing_of_the_temperature(weighting, caplog):
    y = np.arange(400)  # one document each: whoever is held out is of a class without documents
    model = sd.ManyClassNB(weighting=weighting).fit(X[:400], y)
    assert "is a guess" in caplog.text
    assert "held_out_accuracy" not in model.history_[-1]
    again = X[:400].copy()
    again.data[::2] = 0.0  # half the words of each
    loss = log_losses(model, again, y)
    assert loss(model.temperature_) < min(0.5, 0.5 * loss(1.0))


def test_held_out_documents_of_weight_zero_say_nothing_of_the_temperature(caplog, tmp_path):
    weights = np.where(np.arange(900) % 90 == 0, 1.0, 0.0)
    corpus = sd.write_corpus(tmp_path / "c", X[TRAIN], np.arange(900) // 90 % 2, sample_weight=weights)
    model = sd.ManyClassNB().fit(corpus)
    assert "is a guess" in caplog.text
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
