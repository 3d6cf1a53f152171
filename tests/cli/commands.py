"""Running the command in this process, and reading the tables that it writes."""

import csv
import json
import shlex
from pathlib import Path

import pyarrow.parquet as pq
from click.testing import CliRunner

from sdem_dist.cli import main


def run(command: object, *more: object, **options):
    """Run a command, the first argument of which is cut at its blanks."""
    words = shlex.split(command) if isinstance(command, str) else [command]
    return CliRunner().invoke(main, [*map(str, words), *map(str, more)], **options)


def ok(*arguments: object, **options) -> str:
    result = run(*arguments, catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object, code: int = 1, **options) -> str:
    """Run a command that must fail with a message and no traceback."""
    result = run(*arguments, **options)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stderr.strip()
    return " ".join(result.stderr.split())


def rows_of(path):
    """Return the rows of a table as dicts."""
    path = Path(path)
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    if path.suffix == ".tsv":
        header, *lines = path.read_text().split("\n")[:-1]
        return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
