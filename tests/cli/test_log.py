"""The log of a run, and where its time went."""

from __future__ import annotations

import json

import pytest
from commands import run
from reference.random_documents import random_counts

from sdem_dist import load_model, write_corpus
from sdem_dist.cli.inspect import epochs, read_events
from sdem_dist.engine.callbacks import JsonLines
from sdem_dist.engine.events import ShardsLeftOut


@pytest.fixture
def corpus(tmp_path):
    X, y = random_counts(200, 30, 3)
    write_corpus(tmp_path / "c.zarr", X, y)
    return tmp_path / "c.zarr"


ONE_STAGE = ("--set", "validation_fraction=0")


def test_train_writes_a_log_that_says_where_time_went(corpus, tmp_path):
    log = tmp_path / "logs" / "run.jsonl"
    result = run(
        *("train", corpus, tmp_path / "m", "--epochs", 3, "--rounds", 2, "--lanes", 2, *ONE_STAGE),
        *("--log", log, "--checkpoint", tmp_path / "ck"),
    )
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in log.read_text().splitlines()]
    names = [e["event"] for e in events]
    assert names[0] == "RunStarted" and names[-1] == "RunEnded"
    assert names.count("RoundEnded") == 6 and names.count("EpochEnded") == 3 and names.count("CheckpointWritten") == 3
    lanes = [e for e in events if e["event"] == "LanesEnded"]
    assert sum(e["n_documents"] for e in lanes) == 3 * 200
    assert all(e["map"] > 0 and ":" in e["worker"] for e in lanes)
    assert events[-3]["path"].endswith(".sdem")
    shown = run("log", log)
    assert shown.exit_code == 0, shown.output
    assert "documents/s" in shown.output and "of " in shown.output and "3 checkpoints" in shown.output


def test_a_resumed_run_goes_on_in_its_log(corpus, tmp_path):
    log = tmp_path / "run.jsonl"
    for n in (1, 2):
        where = ("--log", log, "--checkpoint", tmp_path / "ck", "--resume")
        run("train", corpus, tmp_path / "m", "--epochs", n, *ONE_STAGE, *where)
    assert load_model(tmp_path / "m").n_iter_ == 2
    rows = epochs([json.loads(line) for line in log.read_text().splitlines()])
    assert [row["epoch"] for row in rows] == [1, 2]


@pytest.mark.parametrize("lost", [1, 30, 10_000])
def test_a_run_that_was_killed_while_it_wrote_and_went_on_without_damaged_shards(lost, corpus, tmp_path):
    log = tmp_path / "run.jsonl"
    run("train", corpus, tmp_path / "m", "--epochs", 1, "--log", log)
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join([*lines[:-1], lines[-1][: max(5, len(lines[-1]) - lost)]]))
    JsonLines(log)(ShardsLeftOut(1, 10, ("a problem",)))
    run("train", corpus, tmp_path / "m", "--epochs", 1, "--log", log, "--resume", "--checkpoint", tmp_path / "ck")
    names = [event["event"] for event in read_events(log)]
    assert names.count("RunStarted") == 2 and names.count("ShardsLeftOut") == names.count("RunEnded") == 1


def test_parts_add_up():
    lane = {"event": "LanesEnded", "read": 1.0, "prepare": 0.5, "map": 4.0, "merge": 0.25, "n_documents": 10}
    events = [
        {"event": "StageStarted", "monitored": True},
        lane,
        lane,
        {"event": "RoundEnded", "seconds": 5.0, "n_workers": 3, "merge": 0.5},
        {"event": "EpochEnded", "stage": "train", "epoch": 0, "transfer": 0.75},
    ]
    (row,) = epochs(events)
    assert (row["wall"], row["documents"], row["worker_seconds"]) == (5.0, 20, 15.0)
    assert (row["read"], row["map"], row["merge"], row["transfer"]) == (2.0, 8.0, 1.0, 0.75)
    assert row["wait"] == 15.0 - 2 - 1 - 8 - 1 - 0.75


def test_the_epochs_of_a_stage_that_is_not_monitored_are_one_row():
    events = []
    for stage, n_epochs in (("survey", 1), ("start", 3), ("train", 2)):
        events.append({"event": "StageStarted", "monitored": stage == "train"})
        for epoch in range(n_epochs):
            events += [
                {"event": "RoundEnded", "seconds": 2.0, "n_workers": 3, "merge": 0.5},
                {"event": "EpochEnded", "stage": stage, "epoch": epoch, "transfer": 0.75},
            ]
    rows = [(row["stage"], row["first"], row["epoch"], row["wall"], row["merge"]) for row in epochs(events)]
    assert rows == [
        ("survey", 1, 1, 2.0, 0.5), ("start", 1, 3, 6.0, 1.5), ("train", 1, 1, 2.0, 0.5), ("train", 2, 2, 2.0, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no finished epoch"),
        ("{}\n{}\n", "line 1"),
        ('{"event": "RunStarted", "n_workers": 1}\n{"eve', "no finished epoch"),
        ("[1]\nx\n", "line 1"),
    ],
)
def test_what_is_no_log_is_said_so(tmp_path, text, says):
    path = tmp_path / "log"
    path.write_text(text)
    result = run("log", path)
    assert result.exit_code == 1 and says in result.output and "Traceback" not in result.output
    assert "absent: No such file" in run("log", tmp_path / "absent").output


def test_a_log_that_cannot_be_written_is_noticed_before_the_run(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("train", corpus, tmp_path / "m", "--log", tmp_path / "file" / "run.jsonl")
    assert result.exit_code == 1 and str(tmp_path / "file") in result.output
    assert not (tmp_path / "m").exists()
