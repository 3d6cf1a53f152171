"""Few documents: folds of them give the temperature, and say what to expect of new documents."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import random_counts

import sdem_dist as sd
from sdem_dist import MultinomialNB
from sdem_dist.engine.events import StageEnded
from sdem_dist.fitting import holdout
from sdem_dist.fitting.defaults import N_FOLDS

ALL, LABELS = random_counts(1_300, 80, 3, seed=2, length=20.0)
(X, Y), (X_NEW, Y_NEW) = (ALL[:300], LABELS[:300]), (ALL[300:], LABELS[300:])
DOCUMENT = np.arange(300)


def scored(model):
    found = model.evaluate(X_NEW, Y_NEW)
    return found["accuracy"], found["ncll"]


@pytest.mark.parametrize(("n_documents", "n_folds"), [(150, 3), (300, 2), (900, 1)])
def test_folds_come_first_until_200_documents_are_scored_and_all_documents_are_trained_on(n_documents, n_folds):
    events, some = [], slice(n_documents)
    model = MultinomialNB().fit(ALL[some], LABELS[some], callbacks=[events.append])
    stages = [e.stage for e in events if isinstance(e, StageEnded)]
    assert stages == [*(f"fold {number + 1} of {N_FOLDS}" for number in range(n_folds)), "train"]
    whole = MultinomialNB(validation_fraction=0.0).fit(ALL[some], LABELS[some])
    np.testing.assert_array_equal(model.state_.words, whole.state_.words)
    assert model.temperature_ != 1.0 == whole.temperature_


@pytest.mark.parametrize("loss", ["hinge", "ncll"])
def test_the_temperature_is_close_to_the_best_of_new_documents(loss):
    """What folds expect comes true, and no other temperature would have done much better."""
    model = MultinomialNB(loss=loss).fit(X, Y)
    accuracy, log_loss = scored(model)
    assert model.best_entry_["held_out_accuracy"] == pytest.approx(accuracy, abs=0.06)
    assert model.best_entry_["held_out_log_loss"] == pytest.approx(log_loss, abs=0.12)
    assert log_loss < 1.05 * model.evaluate(X_NEW, Y_NEW)["tempered_log_loss"]
    assert log_loss < scored(MultinomialNB(loss=loss, calibrate=False).fit(X, Y))[1]


def test_one_figure_of_all_folds_is_no_curve():
    """Figures that are of the whole training stand in the last entry of a history alone."""
    model = MultinomialNB().fit(X, Y)
    assert ["held_out_accuracy" in entry for entry in model.history_] == [False] * (model.n_iter_ - 1) + [True]


def test_labels_without_meaning_get_probabilities_without_certainty():
    rng = np.random.default_rng(0)
    noise, labels = sp.csr_matrix(rng.poisson(0.5, (600, 60))), rng.integers(0, 3, 600)
    model = MultinomialNB().fit(noise[:150], labels[:150])
    assert model.evaluate(noise[150:], labels[150:])["ncll"] < np.log(3) + 0.03


def test_where_all_folds_are_right_probabilities_stay_below_one():
    """Some n documents without an error do not show that errors are rarer than one in n."""
    counts = sp.csr_matrix(np.tile([[3, 0], [0, 3]], (20, 1)))
    p = MultinomialNB().fit(counts, np.tile([0, 1], 20)).predict_proba(counts)
    assert 0.9 < p.max(axis=1).min() <= p.max() < 0.999


def test_the_same_bits_from_disk_on_any_number_of_jobs(tmp_path):
    corpus = sd.write_corpus(tmp_path / "c.zarr", X, Y, random_state=0)
    models = [MultinomialNB(n_jobs=n).fit(corpus) for n in (1, 2)]
    assert models[0].temperature_ == models[1].temperature_
    np.testing.assert_array_equal(models[0].state_.words, models[1].state_.words)


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_groups_that_are_too_few_for_folds_do_not_stop_a_fit(tmp_path, n_groups):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.3, (300, 40)), rng.integers(0, 2, 300)
    X[:, 0] += y
    corpus = sd.write_corpus(tmp_path / "c.zarr", X, y, groups=rng.integers(0, n_groups, 300))
    kept = MultinomialNB().fit(corpus).best_entry_
    assert 0.5 < kept["held_out_accuracy"] <= 1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_fold_of_documents_of_weight_zero_does_not_stop_a_fit(seed):
    few = np.concatenate([np.flatnonzero(label == Y)[seed : seed + 1] for label in np.unique(Y)])
    model = MultinomialNB().fit(X, Y, sample_weight=np.isin(DOCUMENT, few).astype(float))
    assert np.isfinite(model.temperature_)


def test_a_fold_is_not_trained_on(trained_stages, monkeypatch):
    """Another label in a fold changes the other folds' models, and not its own."""
    folds = DOCUMENT % N_FOLDS  # whatever the labels are
    monkeypatch.setattr(holdout.Folds, "numbers", property(lambda self: folds))
    changed = sd.corpus.MemoryCorpus(X, Y, (0, 1, 2), random_state=0).order[folds == 1]
    other = Y.copy()
    other[changed] = (other[changed] + 1) % 3
    for y in (Y, other):
        MultinomialNB(loss="hinge", class_prior=[0.3, 0.3, 0.4]).fit(X, y)
    for name, same in (("fold 2 of 3", True), ("fold 1 of 3", False)):
        first, second = (result.state.words for stage, result in trained_stages if stage == name)
        assert np.array_equal(first, second) == same


def test_fewer_documents_than_folds_can_judge_keep_their_scores():
    assert MultinomialNB().fit(X[:5], [0, 1, 0, 1, 2]).temperature_ == 1.0
    assert MultinomialNB(calibrate=False).fit(X, Y).temperature_ == 1.0
