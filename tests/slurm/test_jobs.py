"""Training on batch jobs of a real Slurm: started, lost, replaced, refused, and always ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from faults.clusters import is_end_of, model, wait_until
from reference.trained_bits import bits
from slurm.conftest import ask, queue

from sdem_dist.cli import main
from sdem_dist.cluster import batch_jobs


def workers(client) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def fit_and(disturb, corpus, client) -> str:
    """Train; once, in the middle of the first epoch, disturb the cluster."""

    def callback(event):
        if is_end_of(event, 0, 1):
            disturb()

    return bits(model().fit(corpus, client=client, callbacks=[callback]))


def test_a_job_is_cancelled_in_the_middle_of_an_epoch(corpus, undisturbed, cluster_file):
    said = []
    with batch_jobs(cluster_file(), say=said.append) as client:
        client.wait_for_workers(2, timeout=60)
        before, first = workers(client), queue()

        def cancel():
            ask("scancel", first[0])
            wait_until(lambda: len(workers(client)) == 1, "its worker is gone")

        assert fit_and(cancel, corpus, client) == undisturbed
        wait_until(lambda: len(workers(client)) == 2, "another job has brought another worker", 60)
        assert len(workers(client) & before) == 1
        assert set(queue()) & set(first) == {first[1]}
    assert any(f"job {first[0]} is CANCELLED" in line for line in said)


def test_a_job_of_several_processes_is_replaced(corpus, undisturbed, cluster_file):
    with batch_jobs(cluster_file({"jobs": 1}, cores=2, processes=2)) as client:
        client.wait_for_workers(2, timeout=60)
        before, first = workers(client), queue()

        def cancel():
            ask("scancel", *first)
            wait_until(lambda: not workers(client) & before, "its workers are gone")

        assert fit_and(cancel, corpus, client) == undisturbed
        assert workers(client)
        assert not set(queue()) & set(first)


def test_workers_retire_and_others_take_over(corpus, undisturbed, cluster_file):
    with batch_jobs(cluster_file(), lifetime="8s") as client:
        client.wait_for_workers(1, timeout=60)
        before = workers(client)

        def outlive():
            wait_until(lambda: workers(client) and not workers(client) & before, "the first workers have retired", 60)

        assert fit_and(outlive, corpus, client) == undisturbed


def train(corpus, file: Path, *more: str):
    command = ["train", corpus.path, str(file.parent / "a.model"), "--cluster", str(file), "--quiet", *more]
    return CliRunner().invoke(main, command)


def test_more_memory_than_there_is(corpus, cluster_file):
    result = train(corpus, cluster_file(memory="900GiB"))
    assert result.exit_code == 1
    assert "Requested node configuration is not available" in result.output
    assert "#SBATCH --mem=900G" in result.output


def test_a_partition_that_is_none(corpus, cluster_file):
    result = train(corpus, cluster_file(queue="nowhere"))
    assert result.exit_code == 1
    assert "invalid partition specified: nowhere" in result.output


def test_jobs_that_do_not_start_in_time(corpus, cluster_file):
    later = cluster_file({"wait-for-workers": 2}, **{"job-extra-directives": ["--begin=now+1hour"]})
    result = train(corpus, later)
    assert result.exit_code == 1
    assert "no worker came within 2 s" in result.output
    assert "is PENDING (reason: BeginTime)" in result.output


def test_jobs_that_fail_before_they_bring_a_worker(corpus, cluster_file):
    result = train(corpus, cluster_file(**{"job-script-prologue": ["module-that-is-not-there || exit 3"]}))
    assert result.exit_code == 1
    assert "is FAILED (reason: NonZeroExitCode)" in result.output
    assert "module-that-is-not-there: command not found" in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_the_driver_is_ended(number, corpus, cluster_file, tmp_path):
    file = cluster_file()
    command = [sys.executable, "-c", "from sdem_dist.cli import main; main()", "train", corpus.path, "a.model"]
    command += ["--epochs", "100000", "--quiet", "--cluster", str(file), "--checkpoint", "kept"]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: any(tmp_path.glob("kept/*.sdem")), "the first epoch has ended", 60)
        assert queue()
        driver.send_signal(number)
        assert driver.wait(30) != 0
        wait_until(lambda: queue() == [], "its jobs have ended", 30)
    finally:
        driver.kill()
        driver.wait()
