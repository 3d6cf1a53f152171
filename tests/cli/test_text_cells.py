"""Rows that are made a column at a time are those that Python's csv, repr and orjson write, cell by cell."""

from __future__ import annotations

import csv
import datetime
import io

import numpy as np
import orjson
import pyarrow as pa
import pytest

from sdem_dist.cli.answers import on_a_line
from sdem_dist.cli.text_cells import as_text, csv_rows, json_rows, tab_rows

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
    "Arrow floats": lambda rng, n: pa.array(some(numbers(rng, n), rng), pa.float64()),
    "short floats": lambda rng, n: pa.array(np.float32(numbers(rng, n)), pa.float32()),
    "integers": lambda rng, n: some(rng.integers(-(2**62), 2**62, n).tolist(), rng),
    "large integers": lambda rng, n: [2**63 + int(k) for k in rng.integers(0, 9, n)],
    "dates": lambda rng, n: pa.array([datetime.date(2020, 1, 1 + k % 9) for k in range(n)]),
    "lists": lambda rng, n: pa.array([texts(rng, 2) for _ in range(n)], pa.list_(pa.string())),
    "mixed": lambda rng, n: [[True, 2, 2.5, "x", {"q": ['"']}, None][k] for k in rng.integers(0, 6, n)],
    "nothing": lambda rng, n: [None] * n,
}


def plain_rows(block):
    columns = [values.to_pylist() if isinstance(values, pa.Array) else values for values in block.values()]
    return list(zip(*columns, strict=True))


def check(block):
    rows, names = plain_rows(block), list(block)
    as_csv = io.StringIO(newline="")
    csv.writer(as_csv).writerows(map(as_text, row) for row in rows)
    assert csv_rows(block) == as_csv.getvalue().encode()
    assert tab_rows(block) == "".join("\t".join(on_a_line(as_text(v)) for v in row) + "\n" for row in rows).encode()
    lines = [orjson.dumps(dict(zip(names, row, strict=True)), default=str) + b"\n" for row in rows]
    assert json_rows(block) == b"".join(lines)


@pytest.mark.parametrize("n", [0, 1, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_cells(kind, n):
    rng = np.random.default_rng(n)
    check({'a "name"': KINDS[kind](rng, n)})
    others = rng.choice(list(KINDS), 3)
    check({kind: KINDS[kind](rng, n)} | {f"{name},{i}\n": KINDS[name](rng, n) for i, name in enumerate(others)})


def test_floats_of_all_sizes():
    rng = np.random.default_rng(0)
    odd = [0.0, -0.0, 1.0, 1e16, 1e15, 123456789012345680.0, 1e-4, 9.999e-5, 5e-324, 1.7e308, np.nan, np.inf, -np.inf]
    powers = 2.0 ** np.arange(-1070, 1020)
    check(
        {"x": pa.array(np.concatenate([odd, powers, -1 / powers[50:], np.frombuffer(rng.bytes(80_000), np.float64)]))}
    )


def test_halves_of_surrogate_pairs():
    block = {"x": ["a", "\ud800,"], "y": [1, 2]}
    assert csv_rows(block) == b'a,1\r\n"\\ud800,",2\r\n'
    with pytest.raises(TypeError):
        json_rows(block)
    with pytest.raises(TypeError):
        json_rows({"\ud800": [1]})
