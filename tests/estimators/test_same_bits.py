"""Every estimator has the same bits in memory, on any number of threads, processes and workers, and when workers die."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reference.catalogue_cases import CASES, write_corpora
from reference.trained_bits import bits, place

import sdem_dist
from sdem_dist import MixedNB, load_model, open_corpus, write_corpus
from sdem_dist.catalogue import ESTIMATORS
from sdem_dist.corpus.labels import column_of
from sdem_dist.fitting.defaults import SMALL_ENTRIES

TESTS = Path(__file__).parent.parent


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
        result = subprocess.run(
            [sys.executable, "-m", "reference.trained_bits", str(folder), where],
            cwd=TESTS, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_every_estimator_takes_part():
    assert {case.estimator for case in CASES.values()} == set(ESTIMATORS)


def test_every_estimator_of_documents_without_labels_trains_on_some():
    half = {case.estimator for case in CASES.values() if "unlabelled" in case.settings}
    assert half == {name for name in ESTIMATORS if getattr(sdem_dist, name).spec.unlabelled}


def test_settings_differ_so_that_equality_means_something(bits_of):
    found = bits_of("threads-1")
    assert len({found[name] for name in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "where",
    [
        "threads-2",
        "cluster-2",
        pytest.param("cluster-1", marks=pytest.mark.slow),
        pytest.param("cluster-4", marks=pytest.mark.slow),
        pytest.param("cluster-threads", marks=pytest.mark.slow),
    ],
)
def test_same_bits_wherever_it_runs(bits_of, where):
    assert bits_of(where) == bits_of("threads-1")


@pytest.mark.slow
def test_same_bits_though_workers_die(bits_of):
    found, expected = bits_of("killed"), bits_of("threads-1")
    assert found.pop("killed") == 2
    assert found == {name: expected[name] for name in CASES}


@pytest.mark.parametrize("name", CASES)
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
    for method in ("predict", "predict_proba", "predict_joint_log_proba", "transform", "score_samples"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(loaded, method)(rows), getattr(model, method)(rows))
    np.testing.assert_equal(loaded.evaluate(stored), model.evaluate(stored))


@pytest.mark.parametrize("name", CASES)
def test_same_bits_after_a_stop(name, folder, tmp_path, bits_of):
    """A run that another process would go on with, from each of its checkpoints and stages."""

    class Stop(Exception):
        pass

    def stop(event):
        if type(event).__name__ == "CheckpointWritten":
            stopped.append(event)
            raise Stop

    case, stopped, tries = CASES[name], [], 0
    corpus = open_corpus(folder / case.corpus)
    while tries == 0 or len(stopped) == tries:
        tries += 1
        try:
            model = case.made(n_jobs=1).fit(
                corpus, checkpoint=tmp_path, checkpoint_rounds=2, resume=tries > 1, callbacks=[stop]
            )
        except Stop:
            continue
    assert bits(model) == bits_of("threads-1")[name]


def test_a_table_of_pandas_has_the_same_bits_on_dask(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 900)
    frame = pd.DataFrame(
        {"size": rng.normal(y), "colour": rng.choice(["red", "blue"], 900), "seen": rng.random(900) < 0.3 + 0.3 * y}
    )
    frame.loc[::7, "colour"] = None
    corpus = write_corpus(tmp_path / "t", frame, y, dense=True, shard_documents=200)
    model = MixedNB(n_epochs=3, n_lanes=3)
    alone = bits(model.fit(corpus))
    with place("cluster-2") as (client, _):
        assert bits(model.fit(corpus, client=client)) == alone
        assert model.evaluate(corpus, client=client) == model.evaluate(corpus)
