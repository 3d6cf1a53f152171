"""Training on batch jobs of a real Slurm, and within one that does not last: started, lost, replaced, requeued, ended."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dask
import pytest
from click.testing import CliRunner
from faults.clusters import is_end_of, model, wait_until
from reference.random_documents import random_counts
from reference.trained_bits import bits
from slurm.conftest import ask, queue

from sdem_dist import ClusterError, MultinomialNB, load_model, write_corpus
from sdem_dist.cli import main
from sdem_dist.cluster import batch_jobs, connected
from sdem_dist.cluster.client import make_certificates


def workers(client) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def fit_and(disturb, corpus, client) -> str:

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

        assert fit_and(cancel, corpus, client) == undisturbed and workers(client)
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


@pytest.mark.parametrize(
    ("ours", "options", "said"),
    [
        ({}, {"memory": "900GiB"}, ["Requested node configuration is not available", "#SBATCH --mem=900G"]),
        ({}, {"queue": "nowhere"}, ["invalid partition specified: nowhere"]),
        ({"wait-for-workers": 2}, {"job-extra-directives": ["--begin=now+1hour"]},
         ["no worker started within 2 s", "is PENDING (reason: BeginTime)"]),
        ({}, {"job-script-prologue": ["module-that-is-not-there || exit 3"]},
         ["is FAILED (reason: NonZeroExitCode)", "module-that-is-not-there: command not found"]),
    ],
    ids=["more memory than there is", "no such partition", "not in time", "fails before it brings a worker"],
)  # fmt: skip
def test_jobs_that_bring_no_worker(ours, options, said, corpus, cluster_file):
    result = train(corpus, cluster_file(ours, **options))
    assert result.exit_code == 1 and all(words in result.output for words in said)


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
        assert driver.wait(90) != 0
        wait_until(lambda: queue() == [], "its jobs have ended", 30)
    finally:
        driver.kill()
        driver.wait()


def client_of(folder: Path | None) -> dict[str, str | None]:
    """Return the configuration of a client with the certificate in a folder, or with none."""
    files = {"ca-file": "ca.pem", "client.cert": "client.pem", "client.key": "client-key.pem"}
    return {f"distributed.comm.tls.{name}": folder and str(folder / file) for name, file in files.items()}


def test_clients_without_a_certificate_are_refused(corpus, undisturbed, cluster_file, tmp_path):
    pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")
    ours, others = make_certificates(tmp_path / "ours").parent, make_certificates(tmp_path / "others").parent
    with batch_jobs(cluster_file({"certificates": "ours"})) as client:
        address = client.scheduler.address
        assert all(a.startswith("tls://") for a in [address, *client.scheduler_info(n_workers=-1)["workers"]])
        assert bits(model().fit(corpus, client=client)) == undisturbed
        for certificate, place, why in (
            (client_of(None), address, "no certificate is configured"),
            (client_of(None), address.replace("tls://", "tcp://"), "no Dask scheduler answered"),
            (client_of(others), address, "TLS certificate does not match|certificate verify failed"),
        ):
            settings = {"distributed.comm.require-encryption": False, **certificate}
            with dask.config.set(settings), pytest.raises(ClusterError, match=why), connected(place, timeout=2):
                pass
        with dask.config.set(client_of(ours)), connected(address, timeout=10) as second:
            assert second.submit(sum, [1, 2]).result(timeout=30) == 3


@pytest.fixture
def qsub():
    """PBS's commands, which Debian's slurm-wlm-torque puts over Slurm."""
    if shutil.which("qsub") is None:
        pytest.skip("there is no qsub: Debian's slurm-wlm-torque has one over Slurm")


@pytest.mark.usefixtures("qsub")
def test_a_job_of_pbs_is_deleted_in_the_middle_of_an_epoch(corpus, undisturbed, cluster_file):
    file = cluster_file(system="pbs", **{"resource-spec": "nodes=1:ppn=1,mem=600mb"})
    said = []
    with batch_jobs(file, say=said.append) as client:
        client.wait_for_workers(2, timeout=60)
        jobs = [job.job_id for job in client.cluster.workers.values()]

        def callback(event):
            if is_end_of(event, 0, 1):
                ask("qdel", jobs[0])
                wait_until(lambda: len(client.nthreads()) == 1, "its worker is gone")

        assert bits(model().fit(corpus, client=client, callbacks=[callback])) == undisturbed
        wait_until(lambda: len(client.nthreads()) == 2, "another job has brought another worker", 60)
    assert any(jobs[0] in line and "job_state = C" in line for line in said)


@pytest.mark.usefixtures("qsub")
def test_more_memory_than_pbs_has(cluster_file):
    file = cluster_file(system="pbs", **{"resource-spec": "nodes=1:ppn=1,mem=900gb"})
    with pytest.raises(ClusterError, match="Requested node configuration is not available"), batch_jobs(file):
        pass


SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "train.sh"


@pytest.mark.parametrize("by", [
    "signal",  # the one that Slurm sends before the walltime ends, sent when there is something to go on from
    *(pytest.param(by, marks=pytest.mark.slow) for by in ("walltime", "requeue")),
])  # fmt: skip
@pytest.mark.timeout(600)
def test_requeued_and_resumed(by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin")
    X, y = random_counts(10_000, 500, 5, seed=3)
    corpus, epochs = write_corpus(tmp_path / "corpus.zarr", X, y), 60
    minutes = {"walltime": 3}.get(by, 20)
    job = ask(
        "sbatch", "--parsable", "--ntasks-per-node=2", "--mem-per-cpu=600", f"--time={minutes}", "--signal=B:USR1@60",
        "--output=log", str(SCRIPT), corpus.path, "a.model", "kept", "--epochs", str(epochs), "--rounds", "4",
    ).strip()  # fmt: skip
    wait_until(lambda: any(tmp_path.glob("kept/*.sdem")), "the first epoch has ended", 60)
    if by == "walltime":
        ask("pkill", "-STOP", "-f", f"sdem train {corpus.path}")  # so that it cannot end before Slurm's signal
        wait_until(lambda: "the walltime ends" in (tmp_path / "log").read_text(), "Slurm has sent the signal", 200)
        ask("scontrol", "update", f"JobId={job}", "TimeLimit=20")
    else:
        ask(*(["scancel", "--batch", "--signal=USR1", job] if by == "signal" else ["scontrol", "requeue", job]))
    wait_until(lambda: queue() == [], "the job has ended", 400)
    left = subprocess.run(["pgrep", "-f", f"scheduler-{job}-"], capture_output=True, text=True, timeout=30, check=False)
    assert left.stdout == ""
    shown, log = ask("scontrol", "show", "job", job), (tmp_path / "log").read_text()
    assert "JobState=COMPLETED" in shown, log
    restarts = re.search(r"Restarts=(\d+)", shown)
    assert restarts is not None and int(restarts[1]) >= 1
    assert ("the walltime ends: requeued" in log) is (by != "requeue")
    assert re.search(r"epochs, 4 rounds per epoch, .*, from epoch \d+", log)
    assert bits(load_model("a.model")) == bits(MultinomialNB(n_epochs=epochs, rounds_per_epoch=4).fit(corpus))


def test_missing_arguments():
    result = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 2 and "usage: sbatch train.sh" in result.stderr
