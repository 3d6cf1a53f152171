"""What is tried: spaces without what the estimator was given, each setting once, as many as are asked for or there are."""

import numpy as np
import pytest
from scipy.stats import loguniform, randint, uniform
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

import sdem_dist
from sdem_dist import KMeans, MultiLabelNB, MultinomialNB, SupervisedLDAClassifier
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.estimators import parameters
from sdem_dist.losses import Hinge
from sdem_dist.selection.spaces import SAMPLERS, default_space, sampler_of
from sdem_dist.selection.trials import FoldScores, Trial

GRID = {"alpha": np.linspace(0.01, 0.9, 6).tolist(), "step": np.linspace(0.1, 0.9, 6).tolist()}
MODEL = MultinomialNB(loss="hinge")


def far(params):
    return -abs(params.get("alpha", 1.0) - 0.01) - abs(params.get("step", 1.0) - 0.1)


def tried(sampler):
    settings = list[dict[str, object]]()
    while turn := sampler.ask():
        trials = [Trial(i, params, [FoldScores({"accuracy": far(params)}, None, 0.0)]) for i, params in enumerate(turn)]
        sampler.tell(trials, "accuracy")
        settings += turn
    return settings


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
    ids=lambda value: repr(sorted(value) if isinstance(value, set) else value),
)
def test_what_is_given_is_not_tried(model, given):
    names = {name for part in default_space(model) for name in part}
    usual = {name for part in default_space(type(model)()) for name in part}
    assert names < usual and not names & given


def test_a_loss_that_is_given_has_its_own_steps_alone():
    (of_ncll,) = default_space(MultinomialNB(loss="ncll"))
    assert of_ncll["step"] == [0.5, 1.0, 2.0] and "loss" not in of_ncll
    assert default_space(MultinomialNB(loss="nll")) == [{"alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_a_space_of_its_own_whose_settings_it_takes(name):
    model = getattr(sdem_dist, name)()
    space = default_space(model)
    settings = tried(sampler_of("random", model, space, None, 0))
    assert settings[0] == {} and 1 < len(settings) <= 1 + sum(len(ParameterGrid(part)) for part in space)
    for params in settings:
        parameters.check(clone(model).set_params(**params))
    assert not any("weighting" in part for part in default_space(model, weighted=True))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("space", "n_trials", "n"),
    [
        (GRID, 20, 20),
        (GRID, 36, 36),
        (GRID, 41, 37),
        ([{"step": list(np.linspace(0.01, 0.9, 60))}, {"alpha": [0.5]}, {"loss": ["nll"]}], 22, 22),
        ({"step": loguniform(0.05, 2.0), "loss": ["hinge", "ncll"]}, 12, 12),
        ({"min_df": randint(1, 4), "step": [0.1, 0.3]}, 30, 7),
        ([{"alpha": [0.1, 0.2]}, {"step": uniform(0.1, 0.5)}], 12, 12),
        ({"class_prior": [np.array([0.2, 0.8]), np.array([0.8, 0.2]), np.array([0.2, 0.8])]}, 9, 3),
        ({"unlabelled": [float("nan"), float("nan")]}, 9, 2),
        ({"step": [None], "loss": ["hinge"]}, 5, 1),
        ({}, 4, 1),
        ([], 4, 1),
    ],
)
def test_as_many_are_tried_as_are_asked_for_or_there_are(sampler, seed, space, n_trials, n):
    if sampler == "optuna":
        pytest.importorskip("optuna")
    settings = tried(sampler_of(sampler, MODEL, space, n_trials, seed))
    assert settings[0] == {} and len({repr(sorted(params.items())) for params in settings}) == len(settings) == n
    again = tried(sampler_of(sampler, MODEL, space, n_trials, seed))
    assert repr(again) == repr(settings)


def test_optuna_learns_from_scores_and_is_told_of_repeats():
    pytest.importorskip("optuna")
    sampler = sampler_of("optuna", MODEL, GRID, 30, 0)
    settings = tried(sampler)
    late, early = (np.mean([far(params) for params in part]) for part in (settings[16:24], settings[1:8]))
    assert late > early
    values = {}
    for trial in sampler._study.trials:
        assert trial.state.name == "COMPLETE", "none fails, and none waits for ever"
        values.setdefault(str(trial.params), set()).add(trial.value)
    assert all(len(own) == 1 for own in values.values())


def test_optuna_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(ImportError, match="pip install"):
        sampler_of("optuna", MODEL, GRID, 5, 0)
