"""Workers that are killed at fixed points of a run: it ends by itself, with the same bits."""

import os
import signal

import numpy as np
import pytest
from faults.clusters import SETTINGS, all_gone, is_end_of, local_cluster, model, pids, wait_until
from faults.saboteur import killed, plan_faults, sabotaged, work
from reference.trained_bits import bits

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.engine import dask as cluster_monitor
from sdem_dist.engine import rounds

POINTS = {
    "map": "map 1 2 3",
    "reduce inside a bundle": "combine 1 1 16",
    "reduce in the last task": "combine 0 2 20",
    "update": "update 1 1",
    "checkpoint": "send 0 1",
}


def test_undisturbed_work_is_done_once(corpus, undisturbed, folder):
    plan_faults(folder)
    with sabotaged(folder):
        assert bits(model(n_jobs=1).fit(corpus)) == undisturbed
    counts = work(folder)
    compiled = {"map 0 0 0", "update 0 0"}  # run once a process on one document before the first round
    assert {counts[point] for point in compiled} <= {1, 2}
    combined = {"2": 1, "4": 5, "8": 2, "16": 1, "20": 1}  # in a round of 20 lanes, and while kernels are compiled
    assert {p: n for p, n in counts.items() if p.startswith("combine") and n != combined[p.split()[-1]]} == {}
    once = [point for point in counts if not point.startswith(("send", "combine")) and point not in compiled]
    assert {counts[point] for point in once} == {1}
    n_rounds = SETTINGS["n_epochs"] * SETTINGS["rounds_per_epoch"]
    assert sum(point.startswith("map") for point in counts) == n_rounds * SETTINGS["n_lanes"]


def train_on(client, corpus, folder, tmp_path) -> str:
    """Return the bits of a disturbed run, once the nannies have replaced what it lost."""
    n_workers = len(client.nthreads())
    with sabotaged(folder):
        fitted = model().fit(corpus, client=client, checkpoint=tmp_path / "kept", checkpoint_rounds=1)
    wait_until(lambda: len(client.nthreads()) == n_workers, "the nannies have replaced the workers")
    assert all_gone(killed(folder))
    assert set(killed(folder)).isdisjoint(pids(client))
    return bits(fitted)


@pytest.mark.parametrize("what", [pytest.param(p, marks=() if p == "map" else pytest.mark.slow) for p in POINTS])
def test_a_worker_dies(what, corpus, undisturbed, folder, tmp_path):
    plan_faults(folder, POINTS[what])
    with local_cluster(2) as (_, client):
        assert train_on(client, corpus, folder, tmp_path) == undisturbed
    assert len(killed(folder)) == 1
    assert work(folder)[POINTS[what]] >= 2


@pytest.mark.parametrize("n_lanes", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_worker_dies_among_rounds_of_one_task(n_lanes, corpus, folder, monkeypatch):
    monkeypatch.setattr(rounds, "SHORT_TASK", 5.0)
    settings = {"n_lanes": n_lanes, "rounds_per_epoch": 30, "n_epochs": 2}
    plan_faults(folder, "map 0 20 0", "update 1 17")
    with local_cluster(2) as (_, client), sabotaged(folder):
        fitted = model(**settings).fit(corpus, client=client)
    assert len(killed(folder)) == 2
    assert bits(fitted) == bits(model(**settings, n_jobs=1).fit(corpus))
    counts = work(folder)
    assert all(counts[f"map {epoch} {round_} 0"] for epoch in (0, 1) for round_ in range(30))
    assert counts["update 1 18"] == 1, "rounds after the last death are run once"


@pytest.mark.slow
def test_a_worker_dies_at_every_point_of_one_run(corpus, undisturbed, folder, tmp_path):
    plan_faults(folder, *POINTS.values())
    with local_cluster(2) as (_, client):
        assert train_on(client, corpus, folder, tmp_path) == undisturbed
    assert len(set(killed(folder))) == len(POINTS)
    assert all(work(folder)[point] >= 2 for point in POINTS.values())


@pytest.mark.slow
@pytest.mark.parametrize("point", ["map 1 1 3", "combine 0 1 20", "update 1 0"])
@pytest.mark.parametrize(("n_workers", "n_victims"), [(2, 2), (3, 2), (3, 3)])
def test_several_workers_die_at_once(n_workers, n_victims, point, corpus, undisturbed, folder, tmp_path):
    with local_cluster(n_workers) as (_, client):
        before = pids(client)
        plan_faults(folder, point, victims=["self", *before], count=n_victims)
        assert train_on(client, corpus, folder, tmp_path) == undisturbed
    assert len(killed(folder)) == n_victims
    assert set(killed(folder)) <= set(before)
    assert work(folder)[point] >= 2


@pytest.mark.slow
def test_all_workers_die_and_go_on_from_a_checkpoint(corpus, undisturbed, folder, tmp_path):
    with local_cluster(2) as (_, client):
        plan_faults(folder, "map 1 2 3", victims=["self", *pids(client)])
        assert train_on(client, corpus, folder, tmp_path) == undisturbed
    assert len(killed(folder)) == 2
    counts = work(folder)
    assert counts["map 1 2 3"] >= 2
    assert counts["update 1 1"] == 1, "the state is read, not made again"


@pytest.mark.slow
def test_all_workers_die_and_there_is_no_checkpoint(corpus, undisturbed, folder):
    with local_cluster(2) as (_, client):
        before = pids(client)
        plan_faults(folder, "map 1 2 3", victims=["self", *before])
        with sabotaged(folder):
            assert bits(model().fit(corpus, client=client)) == undisturbed
    assert sorted(killed(folder)) == before
    assert work(folder)["map 1 2 3"] >= 2
    assert work(folder)["update 1 1"] >= 2, "the state was lost, and is made again"


@pytest.mark.slow
def test_workers_join_midway_and_work(corpus, folder, monkeypatch):
    monkeypatch.setattr(cluster_monitor, "PULSE", 0.05)
    plan_faults(folder)
    with local_cluster(1) as (cluster, client):
        first = pids(client)

        def grow(event):
            if is_end_of(event, 0, 1):
                cluster.scale(3)
                client.wait_for_workers(3, timeout=60)

        with sabotaged(folder):
            fitted = model(n_lanes=48, n_epochs=5).fit(corpus, client=client, callbacks=[grow])
        joined = set(pids(client)) - set(first)
    assert bits(fitted) == bits(model(n_lanes=48, n_epochs=5, n_jobs=1).fit(corpus))
    at_work = {int(line.rpartition(":")[2]) for line in (folder / "work.log").read_text().splitlines() if "map" in line}
    assert len(joined) == 2
    assert at_work == {*first, *joined}


@pytest.mark.slow
def test_a_cluster_that_adapts_grows_midway(corpus, folder, monkeypatch):
    """The cluster begins without a worker, and is told to have more of them in the middle of the run."""
    monkeypatch.setattr(cluster_monitor, "PULSE", 0.05)
    plan_faults(folder)
    with local_cluster(0) as (cluster, client):
        cluster.adapt(minimum=0, maximum=1, interval="50ms")
        first = set()

        def grow(event):
            if is_end_of(event, 0, 1):
                first.update(pids(client))
                cluster.adapt(minimum=3, maximum=3, interval="50ms")
                client.wait_for_workers(3, timeout=60)

        with sabotaged(folder):
            fitted = model(n_lanes=48, n_epochs=5).fit(corpus, client=client, callbacks=[grow])
        at_end = set(pids(client))
    assert bits(fitted) == bits(model(n_lanes=48, n_epochs=5, n_jobs=1).fit(corpus))
    at_work = {int(line.rpartition(":")[2]) for line in (folder / "work.log").read_text().splitlines() if "map" in line}
    assert len(first) == 1 and len(at_end) == 3
    assert at_work == first | at_end


SPACE = {"loss": ["hinge", "ncll"], "step": [0.1, 0.5]}


def test_workers_of_a_search_die_after_the_first_and_the_third_fit(corpus):
    expected = CorpusSearchCV(MultinomialNB(), SPACE, cv=3, n_jobs=1, halving=False).fit(corpus)
    lost = []

    def kill(event):
        if event.what == "fit" and event.done in (1, 3):
            lost.append(pids(client)[0])
            os.kill(lost[-1], signal.SIGKILL)

    with local_cluster(2) as (_, client):
        found = CorpusSearchCV(MultinomialNB(), SPACE, cv=3, halving=False, callbacks=[kill]).fit(corpus, client=client)
        assert len(lost) == 2 and all_gone(lost)
    assert found.best_params_ == expected.best_params_ and found.best_score_ == expected.best_score_
    assert np.array_equal(found.oof_proba_, expected.oof_proba_)
    assert np.array_equal(found.best_estimator_.state_.words, expected.best_estimator_.state_.words)
