"""A run that is resumed with more epochs has the history and the bits of one that had them from the start."""

from __future__ import annotations

import numpy as np
import pytest
from reference.random_documents import random_counts

import sdem_dist as sd

X, Y = random_counts(200, 30, 3, seed=1)
TABLE = np.abs(np.random.default_rng(0).normal(size=(200, 4)) + np.asarray(Y)[:, None])
CASES = [
    (sd.MultinomialNB, {"evaluate_every": 2, "validation_fraction": 0.0}, X),
    (sd.EMMixtureClassifier, {"n_components": 2, "validation_fraction": 0.0}, TABLE),
    (sd.MultiplicativeMixtureClassifier, {"n_components": 2, "validation_fraction": 0.0}, TABLE),
    (sd.SdemMixtureClassifier, {"n_components": 2, "validation_fraction": 0.0}, TABLE),
    (sd.MultinomialMixture, {"n_components": 3, "n_init": 1}, X),
    (sd.GaussianNB, {"evaluate_every": 2}, TABLE),
]


@pytest.mark.parametrize(("kind", "settings", "documents"), CASES, ids=[case[0].__name__ for case in CASES])
def test_three_epochs_and_three_more_are_six(kind, settings, documents, tmp_path):
    kind(n_epochs=3, **settings).fit(documents, Y, checkpoint=tmp_path)
    resumed = kind(n_epochs=6, **settings).fit(documents, Y, checkpoint=tmp_path, resume=True)
    whole = kind(n_epochs=6, **settings).fit(documents, Y)
    assert [without_seconds(entry) for entry in resumed.history_] == [
        without_seconds(entry) for entry in whole.history_
    ]
    for one, other in zip(resumed.state_, whole.state_, strict=True):
        np.testing.assert_array_equal(one, other)


def without_seconds(entry: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in entry.items() if name != "seconds"}
