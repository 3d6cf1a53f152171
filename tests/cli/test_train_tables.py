"""What tables of every format hold reads back as the values that were written."""

from __future__ import annotations

import csv
import datetime
import io

import numpy as np
import orjson
import pyarrow as pa
import pytest

from sdem_dist.cli.tables import as_text, part_of

LETTERS = [*'ab ,"\\\t\n\r\x00\x1b\x7f\x85é한\u2028\u200e\U0001f600\ufeff/=', "\r\n"]


def texts(rng, n):
    return ["".join(rng.choice(LETTERS, rng.integers(0, 6))) for _ in range(n)]


def some(values, rng):
    """Return values, some of which are missing."""
    return [None if missing else value for value, missing in zip(values, rng.random(len(values)) < 0.2, strict=True)]


def numbers(rng, n):
    return (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).tolist()


KINDS = {
    "texts": lambda rng, n: some(texts(rng, n), rng),
    "Arrow texts": lambda rng, n: pa.array(some(texts(rng, n), rng), pa.string()),
    "repeated texts": lambda rng, n: pa.array(texts(rng, n), pa.string()).dictionary_encode(),
    "floats": lambda rng, n: some(numbers(rng, n), rng),
    "Arrow floats": lambda rng, n: pa.array([*numbers(rng, n)[1:], np.nan][:n], pa.float64()),
    "integers": lambda rng, n: some(rng.integers(-(2**62), 2**62, n).tolist(), rng),
    "large integers": lambda rng, n: [2**63 + int(k) for k in rng.integers(0, 9, n)],
    "dates": lambda rng, n: pa.array([datetime.date(2020, 1, 1 + k % 9) for k in range(n)]),
    "lists": lambda rng, n: pa.array([texts(rng, 2) for _ in range(n)], pa.list_(pa.string())),
    "mixed": lambda rng, n: [[True, 2, 2.5, "x", {"q": ['"']}, None][k] for k in rng.integers(0, 6, n)],
    "nothing": lambda rng, n: [None] * n,
}


def cell(value):
    """Return a number as itself, and everything else as a table of text has it."""
    return value if isinstance(value, float) else as_text(value)


def read(text, value):
    return float(text) if isinstance(value, float) and text else text


@pytest.mark.parametrize("n", [1, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_read_back(kind, n):
    rng = np.random.default_rng(n)
    block = {kind: KINDS[kind](rng, n)} | {
        f"{name},{i}\n": KINDS[name](rng, n) for i, name in enumerate(rng.choice(list(KINDS), 3))
    }
    columns = [values.to_pylist() if isinstance(values, pa.Array) else values for values in block.values()]
    rows = list(zip(*columns, strict=True))
    found = list(csv.reader(io.StringIO(part_of(".csv", block).body.decode(), newline="")))
    assert repr([list(map(read, *pair)) for pair in zip(found, rows, strict=True)]) == repr(
        [list(map(cell, row)) for row in rows]
    )
    lines = part_of(".tsv", block).body.decode().removesuffix("\n").split("\n")
    blank = [
        [cell(v).replace("\t", " ").replace("\n", " ") if isinstance(cell(v), str) else v for v in row] for row in rows
    ]
    assert repr(
        [list(map(read, *pair)) for pair in zip([line.split("\t") for line in lines], rows, strict=True)]
    ) == repr(blank)
    objects = [orjson.dumps(dict(zip(block, row, strict=True)), default=str) + b"\n" for row in rows]
    assert part_of(".jsonl", block).body == b"".join(objects)
