"""What people see while a fit runs: lines, bars of a terminal, and bars in a notebook's cell."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sdem_dist import MultinomialNB
from sdem_dist.engine import callbacks
from sdem_dist.engine.callbacks import LogLines, ProgressBar, progress_callback
from sdem_dist.engine.events import CheckpointWritten, EpochEnded, RoundEnded, StageEnded, StageStarted

X, Y = np.random.default_rng(0).poisson(1.0, (60, 5)), np.arange(60) % 2


class Cell:
    def __init__(self, first):
        self.pictures = [first]

    def update(self, picture):
        self.pictures.append(picture)


@pytest.fixture
def cells(monkeypatch):
    """Return the cells' outputs of a notebook that is not there."""
    shown: list[Cell] = []

    def display(picture, *, display_id):
        assert display_id
        shown.append(Cell(picture))
        return shown[-1]

    module, shell = SimpleNamespace(display=display, HTML=str), type("ZMQInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=shell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(callbacks, "PAUSE", -1.0)
    return shown


def test_a_training_moves_one_bar_and_ends_full(cells, capsys):
    MultinomialNB(n_epochs=3, validation_fraction=0, evaluate_every=1, verbose=True).fit(X, Y)
    (cell,) = cells
    values = [int(picture.split('value="')[1].split('"')[0]) for picture in cell.pictures]
    most = int(cell.pictures[-1].split('max="')[1].split('"')[0])
    assert values == sorted(values) and values[0] == 0 and values[-1] == most
    assert "epoch 3" in cell.pictures[-1] and "accuracy" in cell.pictures[-1]
    assert capsys.readouterr().err == ""


def test_a_monitored_stage_keeps_its_line(cells):
    MultinomialNB(n_epochs=2, verbose=True).fit(X[np.arange(2400) % 60], Y[np.arange(2400) % 60])
    (cell,) = cells
    assert [row.split("</progress> ")[1].split()[0] for row in cell.pictures[-1].split("<br>")] == ["choose", "train"]


def test_a_stage_that_stops_early_ends_full_and_says_what_it_keeps(cells):
    held_out = X[:20], 1 - Y[:20]
    model = MultinomialNB(n_epochs=60, patience=1, verbose=True, validation_fraction=0)
    model.fit(X, Y, validation=held_out)
    last = cells[-1].pictures[-1]
    assert model.n_iter_ < 60 and f"stopped; keeping epoch {model.history_.index(model.best_entry_) + 1}" in last
    assert last.split('value="')[1].split('"')[0] == last.split('max="')[1].split('"')[0] == str(model.n_iter_)


def test_what_is_said_is_escaped(cells):
    ProgressBar()(stage("<script>", monitored=True))
    assert "<script>" not in cells[0].pictures[0] and "&lt;script&gt;" in cells[0].pictures[0]


def test_a_terminal_has_bars_and_is_left_as_it_was(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)

    def fail(event):
        if isinstance(event, EpochEnded) and event.epoch == 1:
            raise RuntimeError("midway")

    model = MultinomialNB(n_epochs=2, n_lanes=2, validation_fraction=0, evaluate_every=1)
    with progress_callback() as bar, pytest.raises(RuntimeError, match="midway"):
        model.fit(X, Y, callbacks=[bar, fail])
    assert isinstance(bar, ProgressBar)
    assert "━" in terminal.getvalue() and "train" in terminal.getvalue()
    hidden, shown = (terminal.getvalue().count(f"\x1b[?25{letter}") for letter in "lh")
    assert hidden == shown > 0, "the cursor is there again"


def stage(name: str, monitored: bool, n_epochs: int = 3) -> StageStarted:
    metrics = ("ncll",) if monitored else ()
    return StageStarted(name, 0, monitored, metrics, n_epochs, 1, 1, n_workers=1, epoch=0, round=0, done=0, total=3)


@pytest.mark.parametrize(("seconds", "lines"), [(0.3, []), (0.6, ["survey: 3 epochs"])])
def test_a_stage_that_is_not_monitored_costs_one_line_if_it_takes_long(seconds, lines, capsys):
    write = LogLines()
    events = [stage("survey", monitored=False)]
    for epoch in range(3):
        events += [RoundEnded("survey", epoch, 0, seconds, 1, 0.0), EpochEnded("survey", epoch, seconds, 1.0, {})]
        events.append(CheckpointWritten("survey", epoch, 0, Path("somewhere")))
    for event in [*events, StageEnded("survey", 0, 3, "epochs", 3)]:
        write(event)
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(("n_epochs", "seconds", "metrics", "expected"), [
    (50, 0.1, {}, [10, 20, 30, 40, 50]),
    (19, 0.1, {}, list(range(1, 20))),
    (50, 1.0, {}, list(range(1, 51))),
    (50, 0.1, {"validation_ncll": 1.0}, list(range(1, 51))),
    (50, 0.1, {"hinge": 1.0}, [10, 20, 30, 40, 50]),
])  # fmt: skip
def test_of_many_quick_epochs_without_a_figure_one_in_ten_gets_a_line(n_epochs, seconds, metrics, expected, capsys):
    write = LogLines()
    write(stage("train", monitored=True, n_epochs=n_epochs))
    for epoch in range(n_epochs):
        write(EpochEnded("train", epoch, seconds, 1.0, metrics))
    assert [int(line.split("epoch ")[1].split()[0]) for line in capsys.readouterr().err.splitlines()[1:]] == expected


def test_lines_where_nobody_watches(capsys, tmp_path):
    with progress_callback() as plain:
        assert isinstance(plain, LogLines)
    settings = {"n_epochs": 60, "patience": 1, "n_lanes": 1, "loss": "ncll", "validation_fraction": 0}
    held_out = X[:20], 1 - Y[:20]
    MultinomialNB(**settings).fit(X, Y, validation=held_out)
    assert capsys.readouterr() == ("", ""), "nothing unless asked"
    model = MultinomialNB(**settings, verbose=True).fit(X, Y, validation=held_out, checkpoint=tmp_path)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert "60 epochs, 1 round per epoch, 1 lane per round, 1 thread" in lines[0]
    assert "epoch 1" in lines[1] and "held-out  " in lines[1] and "log-loss " in lines[1]
    assert "checkpoint" in lines[2] and str(tmp_path) in lines[2]
    best = int(np.argmin([entry["validation_ncll"] for entry in model.history_])) + 1
    assert f"stopped after epoch {best + 1}" in lines[-1] and f"keeping epoch {best}" in lines[-1]
