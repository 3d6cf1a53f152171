"""The bar in a notebook's cell, with a display that takes notes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sdem_dist import MultinomialNB
from sdem_dist.engine import callbacks as cell_bar
from sdem_dist.engine.callbacks import LogLines, progress_callback

X = np.random.default_rng(0).poisson(1.0, (60, 5))
Y = np.arange(60) % 2


class Cell:
    def __init__(self, first):
        self.pictures = [first]

    def update(self, picture):
        self.pictures.append(picture)


class ZMQInteractiveShell:
    pass


@pytest.fixture
def cells(monkeypatch):
    """Return the cells' outputs of a notebook that is not there."""
    shown: list[Cell] = []

    def display(picture, *, display_id):
        assert display_id
        shown.append(Cell(picture))
        return shown[-1]

    module = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(cell_bar, "PAUSE", -1.0)
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
    assert model.n_iter_ < 60 and f"stopped, epoch {model.history_.index(model.best_entry_) + 1} is kept" in last
    assert last.split('value="')[1].split('"')[0] == last.split('max="')[1].split('"')[0] == str(model.n_iter_)


def test_what_is_said_is_escaped(cells):
    bar = cell_bar.ProgressBar("<script>")
    MultinomialNB(n_epochs=1, validation_fraction=0).fit(X, Y, callbacks=[bar])
    assert "<script>" not in cells[0].pictures[0] and "&lt;script&gt;" in cells[0].pictures[0]


def test_elsewhere_there_is_no_cell():
    assert not cell_bar.in_notebook()
    with progress_callback() as callback:
        assert isinstance(callback, LogLines)
