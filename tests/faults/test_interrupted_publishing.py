"""Publication is all or nothing, whatever fails, at whichever of its system calls a process is killed."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from faults.system_calls import publish, watched

from sdem_dist.corpus import open_corpus, write_corpus
from sdem_dist.engine.checkpoint import Checkpoints, StageRecord
from sdem_dist.errors import CorpusError, ModelError
from sdem_dist.models.word_counts import SdemState
from sdem_dist.storage import publish as publishing
from sdem_dist.storage.archive import read_archive
from sdem_dist.storage.publish import exchange, hidden_folder, publish_directory, publish_file, set_aside

WHAT = ["model", "checkpoint"]
SLOW_ONES = [pytest.param(what, marks=pytest.mark.slow) for what in WHAT]


def published(what: str, folder: Path) -> int:
    if what == "model":
        arrays, metadata = read_archive(folder / "model", "sdem-model")
        assert (arrays["a"] == metadata["generation"]).all()
        return int(metadata["generation"])
    if what.startswith("directory"):
        if not (folder / "c").exists():
            with pytest.raises(CorpusError, match=r"to restore it, rename .*\.c\.old-[0-9a-f]{16}"):
                open_corpus(folder / "c")
        with pytest.raises(CorpusError, match="already exists"), publish_directory(folder / "c"):
            pytest.fail("there is a directory, and what was moved aside is back")
        return int((folder / "c" / "generation").read_text())
    found = Checkpoints(folder).latest(StageRecord(0, "run", SdemState, 1), 99)
    assert found is not None and found[0].epoch == found[1].block(0, 1).t
    return found[0].epoch


def calls_of(what: str, folder: Path) -> list[str]:
    """Return the calls of an undisturbed publication of the generation 2."""
    for generation in range(2):
        publish(what, folder, generation)
    with watched(None, pytest.fail) as calls:
        publish(what, folder, 2)
    return calls


@pytest.mark.parametrize("what", WHAT)
def test_the_calls_that_matter_are_watched(what, tmp_path):
    calls = calls_of(what, tmp_path)
    assert calls.count("write") > 2
    after = [name for name in calls if name != "write"]
    assert after[:3] == ["fsync", "replace", "fsync"]
    assert calls.index("fsync") > max(i for i, name in enumerate(calls) if name == "write")
    if what == "checkpoint":
        assert "unlink" in after[3:], "the oldest is removed last"


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("reason", [errno.EIO, errno.ENOSPC])
def test_each_call_fails(what, reason, tmp_path):
    calls = calls_of(what, tmp_path)
    moment = calls.index("replace")

    def fail() -> None:
        raise OSError(reason, os.strerror(reason))

    for stop, name in enumerate(calls):
        try:
            with watched(stop, fail) as made:
                publish(what, tmp_path, 3 + stop)
        except ModelError as error:
            assert os.strerror(reason) in str(error)
            assert name != "unlink"
        else:
            assert name == "unlink", "an old checkpoint that cannot be removed does not end a run"
        assert made[stop] == name and published(what, tmp_path) == (2 if stop <= moment else 3 + stop)
        assert not list(tmp_path.glob(".*")), "nothing half done is left"


@pytest.mark.parametrize("what", ["directory", "directory in two steps", *SLOW_ONES])
def test_the_process_is_killed_at_each_call(what, tmp_path):
    expected = calls_of(what, tmp_path)
    killed = tmp_path / "killed"
    killed.mkdir()
    command = [sys.executable, "-m", "faults.system_calls", what, str(killed)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=250)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == len(expected)
    found, half_done = [], 0
    for stop in range(len(expected)):
        folder = killed / str(stop)
        half_done += bool(list(folder.glob(".*")))
        found.append(published(what, folder))
        publish(what, folder, 2)
        assert published(what, folder) == 2
        assert not list(folder.glob(".*")), "the next to publish clears what the dead one left"
    assert found == sorted(found) and set(found) == {1, 2}
    if what in WHAT:
        moment = expected.index("replace")
        assert found == [1] * (moment + 1) + [2] * (len(expected) - moment - 1) and half_done > moment


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_file_that_fails_leaves_the_old_one(tmp_path, failure):
    def write(partial: Path) -> None:
        partial.write_text("new")
        raise failure

    (tmp_path / "model").write_text("old")
    np.testing.assert_raises(failure, publish_file, tmp_path / "model", write, error=ModelError)
    assert (tmp_path / "model").read_text() == "old" and os.listdir(tmp_path) == ["model"]


def test_errors_of_other_files_pass_through(tmp_path):
    with pytest.raises(FileNotFoundError), publish_directory(tmp_path / "corpus"):
        (tmp_path / "source.txt").read_text()
    with pytest.raises(CorpusError, match="No such file or directory"), publish_directory(tmp_path / "nowhere" / "c"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("there", [False, True])
def test_a_directory_appears_only_at_the_end(tmp_path, there):
    target = tmp_path / "corpus"
    if there:
        target.mkdir()
        (target / "old").write_text("")
    with publish_directory(target, overwrite=there) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a").write_text("1")
        assert (os.listdir(target) == ["old"]) if there else not target.exists()
        assert partial.parent == tmp_path and partial.name.startswith(".corpus.partial-")
    assert (target / "sub" / "a").read_text() == "1"
    assert os.listdir(tmp_path) == ["corpus"] and os.listdir(target) == ["sub"]


def test_directory_taken_at_start_or_end(tmp_path):
    target = tmp_path / "corpus"
    with pytest.raises(CorpusError, match="already exists"), publish_directory(target) as partial:
        target.mkdir()
    assert os.listdir(tmp_path) == ["corpus"]
    with pytest.raises(CorpusError, match="already exists"), publish_directory(target) as partial:
        pytest.fail(f"{partial} was handed out although the name was taken")


def test_failed_rename_restores_the_old(tmp_path, monkeypatch):
    target = tmp_path / "corpus"
    target.mkdir()
    (target / "old").write_text("")
    rename = Path.rename

    def refuse(self, to):
        if ".partial-" in self.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(publishing, "exchange", lambda a, b: False)
    with pytest.raises(CorpusError, match="Input/output error"), publish_directory(target, overwrite=True):
        pass
    assert os.listdir(target) == ["old"] and os.listdir(tmp_path) == ["corpus"]


def test_link_target_is_replaced_not_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with publish_directory(tmp_path / "link", overwrite=True) as partial:
        (partial / "new").write_text("")
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "real") == ["new"]


def test_only_abandoned_folders_are_cleared(tmp_path):
    target = tmp_path / "corpus"
    abandoned = [tmp_path / f".corpus.partial-{digit * 16}" for digit in "0a"]
    others = [tmp_path / f".corpus.{name}" for name in ("old-" + "0" * 16, "partial-mine", "ingest-" + "0" * 16)]
    for folder in (*abandoned, *others):
        folder.mkdir()
        (folder / "x").write_text("")
    link = tmp_path / f".corpus.partial-{'b' * 16}"
    link.symlink_to(others[1])
    with hidden_folder(target, "partial") as first:
        assert not any(folder.exists() for folder in abandoned)
        with hidden_folder(target, "partial") as second:
            assert first.exists() and second.exists(), "a folder in use is nobody's to clear"
        assert not second.exists()
    assert sorted(tmp_path.iterdir()) == sorted((*others, link))
    assert all((folder / "x").exists() for folder in others)


def test_a_hidden_folder_goes_though_a_thread_still_writes_there(tmp_path, monkeypatch):
    remove, late = shutil.rmtree, iter(["part"])

    def removed_while_a_file_comes(folder, **how):
        remove(folder, **how)
        for name in late:
            Path(folder, name).parent.mkdir(parents=True)
            Path(folder, name).write_text("late")

    monkeypatch.setattr(shutil, "rmtree", removed_while_a_file_comes)
    with pytest.raises(KeyError), hidden_folder(tmp_path / "corpus", "partial"):
        raise KeyError("an error")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, None])
def test_systems_that_exchange_names_and_others(code, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").touch()
    assert exchange(tmp_path / "a", tmp_path / "b") and (tmp_path / "a").is_file(), "this system can"
    np.testing.assert_raises(FileNotFoundError, exchange, tmp_path / "a", tmp_path / "absent")

    class Library:
        def renameat2(self, *arguments):
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: Library() if code else object())
    assert not exchange(tmp_path / "a", tmp_path / "b")
    for generation in "12":
        with publish_directory(tmp_path / "c", overwrite=True) as partial:
            (partial / "generation").write_text(generation)
    assert (tmp_path / "c" / "generation").read_text() == "2" and set_aside(tmp_path / "c") == []


@pytest.mark.parametrize("in_one_step", [True, False])
def test_four_writers_at_once(in_one_step, tmp_path, monkeypatch):
    if not in_one_step:
        monkeypatch.setattr(publishing, "exchange", lambda a, b: False)
    gate = threading.Barrier(4)

    def documents(number: int):
        yield np.full((3, 2), number), None
        gate.wait()

    def write(number: int) -> object:
        try:
            return write_corpus(tmp_path / "c", documents(number), overwrite=True)
        except CorpusError as error:
            return error

    with ThreadPoolExecutor(4) as threads:
        replaced = [r for r in threads.map(write, (1, 2, 3, 4)) if isinstance(r, CorpusError)]
    assert len(replaced) < 4
    for error in replaced:
        assert "another process has replaced the corpus" in str(error)
    assert open_corpus(tmp_path / "c").read(0, 3).data[0] in (1, 2, 3, 4) and os.listdir(tmp_path) == ["c"]
