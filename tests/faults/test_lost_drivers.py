"""Drivers that are killed at fixed points of a run: another one goes on elsewhere, with the same bits."""

import re
import signal

import numpy as np
import pytest
from faults.clusters import all_gone, local_cluster, model, wait_until
from faults.driver import start
from faults.saboteur import killed, plan_faults, sabotaged, work
from reference.trained_bits import bits

from sdem_dist import ingest, open_corpus
from sdem_dist.engine.events import StageStarted

# Where the driver dies, and which (epoch, round) is done again: a checkpoint is an fsync of its file, a rename, and an
# fsync of the folder, in every round.
IN_PROCESS = {
    "map": ("map 1 2 3", (1, 2)),
    "map of the first round": ("map 0 0 5", (0, 0)),
    "reduce": ("combine 1 1 20", (1, 1)),
    "update": ("update 1 1", (1, 1)),
    "checkpoint written": ("fsync 4", (0, 2)),
    "checkpoint not renamed": ("rename 3", (1, 0)),
    "checkpoint renamed": ("renamed 3", None),
}
ON_A_CLUSTER = {
    "map": ("map 1 2 3", (1, 2)),
    "reduce": ("combine 1 1 16", (1, 1)),
    "update": ("update 1 1", (1, 1)),
    "checkpoint sent to the driver": ("send 1 0", (1, 0)),
    "checkpoint not renamed": ("rename 3", (1, 0)),
}


def kill_driver(corpus, folder, kept, where, point) -> None:
    """Run a driver up to the point; then no process of it is left."""
    plan_faults(folder, point, victims=["driver"])
    ended = start(corpus.path, kept, folder, where)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(killed(folder)) == 1
    begun = {int(line.rpartition(":")[2]) for line in (folder / "work.log").read_text().splitlines()}
    wait_until(lambda: all_gone([*killed(folder), *begun]), "the driver has gone, and its workers after it")


def go_on_here(corpus, folder, kept) -> tuple[str, int]:
    """Resume in this process; return the bits, and the round of the whole run from which it went on."""
    events: list = []
    with sabotaged(folder):
        fitted = model(n_jobs=1).fit(
            corpus, checkpoint=kept, checkpoint_rounds=1, resume=True, callbacks=[events.append]
        )
    (started,) = (event for event in events if isinstance(event, StageStarted))
    return bits(fitted), started.epoch


def done_twice(folder) -> set[tuple[int, int]]:
    """Return the rounds of which lanes were begun more than once."""
    begun = (point.split() for point, n in work(folder).items() if n > 1)
    return {(int(p[1]), int(p[2])) for p in begun if p[0] == "map" and p[1:] != ["0", "0", "0"]}  # which compiles, too


@pytest.mark.parametrize("what", [pytest.param(p, marks=() if p == "map" else pytest.mark.slow) for p in IN_PROCESS])
def test_a_driver_in_one_process_dies(what, corpus, undisturbed, folder, tmp_path):
    point, again = IN_PROCESS[what]
    kill_driver(corpus, folder, tmp_path / "kept", "threads-1", point)
    newest = sorted((tmp_path / "kept").glob("checkpoint-*"))
    found, epoch = go_on_here(corpus, folder, tmp_path / "kept")
    assert found == undisturbed
    assert done_twice(folder) == ({again} if again else set()), "only the round under way is done again"
    if newest:
        assert epoch == int(re.findall(r"\d+", newest[-1].name)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "then"), [*((what, "cluster-3") for what in ON_A_CLUSTER), ("map", "here"), ("update", "cluster-1")]
)
def test_a_driver_with_workers_of_its_own_dies(what, then, corpus, undisturbed, folder, tmp_path):
    point, again = ON_A_CLUSTER[what]
    kill_driver(corpus, folder, tmp_path / "kept", "cluster-2", point)
    if then == "here":
        found, _ = go_on_here(corpus, folder, tmp_path / "kept")
    else:
        ended = start(corpus.path, tmp_path / "kept", folder, then)
        assert ended.returncode == 0, ended.stderr
        found = ended.stdout.strip()
    assert found == undisturbed
    assert done_twice(folder) == {again}, "only the round under way is done again"


@pytest.mark.slow
def test_a_driver_dies_and_another_goes_on_with_the_same_workers(corpus, undisturbed, folder, tmp_path):
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


@pytest.mark.slow
def test_drivers_die_again_and_again(corpus, undisturbed, folder, tmp_path):
    deaths = ["map 0 1 0", "update 0 2", "combine 1 0 20", "map 1 1 19", "update 1 2"]
    places = ["threads-1", "cluster-2", "threads-2", "cluster-1", "cluster-2"]
    for point, where in zip(deaths, places, strict=True):
        plan_faults(folder, point, victims=["driver"])
        assert start(corpus.path, tmp_path / "kept", folder, where).returncode == -signal.SIGKILL
    assert len(set(killed(folder))) == len(deaths)
    found, _ = go_on_here(corpus, folder, tmp_path / "kept")
    assert found == undisturbed


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("source") / "documents.tsv"
    rows = (" ".join(f"word{w}" for w in rng.integers(0, 300, 30)) for _ in range(600))
    path.write_text("".join(f"{'ab'[i % 2]}\t{row}\n" for i, row in enumerate(rows)))
    return path


@pytest.mark.parametrize(
    "point",
    [pytest.param("count 7", marks=pytest.mark.slow), pytest.param("fsync 0", marks=pytest.mark.slow), "fsync 9"],
)
def test_an_ingest_that_is_killed_leaves_no_corpus_and_can_be_repeated(point, source, folder, tmp_path):
    plan_faults(folder, point)
    ended = start("ingest", source, tmp_path / "corpus", folder)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(killed(folder)) == 1 and not (tmp_path / "corpus").exists()
    assert any(p.name.startswith(".corpus.") for p in tmp_path.iterdir())
    for name in ("corpus", "undisturbed"):
        ingest([source], tmp_path / name, block_documents=20, n_jobs=1)
    uids = {open_corpus(tmp_path / name).header.uid for name in ("corpus", "undisturbed")}
    assert len(uids) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "sabotage", "undisturbed"], "nothing else is left"
