"""Documents held out, or folds of few, choose training time and temperature; lanes, weights and pseudo-counts change little."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts

import sdem_dist as sd
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.corpus.folds import Folds
from sdem_dist.engine.events import StageEnded
from sdem_dist.engine.trainer import Trainer
from sdem_dist.fitting.defaults import FEW_EPOCHS, FOLDS_HELD_OUT, MAX_EPOCHS, N_FOLDS, SHORT_LANE
from sdem_dist.fitting.holdout import share_held_out
from sdem_dist.inputs.spec import HoldOut
from sdem_dist.models.heads import trained_part

ALL, LABELS = random_counts(2_600, 60, 3, seed=4, length=20.0)
(X, Y), (X_NEW, Y_NEW) = (ALL[:2_200], LABELS[:2_200]), (ALL[2_200:], LABELS[2_200:])


@pytest.fixture
def trained_stages(monkeypatch):
    """The stages that trainers run, in order: each with its result."""
    stages, run = [], Trainer.run

    def run_and_note(self, stage):
        result = run(self, stage)
        stages.append((stage.name, result))
        return result

    monkeypatch.setattr(Trainer, "run", run_and_note)
    return stages


def stages(model, y=Y):
    """Return what the stages of a fit came to: name, epochs and kept epoch."""
    events = []
    model.fit(X, y, callbacks=[events.append])
    return {e.stage: (e.n_epochs, e.best_epoch) for e in events if isinstance(e, StageEnded)}


def test_held_out_documents_choose_and_all_are_then_trained_on():
    model = sd.MultinomialNB()
    found = stages(model)
    assert list(found) == ["choose", "train"]
    n = model.n_iter_
    assert found["train"] == (n, n) and n == found["choose"][1] + 1 <= MAX_EPOCHS
    assert [entry["epoch"] for entry in model.history_] == list(range(1, n + 1))
    assert all({"held_out_accuracy", "held_out_log_loss"} <= set(entry) for entry in model.history_)
    assert model.temperature_ != 1.0
    given = sd.MultinomialNB(n_epochs=n, loss=model.loss_).fit(X, Y)
    np.testing.assert_array_equal(model.state_.words, given.state_.words)
    assert model.temperature_ == given.temperature_


def test_nothing_is_held_out_where_it_would_say_nothing():
    assert share_held_out(0.1, 1_999, FOLDS_HELD_OUT) == 0.0 < share_held_out(0.1, 2_000, FOLDS_HELD_OUT)
    assert share_held_out(0.1, 199) == 0.0 < share_held_out(0.1, 200)
    assert share_held_out(0.1, 10_000_000) == 0.002
    assert stages(sd.MultinomialNB(validation_fraction=0.0)) == {"train": (FEW_EPOCHS, FEW_EPOCHS)}
    assert list(stages(sd.MultinomialNB(n_epochs=3, calibrate=False))) == ["train"]
    assert stages(sd.MultinomialNB(n_epochs=3)) == {"choose": (3, 3), "train": (3, 3)}


def test_held_out_documents_are_not_trained_on(trained_stages):
    rows = MemoryCorpus(X, Y, (0, 1, 2), random_state=0).order[~trained_part(0, 0, len(Y), 0.1)]
    assert 160 < len(rows) < 280
    other = Y.copy()
    other[rows] = (other[rows] + 1) % 3
    one, two = (sd.MultinomialNB(n_epochs=3, class_prior=[0.2, 0.3, 0.5]).fit(X, y) for y in (Y, other))
    first, second = (result.state for name, result in trained_stages if name == "choose")
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history_[0]["held_out_accuracy"] > two.history_[0]["held_out_accuracy"]
    assert not np.array_equal(one.state_.words, two.state_.words), "in the end they are trained on"


def test_the_temperature_is_that_of_the_epoch_after_the_chosen_one(trained_stages):
    """It is the last that all documents are trained for."""
    model, two_epochs = sd.MultinomialNB().fit(X, Y), sd.MultinomialNB(n_epochs=2).fit(X, Y)
    chosen, fixed = ([e["validation_temperature"] for e in r.history] for name, r in trained_stages if name == "choose")
    assert len(set(chosen)) == len(chosen) == model.n_iter_ and model.temperature_ == chosen[-1]
    assert two_epochs.temperature_ == fixed[-1]


def test_words_that_only_held_out_documents_have_are_unknown(tmp_path):
    rows = MemoryCorpus(X, Y, (0, 1, 2), random_state=0).order[~trained_part(0, 0, len(Y), 0.1)]
    own = sp.hstack([X, sp.csr_matrix(np.isin(np.arange(len(Y)), rows).astype(int)[:, None])]).tocsr()
    shared = sp.hstack([X, sp.csr_matrix(np.ones((len(Y), 1), int))]).tocsr()
    for with_more, n_words in ((own, X.shape[1]), (shared, X.shape[1] + 1)):
        all_documents = MemoryCorpus(with_more, Y, (0, 1, 2), random_state=0)
        found = all_documents.transformed(HoldOut(all_documents, 0, 0.1)).read(0, len(Y))
        expected = with_more[rows, :n_words].sorted_indices()
        assert (found.to_csr()[:, :n_words] != expected).nnz == 0 and len(found.data) == expected.nnz
    counts = sp.csr_matrix([[1, 1, 0, 2], [1, 0, 3, 0], [1, 1, 0, 0]])
    some = sd.write_corpus(tmp_path / "c", counts, list("aba"), shuffle=False)
    read = some.subset([1]).transformed(HoldOut(some.document_frequency)).read(0, 3)
    assert read.to_csr().toarray().tolist() == [[1, 0, 0, 0]] and read.weights.tolist() == [1]


def test_a_temperature_lowers_the_log_loss_of_documents_that_nobody_has_seen():
    for loss, most in (("hinge", 1.0), ("ncll", 1.05)):  # what has little to mend may lose a little
        plain = sd.MultinomialNB(loss=loss, calibrate=False).fit(X, Y)
        tempered = sd.MultinomialNB(loss=loss).fit(X, Y)
        assert 0.5 < plain.score(X_NEW, Y_NEW) < 0.97
        np.testing.assert_array_equal(tempered.predict(X_NEW), plain.predict(X_NEW))
        ours, without = (m.evaluate(X_NEW, Y_NEW) for m in (tempered, plain))
        assert ours["ncll"] < most * without["ncll"] and ours["accuracy"] == without["accuracy"]
        p = tempered.predict_log_proba(X_NEW)
        assert ours["ncll"] == pytest.approx(-p[np.arange(400), Y_NEW].mean(), rel=1e-6)


def two_topics(n=6_000, n_words=400, seed=0):
    """Return documents of two classes whose words overlap, as far as reviews do."""
    rng = np.random.default_rng(seed)
    y, frequency = rng.integers(0, 2, n), 1.0 / np.arange(1, n_words + 1)
    tilt = np.exp(0.4 * rng.standard_normal((2, n_words)))
    p = frequency * tilt / (frequency * tilt).sum(axis=1, keepdims=True)
    return sp.csr_matrix(np.array([rng.multinomial(50, p[k]) for k in y])), y


def test_a_heavy_document_goes_no_further_than_the_unit():
    """A step of one document moves its label against a rival by less than 2c, whatever it weighs."""
    weights = np.ones(len(Y))
    settings = {"loss": "hinge", "n_epochs": 1, "validation_fraction": 0.0, "random_state": 0}
    weights[5] = 50.0
    once = sd.MultinomialNB(**settings).fit(X[5:7], Y[5:7], sample_weight=weights[5:7])
    one = sd.MultinomialNB(**settings).fit(X[5:7], Y[5:7])
    np.testing.assert_allclose(once.feature_log_prob_, one.feature_log_prob_, atol=0.02)
    heavy = sd.MultinomialNB().fit(X, Y, sample_weight=np.full(len(Y), 50.0))
    light = sd.MultinomialNB().fit(X, Y)
    assert abs(heavy.score(X_NEW, Y_NEW) - light.score(X_NEW, Y_NEW)) <= 0.02


@pytest.mark.parametrize(("kind", "several"), [(sd.MultinomialNB, 0), (sd.MultiLabelNB, 0), (sd.MultiLabelNB, 1)])
def test_held_out_documents_of_weight_zero_choose_nothing(kind, several, caplog, tmp_path):
    weights = trained_part(0, 0, len(Y), 0.1).astype(float)
    y = [(f"a{k}", f"b{k % 2}") for k in Y] if several else Y
    model = kind().fit(sd.write_corpus(tmp_path / "c", X, y, sample_weight=weights, shuffle=False))
    assert "no held-out document has a weight above 0" in caplog.text
    assert model.n_iter_ == FEW_EPOCHS and np.isfinite(model.predict_proba(X_NEW)).all()


def test_lanes_change_little():
    documents, y = two_topics()
    models = [sd.MultinomialNB(n_lanes=n).fit(documents[:4_000], y[:4_000]) for n in (1, 4, 16)]
    scores = [model.evaluate(documents[4_000:], y[4_000:]) for model in models]
    assert len({of["ncll"] for of in scores}) == 3 and np.ptp([of["accuracy"] for of in scores]) <= 0.015
    assert max(of["ncll"] for of in scores) <= 1.15 * min(of["ncll"] for of in scores)


def test_short_lanes_warn_and_others_do_not():
    X, y = np.eye(2, dtype=int)[np.arange(2 * SHORT_LANE) % 2], np.arange(2 * SHORT_LANE) % 2
    settings = {"rounds_per_epoch": 1, "n_epochs": 1, "calibrate": False}
    with pytest.warns(UserWarning, match="n_lanes=3 leaves 200 documents per lane in a round") as found:
        sd.MultinomialNB(n_lanes=3, **settings).fit(X, y)
    assert [warning.filename for warning in found] == [__file__]  # the line of who called
    with pytest.warns(UserWarning, match="n_lanes=1,000 leaves 1 document per lane"):
        sd.MultinomialNB(n_lanes=1_000, **settings).fit(X[:40], y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_lanes in (None, 1, 2):
            sd.MultinomialNB(n_lanes=n_lanes, **settings).fit(X, y)
        sd.MultinomialNB(n_lanes=3, weighting="counts", **settings).fit(X, y)  # they gain from short lanes


EVERY, KINDS = random_counts(1_300, 80, 3, seed=2, length=20.0)
(X_FEW, Y_FEW), (X_MORE, Y_MORE) = (EVERY[:300], KINDS[:300]), (EVERY[300:], KINDS[300:])
DOCUMENT = np.arange(300)


@pytest.mark.parametrize(("n_documents", "n_folds"), [(150, 3), (300, 2), (900, 1)])
def test_folds_come_first_until_200_documents_are_scored_and_all_documents_are_trained_on(n_documents, n_folds):
    events, some = [], slice(n_documents)
    model = sd.MultinomialNB().fit(EVERY[some], KINDS[some], callbacks=[events.append])
    stages = [e.stage for e in events if isinstance(e, StageEnded)]
    assert stages == [*(f"fold {number + 1} of {N_FOLDS}" for number in range(n_folds)), "train"]
    whole = sd.MultinomialNB(validation_fraction=0.0).fit(EVERY[some], KINDS[some])
    np.testing.assert_array_equal(model.state_.words, whole.state_.words)
    assert model.temperature_ != 1.0 == whole.temperature_
    # figures of all folds are no curve: they stand in the last entry of a history alone
    assert ["fold_accuracy" in entry for entry in model.history_] == [False] * (model.n_iter_ - 1) + [True]


@pytest.mark.parametrize("loss", ["hinge", "ncll"])
def test_the_temperature_is_close_to_the_best_of_new_documents(loss):
    """What folds expect comes true, and no other temperature would have done much better."""
    model = sd.MultinomialNB(loss=loss).fit(X_FEW, Y_FEW)
    found = model.evaluate(X_MORE, Y_MORE)
    uncalibrated = sd.MultinomialNB(loss=loss, calibrate=False).fit(X_FEW, Y_FEW).evaluate(X_MORE, Y_MORE)
    assert model.best_entry_["fold_accuracy"] == pytest.approx(found["accuracy"], abs=0.06)
    assert model.best_entry_["fold_log_loss"] == pytest.approx(found["ncll"], abs=0.12)
    assert found["ncll"] < min(1.05 * found["tempered_log_loss"], uncalibrated["ncll"])


def test_labels_without_meaning_get_probabilities_without_certainty():
    rng = np.random.default_rng(0)
    noise, labels = sp.csr_matrix(rng.poisson(0.5, (600, 60))), rng.integers(0, 3, 600)
    model = sd.MultinomialNB().fit(noise[:150], labels[:150])
    assert model.evaluate(noise[150:], labels[150:])["ncll"] < np.log(3) + 0.03


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_groups_that_are_too_few_for_folds_do_not_stop_a_fit(tmp_path, n_groups):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.3, (300, 40)), rng.integers(0, 2, 300)
    X[:, 0] += y
    corpus = sd.write_corpus(tmp_path / "c.zarr", X, y, groups=rng.integers(0, n_groups, 300))
    assert 0.5 < sd.MultinomialNB().fit(corpus).best_entry_["fold_accuracy"] <= 1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_fold_of_documents_of_weight_zero_does_not_stop_a_fit(seed):
    few = np.concatenate([np.flatnonzero(label == Y_FEW)[seed : seed + 1] for label in np.unique(Y_FEW)])
    model = sd.MultinomialNB().fit(X_FEW, Y_FEW, sample_weight=np.isin(DOCUMENT, few).astype(float))
    assert np.isfinite(model.temperature_)


def test_a_fold_is_not_trained_on(trained_stages, monkeypatch):
    """Another label in a fold changes the other folds' models, and not its own."""
    folds = DOCUMENT % N_FOLDS  # whatever the labels are
    monkeypatch.setattr(Folds, "numbers", property(lambda self: folds))
    changed = sd.corpus.MemoryCorpus(X_FEW, Y_FEW, (0, 1, 2), random_state=0).order[folds == 1]
    other = Y_FEW.copy()
    other[changed] = (other[changed] + 1) % 3
    for y in (Y_FEW, other):
        sd.MultinomialNB(loss="hinge", class_prior=[0.3, 0.3, 0.4]).fit(X_FEW, y)
    for name, same in (("fold 2 of 3", True), ("fold 1 of 3", False)):
        first, second = (result.state.words for stage, result in trained_stages if stage == name)
        assert np.array_equal(first, second) == same


def test_fewer_documents_than_folds_can_judge_keep_their_scores():
    assert sd.MultinomialNB().fit(X_FEW[:5], [0, 1, 0, 1, 2]).temperature_ == 1.0
    assert sd.MultinomialNB(calibrate=False).fit(X_FEW, Y_FEW).temperature_ == 1.0
