"""Lanes that are too short for their number not to matter."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sdem_dist as sd
from sdem_dist.fitting.defaults import SHORT_LANE


def test_short_lanes_warn_and_others_do_not():
    X, y = np.eye(2, dtype=int)[np.arange(2 * SHORT_LANE) % 2], np.arange(2 * SHORT_LANE) % 2
    settings = {"rounds_per_epoch": 1, "n_epochs": 1, "calibrate": False}
    with pytest.warns(UserWarning, match="n_lanes=3 leaves 200 documents to a lane in a round") as found:
        sd.MultinomialNB(n_lanes=3, **settings).fit(X, y)
    assert [warning.filename for warning in found] == [__file__]  # the line of who called
    with pytest.warns(UserWarning, match="n_lanes=1,000 leaves at most one document to a lane"):
        sd.MultinomialNB(n_lanes=1_000, **settings).fit(X[:40], y[:40])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_lanes in (None, 1, 2):
            sd.MultinomialNB(n_lanes=n_lanes, **settings).fit(X, y)
        sd.MultinomialNB(n_lanes=3, weighting="counts", **settings).fit(X, y)  # they gain from short lanes
