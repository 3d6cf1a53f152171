"""Models that skops writes and reads, and copies, which are made as pickles are."""

from __future__ import annotations

import warnings
from copy import deepcopy

import numpy as np
import pytest

import sdem_dist as sd
from sdem_dist.catalogue import ESTIMATORS

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(2.0, (60, 5)).astype(float)
LABELS = np.arange(60) % 2


def fitted(name: str):
    model = getattr(sd, name)()
    y = {"labels": LABELS, "numbers": COUNTS[:, 0]}.get(model.spec.target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows
        return model.fit(COUNTS) if y is None else model.fit(COUNTS, y)


def answers(model) -> np.ndarray:
    ask = next(getattr(model, name) for name in ("predict_proba", "predict", "transform") if hasattr(model, name))
    return ask(COUNTS)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_model_is_itself_after_skops_and_as_a_copy(name, asked):
    skops = pytest.importorskip("skops.io")
    model = fitted(name)
    if asked:
        answers(model)
    written = skops.dumps(model)
    found = skops.loads(written, trusted=skops.get_untrusted_types(data=written))
    for again in (found, deepcopy(model)):
        np.testing.assert_array_equal(answers(again), answers(model))
