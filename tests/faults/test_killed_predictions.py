"""A table of predictions by workers whose driver or worker is killed: the same command goes on, to the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cli.commands import ok, run

from sdem_dist import MultinomialNB
from sdem_dist.cli import kept_answers
from sdem_dist.text import records

PIECE, N = 700, 300
KILLED = """
import os, signal, sys
from sdem_dist import cli
from sdem_dist.cli import kept_answers
from sdem_dist.text import records
records.PIECE_BYTES = 700
load, loaded = kept_answers._loaded, []
def disturbed(folder, gate):
    loaded.append(folder)
    if len(loaded) == 4:
        os.killpg(0, signal.SIGKILL)
    return load(folder, gate)
kept_answers._loaded = disturbed
if __name__ == "__main__":
    os.setpgid(0, 0)
    cli.main(sys.argv[1:])
"""


@pytest.fixture
def made(tmp_path) -> Path:
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(tmp_path / "m")
    lines = [f'{{"text": "{texts[i % 7]} {texts[i % 3]}", "number": {i}}}\n' for i in range(N)]
    (tmp_path / "s.jsonl").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize("name", ["o.parquet", pytest.param("o.csv", marks=pytest.mark.slow)])
def test_the_same_command_goes_on_after_kills(name, made, monkeypatch):
    monkeypatch.setattr(records, "PIECE_BYTES", PIECE)
    command = ["predict", str(made / "m"), str(made / "s.jsonl"), "-o"]
    ok(*command, str(made / f"here-{name}"))
    (made / "killed.py").write_text(KILLED)
    script = [sys.executable, str(made / "killed.py"), *command, str(made / name), "--workers", "1"]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    assert not (made / name).exists()
    (kept,) = made.glob(f".{name}.predicted-*")
    before = len(list(kept.glob("*/summary.json")))
    assert before >= 4

    in_order, asked = kept_answers.in_order, []

    def and_kill_a_worker(executor, function, jobs):
        def counted():
            for job in jobs:
                if not asked:
                    workers = [
                        p for p in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(p.cmdline())
                    ]
                    os.kill(workers[0].pid, signal.SIGKILL)
                asked.append(job)
                yield job

        return in_order(executor, function, counted())

    monkeypatch.setattr(kept_answers, "in_order", and_kill_a_worker)
    found = run(*command, str(made / name), "--workers", "1", catch_exceptions=False)
    assert f"going on: {before} parts of the table were made before" in found.stderr
    pieces = len(asked) + before
    assert pieces > 10 and (made / name).read_bytes() == (made / f"here-{name}").read_bytes()
    asked.clear()
    ok(*command, str(made / name), "--workers", "1", "--overwrite")
    assert len(asked) == pieces, "a whole table leaves nothing to go on with"
    assert sorted(p.name for p in made.iterdir()) == sorted(["m", "s.jsonl", "killed.py", name, f"here-{name}"])
