"""What batch systems say about jobs: over or not, and which words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sdem_dist.cluster import jobs


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Return a function that puts a command into the path, which prints a text and ends with a status."""

    def put(command: str, out: str = "", status: int = 0, error: str = "") -> None:
        script = tmp_path / command
        (tmp_path / "out").write_text(out)
        (tmp_path / "error").write_text(error)
        script.write_text(f"#!/bin/sh\ncat {tmp_path}/out\ncat {tmp_path}/error >&2\nexit {status}\n")
        script.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return put


@pytest.mark.parametrize(
    ("system", "command", "answer", "over"),
    [
        ("slurm", "squeue", "job 7 is PENDING (reason: Resources)", False),
        ("slurm", "squeue", "job 7 is TIMEOUT (reason: TimeLimit) n1", True),
        ("pbs", "qstat", "Job Id: 7\n    job_state = Q\n    comment = Not Running: no node", False),
        ("pbs", "qstat", "Job Id: 7\n    job_state = F", True),
        ("sge", "qstat", "job_number:   7\nscheduling info:   cannot run", False),
        ("lsf", "bjobs", "Job <7>, Status <PEND>", False),
        ("lsf", "bjobs", "Job <7>, Status <EXIT>", True),
    ],
)
def test_an_answer(system, command, answer, over, answers):
    answers(command, answer)
    said, found = jobs.job_status(system, "7")
    assert found is over
    assert said == "\n".join(line.strip() for line in answer.splitlines())


def test_a_job_that_is_forgotten_is_over(answers):
    answers("squeue", status=1, error="slurm_load_jobs error: Invalid job id specified")
    assert jobs.job_status("slurm", "7") == ("slurm_load_jobs error: Invalid job id specified", True)
    answers("squeue")
    assert jobs.job_status("slurm", "7") == ("job 7 is not in the queue", True)


def test_a_batch_system_that_does_not_answer_says_nothing_about_the_job(answers, monkeypatch):
    answers("squeue", status=1, error="slurm_load_jobs error: Unable to contact slurm controller")
    assert jobs.job_status("slurm", "7")[1] is None
    monkeypatch.setenv("PATH", "/nowhere")
    said, over = jobs.job_status("slurm", "7")
    assert over is None
    assert "squeue did not answer" in said


def test_logs_are_found_by_the_jobs_id(tmp_path):
    (tmp_path / "sdem-7.err").write_text("\n".join(f"line {i}" for i in range(100)))
    (tmp_path / "sdem-77.err").write_text("another job's")
    (tmp_path / "sdem-7.out").write_text("")
    (tmp_path / "notes-7.txt").write_text("no log")
    found = jobs.log_of_job("7", str(tmp_path), "sdem").splitlines()
    assert found[0] == f"{tmp_path}/sdem-7.err:"
    assert found[-1] == "line 99"
    assert len(found) == 1 + jobs.LINES
    assert jobs.log_of_job("7", str(Path(tmp_path, "absent"))) == ""
    for name in ("slurm-8.out", "dask-worker.o8", "dask-worker.e8", "dask-worker-8.err", "dask-worker.8.server.OU"):
        (tmp_path / name).write_text(f"from {name}")
    assert jobs.log_of_job("8.server", str(tmp_path)).count("from ") == 5
