"""What batch systems say about jobs: over or not, and which words."""

import os

import pytest

from sdem_dist.cluster import jobs


@pytest.mark.parametrize(
    ("system", "command", "status", "answer", "over"),
    [
        ("slurm", "squeue", 0, "job 7 is PENDING (reason: Resources)", False),
        ("slurm", "squeue", 0, "job 7 is TIMEOUT (reason: TimeLimit) n1", True),
        ("slurm", "squeue", 0, "", True),  # it is forgotten
        ("slurm", "squeue", 1, "slurm_load_jobs error: Invalid job id specified", True),
        ("slurm", "squeue", 1, "slurm_load_jobs error: Unable to contact slurm controller", None),
        ("slurm", None, 1, "squeue did not answer", None),
        ("pbs", "qstat", 0, "Job Id: 7\n    job_state = Q\n    comment = Not Running: no node", False),
        ("pbs", "qstat", 0, "Job Id: 7\n    job_state = F", True),
        ("sge", "qstat", 0, "job_number:   7\nscheduling info:   cannot run", False),
        ("lsf", "bjobs", 0, "Job <7>, Status <PEND>", False),
        ("lsf", "bjobs", 0, "Job <7>, Status <EXIT>", True),
    ],
)
def test_an_answer(system, command, status, answer, over, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}" if command else "/nowhere")
    (tmp_path / "answer").write_text(answer)
    script = tmp_path / (command or "none")
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/answer {'>&2' if status else ''}\nexit {status}\n")
    script.chmod(0o755)
    said, found = jobs.job_status(system, "7")
    assert found is over
    assert "\n".join(line.strip() for line in answer.splitlines()) in said
    assert answer or said == "job 7 is not in the queue"


def test_logs_are_found_by_the_jobs_id(tmp_path):
    (tmp_path / "sdem-7.err").write_text("\n".join(f"line {i}" for i in range(100)))
    (tmp_path / "sdem-77.err").write_text("another job's")
    (tmp_path / "sdem-7.out").write_text("")
    (tmp_path / "notes-7.txt").write_text("no log")
    found = jobs.log_of_job("7", str(tmp_path), "sdem").splitlines()
    assert (found[0], found[-1], len(found)) == (f"{tmp_path}/sdem-7.err:", "line 99", 1 + jobs.LINES)
    assert jobs.log_of_job("7", str(tmp_path / "absent")) == ""
    for name in ("slurm-8.out", "dask-worker.o8", "dask-worker.e8", "dask-worker-8.err", "dask-worker.8.server.OU"):
        (tmp_path / name).write_text(f"from {name}")
    assert jobs.log_of_job("8.server", str(tmp_path)).count("from ") == 5
