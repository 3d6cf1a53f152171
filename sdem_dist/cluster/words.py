"""Messages of a batch system about a job, and the job's own output."""

import re
import subprocess
from pathlib import Path

_QUEUE: dict[str, tuple[list[str], str, str]] = {
    "slurm": (
        ["squeue", "--noheader", "--states=all", "--format=job %i is %T (reason: %r) %N", "--jobs"],
        r" is (CANCELLED|COMPLETED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE)\b",
        "",
    ),
    "pbs": (["qstat", "-f"], r"job_state = [CF]\b", r"^Job Id|job_state|comment|exit_status|exec_host"),
    "sge": (["qstat", "-j"], r"(?!)", r"^job_number|^error|scheduling info|^\s"),
    "lsf": (["bjobs", "-l"], r"Status <(EXIT|DONE)>", ""),
}
"""How to ask for a job by its id, what the answer has for one that is over, and which of its lines to show.  A job that
the system does not know any more is over, too."""
LINES = 12


def about(system: str, job_id: str) -> tuple[str, bool | None]:
    """Ask a batch system about a job.

    Returns its words, and whether the job is over; None if the batch system does not answer.
    """
    command, over, shown = _QUEUE[system]
    try:
        answer = subprocess.run([*command, job_id], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} did not answer: {error}", None
    lines = [line for line in answer.stdout.splitlines() if re.search(shown, line)]
    words = _first_lines("\n".join(lines).strip() or answer.stderr.strip())
    unknown = answer.returncode != 0 or not words
    if unknown and answer.stderr.strip() and not re.search(UNKNOWN_JOB, answer.stderr, re.IGNORECASE):
        return words, None  # it speaks of itself, not of the job
    return words or f"job {job_id} is not in the queue", unknown or re.search(over, answer.stdout) is not None


UNKNOWN_JOB = r"invalid job|unknown job|not found|do(es)? not exist|no such job"


def log_of(job_id: str, folder: str | None, job_name: str | None = None) -> str:
    """Return the last lines of a job's log, if it is where its batch system or jobqueue names one after the job."""
    names = "|".join(re.escape(name) for name in {job_name or "dask-worker", "slurm"})
    named = re.compile(rf"(?:{names})[-.](?:[oe]|job)?{re.escape(job_id.partition('.')[0])}(?:\.[\w.-]+)?")
    logs = [path for path in sorted(Path(folder or ".").glob("*")) if named.fullmatch(path.name) and path.is_file()]
    texts = {path: path.read_text(errors="replace").strip().splitlines() for path in logs}
    return "\n".join("\n".join([f"{path}:", *lines[-LINES:]]) for path, lines in texts.items() if lines)


def refused(error: Exception) -> str:
    """Return the message of the submit command, without jobqueue's own words."""
    return _first_lines(str(error).partition("stdout:\n")[2].replace("stderr:\n", "").strip() or str(error))


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:LINES])
