"""What Optuna proposes: each setting once, as many as are asked for or as there are."""

from __future__ import annotations

import numpy as np
import pytest
from fitting.test_loss_by_overlap import documents as overlapping
from scipy.stats import randint, uniform

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.inputs.source import source_of
from sdem_dist.selection.samplers import Sampler, sampler_of
from sdem_dist.selection.spaces import are_equal, spelled_out
from sdem_dist.selection.trials import Trial

pytest.importorskip("optuna")
Y = np.arange(60) % 2
X = np.random.default_rng(0).poisson(1.0, (60, 6)).astype(float)
GRID = {"alpha": np.linspace(0.01, 0.9, 6).tolist(), "step": np.linspace(0.1, 0.9, 6).tolist()}
MODEL = MultinomialNB(loss="hinge")
SOURCE = source_of(MODEL, X, Y)


def proposed(space, n_trials, seed=0) -> Sampler:
    return sampler_of("optuna", MODEL, space, n_trials, seed, SOURCE)


def far(params):
    """Return a score that is best in one corner."""
    return -abs(params.get("alpha", 1.0) - 0.01) - abs(params.get("step", 1.0) - 0.1)


def tried(sampler, score=far):
    """Return all settings that a sampler gives when it is told their scores."""
    found = []
    while asked := sampler.ask(8):
        trials = [Trial(len(found) + i, params, 20) for i, params in enumerate(asked)]
        for trial in trials:
            trial.scores = {"accuracy": np.array([score(trial.params)])}
        sampler.tell(trials, "accuracy")
        found += asked
    return found


def all_differ(found):
    whole = [spelled_out(MODEL, params, SOURCE) for params in found]
    return not any(are_equal(a, b) for i, a in enumerate(whole) for b in whole[:i])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_trials", [20, 36, 41])
def test_a_grid_is_tried_as_far_as_is_asked_for(n_trials, seed):
    sampler = proposed(GRID, n_trials, seed)
    n = min(n_trials, 37)
    assert sampler.most == n, "a budget counts no setting that there is not"
    found = tried(sampler)
    assert len(found) == n and all_differ(found)


@pytest.mark.parametrize(
    ("space", "n"),
    [
        ({"min_df": randint(1, 4), "weighting": ["tfidf", "log"], "step": [0.1, 0.3, 0.5, 0.7]}, 25),
        ([{"alpha": [0.1, 0.2]}, {}, {"loss": ["nll"], "step": uniform(0.1, 0.5)}], 4),
        ({"step": uniform(0.1, 0.5)}, 30),
    ],
    ids=["whole numbers", "a distribution that does not matter", "any number"],
)
def test_a_space_with_distributions_is_tried_as_far_as_it_goes(space, n):
    found = tried(proposed(space, 30))
    assert all_differ(found) and len(found) <= n
    assert len(found) == n


def test_a_repeat_teaches_the_score_of_the_first():
    sampler = proposed(GRID, 30)
    tried(sampler)
    of_point = {}
    for trial in sampler._study.trials:
        assert trial.state.name == "COMPLETE", "none fails, and none waits for ever"
        of_point.setdefault(str(trial.params), set()).add(trial.value)
    assert len(sampler._study.trials) > len(of_point), "some were proposed again"
    assert all(len(values) == 1 for values in of_point.values())


def test_scores_are_told_of_the_setting_that_has_them_when_others_were_left_out():
    sampler = proposed(GRID, 30)
    first = sampler.ask(8)
    left = [Trial(i, params, 20, scores={"accuracy": np.array([far(params)])}) for i, params in enumerate(first[:5])]
    sampler.tell(left, "accuracy")  # a budget had no room for three
    later = [Trial(5 + i, params, 20) for i, params in enumerate(sampler.ask(8))]
    for trial in later:
        trial.scores = {"accuracy": np.array([far(trial.params)])}
    sampler.tell(later, "accuracy")
    values = {(t.params["0 alpha"], t.params["0 step"]): t.value for t in sampler._study.trials if t.value is not None}
    for (i, j), value in values.items():
        params = {"alpha": GRID["alpha"][i], "step": GRID["step"][j]}
        default = are_equal(*(spelled_out(MODEL, own, SOURCE) for own in ({}, params)))
        assert value == far({} if default else params)


def test_settings_of_a_settled_loss_are_tried_once():
    X, y = overlapping(900, 4, 2)
    alphas = np.linspace(0.1, 0.9, 9).tolist()
    space = [{"alpha": alphas}, {"loss": ["ncll"], "alpha": alphas}]
    more = {
        "cv": 2,
        "sampler": "optuna",
        "n_trials": 20,
        "n_jobs": 1,
        "refit": False,
        "max_epochs": 1,
        "random_state": 2,
    }
    found = CorpusSearchCV(MultinomialNB(), space, **more).fit(X, y)
    assert found.tuned_.loss == "ncll" and found.n_settings_ == len(found.trials_)
    own = [spelled_out(found.tuned_, trial.params, source_of(found.tuned_, X, y)) for trial in found.trials_]
    assert len(own) > 8, "there is a turn after the loss is settled"
    assert not any(are_equal(own[i], own[j]) for i in range(8, len(own)) for j in range(i))


def test_the_default_space_is_tried_as_far_as_is_asked_for(documents):
    more = {"cv": 2, "sampler": "optuna", "n_jobs": 1, "refit": False, "max_epochs": 1}
    found = CorpusSearchCV(MultinomialNB(), n_trials=30, **more).fit(*documents[:2])
    assert len(found.trials_) == 30 and "no other" not in found.summary()
