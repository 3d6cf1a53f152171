"""An ingest by worker processes: the corpus of an ingest in this process, whatever is killed meanwhile."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults.clusters import pids, wait_until
from faults.test_deadlines import cluster_of_processes
from text.sources import written

from sdem_dist import ClusterError, IngestError, open_corpus
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
    rows = [(*row, f"n{i}", f"a{i % 17}", i % 7) for i, row in enumerate(ROWS)]
    named = [dict(zip(("label", "text", "name", "author", "w"), row, strict=True)) for row in rows]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(named), folder / "s.parquet", row_group_size=60)
        return [folder / "s.parquet"]
    if form == "folder":
        return [written(folder / "s", ROWS)]
    numbers = [" ".join(f"{c}:{DRAW.randint(1, 9) / 2}" for c in sorted(DRAW.sample(range(1, 60), 5))) for _ in ROWS]
    rows = [f"{DRAW.choice([1, -1])} {row}\n" for row in numbers]
    contents = {
        "tsv": {"0.tsv": lines_of(ROWS)},
        "columns": {"0.tsv": "".join(f"{label}\t{text}\t{i % 7}\n" for i, (label, text) in enumerate(ROWS))},
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
    "weights": ("jsonl", {"min_df": 2}, {"reading": Reading(weight="w"), "held_out": 0.2}),
    "weights of rows": ("parquet", {}, {"reading": Reading(weight="w")}),
    "weights of columns": ("columns", {}, {"reading": Reading(weight=2, label=0, text=1), "held_out": 0.2}),
    "folder": ("folder", {"min_df": 2}, {}),
    "targets": ("targets", {}, {"targets": True}),
    "numbers": ("svmlight", None, {"held_out": 0.2}),
    "the same file twice": ("tsv twice", {"min_df": 2}, {"held_out": 0.3}),
    "the same folder twice": ("folder twice", {"min_df": 2}, {"held_out": 0.3}),
    "the same numbers twice": ("svmlight twice", None, {"held_out": 0.3}),
}


OWN = {"path": "", "held_out_path": "", "seconds": 0.0}


@pytest.mark.parametrize("case", CASES)
def test_the_same_corpus_as_in_this_process(case, tmp_path, client):
    form, settings, more = CASES[case]
    sources = write_source(tmp_path, form)
    settings = None if settings is None else VectorizerSettings(**settings)
    here = ingest(sources, tmp_path / "here", settings, **more)
    there = ingest(sources, tmp_path / "there", settings, client=client, **more)
    assert {**vars(here), **OWN} == {**vars(there), **OWN}
    for part in ("", "-held-out")[: 1 + ("held_out" in more)]:
        one, other = (open_corpus(f"{tmp_path}/{name}{part}") for name in ("here", "there"))
        assert one.header.uid == other.header.uid
        assert {**one.header.made_by, "sources": 0} == {**other.header.made_by, "sources": 0}
        assert not list(check_corpus(other))
        assert "weights" not in case or other.weights.tolist() == [int(str(i).lstrip("n")) % 7 for i in other.ids_of()]
    assert left_over(tmp_path) == []


def test_test_documents_follow_a_corpus_and_bad_lines_have_their_numbers(tmp_path, client):
    ingest(write_source(tmp_path, "two")[1:], tmp_path / "train", VectorizerSettings(stem="english"), client=client)
    lines = lines_of(ROWS).splitlines()
    lines[333], lines[399] = "no tab here", "nor here"
    (tmp_path / "s.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told, kept = [], {"vocabulary_from": tmp_path / "train"}
    for name, more in (("here", {}), ("there", {"client": client})):
        with pytest.raises(IngestError, match=r"s\.tsv, line 334: no TAB") as refused:
            ingest(tmp_path / "s.tsv", tmp_path / name, **kept, **more)
        report = ingest(tmp_path / "s.tsv", tmp_path / name, on_error="skip", **kept, **more)
        assert open_corpus(tmp_path / name).ids_of() == list(range(398)) and report.n_skipped == 2
        told.append((str(refused.value), report.skipped_examples, open_corpus(tmp_path / name).header.uid))
    assert told[0] == told[1] and left_over(tmp_path) == []


def test_workers_keep_no_removed_file_mapped(tmp_path, client):
    ingest(write_source(tmp_path, "tsv"), tmp_path / "c", VectorizerSettings(max_features=9), client=client)
    for mapped in client.run(lambda: Path("/proc/self/maps").read_text(errors="replace")).values():
        assert "(deleted)" not in "".join(line for line in mapped.splitlines() if str(tmp_path) in line)


@pytest.mark.parametrize("event", [pytest.param(i, marks=[pytest.mark.slow] * (i not in (1, 8))) for i in range(10)])
def test_workers_killed_anywhere_change_nothing(event, tmp_path):
    """At an event one dies, and at the next but one, and nannies start others."""
    sources, events, lost = write_source(tmp_path, "two"), [], []
    ingest(sources, tmp_path / "here")
    with connected(None, 2) as client:

        def kill(stage: str, *_: object) -> None:
            events.append(stage)
            if len(events) - 1 in (event, event + 2):
                wait_until(lambda: len(pids(client)) == 2, "there are two workers", 60)
                lost.append(pids(client)[0])
                os.kill(lost[-1], signal.SIGKILL)

        ingest(sources, tmp_path / "there", client=client, progress=kill)
    assert len(lost) == 1 + (event < 8) and len(events) == 10 and set(events) == {"counting", "writing"}
    assert open_corpus(tmp_path / "here").header.uid == open_corpus(tmp_path / "there").header.uid
    assert left_over(tmp_path) == []


KILLED = """
import os, signal, sys
from sdem_dist.cluster import connected
from sdem_dist.text import ingest, splits, terms
splits.INGEST_BYTES, terms.MERGED_NODES = 4000, 20
events = []
def progress(stage, done, total):
    events.append(stage)
    if sys.argv[1] == str(len(events)) or (sys.argv[1] == stage and done > 150):
        os.killpg(0, signal.SIGKILL)
if __name__ == "__main__":
    os.setpgid(0, 0)
    with connected(None, int(sys.argv[2]) or None) as client:
        ingest(sys.argv[4:], sys.argv[3], client=client, progress=progress)
"""


def killed_driver(point: object, n_workers: int, *paths: object) -> bool:
    """Ingest in a process that is killed in a stage or at an event; say whether it was."""
    command = [sys.executable, "-c", KILLED, *map(str, (point, n_workers, *paths))]
    code = subprocess.run(command, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("victim", ["process", "driver", "scheduler"])
def test_after_a_kill_at_any_event_the_same_call_goes_on(victim, tmp_path):
    sources, there = write_source(tmp_path, "two"), tmp_path / "there"
    ingest(sources, tmp_path / "here")
    for point in itertools.count(1):
        if victim != "scheduler":
            died = killed_driver(point, int(victim == "driver"), there, *sources)
        else:
            (tmp_path / str(point)).mkdir()
            events = itertools.count(1)
            with cluster_of_processes(tmp_path / str(point)) as (address, scheduler, _), connected(address) as client:

                def kill(*_, events=events, point=point, scheduler=scheduler):
                    if next(events) == point:
                        os.kill(scheduler, signal.SIGKILL)

                try:
                    ingest(sources, there, client=client, progress=kill)
                    died = False
                except ClusterError:
                    died = True
        if not died:
            break
        assert not there.exists()
    assert point > 9
    assert open_corpus(tmp_path / "here").header.uid == open_corpus(there).header.uid
    assert left_over(tmp_path) == []


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What makes a folder of what a driver leaves that is killed in a stage: each is killed once."""
    left: dict[str, Path] = {}

    def of(stage: str) -> Path:
        if stage not in left:
            folder = tmp_path_factory.mktemp(stage)
            assert killed_driver(stage, 1, folder / "there", *write_source(folder, "two"))
            (kept,) = folder.glob(".there.counted-*")
            left[stage] = Path(shutil.copytree(kept, tmp_path_factory.mktemp("kept") / kept.name))
        folder = tmp_path_factory.getbasetemp() / f"{stage}0"
        shutil.rmtree(folder / "there", ignore_errors=True)
        shutil.copytree(left[stage], folder / left[stage].name, dirs_exist_ok=True)
        return folder

    return of


def flipped(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 4]) + content[-8:]


def zeros(content: bytes) -> bytes:
    return bytes(len(content))


@pytest.mark.parametrize(("stage", "damaged", "damage"), [
    ("counting", "", bytes),
    ("writing", "", bytes),
    ("counting", "counts-*/block-000000", flipped),  # what a disk may do
    ("writing", "counts-*/run-*-nodes", zeros),  # what a loss of power leaves
    ("writing", "rows-*/*/*", flipped),
    ("writing", "terms-*/range-*/columns", lambda content: content[:-4]),
    ("counting", "counts-*/summary.json", zeros),
    ("counting", "counts-*/summary.json", lambda content: content.replace(b"1", b"3", 1)),
])  # fmt: skip
def test_after_a_killed_driver_the_same_call_goes_on(stage, damaged, damage, killed, client):
    """Parts that are as they were written stay; others are made again."""
    folder = killed(stage)
    assert not (folder / "there").exists()
    (kept,) = folder.glob(".there.counted-*")
    before = {p: p.stat().st_ino for p in kept.glob("counts-*/summary.json")}
    touched = [p for p in kept.glob(damaged) if p.is_file() and p.stat().st_size] if damaged else []
    assert before and bool(touched) == bool(damaged)
    for path in touched:
        path.write_bytes(damage(path.read_bytes()))
    sources, seen = sorted(folder.glob("*.tsv")), {}

    def progress(name: str, done: int, total: object) -> None:
        seen.update({p: p.stat().st_ino for p in before if p.exists()})

    ingest(sources, folder / "there", client=client, progress=progress)
    assert damaged.startswith("counts") or seen == before
    here = ingest(sources, folder / "here", overwrite=True).path
    assert open_corpus(here).header.uid == open_corpus(folder / "there").header.uid
    assert left_over(folder) == []
