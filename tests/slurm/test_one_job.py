"""Everything in one batch job that does not last for the run: requeued, resumed, same bits."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults.clusters import wait_until
from reference.random_documents import random_counts
from reference.trained_bits import bits
from slurm.conftest import ask, queue

from sdem_dist import MultinomialNB, load_model, write_corpus

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "train.sh"


@pytest.mark.parametrize(
    ("epochs", "by"),
    [
        # The signal that Slurm sends before the walltime ends, sent when there is something to go on from.
        pytest.param(60, "signal", id="signal"),
        # A minute is the shortest walltime, and Slurm looks at walltimes twice a minute.
        pytest.param(400, "walltime", id="walltime", marks=pytest.mark.slow),
        pytest.param(60, "requeue", id="node", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(600)
def test_requeued_and_resumed(epochs, by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin")
    X, y = random_counts(10_000, 500, 5, seed=3)
    corpus = write_corpus(tmp_path / "corpus.zarr", X, y)
    minutes = 1 if by == "walltime" else 20
    job = ask(
        "sbatch", "--parsable", "--ntasks-per-node=2", "--mem-per-cpu=600", f"--time={minutes}", "--signal=B:USR1@55",
        "--output=log", str(SCRIPT), corpus.path, "a.model", "kept", "--epochs", str(epochs), "--rounds", "4",
    ).strip()  # fmt: skip
    if by != "walltime":
        wait_until(lambda: any(tmp_path.glob("kept/*.sdem")), "the first epoch has ended", 60)
        ask(*(["scancel", "--batch", "--signal=USR1", job] if by == "signal" else ["scontrol", "requeue", job]))
    wait_until(lambda: queue() == [], "the job has ended", 400)
    left = subprocess.run(["pgrep", "-f", f"scheduler-{job}-"], capture_output=True, text=True, timeout=30, check=False)
    assert left.stdout == ""
    shown, log = ask("scontrol", "show", "job", job), (tmp_path / "log").read_text()
    assert "JobState=COMPLETED" in shown, log
    restarts = re.search(r"Restarts=(\d+)", shown)
    assert restarts is not None
    assert int(restarts[1]) >= 1
    assert ("the walltime ends: requeued" in log) is (by != "requeue")
    assert re.search(r"epochs, 4 rounds per epoch, .*, from epoch \d+", log)
    undisturbed = MultinomialNB(n_epochs=epochs, rounds_per_epoch=4).fit(corpus)
    assert bits(load_model(tmp_path / "a.model")) == bits(undisturbed)


def test_missing_arguments():
    result = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 2
    assert "usage: sbatch train.sh" in result.stderr
