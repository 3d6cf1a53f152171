"""Publication is all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from sdem_dist.errors import CorpusError, ModelError
from sdem_dist.storage import publish
from sdem_dist.storage.publish import hidden_folder, publish_directory, publish_file


def test_file_appears_and_replaces(tmp_path):
    target = tmp_path / "model"
    publish_file(target, lambda partial: partial.write_text("one"))
    publish_file(target, lambda partial: partial.write_text("two"))
    assert target.read_text() == "two"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt()])
def test_failing_write_leaves_the_old_file(tmp_path, failure):
    target = tmp_path / "model"
    target.write_text("old")

    def write(partial: Path) -> None:
        partial.write_text("half")
        raise failure

    with pytest.raises(type(failure)):
        publish_file(target, write)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_full_disk_is_explained(tmp_path):
    def write(partial: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ModelError, match=r"cannot write .*model: No space left on device \(.* MB free") as caught:
        publish_file(tmp_path / "model", write, error=ModelError)
    assert isinstance(caught.value.__cause__, OSError)


def test_missing_parent_is_explained(tmp_path):
    with pytest.raises(ModelError, match="No such file or directory"):
        publish_file(tmp_path / "nowhere" / "model", lambda p: p.write_text("x"), error=ModelError)
    with pytest.raises(CorpusError, match="No such file or directory"), publish_directory(tmp_path / "nowhere" / "c"):
        pass


def test_other_files_errors_pass_through(tmp_path):
    with pytest.raises(FileNotFoundError), publish_directory(tmp_path / "corpus"):
        (tmp_path / "source.txt").read_text()
    assert os.listdir(tmp_path) == []


def test_directory_appears_only_at_the_end(tmp_path):
    target = tmp_path / "corpus"
    with publish_directory(target) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a").write_text("1")
        assert not target.exists()
        assert partial.parent == tmp_path
        assert partial.name.startswith(".corpus.partial-")
    assert (target / "sub" / "a").read_text() == "1"
    assert os.listdir(tmp_path) == ["corpus"]


def test_directory_taken_at_start_or_end(tmp_path):
    target = tmp_path / "corpus"
    with pytest.raises(CorpusError, match="exists already"), publish_directory(target) as partial:
        target.mkdir()
    assert os.listdir(tmp_path) == ["corpus"]
    with pytest.raises(CorpusError, match="exists already"), publish_directory(target) as partial:
        pytest.fail(f"{partial} was handed out although the name was taken")


def test_overwrite_replaces_and_clears(tmp_path):
    target = tmp_path / "corpus"
    target.mkdir()
    (target / "old").write_text("")
    with publish_directory(target, overwrite=True) as partial:
        (partial / "new").write_text("")
        assert os.listdir(target) == ["old"]
    assert os.listdir(target) == ["new"]
    assert os.listdir(tmp_path) == ["corpus"]


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
