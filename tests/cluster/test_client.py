"""Getting a client, what it listens at, what doctor finds, and the errors of clusters that are not there."""

import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli.commands import ok, run
from reference.random_documents import random_counts

from sdem_dist import write_corpus
from sdem_dist.cluster import batch_jobs, connected, diagnostics
from sdem_dist.cluster.diagnostics import examine
from sdem_dist.errors import ClusterError


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_nothing_asked_for_is_no_client_and_both_are_an_error():
    with connected() as client:
        assert client is None
    with pytest.raises(ValueError, match="not both"), connected("tcp://127.0.0.1:1", 2):
        pass


@pytest.mark.parametrize("by", ["address", "file"])
def test_a_scheduler_that_accepts_and_never_answers_is_named_in_time(by, tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        if by == "file":
            (tmp_path / "scheduler.json").write_text(json.dumps({"address": where}))
            where = str(tmp_path / "scheduler.json")
        began = time.monotonic()
        with pytest.raises(ClusterError, match="within 1 s"), connected(where, timeout=1.0):
            pass
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "address",
    [
        "nonsense", "127.0.0.1:port", "carrier-pigeon://127.0.0.1:1", "tls://127.0.0.1:1", "absent.json", "other.json",
        f"tcp://127.0.0.1:{closed_port()}",
    ],
)  # fmt: skip
def test_no_client_is_made_for_an_address_that_is_none(address, tmp_path, monkeypatch):
    import dask
    from distributed import Client

    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("[]")
    before = set(Client._instances)
    with pytest.raises(ClusterError, match=address) as refused, connected(address, timeout=0.5):
        pass
    assert dask.config.get("scheduler", None) is None
    assert set(Client._instances) == before
    assert refused.tb is not None  # which would have kept alive what had been made


def test_credentials_in_an_address_are_refused_and_not_printed():
    places = [
        "user:s3cret@127.0.0.1:9",
        "user:s3/cret@127.0.0.1:9",
        "s3cret@127.0.0.1:9/clusters/x",
        "127.0.0.1:9/?token=s3cret",
    ]
    for place, n_workers in zip(places, (1, None, 1, 1), strict=True):
        address = f"https://{place}"
        with pytest.raises(ClusterError, match="Dask's configuration") as caught, connected(address, n_workers):
            pass
        assert "cret" not in str(caught.value)


def test_scheduler_by_address_and_by_file_and_without_workers(tmp_path):
    from distributed import LocalCluster

    from sdem_dist.engine.dask import DaskExecutor

    with LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, protocol="tcp", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        with connected(address, timeout=5) as client:
            assert client.scheduler.address == address
            with pytest.raises(ClusterError, match=f"{address} has had no worker for 0.1 s"):
                DaskExecutor(client, wait_for_workers=0.1)
            with pytest.raises(ClusterError, match="has no workers to look at"):
                examine(client, tmp_path)
            identity = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.identity())
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps(identity))
        with connected(str(file), timeout=5) as client:
            assert client.scheduler.address == address


def without_gathering(dask_scheduler) -> None:
    dask_scheduler.handlers["gather"] = None


def test_results_do_not_pass_through_a_scheduler_in_the_driver():
    from sdem_dist.engine.dask import DaskExecutor

    with connected(n_workers=1) as client:
        executor = DaskExecutor(client)
        client.run_on_scheduler(without_gathering)
        assert executor.result(executor.submit(len, "four")) == 4


HERE = diagnostics.facts_of_process()


def place(**changed: Any) -> dict[str, Any]:
    return HERE | {"memory_limit": 8 << 30, "nthreads": 1, "sees_file": True} | changed


NUMPY, BIG = place(versions=HERE["versions"] | {"numpy": "1.0"}), (20_000_000, 20)
FINDINGS = {
    "versions": ("versions", {"w": place(), "tcp://b": NUMPY}, {}, "error",
                 f"numpy is {HERE['versions']['numpy']} at the client, 1.0 at tcp://b"),
    "targets": ("cpu", {"client": place(target="generic"), "b": place(target="znver3 +avx")}, {},
                "warning", "the client and b differ in generic and znver3"),
    "processors": ("cpu", {"client": place(target="znver3 +avx -fma"), "b": place(target="znver3 +avx +fma")}, {},
                   "warning", "the client and b differ in -fma"),
    "threads": ("threads", {"w": place(cores=2, nthreads=4)}, {}, "warning", "w runs 4 threads on 2 cores"),
    "threads of libraries": ("threads", {"w": place(threads={"OMP_NUM_THREADS": "16"})}, {}, "warning",
                             "OMP_NUM_THREADS=16"),
    "memory": ("memory", {"w": place()}, {"size": (1000, 10)}, "ok", ""),
    "memory that may do": ("memory", {"w": place()}, {"size": (15_000_000, 20)}, "warning",
                           "may use 8.0 GiB; 8.5 GiB are advised"),
    "memory that is short": ("memory", {"w": place()}, {"size": BIG}, "error", "training refuses to start"),
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
    lines = diagnostics.checks_of(here | workers, **{"folder": "", "addresses": (), "size": ()} | more)
    (line,) = [line for line in lines if line.topic == topic]
    assert line.verdict == verdict and text in line.text


def test_a_cluster_of_this_machine(tmp_path):
    corpus = write_corpus(tmp_path / "corpus.zarr", *random_counts(60, 50, 3, seed=7))
    with connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        lines = diagnostics.examine(client, tmp_path, 50, 3)
        assert {line.topic for line in lines if line.verdict == "error"} == set()
        topics = ["versions", "cpu", "files", "memory", "threads", "scratch", "encryption"]
        assert list(dict.fromkeys(line.topic for line in lines)) == topics
        said = ok("doctor --scheduler", client.scheduler.address, "--folder", tmp_path, "--corpus", corpus.path)
        assert said.splitlines()[-1].startswith("fit")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.zarr"]


def test_an_error_is_the_exit_code(monkeypatch):
    monkeypatch.setattr(diagnostics, "SCRATCH", 1 << 60)
    ok("doctor")  # a warning is none
    monkeypatch.setattr(diagnostics, "examine", lambda *_: [diagnostics.Check("error", "scratch", "none")])
    result = run("doctor")
    assert result.exit_code == 1 and "not fit: 1 error, 0 warnings" in result.output


def listening(processes: list[int]) -> list[str]:
    """Return the addresses at which processes, and the processes that they started, listen."""
    family = {p for pid in processes for p in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]}
    return [c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def test_workers_of_this_machine():
    with connected(n_workers=2) as client:
        client.wait_for_workers(2, timeout=60)
        found = listening([os.getpid()])
        assert len(found) >= 2 * 2 + 2  # two ports of each worker, the scheduler and its dashboard
        assert set(found) == {"127.0.0.1"}
        examine(client, Path())
        assert sorted(listening([os.getpid()])) == sorted(found), "doctor opens none"


SUBMITTED = """#!/bin/sh
cp "$1" {folder}/job
setsid bash {folder}/job >{folder}/log 2>&1 &
echo "Submitted batch job $!"
"""


def test_a_driver_and_its_jobs(tmp_path, monkeypatch):
    """With commands in place of Slurm's: its own daemons listen, too, and are not ours."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'sdem_dist[jobqueue]'")
    scripts = {
        "sbatch": SUBMITTED.format(folder=tmp_path),
        "scancel": '#!/bin/sh\nkill -TERM -- "-$1"\n',
        "squeue": '#!/bin/sh\necho "job is RUNNING"\n',
    }
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
    assert texts
    assert [p for p, text in texts.items() if re.search(r"0\.0\.0\.0|--host ''", text)] == []
