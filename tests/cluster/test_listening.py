"""What the package starts listens on this machine only: read from the sockets of the processes."""

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sdem_dist.cluster import batch_jobs, connected
from sdem_dist.cluster.diagnostics import examine


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


@pytest.mark.parametrize("command", [["doctor"], ["demo", "--epochs", "1", "--workers", "1"]])
def test_commands_that_look_around(command, tmp_path):
    """Looked at again and again while they run."""
    code = "from sdem_dist.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *command], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    found: set[str] = set()
    while process.poll() is None:
        with suppress(psutil.Error):
            found |= set(listening([process.pid]))
        time.sleep(0.1)
    assert process.returncode == 0, process.stdout.read()
    assert found == ({"127.0.0.1"} if command[0] == "demo" else set())


def test_doctor_of_a_cluster():
    with connected(n_workers=1) as client:
        client.wait_for_workers(1, timeout=60)
        before = sorted(listening([os.getpid()]))
        examine(client, Path())
        assert sorted(listening([os.getpid()])) == before


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
