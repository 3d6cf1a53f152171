"""Sums over documents and their means; what held-out documents choose by; parameters are made once, by one thread."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sdem_dist import MultinomialNB, losses
from sdem_dist import evaluation as ev
from sdem_dist.fitting.running import LazyParameters

RNG = np.random.default_rng(0)
SCORES, LABELS = RNG.normal(-20, 3, (50, 4)), RNG.integers(0, 4, 50)
WEIGHTS, LENGTHS = RNG.random(50), RNG.integers(0, 9, 50).astype(float)
CHOSEN_BY = ("macro_f1", "accuracy", "temperature", "tempered_log_loss")


def sums_of(*columns):
    return ev.evaluation_sums(ev.scored(*columns, columns[0]))


def test_means_by_hand():
    found = ev.finish(sums_of(SCORES, LABELS, WEIGHTS, LENGTHS))
    assert found["accuracy"] == pytest.approx(np.average(SCORES.argmax(axis=1) == LABELS, weights=WEIGHTS))
    for name in losses.LOSSES:
        assert found[name] == pytest.approx(np.average(getattr(losses, name)(SCORES, LABELS), weights=WEIGHTS))
    log_likelihood = np.log(np.exp(SCORES).sum(axis=1))
    assert found["perplexity"] == pytest.approx(np.exp(-(WEIGHTS @ log_likelihood) / (WEIGHTS @ LENGTHS)))


def test_parts_add_up():
    whole = sums_of(SCORES, LABELS, WEIGHTS, LENGTHS)
    parts = sum(sums_of(SCORES[i::3], LABELS[i::3], WEIGHTS[i::3], LENGTHS[i::3]) for i in range(3))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    assert len(whole) == len(ev.SUMS)
    parts = sum(ev.choosing_sums(SCORES[i::3], LABELS[i::3], WEIGHTS[i::3]) for i in range(3))
    np.testing.assert_allclose(parts, ev.choosing_sums(SCORES, LABELS, WEIGHTS), rtol=1e-12)


def test_documents_of_weight_zero_count_nowhere_even_with_infinite_losses():
    scores = np.vstack([SCORES, [[0.0, -np.inf, 0.0, 0.0]]])
    labels, lengths = np.append(LABELS, 1), np.append(LENGTHS, 5.0)
    without, with_it = (sums_of(scores, labels, np.append(WEIGHTS, w), lengths) for w in (0, 1))
    np.testing.assert_array_equal(without, sums_of(SCORES, LABELS, WEIGHTS, LENGTHS))
    assert ev.finish(with_it)["ncll"] == np.inf


def test_nothing_to_measure():
    nothing = ev.finish(sums_of(SCORES[:0], LABELS[:0], WEIGHTS[:0], LENGTHS[:0]))
    nothing |= ev.choosing_metrics(ev.choosing_sums(np.empty((0, 3)), np.empty(0, int), np.empty(0)))
    assert all(np.isnan(v) for v in nothing.values())
    assert np.isnan(ev.finish(sums_of(SCORES, LABELS, WEIGHTS, np.zeros(50)))["perplexity"])


def test_bits_do_not_depend_on_the_threads_of_blas():
    rng = np.random.default_rng(1)
    arguments = rng.normal(-20, 3, (60_000, 2)), rng.integers(0, 2, 60_000), rng.random(60_000), rng.random(60_000)
    sums = []
    for n in (1, 2, 4):
        with threadpool_limits(n):
            sums.append(sums_of(*arguments).tobytes())
    assert len(set(sums)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_part_of_the_full_evaluation(seed):
    rng = np.random.default_rng(seed)
    labels, weights = rng.integers(-1, 4, 300), rng.integers(0, 3, 300).astype(float)
    scores = -500.0 + 3.0 * rng.normal(size=(300, 4)) + 2.0 * (labels[:, None] == np.arange(4))
    scores[7], scores[8, 1:], scores[9, 0] = -np.inf, -np.inf, np.nan
    labels[7:10], weights[7:10] = 1, 1.0
    documents = ev.scored(scores, labels, weights, np.ones(300), scores)
    whole = ev.classifier_metrics(ev.classifier_sums(documents, tempered=True), 4)
    found = ev.choosing_metrics(ev.choosing_sums(scores, labels, weights))
    assert set(found) == set(CHOSEN_BY)
    # A NaN loses no argmax of NumPy: only there do the two differ, by one document of weight 1.
    assert found["accuracy"] == pytest.approx(whole["accuracy"], abs=1.01 / weights[labels >= 0].sum())
    assert found["temperature"] == pytest.approx(whole["temperature"], rel=1e-9)
    assert found["tempered_log_loss"] == pytest.approx(whole["tempered_log_loss"], rel=1e-12)


def test_training_tells_of_held_out_documents_alone_what_chooses():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2_500)
    X = rng.poisson(0.3 + 0.5 * (np.arange(30) % 3 == y[:, None]))
    seen = []

    def listen(event):
        if hasattr(event, "metrics"):
            seen.append((event.stage, set(event.metrics)))

    MultinomialNB(random_state=0).fit(X, y, callbacks=[listen])
    assert seen[0] == ("choose", {f"validation_{name}" for name in CHOSEN_BY}) and seen[-1] == ("train", set())


class Slow:
    """A learner whose parameters take until another thread begins with them, too, or gives up."""

    def __init__(self) -> None:
        self.begun, self.inside, self.most = 0, 0, 0
        self.second = threading.Event()

    def parameters(self, state: float) -> float:
        self.begun, self.inside = self.begun + 1, self.inside + 1
        self.most = max(self.most, self.inside)
        if self.inside == 2:
            self.second.set()
        self.second.wait(0.5)
        self.inside -= 1
        return state


def test_one_thread_at_a_time_limits_blas():
    learner = Slow()
    models = [LazyParameters(learner, 1.0), LazyParameters(learner, 2.0)]
    threads = [threading.Thread(target=lambda m=m: m.value) for m in [*models, models[0]]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert learner.most == 1, "or the first would restore what the second needs, and the second restore the limit"
    assert learner.begun == 2, "each model's once"
