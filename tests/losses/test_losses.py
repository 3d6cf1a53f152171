"""Losses: their laws, and the versions for one document in the kernels, of classes and of components of classes."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdem_dist import losses
from sdem_dist.kernels import losses as kernel
from sdem_dist.losses import NAMED, Blend, CostSensitiveHinge, Hinge, Ncll, Nll
from sdem_dist.models.heads import by_class
from sdem_dist.testing import check_loss

COSTS = np.array([[0.0, 2.0, 5.0], [1.0, 0.0, 0.5], [0.25, 3.0, 0.0]])
COSTLY = CostSensitiveHinge(tuple(map(tuple, COSTS.tolist())))
LOSSES = [Nll(), Ncll(), Hinge(), Hinge(0.0), Hinge(3.0), COSTLY, Blend(Hinge(), 0.3), Blend(Ncll(), 0.3)]
OWNERS = (0, 0, 0, 1, 2, 2)
# Whole numbers too: they make ties and margins of exactly one, where the versions must decide alike.
score = st.one_of(st.integers(-3, 3).map(float), st.floats(-40, 40), st.floats(-1e5, 1e5))
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def scores_of(n):
    return hnp.arrays(np.float64, n, elements=score)


@each_loss
@given(seed=st.integers(0, 1000))
def test_every_loss_obeys_the_laws(loss, seed):
    check_loss(loss, seed=seed)


def _meddling(self, scores, labels):
    scores -= 1.0
    return Nll.value(self, scores, labels)


BROKEN = {
    "negative gradient": (Ncll, {"weights": lambda self, scores, labels: -Ncll.weights(self, scores, labels)}),
    "arguments": (Nll, {"value": _meddling}),
    "shape": (Nll, {"value": lambda self, scores, labels: Nll.value(self, scores, labels).sum()}),
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_wrong_loss_is_found_out(law):
    loss, methods = BROKEN[law]
    np.testing.assert_raises_regex(AssertionError, law, check_loss, type("Broken", (loss,), methods)())


def by_kernel(loss, scores, label):
    out = np.full(len(scores), np.nan)
    return out, kernel.loss_weights(losses.kernel_form(loss, len(scores)), scores, label, out)


def near_a_kink(loss, scores, label, width):
    """Whether rounding, or a small change, decides what a hinge loss does."""
    loss = loss.other if isinstance(loss, Blend) else loss
    if not isinstance(loss, Hinge | CostSensitiveHinge):
        return False
    missed = scores + (COSTS[label] if loss is COSTLY else loss.margin) - scores[label]
    missed = np.delete(missed, label)
    return np.abs(missed).min() < width or abs(missed[0] - missed[1]) < width


@each_loss
@given(scores=scores_of(3), label=st.integers(0, 2))
def test_kernel_and_batch_agree(loss, scores, label):
    if loss is COSTLY:  # where two are worst alike, either will do
        assume(not near_a_kink(loss, scores, label, 1e-9 * max(1.0, np.abs(scores).max())))
    weights, largest = by_kernel(loss, scores, label)
    np.testing.assert_allclose(weights, loss.weights(scores[None], np.array([label]))[0], rtol=1e-12, atol=1e-15)
    assert largest == pytest.approx(np.abs(weights).max())
    plain = np.full(3, np.nan)
    kernel.loss_weights.py_func(losses.kernel_form(loss, 3), scores, label, plain)
    np.testing.assert_allclose(plain, weights, rtol=1e-14)


@each_loss
@given(scores=scores_of(len(OWNERS)), label=st.integers(0, 2))
def test_kernel_and_batch_of_components_agree(loss, scores, label):
    out = np.full(len(OWNERS), np.nan)
    largest = kernel.component_weights(losses.kernel_form(loss, 3), scores, label, np.array(OWNERS), out)
    of_class, posterior = by_class(scores[None], OWNERS)
    assume(not near_a_kink(loss, of_class[0], label, 1e-9 * max(1.0, np.abs(scores).max())))
    expected = loss.weights(of_class, np.array([label]))[:, OWNERS] * posterior
    np.testing.assert_allclose(out, expected[0], rtol=1e-9, atol=1e-12)
    assert 0 <= largest <= 1 + 1e-12


def test_scores_of_classes_of_one_component_and_of_impossible_ones():
    scores = np.random.default_rng(0).normal(size=(5, 4))
    of_class, posterior = by_class(scores, (0, 1, 2, 3))
    np.testing.assert_allclose(of_class, scores, rtol=1e-15)
    assert (posterior == 1).all()
    of_class, posterior = by_class(np.array([[-np.inf, -np.inf, 0.0]]), (0, 0, 1))
    assert of_class.tolist() == [[-np.inf, 0.0]]
    assert posterior.tolist() == [[0.0, 0.0, 1.0]]


@given(scores=hnp.arrays(np.float64, st.integers(2, 6), elements=score), data=st.data())
def test_weights_of_table_1(scores, data):
    label = data.draw(st.integers(0, len(scores) - 1))
    batch, labels = scores[None], np.array([label])
    assert Nll().weights(batch, labels).sum() == 1
    for loss in (Ncll(), Hinge()):
        weights = loss.weights(batch, labels)[0]
        np.testing.assert_allclose(by_kernel(loss, scores, label)[0], weights, rtol=1e-12, atol=1e-15)
        assert weights.sum() == pytest.approx(0, abs=1e-12) and weights[label] >= 0
        assert (np.delete(weights, label) <= 0).all()


@pytest.mark.parametrize(("margin", "asks"), [(np.nextafter(1.0, 0), True), (1.0, True), (np.nextafter(1.0, 2), False)])
def test_hinge_asks_for_a_step_up_to_a_margin_of_one(margin, asks):
    scores = np.array([margin, 0.0, -5.0])
    expected = [1.0, -1.0, 0.0] if asks else [0.0, 0.0, 0.0]
    assert by_kernel("hinge", scores, 0)[0].tolist() == expected
    assert Hinge().weights(scores[None], np.array([0]))[0].tolist() == expected


def test_impossible_classes_and_no_documents():
    scores = np.array([[0.0, -np.inf, -1.0]])
    assert losses.ncll(scores, np.array([1])) == np.inf and losses.hinge(scores, np.array([1])) == np.inf
    assert losses.hinge(np.array([[-np.inf, -np.inf]]), np.array([0])) == 1.0
    for loss in NAMED.values():
        for label in range(3):
            weights = loss.weights(scores, np.array([label]))
            assert np.isfinite(weights).all()
            np.testing.assert_allclose(by_kernel(loss, scores[0], label)[0], weights[0], rtol=1e-12, atol=1e-15)
        assert loss.weights(np.empty((0, 3)), np.empty(0, np.int64)).shape == (0, 3)
        assert loss.value(np.empty((0, 3)), np.empty(0, np.int64)).shape == (0,)


def test_posterior_near_one_is_not_lost_to_cancellation():
    weights, largest = by_kernel("ncll", np.array([50.0, 0.0]), 0)
    assert weights[0] == largest == pytest.approx(np.exp(-50), rel=1e-12)


def test_costs_stand_inside_the_maximum():
    scores, labels = np.array([[3.0, 2.0, 0.0]] * 2), np.array([0, 1])
    # label 0: the strongest rival is 1, but taking 0 for 2 costs so much more that 2 is the worst
    assert COSTLY.value(scores, labels).tolist() == [2.0, 2.0]
    assert COSTLY.weights(scores, labels).tolist() == [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]


@given(seed=st.integers(0, 1000), margin=st.floats(0.1, 5.0))
def test_equal_costs_are_a_margin(seed, margin):
    rng = np.random.default_rng(seed)
    scores, labels = rng.standard_normal((50, 3)), rng.integers(0, 3, 50)
    costs = CostSensitiveHinge(tuple(map(tuple, (margin * (1.0 - np.eye(3))).tolist())))
    np.testing.assert_allclose(costs.value(scores, labels), Hinge(margin).value(scores, labels), atol=1e-12)
    np.testing.assert_array_equal(costs.weights(scores, labels), Hinge(margin).weights(scores, labels))


def test_the_ends_of_a_blend_are_its_losses():
    scores, labels = np.array([[1.0, 0.5]]), np.array([1])
    assert Blend(Hinge(), 1.0).value(scores, labels) == Nll().value(scores, labels)
    assert Blend(Hinge(), 0.0).value(scores, labels) == Hinge().value(scores, labels)


@pytest.mark.parametrize(("make", "error", "match"), [
    (lambda: CostSensitiveHinge(((0.0, 1.0),)), ValueError, "costs"),
    (lambda: CostSensitiveHinge(((0.0, -1.0), (1.0, 0.0))), ValueError, "costs"),
    (lambda: CostSensitiveHinge(((1.0, 1.0), (1.0, 0.0))), ValueError, "costs"),
    (lambda: CostSensitiveHinge(((0.0, 0.0), (0.0, 0.0))), ValueError, "costs"),
    (lambda: COSTLY.weights(np.zeros((1, 2)), np.array([0])), ValueError, "3 classes, but the data have 2"),
    (lambda: losses.kernel_form(COSTLY, 4), ValueError, "3 classes, but the data have 4"),
    (lambda: losses.kernel_form(SimpleNamespace(value=None, weights=None), 3), ValueError, "custom loss"),
    (lambda: Blend(Hinge(), 2.0), ValueError, "share"),
    (lambda: Blend("hinge"), TypeError, "other"),
    *((lambda margin=m: Hinge(margin), ValueError, "margin") for m in (np.nan, np.inf, -3.0, True, "2", None)),
])  # fmt: skip
def test_what_is_no_loss_is_refused(make, error, match):
    np.testing.assert_raises_regex(error, match, make)
