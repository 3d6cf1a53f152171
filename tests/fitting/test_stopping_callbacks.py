"""Callbacks that may stop end a stage after an epoch; of a fit they are told the end."""

import numpy as np

from sdem_dist import GaussianNB, MultinomialNB, open_corpus, write_corpus
from sdem_dist.engine.events import EpochEnded, StageEnded

RNG = np.random.default_rng(0)
Y = np.arange(120) % 2
X = RNG.poisson(1.0 + (np.arange(6) % 2 == Y[:, None]))


class Enough:
    may_stop = True

    def __init__(self, epochs):
        self.epochs, self.told = epochs, []

    def __call__(self, event):
        return isinstance(event, EpochEnded) and event.epoch == self.epochs - 1

    def fitted(self, estimator):
        self.told.append(estimator)

    def failed(self):
        self.told.append("failed")


def model(n_epochs=9):
    return MultinomialNB(n_lanes=2, random_state=0, n_epochs=n_epochs, validation_fraction=0.0)


def test_a_callback_that_asks_to_stop_ends_its_stage_after_that_epoch():
    for n_epochs, reason in ((9, "callback"), (2, None)):
        events, enough = [], Enough(2)
        found = model(n_epochs).fit(X, Y, callbacks=[events.append, enough])
        (stage,) = (event for event in events if isinstance(event, StageEnded))
        assert stage.n_epochs == stage.best_epoch == 2 == found.n_iter_ and enough.told == [found]
        assert reason in (None, stage.reason)
    assert model().fit(X, Y, callbacks=[lambda event: True]).n_iter_ == 9  # only those that may stop are heard


def test_on_dask_a_fit_is_ended_at_the_same_bits(tmp_path, client):
    write_corpus(tmp_path / "c.zarr", X, Y)
    corpus = open_corpus(tmp_path / "c.zarr")
    here, there = (model().fit(corpus, callbacks=[Enough(2)], client=where) for where in (None, client))
    assert here.n_iter_ == there.n_iter_ == 2
    np.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X))


def test_a_failing_fit_is_told():
    class Failing(Enough):
        def __call__(self, event):
            raise RuntimeError("no")

    failing = Failing(2)
    np.testing.assert_raises_regex(RuntimeError, "no", GaussianNB().fit, X, Y, callbacks=[failing])
    assert failing.told == ["failed"]
