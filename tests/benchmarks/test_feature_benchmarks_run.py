"""The benchmarks of dense features run, on little data."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import missing_values
import numpy as np
import regression
import safe_steps
import unlabelled


def test_safe_steps():
    row, safe = safe_steps.compare("iris", False, "ncll", "sum", repeats=1)
    assert safe
    assert row.startswith("| iris | raw | ncll | sum |")


def test_missing_values(monkeypatch):
    few = {name: peer for name, peer in missing_values.peers().items() if "trees" not in name}
    monkeypatch.setattr(missing_values, "peers", lambda: few)
    found = missing_values.accuracies("iris", 0.1, repeats=1)
    assert set(found) == set(few)
    assert min(found.values()) > 0.8


def test_labels_are_hidden_evenly():
    hidden = unlabelled.hide(np.repeat([0, 1, 2], 30), 5, seed=0)
    assert [(hidden == k).sum() for k in (-1, 0, 1, 2)] == [75, 5, 5, 5]


def test_regression():
    scores, seconds = regression.compare([next(regression.parts("diabetes"))], [0.0, 0.1])
    assert scores.shape == (2, len(seconds)) == (2, len(regression.models()))
    assert scores.min() > 0.2
