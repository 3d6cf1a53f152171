"""``sdem log``: where the time of a run went."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.options import Place
from sdem_dist.counted import counted
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.table import Table

if TYPE_CHECKING:
    from sdem_dist.engine.callbacks import JsonLines

PARTS = ("read", "prepare", "map", "merge", "transfer", "wait")
SUMS = ("documents", "wall", "worker_seconds", *PARTS)
BEGINNING = '{"event": "'  # of a line of a log
EVENTS = {
    "TaskRetried": ("task tried again", "tasks tried again"),
    "WorkerLost": ("worker lost", "workers lost"),
    "CheckpointWritten": ("checkpoint", "checkpoints"),
    "Scored": ("pass that scored the documents", "passes that scored the documents"),
}


@click.command(no_args_is_help=True)
@click.argument("log", type=Place())
def log(log: Path) -> None:
    """Say where the time of a run went, from the LOG that `sdem train --log` wrote.

    Prints a line for each epoch of training, and one for each stage before it, in seconds of all workers together:
    reading and verifying shards, preparing documents, the learner's statistics (map), combining them and updating the
    model (merge), moving results between workers, and the rest: waiting for each other, the scheduler and the driver.
    Reading runs partly beside mapping, so the parts may add up to a little more than the whole.
    """
    events = read_events(log)
    rows = epochs(events)
    if not rows:
        raise click.ClickException(f"{log} has no finished epoch yet")
    cells = []
    for row in rows:
        name = f"{row['stage']} {row['first']}" + (f" to {row['epoch']}" if row["epoch"] > row["first"] else "")
        speed = f"{row['documents'] / max(row['wall'], 1e-9):,.0f}"
        cells.append((name, f"{row['wall']:.2f}", speed, *(f"{row[part]:.2f}" for part in PARTS)))
    click.echo(Table(("epoch", "wall", "documents/s", *PARTS), cells, left=(0,)).text())
    total = {name: sum(row[name] for row in rows) for name in ("worker_seconds", *PARTS)}
    shares = ", ".join(f"{part} {total[part] / max(total['worker_seconds'], 1e-9):.0%}" for part in PARTS)
    click.echo(f"of {total['worker_seconds']:.1f} seconds of workers: {shares}")
    times = Counter(event["event"] for event in events)
    for name, words in EVENTS.items():
        if times[name]:
            click.echo(counted(times[name], *words))


def written_log(path: Path, resume: bool) -> JsonLines:
    """Return the writer of a run's log: into a new file, or at the end of the log of the run that is resumed."""
    from sdem_dist.engine.callbacks import JsonLines

    if path.is_file() and not resume:
        path.unlink()
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(len(BEGINNING))
        if not BEGINNING.encode().startswith(begin):
            raise click.ClickException(f"{path} is not a log of sdem train: choose another name")
    return JsonLines(path)


def read_events(path: Path) -> list[JsonObject]:
    """Return the events of a log, without those that are cut short, as a run that is killed leaves its last one."""
    events = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            event = json.loads(line)
            event["event"]
            events.append(event)
        except (ValueError, KeyError, TypeError) as error:
            if not (line.startswith(BEGINNING) or BEGINNING.startswith(line)):  # a resumed run may follow
                problem = "not an event; is it a log of sdem train --log?"
                raise click.ClickException(f"{path}, line {number}: {problem}") from error
    return events


def epochs(events: list[JsonObject]) -> list[JsonObject]:
    """Return what every epoch cost: seconds of wall time, and of all workers by what they were spent on.

    The epochs of a stage that is not monitored are one row, from the epoch ``first`` to the epoch ``epoch``.
    """
    rows: list[JsonObject] = []
    spent: Any = Counter()
    new_row = monitored = True
    for event in events:
        kind = event["event"]
        if kind == "StageStarted":
            spent, new_row, monitored = Counter(), True, event["monitored"]
        elif kind == "LanesEnded":
            spent.update({part: event[part] for part in ("read", "prepare", "map", "merge")})
            spent["documents"] += event["n_documents"]
        elif kind == "RoundEnded":
            seconds = event["seconds"]
            spent.update(merge=event["merge"], wall=seconds, worker_seconds=seconds * event["n_workers"])
        elif kind == "EpochEnded":
            spent["transfer"] = event["transfer"]
            spent["wait"] = max(0.0, spent["worker_seconds"] - sum(spent[part] for part in PARTS if part != "wait"))
            epoch = event["epoch"] + 1
            if new_row or monitored:
                rows.append({"stage": event["stage"], "first": epoch, **dict.fromkeys(SUMS, 0.0)})
            rows[-1] |= {"epoch": epoch, **{name: rows[-1][name] + spent[name] for name in SUMS}}
            spent, new_row = Counter(), False
    return rows
