"""Models and sources that the tests of `sdem predict` share."""

from __future__ import annotations

import csv
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from predicted_rows import NASTY, ROWS

from sdem_dist import LatentDirichletAllocation, LDAClassifier, MultinomialNB


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    texts, labels = ["goal team match", "bank share loan", "salt oven bread"] * 20, ["sport", "money", "food"] * 20
    MultinomialNB(n_epochs=2).fit(texts, labels).save(folder / "model")
    LDAClassifier(n_components=2, n_epochs=2).fit(texts, labels).save(folder / "classes.model")
    LatentDirichletAllocation(3, n_epochs=2).fit(texts).save(folder / "topics.model")
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "t.parquet")
    (folder / "t.tsv").write_text(
        "".join(f"{r['id']}\t{r['extra']}\t{r['body']}\n".replace(NASTY, "x y") for r in ROWS)
    )
    with lzma.open(folder / "t.csv.xz", "wb") as packed:
        packed.write((folder / "t.csv").read_bytes())
    (folder / "files").mkdir()
    for row in ROWS:
        (folder / "files" / f"{row['id']}.txt").write_text(row["body"])
    return folder
