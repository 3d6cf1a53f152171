"""Every estimator has the same bits in memory, on any number of threads, processes and workers, and when workers die."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reference.catalogue_cases import CASES, write_corpora
from reference.trained_bits import bits

import sdem_dist
from sdem_dist import load_model, open_corpus
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus.labels import column_of
from sdem_dist.fitting.defaults import SMALL_ENTRIES

TESTS = Path(__file__).parent.parent
METHODS = ("predict", "predict_proba", "predict_joint_log_proba", "transform", "score_samples")
each_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bits")
    write_corpora(path)
    for name in ("counts", "numbers", "table"):  # else training in this process would take one thread
        assert open_corpus(path / name).header.n_nonzeros > SMALL_ENTRIES
    return path


@pytest.fixture(scope="module")
def bits_of(folder):
    """A function from a place to what a process of its own trained there."""

    @cache
    def run(where: str) -> dict:
        command = [sys.executable, "-m", "reference.trained_bits", str(folder), where]
        result = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=280, check=False)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_every_estimator_takes_part():
    assert {case.estimator for case in CASES.values()} == set(ESTIMATORS)
    half = {case.estimator for case in CASES.values() if "unlabelled" in case.settings}
    assert half == {name for name in ESTIMATORS if getattr(sdem_dist, name).spec.unlabelled}


def test_settings_differ_so_that_equality_means_something(bits_of):
    found = bits_of("threads-1")
    assert len({found[name] for name in CASES}) == len(CASES)


SLOW_PLACES = [pytest.param(where, marks=pytest.mark.slow) for where in ("cluster-1", "cluster-4", "cluster-threads")]


@pytest.mark.parametrize("where", ["threads-2", "cluster-2", *SLOW_PLACES])
def test_same_bits_wherever_it_runs(bits_of, where):
    assert bits_of(where) == bits_of("threads-1")


@pytest.mark.slow
def test_same_bits_though_workers_die(bits_of):
    found, expected = bits_of("killed"), bits_of("threads-1")
    assert found.pop("killed") == 2
    assert found == {name: expected[name] for name in CASES}


@each_case
def test_same_bits_in_memory_and_from_a_file(name, folder, tmp_path, bits_of):
    """Rows from memory, where the shuffle puts them into the order in which they are stored."""
    case = CASES[name]
    model = case.made(n_jobs=1)
    stored = open_corpus(folder / case.corpus)
    documents = stored.read(0, stored.n_documents)
    rows = np.asarray(documents.values, np.float64) if hasattr(documents, "values") else documents.to_csr()
    sets = stored.header.label_sets
    labels = documents.labels if sets is None else column_of([sets[code] for code in documents.labels])
    y = {"labels": labels, "numbers": getattr(documents, "targets", None), "nothing": None}[model.spec.target]
    if case.corpus == "target":
        rows, y = rows[:, :-1], rows[:, -1]
    elif model.spec.shuffled:
        inverse = np.argsort(np.random.Generator(np.random.PCG64(0)).permutation(stored.n_documents))
        rows, y = rows[inverse], None if y is None else y[inverse]
    assert bits(model.fit(rows, y)) == bits_of("threads-1")[name]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert bits(loaded) == bits(model)
    np.testing.assert_equal(loaded.get_params(), {**model.get_params(), "n_jobs": None})
    for method in filter(lambda method: hasattr(model, method), METHODS):
        np.testing.assert_array_equal(getattr(loaded, method)(rows), getattr(model, method)(rows))
    np.testing.assert_equal(loaded.evaluate(stored), model.evaluate(stored))


FIRST = {case.estimator: name for name, case in reversed(CASES.items())}.values()
STOPPED = [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.slow]) for name in CASES]
"""One case an estimator; the others with the slow tests."""


@pytest.mark.parametrize("name", STOPPED)
def test_same_bits_after_a_stop(name, folder, tmp_path, bits_of):
    """A run that another process would go on with, from each of its checkpoints and stages."""

    class Stop(Exception):
        pass

    def stop(event):
        if type(event).__name__ == "CheckpointWritten":
            stopped.append(event)
            raise Stop

    stopped, tries = [], 0
    corpus, how = open_corpus(folder / CASES[name].corpus), {"checkpoint_rounds": 2, "callbacks": [stop]}
    while tries == 0 or len(stopped) == tries:
        tries += 1
        try:
            model = CASES[name].made(n_jobs=1).fit(corpus, checkpoint=tmp_path, resume=tries > 1, **how)
        except Stop:
            continue
    assert bits(model) == bits_of("threads-1")[name]


ALL_TRAINED_ON = {"validation_fraction": 0.0}
LONGER = {
    "hinge mean": {**ALL_TRAINED_ON, "evaluate_every": 2},
    "em": ALL_TRAINED_ON,
    "multiplicative": ALL_TRAINED_ON,
    "sdem of numbers": ALL_TRAINED_ON,
    "clusters": {},
    "gaussian ncll": {"evaluate_every": 2},
}


@pytest.mark.parametrize("name", LONGER)
def test_three_epochs_and_three_more_are_six(name, folder, tmp_path):
    corpus = open_corpus(folder / CASES[name].corpus)
    three, six = (CASES[name].made(**{**LONGER[name], "n_epochs": n}) for n in (3, 6))
    three.fit(corpus, checkpoint=tmp_path)
    resumed = bits(six.fit(corpus, checkpoint=tmp_path, resume=True))
    assert resumed == bits(six.fit(corpus))
