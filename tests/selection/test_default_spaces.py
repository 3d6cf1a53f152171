"""The space of an estimator leaves out what the estimator was given."""

from __future__ import annotations

import numpy as np
import pytest
from fitting.test_loss_by_overlap import documents as overlapping

from sdem_dist import (
    CorpusSearchCV,
    KMeans,
    LatentDirichletAllocation,
    ManyClassNB,
    MultiLabelNB,
    MultinomialNB,
    SdemMixtureClassifier,
    SupervisedLDAClassifier,
)
from sdem_dist.inputs.source import source_of
from sdem_dist.losses import Hinge
from sdem_dist.selection.spaces import are_equal, default_space, settings

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 120)
X = RNG.poisson(1.0 + 2.0 * np.eye(2)[Y].repeat(3, axis=1)).astype(float)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (SupervisedLDAClassifier(n_components=5), {"n_components"}),
        (KMeans(n_clusters=3), {"n_clusters"}),
        (MultinomialNB(alpha=0.5, min_df=3), {"alpha", "min_df"}),
        (MultinomialNB(loss="hinge", step=0.3), {"loss", "step"}),
        (MultinomialNB(loss=Hinge(margin=2.0)), {"loss", "step"}),
        (MultiLabelNB(loss="ncll"), {"loss"}),
    ],
    ids=repr,
)
def test_what_is_given_is_not_tried(model, given):
    tried = {name for part in default_space(model) for name in part}
    usual = {name for part in default_space(type(model)()) for name in part}
    assert tried < usual and not tried & given


def test_a_loss_that_is_given_has_its_own_steps_alone():
    (of_ncll,) = default_space(MultinomialNB(loss="ncll"))
    assert of_ncll["step"] == [0.5, 1.0, 2.0] and "loss" not in of_ncll
    assert default_space(MultinomialNB(loss="nll")) == [{"alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}]


@pytest.mark.parametrize("sampler", ["random", "optuna"])
def test_where_nothing_is_left_the_estimator_alone_is_tried(sampler):
    if sampler == "optuna":
        pytest.importorskip("optuna")
    found = CorpusSearchCV(KMeans(3, n_init=1, random_state=0), cv=2, n_trials=4, sampler=sampler, n_jobs=1).fit(X)
    assert [trial.params for trial in found.trials_] == [{}] and found.best_estimator_.n_clusters == 3
    (first,) = found.summary().splitlines()[:1]
    assert first == "Tried 1 setting, each on 2 folds; the default space has no other:"
    assert "No other setting was tried." in found.summary() and "better than the default" not in found.summary()
    assert "Distances fall with more clusters" in found.summary()


def test_a_draw_that_is_the_default_in_other_words_is_drawn_again():
    short = {"cv": 2, "n_jobs": 1, "refit": False, "random_state": 0}
    for seed in range(6):  # one of four values is the default
        of = LatentDirichletAllocation(n_epochs=1, n_jobs=1)
        found = CorpusSearchCV(of, n_trials=2, **short | {"random_state": seed}).fit(X)
        assert len(found.trials_) == 2 and "no other" not in found.summary()
    of = SdemMixtureClassifier(n_epochs=1, n_jobs=1)
    found = CorpusSearchCV(of, n_trials=4, **short).fit(X, Y)
    assert len(found.trials_) == 4 and "no other" not in found.summary()
    found = CorpusSearchCV(of, n_trials=5, **short).fit(X, Y)
    assert len(found.trials_) == 4 and "; the default space has no other:" in found.summary()


def test_what_is_not_set_is_told_so():
    said = CorpusSearchCV(MultinomialNB(), {"step": [0.5]}, cv=2, n_jobs=1, refit=False).fit(X, Y).summary()
    assert "not set" in said and "None" not in said
    assert "after as many epochs (-: no two differ so)" in " ".join(said.split())


@pytest.mark.parametrize("sampler", ["random", "optuna"])
def test_arrays_are_told_apart_by_their_values(documents, sampler):
    if sampler == "optuna":
        pytest.importorskip("optuna")
    priors = [np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])]
    found = CorpusSearchCV(
        MultinomialNB(loss="nll"), {"class_prior": priors}, cv=2, sampler=sampler, n_trials=9, refit=False
    ).fit(*documents[:2])
    assert len(found.trials_) == 3


def test_a_step_that_is_the_default_is_tried_once(documents):
    found = CorpusSearchCV(ManyClassNB(n_epochs=1), cv=2, refit=False).fit(*documents[:2])
    assert [trial.params["step"] for trial in found.trials_ if "step" in trial.params] == [0.1, 0.4]


def test_nan_is_equal_to_itself():
    nan = float("nan")
    assert are_equal({"unlabelled": nan, "alpha": 1.0}, {"unlabelled": nan, "alpha": 1.0})
    model = MultinomialNB(unlabelled=nan, loss="hinge")
    assert len(settings(model, {"alpha": [0.1, 0.1, 0.1]}, None, 0, source_of(model, X, Y.astype(float)))) == 2


def test_a_large_space_beside_small_ones_is_drawn_from_until_there_are_as_many_as_asked_for():
    model = MultinomialNB(loss="hinge")
    spaces = [{"step": list(np.linspace(0.01, 0.9, 60))}, {"alpha": [0.5]}, {"loss": ["nll"]}]
    assert len(settings(model, spaces, 55, 0, source_of(model, X, Y))) == 55


def test_arrays_beside_a_loss_that_the_folds_settle():
    X, y = overlapping(900, 4, 2)
    priors = [np.full(4, 0.25), np.array([0.4, 0.2, 0.2, 0.2])]
    found = CorpusSearchCV(
        MultinomialNB(), {"loss": ["ncll", "hinge"], "class_prior": priors}, cv=2, n_jobs=1, refit=False
    ).fit(X, y)
    assert found.tuned_.loss == "ncll" and len(found.trials_) == 5
