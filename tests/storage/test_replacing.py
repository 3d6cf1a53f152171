"""Replacing a directory: whenever the process dies, what was there or what is new can be read, and nothing stays behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sdem_dist.corpus import open_corpus, write_corpus
from sdem_dist.errors import CorpusError
from sdem_dist.storage import publish
from sdem_dist.storage.publish import exchange, publish_directory, set_aside

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from unittest import mock
from sdem_dist.storage import publish

folder, in_one_step = Path(sys.argv[1]), sys.argv[2] == "True"
exchange, calls = publish.exchange, []

def before(*what):
    calls.append(what)
    if len(calls) - 1 == stop:
        os.kill(os.getpid(), signal.SIGKILL)

def told(a, b):
    before("exchange")
    return in_one_step and exchange(a, b)

def replace(place):
    rename, rmtree = os.rename, shutil.rmtree
    with (
        mock.patch.object(publish, "exchange", told),
        mock.patch.object(os, "rename", lambda *a: (before(a), rename(*a))),
        mock.patch.object(shutil, "rmtree", lambda *a, **k: (before(a), rmtree(*a, **k))),
        publish.publish_directory(place / "c", overwrite=True) as partial,
    ):
        (partial / "generation").write_text("2")

for stop in range(100):
    place = folder / str(stop)
    (place / "c").mkdir(parents=True)
    (place / "c" / "generation").write_text("1")
    child = os.fork()
    if child == 0:
        replace(place)
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        print(stop)
        break
"""


@pytest.mark.parametrize("in_one_step", [True, False])
def test_killed_at_each_step(in_one_step, tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(in_one_step)]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps >= 2
    absent = 0
    for stop in range(steps):
        target = tmp_path / str(stop) / "c"
        if not target.exists():
            absent += 1
            with pytest.raises(CorpusError, match=r"what was there is now .*\.c\.old-[0-9a-f]{16}: rename that"):
                open_corpus(target)
        else:
            assert (target / "generation").read_text() in "12"
        with pytest.raises(CorpusError, match="exists already"), publish_directory(target):
            pass
        assert (target / "generation").read_text() in "12", "what was moved aside is back"
        with publish_directory(target, overwrite=True) as partial:
            (partial / "generation").write_text("3")
        assert (target / "generation").read_text() == "3"
        assert os.listdir(target.parent) == ["c"], "what dead processes left is gone"
    assert absent == (0 if in_one_step else 1)


def test_exchange(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("")
    assert exchange(tmp_path / "a", tmp_path / "b"), "this system can"
    assert (tmp_path / "a").is_file() and (tmp_path / "b").is_dir()
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "a", tmp_path / "absent")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
def test_systems_that_cannot(code, tmp_path, monkeypatch):
    import ctypes

    class Library:
        def renameat2(self, *arguments):
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: Library())
    assert not exchange(tmp_path, tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    assert not exchange(tmp_path, tmp_path)
    for generation in "12":
        with publish_directory(tmp_path / "c", overwrite=True) as partial:
            (partial / "generation").write_text(generation)
    assert (tmp_path / "c" / "generation").read_text() == "2" and set_aside(tmp_path / "c") == []


@pytest.mark.parametrize("in_one_step", [True, False])
def test_four_writers_at_once(in_one_step, tmp_path, monkeypatch):
    if not in_one_step:
        monkeypatch.setattr(publish, "exchange", lambda a, b: False)
    gate = threading.Barrier(4)
    results: list[object] = []

    def write(number: int) -> None:
        try:
            results.append(
                write_corpus(tmp_path / "c", np.full((3, 2), number + 1), overwrite=True, before_publishing=gate.wait)
            )
        except CorpusError as error:
            results.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    replaced = [r for r in results if isinstance(r, CorpusError)]
    assert len(replaced) < 4
    for error in replaced:
        assert "another process has put a corpus of its own" in str(error)
    assert open_corpus(tmp_path / "c").read(0, 3).data[0] in (1, 2, 3, 4)
    assert os.listdir(tmp_path) == ["c"]
