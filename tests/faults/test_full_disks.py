"""Full disks and read-only targets: a clear error, what was there stays, and the run goes on once there is room."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli.commands import refused
from faults.clusters import is_end_of, model
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import CorpusError, IngestError, ModelError, ingest, load_model, open_corpus, write_corpus
from sdem_dist.cli.inspect import read_events
from sdem_dist.engine.callbacks import JsonLines
from sdem_dist.engine.events import CheckpointWritten

PAGE = 4096
FULL, READ_ONLY = "No space left on device", "Read-only file system"


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip("there is no command to mount a small disk with")
    if done.returncode:
        pytest.skip(f"this user may not mount a small disk: {done.stderr.strip()}")


@contextlib.contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[Path]:
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], timeout=30, check=True)


def make_read_only(folder: Path) -> None:
    _mount("-o", "remount,ro", str(folder))


@contextlib.contextmanager
def filled(folder: Path, leaving: int) -> Iterator[None]:
    ballast = folder / "ballast"
    disk = os.statvfs(folder)
    with ballast.open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_bsize - leaving)))
    try:
        yield
    finally:
        ballast.unlink()


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 2 << 20) as folder:
        yield folder


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source.tsv").write_text("".join(f"{'ab'[i % 2]}\tsome words {i}\n" for i in range(2000)))
    return tmp_path / "source.tsv"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("leaving", [0, PAGE])
def test_a_disk_that_fills_up_leaves_the_last_checkpoint(leaving, corpus, undisturbed, disk):
    with filled(disk, leaving), pytest.raises(ModelError, match=r"cannot .*: No space left on device"):
        model(n_jobs=1).fit(corpus, checkpoint=disk / "none")
    written: list = []
    ballast = contextlib.ExitStack()

    def fill(event) -> None:
        if isinstance(event, CheckpointWritten):
            written.append(event.path)
        if is_end_of(event, 1, 0):
            ballast.enter_context(filled(disk, leaving))

    with ballast, pytest.raises(ModelError, match=r"write .*checkpoint-.*: No space left on device \(.* MB free"):
        model(n_jobs=1).fit(corpus, checkpoint=disk / "kept", checkpoint_rounds=1, callbacks=[fill])
    assert names(disk / "kept") == [p.name for p in written[-2:]]
    resumed = model(n_jobs=1).fit(corpus, checkpoint=disk / "kept", checkpoint_rounds=1, resume=True)
    assert bits(resumed) == undisturbed


def test_a_model_and_a_corpus_on_a_full_disk(corpus, disk, source):
    fitted = model(n_jobs=1).fit(corpus)
    fitted.save(disk / "model")
    earlier = (disk / "model").read_bytes()
    with filled(disk, PAGE):
        np.testing.assert_raises_regex(ModelError, f"cannot write .*model: {FULL}", fitted.save, disk / "model")
        with pytest.raises(CorpusError, match=f"cannot write .*corpus: {FULL}"):
            write_corpus(disk / "corpus", *random_counts())
        np.testing.assert_raises_regex((CorpusError, IngestError), FULL, ingest, [source], disk / "corpus", n_jobs=1)
        assert names(disk) == ["ballast", "model"]
    assert (disk / "model").read_bytes() == earlier and bits(load_model(disk / "model")) == bits(fitted)


def test_a_full_disk_of_an_ingests_worker_is_told_of_once_and_a_repetition_succeeds(disk, source):
    command = [sys.executable, "-m", "sdem_dist", "ingest", source, disk / "corpus", "--workers", "1"]
    with filled(disk, PAGE):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert names(disk) == ["ballast"]
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and said.count("No space left on device") == 1 and "nothing was written" in said
    assert "Traceback" not in said
    ingest([source], disk / "corpus")
    assert names(disk) == ["corpus"] and open_corpus(disk / "corpus").n_documents == 2000


def test_read_only_targets(corpus, disk, source, undisturbed):
    fitted = model(n_jobs=1).fit(corpus, checkpoint=disk / "kept")
    fitted.save(disk / "model")
    make_read_only(disk)
    np.testing.assert_raises_regex(ModelError, f"cannot write .*model: {READ_ONLY}", fitted.save, disk / "model")
    assert bits(load_model(disk / "model")) == undisturbed
    events: list = []
    for folder, resume in (("new", False), ("kept", True)):
        with pytest.raises(ModelError, match=f"cannot write checkpoints to .*{folder}: Read-only file system"):
            model(n_jobs=1).fit(corpus, checkpoint=disk / folder, resume=resume, callbacks=[events.append])
    assert not events, "noticed before training"
    np.testing.assert_raises_regex((CorpusError, IngestError), READ_ONLY, ingest, [source], disk / "corpus", n_jobs=1)
    assert names(disk) == ["kept", "model"]


def test_a_log_on_a_disk_that_fills_up_does_not_end_the_run(corpus, disk, undisturbed):
    ballast = contextlib.ExitStack()

    def fill(event) -> None:
        if is_end_of(event, 0, 0):
            ballast.enter_context(filled(disk, 0))

    with ballast, pytest.warns(UserWarning, match="run.jsonl: No space left .*; the run continues"):
        fitted = model(n_jobs=1).fit(corpus, callbacks=[fill, JsonLines(disk / "run.jsonl")])
    assert bits(fitted) == undisturbed
    model(n_jobs=1).fit(corpus, callbacks=[JsonLines(disk / "run.jsonl")])
    started = [event["event"] for event in read_events(disk / "run.jsonl")]
    assert started.count("RunStarted") == 2 and started.count("RunEnded") == 1


@pytest.mark.parametrize("option", [None, "--log", "--checkpoint"])
def test_commands_notice_a_read_only_target_before_the_run(option, corpus, disk, tmp_path):
    make_read_only(disk)
    target = {option: str(disk / "target")} if option else {}
    place = tmp_path / "model" if option else disk / "model"
    said = refused("train", corpus.path, place, *(word for pair in target.items() for word in pair))
    assert "Read-only file system" in said and "epoch 1" not in said
    assert not names(disk) and not place.exists()
    for folder in (disk, disk / "demo"):
        assert "Read-only file system" in refused("demo --folder", folder)
