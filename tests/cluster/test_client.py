"""Getting a client, workers of this machine, what listens where, what doctor finds, and clusters that are not there."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from cli.commands import ok, run
from distributed import Client, LocalCluster
from reference.random_documents import random_counts

from sdem_dist import ClusterError, MultinomialNB, compat, write_corpus
from sdem_dist.cli import doctor
from sdem_dist.cli.doctor import examine
from sdem_dist.cluster import batch_jobs, client, connected
from sdem_dist.cluster.client import held_back, worker_memory
from sdem_dist.engine.dask import DaskExecutor
from sdem_dist.engine.executor import LOADED, Executor

HERE = doctor.facts_of_process()
SUBMITTED = """#!/bin/sh
cp "$1" {folder}/job
setsid bash {folder}/job >{folder}/log 2>&1 &
echo "Submitted batch job $!"
"""


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_nothing_asked_for_is_no_client_and_both_are_an_error():
    with connected() as client:
        assert client is None
    with pytest.raises(ValueError, match="not both"), connected("tcp://127.0.0.1:1", 2):
        pass


@pytest.mark.parametrize("by", ["address", "file", "web server"])
def test_what_accepts_and_never_answers_as_a_scheduler_is_named_in_time(by, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        if by == "file":
            (tmp_path / "scheduler.json").write_text(json.dumps({"address": where}))
            where = str(tmp_path / "scheduler.json")
        elif by == "web server":
            threading.Thread(target=lambda: other.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")).start()
        began = time.monotonic()
        with pytest.raises(ClusterError, match="within 1 s: a server accepts"), connected(where, timeout=1.0):
            pass
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("address", [
    "nonsense", "127.0.0.1:port", "carrier-pigeon://127.0.0.1:1", "tls://127.0.0.1:1", "absent.json", "other.json",
    "tcp://127.0.0.1:CLOSED",
])  # fmt: skip
def test_no_client_is_made_for_an_address_that_is_none(address, tmp_path, monkeypatch):
    is_asked, address = address.endswith("CLOSED"), address.replace("CLOSED", str(closed_port()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("[]")
    before = set(Client._instances)
    with pytest.raises(ClusterError, match=address) as refused, connected(address, timeout=0.5):
        pass
    assert dask.config.get("scheduler", None) is None
    assert set(Client._instances) == before
    assert ("(Connection refused)" in str(refused.value)) == is_asked and ": )" not in str(refused.value)
    assert refused.tb is not None  # which would have kept alive what had been made


def test_credentials_in_an_address_are_refused_and_not_printed():
    user = "s3cret@127.0.0.1:9"
    places = [f"user:{user}", "user:s3/cret@127.0.0.1:9", f"{user}/clusters/x", "127.0.0.1:9/?token=s3cret"]
    for place, n_workers in zip(places, (1, None, 1, 1), strict=True):
        address = f"https://{place}"
        with pytest.raises(ClusterError, match="Dask's configuration") as caught, connected(address, n_workers):
            pass
        assert "cret" not in str(caught.value)


def test_scheduler_by_address_and_by_file_and_without_workers(tmp_path):
    here: dict = {"processes": False, "dashboard_address": None, "protocol": "tcp", "host": "127.0.0.1"}
    with LocalCluster(n_workers=0, **here) as cluster:
        address = cluster.scheduler_address
        with connected(address, timeout=5) as client:
            assert client.scheduler.address == address
            with pytest.raises(ClusterError, match=f"{address} has had no workers for 0.1 s"):
                DaskExecutor(client, wait_for_workers=0.1)
            np.testing.assert_raises_regex(ClusterError, "another --folder", examine, client, tmp_path / "absent")
            np.testing.assert_raises_regex(ClusterError, "has no workers to check", examine, client, tmp_path)
            identity = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.identity())
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps(identity))
        with connected(str(file), timeout=5) as client:
            assert client.scheduler.address == address


def without_gathering(dask_scheduler) -> None:
    dask_scheduler.handlers["gather"] = None


def test_results_do_not_pass_through_a_scheduler_in_the_driver():
    with connected(n_workers=1) as client:
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
        executor = DaskExecutor(client)
        client.run_on_scheduler(without_gathering)
        assert executor.result(executor.submit(len, "four")) == 4


def place(**changed: Any) -> dict[str, Any]:
    return HERE | {"memory_limit": 8 << 30, "nthreads": 1, "sees_file": True} | changed


NUMPY, BIG = place(versions=HERE["versions"] | {"numpy": "1.0"}), (20_000_000, 20)
FINDINGS = {
    "versions": ("versions", {"w": place(), "tcp://b": NUMPY}, {}, "error",
                 f"numpy is {HERE['versions']['numpy']} on the client, 1.0 on tcp://b"),
    "targets": ("cpu", {"client": place(target="generic"), "b": place(target="znver3 +avx")}, {},
                "warning", "the client and b differ (generic, znver3, +avx)"),
    "processors": ("cpu", {"client": place(target="znver3 +avx -fma"), "b": place(target="znver3 +avx +fma")}, {},
                   "warning", "the client and b differ (+fma, -fma)"),
    "threads": ("threads", {"w": place(cores=2, nthreads=4)}, {}, "warning", "w runs 4 threads on 2 cores"),
    "threads of libraries": ("threads", {"w": place(threads={"OMP_NUM_THREADS": "16"})}, {}, "warning",
                             "OMP_NUM_THREADS=16"),
    "memory": ("memory", {"w": place()}, {"size": (1000, 10)}, "ok", ""),
    "memory that may do": ("memory", {"w": place()}, {"size": (15_000_000, 20)}, "warning",
                           "can use 8.0 GiB; 8.5 GiB is recommended"),
    "memory that is short": ("memory", {"w": place()}, {"size": BIG}, "error", "training will not start"),
    "memory without a limit": ("memory", {"w": place(memory_limit=None)}, {"size": (10_000_000, 20)}, "ok", ""),
    "scratch": ("scratch", {"w": place(scratch_free=1 << 20)}, {}, "warning", ""),
    "files": ("files", {"w": place(sees_file=False)}, {"folder": "/data"}, "error", ""),
    "encrypted": ("encryption", {"w": place()}, {"addresses": ["tls://10.0.0.1:1", "tls://10.0.0.2:1"]}, "ok", ""),
    "loopback": ("encryption", {"w": place()}, {"addresses": ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]}, "ok", ""),
    "in the clear": ("encryption", {"w": place()}, {"addresses": ["tcp://127.0.0.1:1", "tcp://10.0.0.2:1"]}, "warning",
                     ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_what_is_found(name):
    topic, workers, more, verdict, text = FINDINGS[name]
    here = {"the client": workers.get("client", HERE)}
    workers = {worker: facts for worker, facts in workers.items() if worker != "client"}
    lines = doctor.checks_of(here | workers, **{"folder": "", "addresses": (), "size": ()} | more)
    (line,) = [line for line in lines if line.topic == topic]
    assert line.verdict == verdict and text in line.text


def test_a_cluster_of_this_machine_whose_workers_lack_this_package(tmp_path):
    corpus = write_corpus(tmp_path / "corpus.zarr", *random_counts(60, 50, 3, seed=7))
    preload = tmp_path / "preload.py"
    preload.write_text("import sys\nsys.modules['sdem_dist'] = None\n")
    with dask.config.set({"distributed.worker.preload": [str(preload)]}), connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        lines = doctor.examine(client, tmp_path, 50, 3)
        assert {line.topic for line in lines if line.verdict == "error"} == set()
        topics = ["versions", "cpu", "files", "memory", "threads", "scratch", "encryption"]
        assert list(dict.fromkeys(line.topic for line in lines)) == topics
        said = ok("doctor --scheduler", client.scheduler.address, "--folder", tmp_path, "--corpus", corpus.path)
        assert said.splitlines()[-1].startswith("ready")
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.zarr", "preload.py"}


def test_an_error_is_the_exit_code(monkeypatch):
    monkeypatch.setattr(doctor, "SCRATCH", 1 << 60)
    ok("doctor")  # a warning is none
    monkeypatch.setattr(doctor, "examine", lambda *_: [doctor.Check("error", "scratch", "none")])
    result = run("doctor")
    assert result.exit_code == 1 and "not ready: 1 error, 0 warnings" in result.output


def listening(processes: list[int]) -> list[str]:
    family = {p for pid in processes for p in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]}
    return [c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def test_workers_of_this_machine():
    with dask.config.set({"distributed.worker.profile.enabled": True}), connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        assert set(client.run(lambda dask_worker: "profile" in dask_worker.periodic_callbacks).values()) == {False}
        found = listening([os.getpid()])
        assert len(found) >= 2 * 2 + 2  # two ports of each worker, the scheduler and its dashboard
        assert set(found) == {"127.0.0.1"}
        examine(client, Path())
        assert sorted(listening([os.getpid()])) == sorted(found), "doctor opens none"


def test_a_driver_and_its_jobs(tmp_path, monkeypatch):
    """With commands in place of Slurm's: its own daemons listen, too, and are not ours."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'sdem_dist[jobqueue]'")
    scripts = {"sbatch": SUBMITTED.format(folder=tmp_path), "squeue": '#!/bin/sh\necho "job is RUNNING"\n'}
    scripts["scancel"] = '#!/bin/sh\nkill -TERM -- "-$1"\n'
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = tmp_path / "cluster.yaml"
    file.write_text("jobqueue: {slurm: {cores: 1, memory: 1GiB}}\nsdem-dist: {wait-for-workers: 60}\n")
    with batch_jobs(file) as client:
        jobs = [int(job.job_id) for job in client.cluster.workers.values()]
        found = listening([os.getpid(), *jobs])
        assert len(found) >= 5  # scheduler and its dashboard, the nanny, the worker and its dashboard
        assert set(found) == {"127.0.0.1"}


def test_no_file_under_deploy_listens_everywhere_by_itself():
    root = Path(__file__).parents[2] / "deploy"
    texts = {p: p.read_text() for p in root.rglob("*") if p.is_file() and p.suffix in (".sh", ".yaml", ".py", ".md")}
    texts = {p: text for p, text in texts.items() if "kubernetes" not in p.parts}  # a pod's network is its own
    assert texts and [p for p, text in texts.items() if re.search(r"0\.0\.0\.0|--host ''", text)] == []


@pytest.mark.parametrize("n_workers", [1, 2, 7, 64])
@pytest.mark.parametrize("memory", [1 << 30, 1_200 << 20, 16 << 30, 1 << 40])
def test_workers_and_this_process_together_keep_to_what_it_may_use(memory, n_workers, monkeypatch):
    monkeypatch.setattr(client, "of_this_process", lambda: memory)
    try:
        share = worker_memory(n_workers)
    except ClusterError as error:
        assert memory < (n_workers + 2) * LOADED and "fewer workers" in str(error)
    else:
        assert share >= LOADED and n_workers * share <= memory - min(memory // (n_workers + 1), 350 << 20)


@pytest.mark.parametrize("always", [False, True])
def test_a_worker_that_dies_while_it_starts_is_started_again_and_one_that_always_dies_is_named(always, tmp_path):
    marker, preload = tmp_path / "died", tmp_path / "preload.py"
    mark = "" if always else f"open({str(marker)!r}, 'w').close()\n    "
    preload.write_text(f"import os\nif not os.path.exists({str(marker)!r}):\n    {mark}os.kill(os.getpid(), 9)\n")
    with dask.config.set({"distributed.worker.preload": [str(preload)]}):
        if not always:
            with connected(n_workers=1) as connection:
                assert connection.submit(int).result() == 0
            return
        with pytest.raises(ClusterError, match="exited at startup") as error, connected(n_workers=1):
            pass
        assert "__main__" not in str(error.value), "it is no fault of the script"


INTERRUPTED = """
from sdem_dist.cluster import connected
if __name__ == "__main__":
    try:
        with connected(n_workers=2):
            pass
    except KeyboardInterrupt:
        raise SystemExit("interrupted")
"""


def test_an_interrupt_while_workers_start_is_told_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, script], start_new_session=True, **pipes)
    children = f"/proc/{process.pid}/task/{process.pid}/children"

    def n_children() -> int:
        threads = os.listdir(os.path.dirname(os.path.dirname(children)))
        return sum(len(open(children.replace(f"task/{process.pid}", f"task/{t}")).read().split()) for t in threads)

    while process.poll() is None and n_children() < 3:  # two workers, and what cleans up after them
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors == "interrupted\n"


@dataclass
class Elsewhere(Executor):
    """Threads of this process, and the answer of a process that compiles for another processor."""

    target: str

    def __post_init__(self) -> None:
        super().__init__(1)

    def run_on_all_workers(self, function, *args):
        answers = super().run_on_all_workers(function, *args)
        return [*answers, self.target] if isinstance(answers[0], str) else answers


@pytest.mark.parametrize(("target", "warns"), [("generic", True), (compat.compile_target(), False)])
def test_a_run_warns_of_workers_that_compile_for_other_processors(target, warns, monkeypatch, recwarn):
    from sdem_dist.fitting import running

    monkeypatch.setattr(running, "Executor", lambda *_: Elsewhere(target))
    MultinomialNB(n_epochs=1).fit(np.eye(6, dtype=int), [0, 1] * 3)
    assert warns == any("compiles its kernels for a different processor" in str(w.message) for w in recwarn)


def test_a_system_without_threads_says_what_to_do(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with Executor(2) as executor:
        monkeypatch.setattr("threading.Thread.start", refuse)
        np.testing.assert_raises_regex(MemoryError, "ulimit", executor.submit, int)


@pytest.mark.parametrize(("memory", "pauses"), [(1_200_000_000, False), (1 << 34, True)])
def test_kernels_pause_no_worker_of_a_small_job(memory, pauses, monkeypatch):
    """A worker with compiled kernels has over 300 MB; 80 % of a small share would stop it for good."""
    monkeypatch.setattr(client, "of_this_process", lambda: memory)
    with connected(n_workers=2) as connection:
        paused = connection.run(lambda dask_worker: bool(dask_worker.memory_manager.memory_pause_fraction)).values()
        limits = {w["memory_limit"] for w in connection.scheduler_info(n_workers=-1)["workers"].values()}
    assert (set(paused), limits) == ({pauses}, {worker_memory(2)})


def test_an_interrupt_waits_until_the_block_has_ended_where_it_is_not_ignored():
    done, before = [], signal.getsignal(signal.SIGINT)

    def begin():
        with held_back():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    np.testing.assert_raises(KeyboardInterrupt, begin)
    assert done and signal.getsignal(signal.SIGINT) is before
    with pytest.raises(OSError, match="full"), held_back():
        raise OSError("full")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begin()
        thread = threading.Thread(target=lambda: held_back().__enter__())
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "of other threads, too"
    finally:
        signal.signal(signal.SIGINT, before)
    code = "import os, signal\nfrom sdem_dist.cluster.client import held_back\nsignal.signal(2, signal.SIG_DFL)\n"
    code += "with held_back():\n    os.kill(os.getpid(), 2)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGINT
