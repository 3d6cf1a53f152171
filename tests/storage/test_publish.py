"""Publication is all or nothing; tests/faults kills it at each of its steps."""

import errno
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sdem_dist.corpus import open_corpus, write_corpus
from sdem_dist.errors import CorpusError, ModelError
from sdem_dist.storage import publish
from sdem_dist.storage.publish import exchange, hidden_folder, publish_directory, publish_file, set_aside


@pytest.mark.parametrize("failure", [None, ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_a_file_appears_whole_or_the_old_one_stays(tmp_path, failure):
    target = tmp_path / "model"
    target.write_text("old")

    def write(partial: Path) -> None:
        partial.write_text("new")
        if failure is not None:
            raise failure

    if failure is None:
        publish_file(target, write)
    else:
        with pytest.raises(ModelError if isinstance(failure, OSError) else type(failure)):
            publish_file(target, write, error=ModelError)
    assert target.read_text() == ("old" if failure else "new")
    assert os.listdir(tmp_path) == ["model"]


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
    with pytest.raises(CorpusError, match="exists already"), publish_directory(target) as partial:
        target.mkdir()
    assert os.listdir(tmp_path) == ["corpus"]
    with pytest.raises(CorpusError, match="exists already"), publish_directory(target) as partial:
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
    monkeypatch.setattr(publish, "exchange", lambda a, b: False)
    with pytest.raises(CorpusError, match="Input/output error"), publish_directory(target, overwrite=True):
        pass
    assert os.listdir(target) == ["old"]
    assert os.listdir(tmp_path) == ["corpus"]


def test_link_target_is_replaced_not_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with publish_directory(tmp_path / "link", overwrite=True) as partial:
        (partial / "new").write_text("")
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "real") == ["new"]


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

    def write(number: int) -> object:
        try:
            return write_corpus(tmp_path / "c", np.full((3, 2), number), overwrite=True, before_publishing=gate.wait)
        except CorpusError as error:
            return error

    with ThreadPoolExecutor(4) as threads:
        replaced = [r for r in threads.map(write, (1, 2, 3, 4)) if isinstance(r, CorpusError)]
    assert len(replaced) < 4
    for error in replaced:
        assert "another process has put a corpus of its own" in str(error)
    assert open_corpus(tmp_path / "c").read(0, 3).data[0] in (1, 2, 3, 4)
    assert os.listdir(tmp_path) == ["c"]
