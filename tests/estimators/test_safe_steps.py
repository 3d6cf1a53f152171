"""The defaults of Gaussian naive Bayes do not diverge, and lose nothing against the generative fit."""

from __future__ import annotations

import pytest
from tables import TABLES, compare


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_safe(name, loss, standardised):
    # few documents leave much to chance: .01 is a promise about the mean of ten repeats
    row, safe = compare(name, standardised, loss, "sum", repeats=10 if name in ("iris", "wine") else 2)
    assert safe, row
