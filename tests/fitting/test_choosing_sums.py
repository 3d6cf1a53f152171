"""What held-out documents choose by is what a full evaluation finds, in less time."""

from __future__ import annotations

import numpy as np
import pytest

from sdem_dist import MultinomialNB
from sdem_dist.evaluation import choosing_metrics, choosing_sums, classifier_metrics, classifier_sums, scored

CHOSEN_BY = ("macro_f1", "accuracy", "temperature", "tempered_log_loss")


def documents(seed: int = 0, n: int = 300, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_classes, n)
    scores = -500.0 + 3.0 * rng.normal(size=(n, n_classes)) + 2.0 * (labels[:, None] == np.arange(n_classes))
    weights = rng.integers(0, 3, n).astype(float)
    scores[7], scores[8, 1:], scores[9, 0] = -np.inf, -np.inf, np.nan
    labels[7:10], weights[7:10] = 1, 1.0
    return scores, labels, weights


@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_part_of_the_full_evaluation(seed):
    scores, labels, weights = documents(seed)
    lengths = np.ones(len(labels))
    whole = classifier_metrics(classifier_sums(scored(scores, labels, weights, lengths), tempered=True), 4)
    found = choosing_metrics(choosing_sums(scores, labels, weights))
    assert set(found) == set(CHOSEN_BY)
    # A NaN loses no argmax of NumPy: only there do the two differ, by one document of weight 1.
    assert found["accuracy"] == pytest.approx(whole["accuracy"], abs=1.01 / weights[labels >= 0].sum())
    assert found["temperature"] == pytest.approx(whole["temperature"], rel=1e-9)
    assert found["tempered_log_loss"] == pytest.approx(whole["tempered_log_loss"], rel=1e-12)


def test_sums_add_up_over_documents():
    scores, labels, weights = documents()
    halves = [choosing_sums(scores[part], labels[part], weights[part]) for part in (slice(0, 120), slice(120, None))]
    np.testing.assert_allclose(np.sum(halves, axis=0), choosing_sums(scores, labels, weights), rtol=1e-12)


def test_without_a_document_nothing_is_known():
    found = choosing_metrics(choosing_sums(np.empty((0, 3)), np.empty(0, int), np.empty(0)))
    assert all(np.isnan(value) for value in found.values())


def test_training_tells_of_held_out_documents_alone_what_chooses():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2_500)
    X = rng.poisson(0.3 + 0.5 * (np.arange(30) % 3 == y[:, None]))
    seen = []
    MultinomialNB(random_state=0).fit(
        X,
        y,
        callbacks=[lambda event: seen.append((event.stage, set(event.metrics))) if hasattr(event, "metrics") else None],
    )
    held_out = {f"validation_{name}" for name in CHOSEN_BY}
    assert seen[0] == ("choose", held_out)
    assert seen[-1] == ("train", set())
