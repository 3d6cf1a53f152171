"""What workers of `sdem predict` read, and what they leave to the command itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import run

from sdem_dist import MultinomialNB
from sdem_dist.cli.streaming import jobs_of, predict_task, tasks_of, transformer_of
from sdem_dist.errors import IngestError
from sdem_dist.text.sources import Reading
from sdem_dist.text.splits import InputSplit, predict_splits
from sdem_dist.text.texts import Records
from sdem_dist.text.validation import RowValidator


@pytest.fixture(scope="module")
def model():
    return MultinomialNB(n_epochs=1).fit(["goal team", "bank share"] * 9, ["sport", "money"] * 9)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("sdem_dist.text.splits.PREDICT_BYTES", 40)


def tasks(model, *paths, block_documents=2):
    jobs = jobs_of(paths, Reading(), model, block_documents, keep=True)
    return list(tasks_of(jobs, RowValidator(), len(paths)))


def texts_of(jobs):
    blocks = [block for job in jobs for block in (job.read(RowValidator()) if isinstance(job, InputSplit) else [job])]
    return [text for block in blocks for text in block.texts]


@pytest.mark.parametrize("kind", ["pipe", "redirected"])
def test_what_only_this_process_can_open_it_reads_itself(model, tmp_path, kind):
    (tmp_path / "b.txt").write_text("bank\n")
    if kind == "pipe":
        reader, writer = os.pipe()
        os.write(writer, b"goal\nteam\nx\n")
        os.close(writer)
    else:
        (tmp_path / "a.txt").write_text("goal\nteam\nx\n")
        reader = os.open(tmp_path / "a.txt", os.O_RDONLY)
    jobs = tasks(model, Path(f"/dev/fd/{reader}"), tmp_path / "b.txt")
    os.close(reader)
    assert [getattr(job, "source", None) for job in jobs][-1] == tmp_path / "b.txt"
    assert all(isinstance(job, Records) for job in jobs[:-1])
    assert texts_of(jobs) == ["goal", "team", "x", "bank"]


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
def test_no_task_answers_more_than_a_piece_of_a_file(model, tmp_path, small_pieces, name):
    lines = ["text\n"] * name.endswith("csv") + [
        f"goal {i}\n" if name.endswith("csv") else f'{{"text": "goal {i}"}}\n' for i in range(60)
    ]
    (tmp_path / name).write_text("".join(lines))
    (tmp_path / "b.txt").write_text("bank\n")
    jobs = tasks(model, tmp_path / name, tmp_path / "b.txt", block_documents=4)
    assert texts_of(jobs) == [*(f"goal {i}" for i in range(60)), "bank"]
    shared = (transformer_of(model), lambda documents, *_: documents.shape[0], "raise")
    assert max(sum(predict_task(shared, job)[0]) for job in jobs) <= 4


@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed", "appended"])
def test_parts_of_two_files_are_not_mixed(tmp_path, small_pieces, how):
    source = tmp_path / "s.txt"
    source.write_text("".join(f"old {i} line\n" for i in range(40)))
    pieces = predict_splits(source, Reading(), 4096, keep=True)
    assert "old 0 line" in [text for block in next(pieces).read(RowValidator()) for text in block.texts]
    new = "".join(f"new {i}\n" for i in range(40))
    if how == "appended":
        source.write_text(source.read_text() + new)
    elif how == "rewritten":
        source.write_text(new)
    elif how == "replaced":
        (tmp_path / "new").write_text(new)
        (tmp_path / "new").replace(source)
    second = next(pieces)
    if how == "removed":
        source.unlink()
    with pytest.raises(IngestError, match=r"s\.txt was changed while it was read"):
        list(second.read(RowValidator()))


def test_what_workers_find_in_sources_is_said_as_without_them(model, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    model.save("m")
    Path("c.txt").write_text("sport\tgoal team\nmoney\tbank share\n")
    Path("d.txt").write_text("sport\tgoal\nno tab\n")
    here, there = run("predict", "m", "c.txt", "c.txt"), run("predict", "m", "c.txt", "c.txt", "--workers", "1")
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)
    assert "c.txt: its first line is label TAB text" in there.stderr
    for more in (("--on-error", "skip"), ("-o", "o.csv"), ()):
        command = ("predict", "m", "c.txt", "d.txt", *more)
        here, there = run(*command), run(*command, "--workers", "1")
        assert here.stderr == there.stderr and (here.exit_code, there.exit_code) == (
            (0, 0) if more[0:1] == ("--on-error",) else (1, 1)
        )
        assert "d.txt, line 2: 1 column instead of 2" in there.stderr and str(tmp_path) not in there.stderr
    assert "Compute Failed" not in "".join(capfd.readouterr())


def test_a_worker_keeps_nothing_of_the_pieces_that_it_answered(model, tmp_path):
    (tmp_path / "b.txt").write_text("bank strange words\n")
    (tmp_path / "c.txt").write_text("goal\n")
    transformer = transformer_of(model)
    for job in tasks(model, tmp_path / "b.txt", tmp_path / "c.txt"):
        predict_task((transformer, lambda documents, *_: documents.shape, "raise"), job)
    assert transformer.unknown_share is None and not transformer._counters
