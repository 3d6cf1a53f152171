"""Rows that sources of the tests of `sdem predict` hold, and tables read back."""

from __future__ import annotations

import csv
import json

import pyarrow.parquet as pq

NASTY = 'goal "team", <script>alert(1)</script>\tmatch\x1b[31m'
TEXTS = ["goal team match", "bank share loan", NASTY, "bank goal", ""]
ROWS = [{"id": f"d{i}", "body": text, "extra": i} for i, text in enumerate(TEXTS)]


def read_back(path):
    """Return the rows of a table as dicts."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".tsv":
        header, *lines = path.read_text().split("\n")[:-1]
        return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
