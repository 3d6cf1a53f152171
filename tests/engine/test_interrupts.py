"""Interrupts are heard between runs of documents, and taken for no faults; a process that has trained may fork."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.engine.executor import Executor
from sdem_dist.errors import reraise_interrupt
from sdem_dist.kernels import csr

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
    assert list(csr.runs(np.zeros(0))) == [] and list(csr.runs(np.ones(5))) == [(0, 5)]
    assert list(csr.runs(np.full(4, 0.6 * csr.SECOND))) == [(0, 1), (1, 3), (3, 4)]
    costs = RNG.uniform(0, 2 * csr.SECOND, 50)
    found = list(csr.runs(costs))
    assert [i for a, b in found for i in range(a, b)] == list(range(50))
    assert all(b == a + 1 or costs[a : b - 1].sum() <= 2 * csr.SECOND for a, b in found)


@pytest.mark.parametrize("name", MODELS)
def test_runs_change_no_bit(name, monkeypatch):
    answers = "score_samples" if name == "words" else "predict_proba"
    model = MODELS[name]().fit(X, Y)
    expected = getattr(model, answers)(X)
    monkeypatch.setattr(csr, "SECOND", 1e3)
    again = MODELS[name]().fit(X, Y)
    np.testing.assert_array_equal(getattr(again, answers)(X), expected)
    assert [{**h, "seconds": 0} for h in again.history_] == [{**h, "seconds": 0} for h in model.history_]


def endless():
    wide, y = sp.csr_matrix(RNG.poisson(0.7, (3_000, 300))), np.arange(3_000) % 3
    sampled = sd.LDAClassifier(n_epochs=1, evaluate_every=0, n_jobs=1).fit(wide[:50], y[:50])
    words = sd.LatentDirichletAllocation(20, n_epochs=1, evaluate_every=0, n_jobs=1).fit(wide[:50])
    words.score_samples(wide[:2])
    slow = sd.LDAClassifier(n_sweeps=10_000, inference="gibbs", n_epochs=1, n_lanes=1, n_jobs=1, evaluate_every=0)
    slow.set_params(n_sweeps=1).fit(wide[:9], y[:9]).set_params(n_sweeps=10_000)  # compiled
    learner = sampled.learner_
    object.__setattr__(learner.model, "inference", type(learner.model.inference)("gibbs", n_sweeps=10_000))
    words.set_params(n_particles=10_000)
    return lambda: sampled.predict(wide), lambda: slow.fit(wide, y), lambda: words.score_samples(wide)


def test_an_interrupt_is_heard():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    started = time.perf_counter()
    try:
        for call in endless():
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            np.testing.assert_raises(KeyboardInterrupt, call)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - started < 150.0  # the whole takes far longer, and this machine may be busy


def test_threads_end_between_compiled_calls():
    began = threading.Event()

    def endless(_):
        for _ in csr.runs(np.full(10**5, csr.SECOND)):
            began.set()
            time.sleep(0.01)

    executor = Executor(2)
    task = executor.submit(endless, 0)
    assert began.wait(30)
    started = time.monotonic()
    executor.__exit__()
    assert time.monotonic() - started < 150  # of a thousand seconds
    np.testing.assert_raises(KeyboardInterrupt, executor.result, task)


@pytest.mark.parametrize(("cause", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (ValueError(), SystemError)])
def test_an_interrupt_within_a_compiled_call_is_one(cause, raised):
    with pytest.raises(raised, match="result" if raised is SystemError else None), reraise_interrupt():
        raise SystemError("returned a result with an exception set") from cause


SCRIPT = """
import multiprocessing
import threading

import numpy as np

from sdem_dist import MultinomialNB
from sdem_dist.documents import prepared_cache

X, y = np.random.default_rng(0).integers(0, 5, (400, 30)), np.arange(400) % 3


def fit():
    return MultinomialNB(n_epochs=2, n_lanes=8, rounds_per_epoch=2).fit(X, y)


def child(expected):
    assert np.array_equal(fit().state_.words, expected)


def busy():
    while not stopped.is_set():
        prepared_cache.discard(lambda key: False)


if __name__ == "__main__":
    expected = fit().state_.words
    stopped = threading.Event()
    thread = threading.Thread(target=busy)  # which nearly always holds the lock of a cache
    thread.start()
    children = [multiprocessing.get_context("fork").Process(target=child, args=(expected,)) for _ in range(3)]
    for process in children:
        process.start()
    stopped.set()
    thread.join()
    for process in children:
        process.join(30)
        if process.is_alive():
            process.kill()
        print(process.exitcode)
"""


def test_a_forked_child_trains_with_the_same_bits(tmp_path):
    (tmp_path / "forks.py").write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", tmp_path / "forks.py"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout.split() == ["0"] * 3, ended.stderr
