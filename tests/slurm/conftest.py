"""The Slurm that ``slurm.sh start`` has started, never another; whatever a test does, its queue is empty afterwards."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faults.clusters import wait_until
from faults.conftest import corpus, undisturbed

__all__ = ["corpus", "undisturbed"]

HOME = Path(os.environ.get("SDEM_SLURM", "/tmp/sdem-slurm-tests"))


def ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def queue() -> list[str]:
    return ask("squeue", "--noheader", "--format=%A").split()


@cache
def runs() -> bool:
    """Say whether our Slurm answers; asked once, since a Slurm that is gone takes long to say so."""
    try:
        ask("sinfo", "--noheader")
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@pytest.fixture(autouse=True)
def slurm(monkeypatch):
    """Point the commands to our Slurm; afterwards nothing may be left in its queue."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'sdem_dist[jobqueue]'")
    monkeypatch.setenv("SLURM_CONF", str(HOME / "slurm.conf"))
    if not runs():
        pytest.skip("our Slurm does not run here: tests/slurm/slurm.sh install, then start")
    assert queue() == []
    yield
    try:
        wait_until(lambda: queue() == [], "the queue is empty", 20)
    finally:
        for job in queue():
            ask("scancel", job)


@pytest.fixture
def cluster_file(tmp_path, monkeypatch):
    import yaml

    monkeypatch.chdir(tmp_path)  # jobs begin where they were submitted, and leave their logs there

    def write(ours: dict[str, Any] | None = None, system: str = "slurm", **options: Any) -> Path:
        content = {
            "sdem-dist": {"jobs": 2, "wait-for-workers": 60, **(ours or {})},
            "jobqueue": {system: {"cores": 1, "processes": 1, "memory": "600MiB", "log-directory": "logs", **options}},
        }
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    return write
