"""A table of predictions by workers, one of whom is killed: the same bytes; a killed command leaves no table."""

import os
import signal
from pathlib import Path

import psutil
import pytest
from cli.commands import ok, run

from sdem_dist import MultinomialNB
from sdem_dist.cli import streaming
from sdem_dist.text import splits

N = 300


@pytest.fixture
def made(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(splits, "PREDICT_BYTES", 700)
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(tmp_path / "m")
    lines = [f'{{"text": "{texts[i % 7]} {texts[i % 3]}", "number": {i}}}\n' for i in range(N)]
    (tmp_path / "s.jsonl").write_text("".join(lines))
    return tmp_path


def disturbed(monkeypatch, disturb):
    """Call `disturb` after the third task of a prediction."""
    in_order = streaming.in_order

    def and_disturb(executor, function, jobs):
        for number, result in enumerate(in_order(executor, function, jobs)):
            if number == 3:
                disturb()
            yield result

    monkeypatch.setattr(streaming, "in_order", and_disturb)


@pytest.mark.parametrize("name", ["o.parquet", pytest.param("o.csv", marks=pytest.mark.slow)])
def test_a_lost_worker_changes_no_byte(name, made, monkeypatch):
    command = ["predict", str(made / "m"), str(made / "s.jsonl"), "-o"]
    ok(*command, str(made / f"here-{name}"))

    def kill_a_worker():
        workers = [p for p in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(p.cmdline())]
        os.kill(workers[0].pid, signal.SIGKILL)

    disturbed(monkeypatch, kill_a_worker)
    ok(*command, str(made / name), "--workers", "2")
    assert (made / name).read_bytes() == (made / f"here-{name}").read_bytes()


def test_an_interrupted_prediction_leaves_no_table(made, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    disturbed(monkeypatch, interrupt)
    found = run("predict", str(made / "m"), str(made / "s.jsonl"), "-o", str(made / "o.csv"), "--workers", "1")
    assert found.exit_code == 130 and sorted(p.name for p in made.iterdir()) == ["m", "s.jsonl"]
