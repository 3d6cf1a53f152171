"""Publishing that stops at any of its system calls: what was there before stays readable, and nothing is in the way."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.system_calls import publish, watched

from sdem_dist.corpus import open_corpus
from sdem_dist.engine.checkpoint import Checkpoints, StageRecord
from sdem_dist.errors import CorpusError, ModelError
from sdem_dist.models.word_counts import SdemState
from sdem_dist.storage.archive import read_archive
from sdem_dist.storage.publish import publish_directory

WHAT = ["model", "checkpoint"]


def published(what: str, folder: Path) -> int:
    """Return the generation of what a reader finds."""
    if what == "model":
        arrays, metadata = read_archive(folder / "model", "sdem-model")
        assert (arrays["a"] == metadata["generation"]).all()
        return int(metadata["generation"])
    if what.startswith("directory"):
        if not (folder / "c").exists():
            with pytest.raises(CorpusError, match=r"what was there is now .*\.c\.old-[0-9a-f]{16}: rename that"):
                open_corpus(folder / "c")
        with pytest.raises(CorpusError, match="exists already"), publish_directory(folder / "c"):
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
        assert made[stop] == name
        assert published(what, tmp_path) == (2 if stop <= moment else 3 + stop)
        assert not list(tmp_path.glob(".*")), "nothing half done is left"


@pytest.mark.parametrize(
    "what", [*(pytest.param(what, marks=pytest.mark.slow) for what in WHAT), "directory", "directory in two steps"]
)
def test_the_process_is_killed_at_each_call(what, tmp_path):
    expected = calls_of(what, tmp_path)
    killed = tmp_path / "killed"
    killed.mkdir()
    command = [sys.executable, "-m", "faults.system_calls", what, str(killed)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=250, check=False
    )
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
