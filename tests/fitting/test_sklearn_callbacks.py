"""Callbacks of scikit-learn are told of fits, their stages and their epochs, and may end a stage."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sdem_dist import GaussianNB, MultinomialNB, open_corpus, write_corpus

callback = pytest.importorskip("sklearn.callback")
RNG = np.random.default_rng(0)
Y = np.arange(120) % 2
X = RNG.poisson(1.0 + (np.arange(6) % 2 == Y[:, None]))


class Told:
    def __init__(self, *, fails=False):
        self.told, self.fails = [], fails

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(("begin", context.task_name, context.max_subtasks))
        if self.fails:
            raise RuntimeError("no")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        score = None if fitted_estimator is None else fitted_estimator.score(X, y)
        self.told.append(("end", context.task_name, score))


def test_a_fit_its_stages_and_its_epochs():
    told = Told()
    model = MultinomialNB(n_epochs=3, n_lanes=1, validation_fraction=0.0).set_callbacks(told)
    events = []
    model.fit(X, Y, callbacks=[events.append])
    assert told.told[:2] == ["setup", ("begin", "fit", None)] and told.told[-1] == "teardown"
    assert told.told[-2] == ("end", "fit", model.score(X, Y))
    stages = [(e.stage, e.n_epochs) for e in events if type(e).__name__ == "StageStarted"]
    assert [t[1:] for t in told.told if t[0] == "begin" and t[1] not in ("fit", "epoch")] == stages
    epochs = sum(type(e).__name__ == "EpochEnded" for e in events)
    assert [sum(t[:2] == (what, "epoch") for t in told.told) for what in ("begin", "end")] == [epochs, epochs]
    assert epochs >= 3
    plain = MultinomialNB(n_epochs=3, n_lanes=1, validation_fraction=0.0).fit(X, Y)
    np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))


class Enough(Told):
    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        return context.task_name == "epoch" and context.task_id == self.epochs - 1


def ended(**settings):
    """Return the stages of a fit that a callback ends after two epochs, and the model."""
    events = []
    model = MultinomialNB(n_lanes=2, random_state=0, **settings).set_callbacks(Enough(2))
    model.fit(X, Y, callbacks=[events.append])
    return [e for e in events if type(e).__name__ == "StageEnded"], model


def test_a_callback_that_asks_to_stop_ends_its_stage_after_that_epoch():
    stages, model = ended(n_epochs=9, validation_fraction=0.0)
    assert stages[-1].reason == "callback" and stages[-1].n_epochs == stages[-1].best_epoch == 2 == model.n_iter_
    unasked, _ = ended(n_epochs=2, validation_fraction=0.0)
    assert unasked[-1].n_epochs == 2
    plain = MultinomialNB(n_lanes=2, random_state=0, n_epochs=9, validation_fraction=0.0)
    assert plain.fit(X, Y, callbacks=[lambda event: True]).n_iter_ == 9  # only those that may stop are heard


def test_on_dask_a_fit_is_ended_at_the_same_bits(tmp_path, client):
    write_corpus(tmp_path / "c.zarr", X, Y)
    corpus = open_corpus(tmp_path / "c.zarr")
    here, there = (
        MultinomialNB(n_lanes=2, n_epochs=9, random_state=0, validation_fraction=0.0).set_callbacks(Enough(2))
        for _ in range(2)
    )
    here.fit(corpus)
    there.fit(corpus, client=client)
    assert here.n_iter_ == there.n_iter_ == 2
    np.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X))


def test_a_failing_callback_is_torn_down():
    told = Told(fails=True)
    with pytest.raises(RuntimeError, match="no"):
        GaussianNB().set_callbacks(told).fit(X, Y)
    assert told.told[-1] == "teardown"


def test_those_of_scikit_learn(capsys):
    scored = callback.ScoringMonitor(scoring="accuracy")
    model = GaussianNB().set_callbacks(callback.ProgressBar(), scored).fit(X, Y)
    assert "GaussianNB" in capsys.readouterr().out
    assert scored.get_logs().data[-1]["accuracy"] == model.score(X, Y)


def test_clones_and_searches_go_on_working():
    model = GaussianNB().set_callbacks(callback.ProgressBar())
    assert cross_val_score(model, X, Y).shape == (5,)
    assert not hasattr(model.set_callbacks(), "_skl_callbacks")
