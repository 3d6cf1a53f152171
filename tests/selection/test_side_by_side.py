"""Each setting and fold that learns beside others has the bits of training it alone, in memory, on disk and on a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist import MultinomialNB
from sdem_dist.corpus.folds import Folds
from sdem_dist.engine.dask import DaskExecutor
from sdem_dist.engine.executor import InProcess
from sdem_dist.inputs.source import source_of
from sdem_dist.selection.side_by_side import Documents, SideBySide
from sdem_dist.selection.trials import Trial

SETTINGS = [
    {},
    {"loss": "ncll", "step": 0.5},
    {"loss": "ncll", "step": 2.0, "class_weight": "balanced"},
    {"weighting": "log", "min_df": 3, "norm": 5.0},
    {"weighting": "counts", "norm": None},
    {"n_lanes": 3, "rounds_per_epoch": 2},
    {"merge": "sum", "batch_size": 50, "loss": "ncll"},
    {"loss": "nll", "alpha": 0.1},
    {"loss": "nll", "alpha": 1.0, "class_weight": {"a": 2.0}},
    {"loss": "nll", "alpha": 1.0, "n_lanes": 3},
]
EPOCHS = 3


def estimator(number):
    settings = SETTINGS[number]
    if settings.get("loss") == "nll":
        return MultinomialNB(**settings, n_jobs=1)
    return MultinomialNB(**settings, n_epochs=EPOCHS, validation_fraction=0.0, n_jobs=1)


def states(corpus, executor, k=3):
    """Return the state of each (setting, fold) after as many epochs as it would have alone, and the scores out of fold."""
    source = source_of(MultinomialNB(), corpus)
    folds = Folds(corpus, k)
    n = corpus.n_documents
    documents = Documents(source, folds, None, corpus.labels(), np.ones(n), folds.numbers)
    trials = [Trial(i, settings, EPOCHS) for i, settings in enumerate(SETTINGS)]
    side, found, scores = SideBySide(estimator, documents, trials, executor), {}, {}
    for epoch in range(EPOCHS):
        scores |= side.epoch(epoch)
        if epoch == 0:
            counting = {i for i, settings in enumerate(SETTINGS) if settings.get("loss") == "nll"}
            found |= {place: [np.array(f) for f in s] for place, s in side.states() if place.trial in counting}
            side.keep(set(range(len(SETTINGS))) - counting)
    found |= {place: [np.array(f) for f in s] for place, s in side.states()}
    side.close()
    return found, scores


@pytest.fixture(scope="module")
def beside(corpus):
    with InProcess(1) as executor:
        return states(corpus, executor)


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_the_bits_of_training_alone(number, corpus, beside):
    found, scores = beside
    folds = corpus.folds(3)
    for fold in range(3):
        alone = estimator(number).fit(folds.train(fold))
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(found[number, fold], alone.state_, strict=True))
        inside = folds.numbers == fold
        whole = corpus.read(0, corpus.n_documents)
        expected = alone.set_params(calibrate=False).predict_log_proba(whole.to_csr()[inside])
        ours = scores[number].scores[inside]
        temperature = alone.temperature_
        assert temperature == 1.0
        assert ours == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_settings_and_folds_differ_so_that_equality_means_something(beside):
    assert len({state[0].tobytes() for state in beside[0].values()}) >= 3 * (len(SETTINGS) - 1)


def test_the_same_bits_on_threads_and_on_a_cluster(corpus, beside, client):
    with InProcess(2) as threads:
        others = [states(corpus, threads), states(corpus, DaskExecutor(client))]
    for found, scores in others:
        assert found.keys() == beside[0].keys()
        for place, state in found.items():
            assert all(np.array_equal(a, b) for a, b in zip(state, beside[0][place], strict=True))
        for number, predicted in scores.items():
            assert np.array_equal(predicted.scores, beside[1][number].scores)


def test_settings_that_come_to_the_same_share_their_models(corpus):
    n = corpus.n_documents
    source, folds = source_of(MultinomialNB(), corpus), Folds(corpus, 3)
    documents = Documents(source, folds, None, corpus.labels(), np.ones(n), folds.numbers)
    settings = [{}, {"step": 0.5}, {"loss": "hinge", "weighting": "tfidf"}, {"step": 0.5, "norm": 10.0}]

    def made(number):
        return MultinomialNB(**settings[number], n_epochs=1, validation_fraction=0.0, n_jobs=1)

    with InProcess(1) as executor:
        trials = [Trial(i, of, EPOCHS) for i, of in enumerate(settings)]
        side = SideBySide(made, documents, trials, executor)
        assert sorted(place.trial for chunk in side.chunks for place in chunk.places) == [0, 0, 0, 1, 1, 1]
        found = side.epoch(0)
        assert found.keys() == {0, 1, 2, 3}
        assert found[2] is found[0]
        assert not np.array_equal(found[1].scores, found[0].scores)
        trials[1].alive = trials[2].alive = False  # the third goes on with the models of the second, which has ended
        side.keep({0, 3})
        found = side.epoch(1)
        assert found.keys() == {0, 3}
        alone = made(3).set_params(n_epochs=2).fit(folds.train(0))
        (words,) = (state.words for place, state in side.states() if place == (1, 0))
        assert np.array_equal(words, alone.state_.words)
        side.close()
