"""Long compiled calls are cut into runs of documents: the same bits, and interrupts are heard."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.kernels import csr as documents

RNG = np.random.default_rng(0)
X, Y = sp.csr_matrix(RNG.poisson(0.7, (90, 30))), np.arange(90) % 3
MODELS = {
    "naive Bayes": lambda: sd.MultinomialNB(n_epochs=2, n_lanes=2, evaluate_every=1),
    "naive Bayes, exact": lambda: sd.MultinomialNB(steps="paper", n_epochs=1, n_lanes=1),
    "LDA": lambda: sd.LDAClassifier(n_epochs=2, n_lanes=2),
    "LDA, sum": lambda: sd.LDAClassifier(n_epochs=2, merge="sum", inference="gibbs", n_particles=2),
    "topics": lambda: sd.SupervisedLDAClassifier(3, n_epochs=2),
    "words": lambda: sd.LatentDirichletAllocation(3, n_epochs=2),
}


def test_runs_cover_all_documents_once():
    assert list(documents.runs(np.zeros(0))) == []
    assert list(documents.runs(np.ones(5))) == [(0, 5)]
    assert list(documents.runs(np.full(4, 0.6 * documents.SECOND))) == [(0, 1), (1, 3), (3, 4)]
    costs = RNG.uniform(0, 2 * documents.SECOND, 50)
    found = list(documents.runs(costs))
    assert [i for a, b in found for i in range(a, b)] == list(range(50))
    assert all(b == a + 1 or costs[a : b - 1].sum() <= 2 * documents.SECOND for a, b in found)


@pytest.mark.parametrize("name", MODELS)
def test_runs_change_no_bit(name, monkeypatch):
    answers = "score_samples" if name == "words" else "predict_proba"
    model = MODELS[name]().fit(X, Y)
    expected = getattr(model, answers)(X)
    monkeypatch.setattr(documents, "SECOND", 1e3)
    again = MODELS[name]().fit(X, Y)
    np.testing.assert_array_equal(getattr(again, answers)(X), expected)
    assert [{**h, "seconds": 0} for h in again.history_] == [{**h, "seconds": 0} for h in model.history_]


def endless():
    """Return calls that would take many minutes."""
    wide = sp.csr_matrix(RNG.poisson(0.7, (3_000, 300)))
    y = np.arange(3_000) % 3
    sampled = sd.LDAClassifier(n_epochs=1, evaluate_every=0, n_jobs=1).fit(wide[:50], y[:50])
    words = sd.LatentDirichletAllocation(20, n_epochs=1, evaluate_every=0, n_jobs=1).fit(wide[:50])
    words.score_samples(wide[:2])
    slow = sd.LDAClassifier(n_sweeps=10_000, inference="gibbs", n_epochs=1, n_lanes=1, n_jobs=1, evaluate_every=0)
    slow.set_params(n_sweeps=1).fit(wide[:9], y[:9]).set_params(n_sweeps=10_000)  # compiled
    learner = sampled.learner_
    inference = type(learner.model.inference)("gibbs", n_sweeps=10_000)
    object.__setattr__(learner.model, "inference", inference)
    return {
        "predict": lambda: sampled.predict(wide),
        "fit": lambda: slow.fit(wide, y),
        "left to right": lambda: words.set_params(n_particles=10_000).score_samples(wide),
    }


@pytest.mark.parametrize("name", ["predict", "fit", "left to right"])
def test_an_interrupt_is_heard(name):
    call = endless()[name]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    started = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - started < 12.0
