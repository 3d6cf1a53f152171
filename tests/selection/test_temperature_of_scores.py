"""The temperature of predictions out of fold."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist.calibration import nearest_temperature

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 500)
SCORES = RNG.normal(0.0, 5.0, (500, 3)) + 4.0 * np.eye(3)[LABELS]


@pytest.mark.parametrize("constant", [-1e6, -1e8, 1e8])
def test_a_constant_of_each_document_changes_nothing(constant):
    expected = nearest_temperature(SCORES, LABELS, np.ones(500))
    assert nearest_temperature(SCORES + constant, LABELS, np.ones(500)) == pytest.approx(expected, rel=1e-4)
    assert expected != 1.0
