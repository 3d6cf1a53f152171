"""An ingest by worker processes: the corpus of an ingest in this process, whatever is killed meanwhile."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from text.sources import written

from sdem_dist import IngestError, open_corpus
from sdem_dist.cluster import connected
from sdem_dist.corpus import shuffle
from sdem_dist.corpus.reader import check_corpus
from sdem_dist.text import Reading, VectorizerSettings, ingest, splits, terms

WORDS = [f"{a}{b}" for a in ("sun", "moon", "star", "sky", "sea", "élan", "Ω") for b in ("", "s", "ly", "-ish", "ness")]


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Cut even small sources into many tasks."""
    monkeypatch.setattr(splits, "INGEST_BYTES", 4000)
    monkeypatch.setattr(terms, "MERGED_NODES", 20)
    monkeypatch.setattr(shuffle, "TASK_ENTRIES", 700)


DRAW = random.Random(0)
ROWS = [(DRAW.choice("abc"), " ".join(DRAW.choices(WORDS, k=DRAW.randint(0, 12)))) for _ in range(400)]


def lines_of(rows) -> str:
    return "".join(f"{label}\t{text}\n" for label, text in rows)


def write_source(folder: Path, form: str) -> list[Path]:
    if form.endswith(" twice"):
        return 2 * write_source(folder, form.removesuffix(" twice"))
    named = [{"label": a, "text": b, "name": f"n{i}", "author": f"a{i % 17}"} for i, (a, b) in enumerate(ROWS)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(named), folder / "s.parquet", row_group_size=60)
        return [folder / "s.parquet"]
    if form == "folder":
        return [written(folder / "s", ROWS)]
    numbers = [" ".join(f"{c}:{DRAW.randint(1, 9) / 2}" for c in sorted(DRAW.sample(range(1, 60), 5))) for _ in ROWS]
    rows = [f"{DRAW.choice([1, -1])} {row}\n" for row in numbers]
    contents = {
        "tsv": {"0.tsv": lines_of(ROWS)},
        "two": {"0.tsv": lines_of(ROWS[:150]), "1.tsv": lines_of(ROWS[150:])},
        "jsonl": {"s.jsonl": "".join(json.dumps(record) + "\n" for record in named)},
        "targets": {"s.tsv": lines_of((DRAW.random(), text) for _, text in ROWS)},
        "svmlight": {"a.svm": "".join(rows[:250]), "b.svm": "".join(rows[250:])},
    }[form]
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]


def left_over(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".")]


CASES = {
    "lines": ("tsv", {}, {}),
    "two files, bigrams": ("two", {"ngram_range": (1, 2), "min_df": 3, "max_df": 0.5}, {}),
    "held out": ("two", {"min_df": 2}, {"held_out": 0.3, "random_state": 5}),
    "most frequent": ("tsv", {"ngram_range": (1, 2), "max_features": 25}, {"held_out": 0.2}),
    "hashing": ("tsv", {"kind": "hashing", "n_features": 32}, {}),
    "characters": ("tsv", {"analyzer": "char", "ngram_range": (1, 3)}, {"shard_documents": 33}),
    "parquet": ("parquet", {}, {}),
    "parquet with ids": ("parquet", {}, {"reading": Reading(id="name")}),
    "json": ("jsonl", {}, {"held_out": 0.1}),
    "groups": ("parquet", {}, {"reading": Reading(group="author"), "held_out": 0.3, "shard_documents": 33}),
    "groups with ids": ("jsonl", {}, {"reading": Reading(group="author", id="name")}),
    "folder": ("folder", {"min_df": 2}, {}),
    "targets": ("targets", {}, {"targets": True}),
    "numbers": ("svmlight", None, {"held_out": 0.2}),
    "the same file twice": ("tsv twice", {"min_df": 2}, {"held_out": 0.3}),
    "the same folder twice": ("folder twice", {"min_df": 2}, {"held_out": 0.3}),
    "the same numbers twice": ("svmlight twice", None, {"held_out": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_corpus_as_in_this_process(case, tmp_path, client):
    form, settings, more = CASES[case]
    sources = write_source(tmp_path, form)
    settings = None if settings is None else VectorizerSettings(**settings)
    here = ingest(sources, tmp_path / "here", settings, **more)
    there = ingest(sources, tmp_path / "there", settings, client=client, **more)
    for name in (
        "n_documents",
        "n_features",
        "n_nonzeros",
        "n_empty",
        "classes",
        "n_held_out",
        "first_column",
        "n_skipped",
    ):
        assert getattr(here, name) == getattr(there, name), name
    for part in ("", "-held-out")[: 1 + ("held_out" in more)]:
        one, other = (open_corpus(f"{tmp_path}/{name}{part}") for name in ("here", "there"))
        assert one.header.uid == other.header.uid
        assert {**one.header.made_by, "sources": 0} == {**other.header.made_by, "sources": 0}
        assert not list(check_corpus(other))
    assert left_over(tmp_path) == []


def test_workers_keep_no_removed_file_mapped(tmp_path, client):
    ingest(write_source(tmp_path, "tsv"), tmp_path / "c", VectorizerSettings(max_features=9), client=client)
    for mapped in client.run(lambda: Path("/proc/self/maps").read_text(errors="replace")).values():
        assert "(deleted)" not in "".join(line for line in mapped.splitlines() if str(tmp_path) in line)


def test_test_documents_follow_a_corpus(tmp_path, client):
    sources = write_source(tmp_path, "two")
    ingest(sources[:1], tmp_path / "train", VectorizerSettings(stem="english"), client=client)
    for name, more in (("here", {}), ("there", {"client": client})):
        ingest(sources[1:], tmp_path / name, vocabulary_from=tmp_path / "train", **more)
    here, there = open_corpus(tmp_path / "here"), open_corpus(tmp_path / "there")
    assert here.header.uid == there.header.uid
    assert list(there.ids(0)) == list(range(len(there.ids(0))))


def test_bad_lines_have_their_numbers_in_the_file(tmp_path, client):
    lines = lines_of(ROWS).splitlines()
    lines[333], lines[399] = "no tab here", "nor here"
    (tmp_path / "s.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = []
    for more in ({}, {"client": client}):
        with pytest.raises(IngestError, match=r"s\.tsv, line 334: there is no TAB") as refused:
            ingest(tmp_path / "s.tsv", tmp_path / "c", **more)
        said.append(str(refused.value))
        report = ingest(tmp_path / "s.tsv", tmp_path / "c", on_error="skip", overwrite=True, **more)
        said.append(report.skipped_examples)
        (tmp_path / "c").rename(tmp_path / f"c{len(said)}")
    assert said[:2] == said[2:]
    assert left_over(tmp_path) == []


def test_a_bad_line_is_told_without_the_traceback_of_a_worker(tmp_path):
    (tmp_path / "s.tsv").write_text("a\tone\nb\ttwo\nno tab\n")
    command = [sys.executable, "-m", "sdem_dist", "ingest", tmp_path / "s.tsv", tmp_path / "c", "--workers", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"Error: {tmp_path / 's.tsv'}, line 3: there is no TAB between a label and a text")


def test_a_killed_worker_changes_nothing(tmp_path):
    sources = write_source(tmp_path, "two")
    ingest(sources, tmp_path / "here", VectorizerSettings(ngram_range=(1, 2)))
    with connected(None, 3) as client:
        pids = list(client.run(os.getpid).values())[:2]

        def kill(stage: str, done: int, total: object) -> None:
            if pids and done > 100:
                os.kill(pids.pop(), signal.SIGKILL)

        ingest(sources, tmp_path / "there", VectorizerSettings(ngram_range=(1, 2)), client=client, progress=kill)
    assert not pids
    assert open_corpus(tmp_path / "here").header.uid == open_corpus(tmp_path / "there").header.uid
    assert left_over(tmp_path) == []


KILLED = """
import os, signal, sys
from sdem_dist.cluster import connected
from sdem_dist.text import ingest, splits, terms
splits.INGEST_BYTES, terms.MERGED_NODES = 4000, 20
def progress(stage, done, total):
    if stage == sys.argv[1] and done > 150:
        os.killpg(0, signal.SIGKILL)
if __name__ == "__main__":
    os.setpgid(0, 0)
    with connected(None, 1) as client:
        ingest(sys.argv[3:], sys.argv[2], client=client, progress=progress)
"""


def flipped(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 4]) + content[-8:]


@pytest.mark.parametrize(
    ("stage", "damaged", "damage"),
    [
        ("counting", "", bytes),
        ("writing", "", bytes),
        ("counting", "counts-*/block-000000", flipped),  # what a disk may do
        ("writing", "counts-*/run-*-nodes", lambda content: bytes(len(content))),  # what a loss of power leaves
        ("writing", "rows-*/*/*", flipped),
        ("writing", "terms-*/range-*/columns", lambda content: content[:-4]),
        ("counting", "counts-*/summary.json", lambda content: bytes(len(content))),
        ("counting", "counts-*/summary.json", lambda content: content.replace(b"1", b"3", 1)),
    ],
)
def test_after_a_killed_driver_the_same_call_goes_on(stage, damaged, damage, tmp_path, client, monkeypatch):
    """Parts that are as they were written stay; others are made again."""
    sources = write_source(tmp_path, "two")
    ingest(sources, tmp_path / "here")
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py"), stage, str(tmp_path / "there"), *map(str, sources)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "there").exists()
    (kept,) = tmp_path.glob(".there.counted-*")
    before = {p: p.stat().st_ino for p in kept.glob("counts-*/summary.json")}
    assert before
    touched = [p for p in kept.glob(damaged) if p.is_file() and p.stat().st_size] if damaged else []
    assert bool(touched) == bool(damaged)
    for path in touched:
        path.write_bytes(damage(path.read_bytes()))
    seen = {}

    def progress(name: str, done: int, total: object) -> None:
        seen.update({p: p.stat().st_ino for p in before if p.exists()})

    ingest(sources, tmp_path / "there", client=client, progress=progress)
    if not damaged.startswith("counts"):
        assert seen == before
    assert open_corpus(tmp_path / "here").header.uid == open_corpus(tmp_path / "there").header.uid
    assert left_over(tmp_path) == []
