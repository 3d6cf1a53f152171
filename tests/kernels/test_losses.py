"""Losses, their gradients, and the version for one document inside the sequential kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdem_dist import losses
from sdem_dist.kernels import losses as kernel

LOSS = {"nll": losses.nll, "ncll": losses.ncll, "hinge": losses.hinge}

# Whole numbers too: they make ties and margins of exactly one, where the two versions must decide alike.
score = st.one_of(st.integers(-3, 3).map(float), st.floats(-40, 40), st.floats(-1e5, 1e5))
scores_and_label = hnp.array_shapes(min_dims=1, max_dims=1, min_side=2, max_side=6).flatmap(
    lambda shape: st.tuples(hnp.arrays(np.float64, shape, elements=score), st.integers(0, shape[0] - 1))
)


def by_kernel(loss: str | losses.Loss, scores: np.ndarray, label: int) -> tuple[np.ndarray, float]:
    out = np.full(len(scores), np.nan)
    largest = kernel.loss_weights(losses.kernel_form(loss, len(scores)), scores, label, out)
    return out, largest


@pytest.mark.parametrize("loss", losses.LOSSES)
@given(drawn=scores_and_label)
def test_kernel_and_batch_versions_agree(loss, drawn):
    scores, label = drawn
    weights, largest = by_kernel(loss, scores, label)
    expected = losses.NAMED[loss].weights(scores[None], np.array([label]))[0]
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)
    assert largest == np.abs(weights).max() if loss != "ncll" else largest == pytest.approx(np.abs(weights).max())
    plain = np.full(len(scores), np.nan)
    kernel.loss_weights.py_func(losses.kernel_form(loss, len(scores)), scores, label, plain)
    np.testing.assert_allclose(plain, weights, rtol=1e-14)


OTHERS = [losses.Hinge(0.0), losses.Hinge(3.0), losses.Blend(losses.Hinge(), 0.3), losses.Blend(losses.Ncll(), 0.3)]
COSTS = np.array([[0, 1, 5, 2, 0, 1], [3, 0, 1, 1, 1, 1], [1, 1, 0, 9, 2, 1], *np.full((3, 6), 2.5)])
np.fill_diagonal(COSTS, 0.0)


def costly(n_classes: int) -> losses.CostSensitiveHinge:
    return losses.CostSensitiveHinge(tuple(map(tuple, COSTS[:n_classes, :n_classes].tolist())))


@pytest.mark.parametrize("loss", [*OTHERS, "costs"], ids=repr)
@given(drawn=scores_and_label)
def test_kernel_and_batch_versions_of_other_losses_agree(loss, drawn):
    scores, label = drawn
    loss = costly(len(scores)) if loss == "costs" else loss
    weights, largest = by_kernel(loss, scores, label)
    if isinstance(loss, losses.CostSensitiveHinge):  # where two are worst alike, either will do
        raised = np.sort(scores + COSTS[label, : len(scores)])[::-1]
        assume(raised[0] - raised[1] > 1e-9 * max(1.0, abs(raised[0])))
    expected = loss.weights(scores[None], np.array([label]))[0]
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)
    assert largest == pytest.approx(np.abs(weights).max())


def test_kernels_refuse_what_they_do_not_know():
    class Own:
        value = weights = None

    with pytest.raises(ValueError, match="a loss of your own"):
        losses.kernel_form(Own(), 3)
    with pytest.raises(ValueError, match="costs are of 3 classes, and there are 4"):
        losses.kernel_form(costly(3), 4)


@given(drawn=scores_and_label)
def test_weights_of_table_1(drawn):
    scores, label = drawn
    batch, labels = scores[None], np.array([label])
    assert losses.NAMED["nll"].weights(batch, labels).sum() == 1
    for loss in ("ncll", "hinge"):
        weights = losses.NAMED[loss].weights(batch, labels)[0]
        assert weights.sum() == pytest.approx(0, abs=1e-12)
        assert weights[label] >= 0
        assert (np.delete(weights, label) <= 0).all()


@pytest.mark.parametrize("loss", losses.LOSSES)
@given(drawn=scores_and_label)
def test_weights_are_minus_the_gradient(loss, drawn):
    scores, label = drawn
    scores = np.clip(scores, -30, 30)
    step = 1e-5
    if loss == "hinge":  # away from its kinks: margin 1, and two rivals alike
        others = np.sort(np.delete(scores, label))[::-1]
        assume(abs(scores[label] - others[0] - 1) > 10 * step)
        assume(len(others) == 1 or others[0] - others[1] > 10 * step)
    labels = np.full(1, label)
    weights = losses.NAMED[loss].weights(scores[None], labels)[0]
    for k in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[k] += step
        down[k] -= step
        slope = (LOSS[loss](up[None], labels) - LOSS[loss](down[None], labels))[0] / (2 * step)
        assert -slope == pytest.approx(weights[k], abs=1e-6)


@pytest.mark.parametrize(("margin", "asks"), [(np.nextafter(1.0, 0), True), (1.0, True), (np.nextafter(1.0, 2), False)])
def test_hinge_asks_for_a_step_up_to_a_margin_of_one(margin, asks):
    scores = np.array([margin, 0.0, -5.0])
    expected = [1.0, -1.0, 0.0] if asks else [0.0, 0.0, 0.0]
    assert by_kernel("hinge", scores, 0)[0].tolist() == expected
    assert losses.NAMED["hinge"].weights(scores[None], np.array([0]))[0].tolist() == expected


def test_impossible_classes():
    scores = np.array([[0.0, -np.inf, -1.0]])
    assert losses.ncll(scores, np.array([1])) == np.inf
    assert losses.hinge(scores, np.array([1])) == np.inf
    assert losses.hinge(np.array([[-np.inf, -np.inf]]), np.array([0])) == 1.0
    for loss in losses.LOSSES:
        for label in range(3):
            weights = losses.NAMED[loss].weights(scores, np.array([label]))
            assert np.isfinite(weights).all()
            np.testing.assert_allclose(by_kernel(loss, scores[0], label)[0], weights[0], rtol=1e-12, atol=1e-15)


def test_posterior_near_one_is_not_lost_to_cancellation():
    scores = np.array([50.0, 0.0])
    weights, largest = by_kernel("ncll", scores, 0)
    assert weights[0] == largest == pytest.approx(np.exp(-50), rel=1e-12)


def test_marginal_is_the_logarithm_of_the_sum():
    scores = np.log(np.array([[0.1, 0.2, 0.3], [1e-3, 1e-3, 1e-3]]))
    np.testing.assert_allclose(losses.marginal_log_likelihood(scores), np.log([0.6, 3e-3]))


def test_empty_batch():
    scores, labels = np.empty((0, 3)), np.empty(0, np.int64)
    for loss in losses.LOSSES:
        assert losses.NAMED[loss].weights(scores, labels).shape == (0, 3)
        assert LOSS[loss](scores, labels).shape == (0,)
