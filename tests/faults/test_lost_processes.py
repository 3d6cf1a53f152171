"""Workers and drivers that are killed at fixed points of a run: it ends, or another goes on, with the same bits."""

import os
import re
import signal

import numpy as np
import pytest
from faults.clusters import SETTINGS, all_gone, is_end_of, local_cluster, model, pids, wait_until
from faults.driver import start
from faults.saboteur import killed, plan_faults, sabotaged, work
from reference.trained_bits import bits

from sdem_dist import CorpusSearchCV, MultinomialNB
from sdem_dist.engine import dask as cluster_monitor
from sdem_dist.engine import rounds
from sdem_dist.engine.events import StageStarted

POINTS = ["map 1 2 3", "combine 1 1 16", "combine 0 2 20", "update 1 1", "send 0 1"]
"""In a map, reducing inside a bundle and in the last task, in an update, and while a checkpoint is sent."""


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


SEVERAL = ["map 1 1 3", "combine 0 1 20", "update 1 0"]
LOSSES = [  # where workers die, how many there are, how many die at once, and whether there are checkpoints
    (["map 1 2 3"], 2, 1, True),
    *(pytest.param(*loss, marks=pytest.mark.slow) for loss in [
        (POINTS, 2, 1, True),
        *(([point], n, lost, True) for point in SEVERAL for n, lost in ((2, 2), (3, 2), (3, 3))),
        (["map 1 2 3"], 2, 2, True),
        (["map 1 2 3"], 2, 2, False),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("points", "n_workers", "n_lost", "checkpoints"), LOSSES)
def test_workers_die_and_the_bits_stay(points, n_workers, n_lost, checkpoints, corpus, undisturbed, folder, tmp_path):
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_rounds": 1} if checkpoints else {}
    with local_cluster(n_workers) as (_, client):
        before = pids(client)
        plan_faults(folder, *points, victims=["self", *(before if n_lost > 1 else [])], count=n_lost)
        with sabotaged(folder):
            fitted = model().fit(corpus, client=client, **kept)
        wait_until(lambda: len(client.nthreads()) == n_workers, "the nannies have replaced the workers")
        assert all_gone(killed(folder)) and set(killed(folder)).isdisjoint(pids(client))
    assert bits(fitted) == undisturbed
    assert len(set(killed(folder))) == n_lost * len(points)
    assert len(points) > 1 or set(killed(folder)) <= set(before)
    counts = work(folder)
    assert all(counts[point] >= 2 for point in points)
    if n_lost == n_workers and points == ["map 1 2 3"]:
        assert (counts["update 1 1"] == 1) == checkpoints, "a state is read where it was kept, and else made again"


@pytest.mark.parametrize("n_lanes", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_worker_dies_among_rounds_of_one_task(n_lanes, corpus, folder, monkeypatch):
    monkeypatch.setattr(rounds, "SHORT_TASK", 5.0)
    settings = {"n_lanes": n_lanes, "rounds_per_epoch": 12, "n_epochs": 2}
    plan_faults(folder, "map 0 8 0", "update 1 7")
    with local_cluster(2) as (_, client), sabotaged(folder):
        fitted = model(**settings).fit(corpus, client=client)
    assert len(killed(folder)) == 2
    assert bits(fitted) == bits(model(**settings, n_jobs=1).fit(corpus))
    counts = work(folder)
    assert all(counts[f"map {epoch} {round_} 0"] for epoch in (0, 1) for round_ in range(12))
    assert counts["update 1 8"] == 1, "rounds after the last death are run once"


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", [False, True])
def test_workers_that_join_midway_work(adaptive, corpus, folder, monkeypatch):
    """A cluster that adapts begins without a worker, and may replace some."""
    monkeypatch.setattr(cluster_monitor, "PULSE", 0.05)
    plan_faults(folder)
    with local_cluster(0 if adaptive else 1) as (cluster, client):
        first = set()
        if adaptive:
            cluster.adapt(minimum=0, maximum=1, interval="50ms")

        def grow(event):
            if is_end_of(event, 0, 1):
                first.update(pids(client))
                cluster.adapt(minimum=3, maximum=3, interval="50ms") if adaptive else cluster.scale(3)
                client.wait_for_workers(3, timeout=200)

        with sabotaged(folder):
            fitted = model(n_lanes=48, n_epochs=5).fit(corpus, client=client, callbacks=[grow])
        at_end = set(pids(client))
    assert bits(fitted) == bits(model(n_lanes=48, n_epochs=5, n_jobs=1).fit(corpus))
    at_work = {int(line.rpartition(":")[2]) for line in (folder / "work.log").read_text().splitlines() if "map" in line}
    assert len(first) == 1 and len(at_end) == 3 and (at_work > first if adaptive else at_work == first | at_end)


def test_workers_of_a_search_die_after_the_first_and_the_third_fit(corpus):
    space, how = {"loss": ["hinge"]}, {"cv": 2, "halving": False}
    expected = CorpusSearchCV(MultinomialNB(), space, n_jobs=1, **how).fit(corpus)
    lost = []

    def kill(event):
        if event.what == "fit" and event.done in (1, 3):
            lost.append(pids(client)[0])
            os.kill(lost[-1], signal.SIGKILL)

    with local_cluster(2) as (_, client):
        found = CorpusSearchCV(MultinomialNB(), space, callbacks=[kill], **how).fit(corpus, client=client)
        assert len(lost) == 2 and all_gone(lost)
    assert found.best_params_ == expected.best_params_ and found.best_score_ == expected.best_score_
    assert np.array_equal(found.oof_proba_, expected.oof_proba_)
    assert np.array_equal(found.best_estimator_.state_.words, expected.best_estimator_.state_.words)


# Where the driver runs and dies, which (epoch, round) is done again, and where another goes on.
DEATHS = [
    ("threads-1", "map 1 2 3", (1, 2), "here"),
    ("threads-1", "map 0 0 5", (0, 0), "here"),
    ("threads-1", "combine 1 1 20", (1, 1), "here"),
    ("threads-1", "update 1 1", (1, 1), "here"),
    ("cluster-2", "map 1 2 3", (1, 2), "cluster-3"),
    ("cluster-2", "combine 1 1 16", (1, 1), "cluster-3"),
    ("cluster-2", "update 1 1", (1, 1), "cluster-3"),
    ("cluster-2", "send 1 0", (1, 0), "cluster-3"),  # a checkpoint on its way to the driver
    ("cluster-2", "map 1 2 3", (1, 2), "here"),
    ("cluster-2", "update 1 1", (1, 1), "cluster-1"),
]
SLOW_DEATHS = [pytest.param(*death, marks=pytest.mark.slow) for death in DEATHS[1:]]


@pytest.mark.parametrize(("where", "point", "again", "then"), [DEATHS[0], *SLOW_DEATHS])
def test_a_driver_dies_and_another_goes_on(where, point, again, then, corpus, undisturbed, folder, tmp_path):
    plan_faults(folder, point, victims=["driver"])
    killed_driver = start(corpus.path, tmp_path / "kept", folder, where)
    assert killed_driver.returncode == -signal.SIGKILL, killed_driver.stderr
    assert len(killed(folder)) == 1
    begun = {int(line.rpartition(":")[2]) for line in (folder / "work.log").read_text().splitlines()}
    wait_until(lambda: all_gone([*killed(folder), *begun]), "the driver has gone, and its workers after it")
    newest = sorted((tmp_path / "kept").glob("checkpoint-*"))
    if then == "here":
        events: list = []
        how = {"checkpoint": tmp_path / "kept", "checkpoint_rounds": 1, "resume": True, "callbacks": [events.append]}
        with sabotaged(folder):
            found = bits(model(n_jobs=1).fit(corpus, **how))
        (started,) = (event for event in events if isinstance(event, StageStarted))
        assert not newest or started.epoch == int(re.findall(r"\d+", newest[-1].name)[1])
    else:
        ended = start(corpus.path, tmp_path / "kept", folder, then)
        assert ended.returncode == 0, ended.stderr
        found = ended.stdout.strip()
    assert found == undisturbed
    twice = (point.split() for point, n in work(folder).items() if n > 1)  # lanes; one of the first compiles, too
    again_begun = {(int(p[1]), int(p[2])) for p in twice if p[0] == "map" and p[1:] != ["0", "0", "0"]}
    assert again_begun == {again}, "only the round under way is done again"


@pytest.mark.slow
def test_another_driver_goes_on_with_the_same_workers(corpus, undisturbed, folder, tmp_path):
    plan_faults(folder, "map 1 1 17", victims=["driver"])
    with local_cluster(2) as (cluster, client):
        before = client.nthreads()
        assert start(corpus.path, tmp_path / "kept", folder, cluster.scheduler_address).returncode == -signal.SIGKILL
        ended = start(corpus.path, tmp_path / "kept", folder, cluster.scheduler_address)
        assert ended.returncode == 0, ended.stderr
        assert client.nthreads() == before
        wait_until(lambda: not client.who_has(), "nothing of the dead driver is kept on the workers")
    assert ended.stdout.strip() == undisturbed
    assert work(folder)["map 1 1 17"] == 2
