"""Every loss obeys the laws of losses; a wrong one does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll, Nll
from sdem_dist.testing import check_loss

COSTS = ((0.0, 2.0, 5.0), (1.0, 0.0, 0.5), (0.0, 3.0, 0.0))
LOSSES = [Nll(), Ncll(), Hinge(), Hinge(0.0), Hinge(3.0), CostSensitiveHinge(COSTS), Blend(Hinge(), 0.3), Blend(Ncll())]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(seed=st.integers(0, 1000))
def test_every_loss_obeys_the_laws(loss, seed):
    check_loss(loss, seed=seed)


@dataclass(frozen=True)
class WrongSign(Ncll):
    def weights(self, scores, labels):
        return -super().weights(scores, labels)


@dataclass(frozen=True)
class Meddling(Nll):
    def value(self, scores, labels):
        scores -= 1.0
        return super().value(scores, labels)


@dataclass(frozen=True)
class Summed(Nll):
    def value(self, scores, labels):
        return super().value(scores, labels).sum()


@pytest.mark.parametrize(
    ("loss", "law"), [(WrongSign(), "minus the gradient"), (Meddling(), "arguments"), (Summed(), "shape")], ids=str
)
def test_a_wrong_loss_is_found_out(loss, law):
    with pytest.raises(AssertionError, match=law):
        check_loss(loss)


def test_costs_stand_inside_the_maximum():
    loss = CostSensitiveHinge(COSTS)
    scores, labels = np.array([[3.0, 2.0, 0.0]] * 2), np.array([0, 1])
    # label 0: the strongest rival is 1, but taking 0 for 2 costs so much more that 2 is the worst
    assert loss.value(scores, labels).tolist() == [2.0, 2.0]
    assert loss.weights(scores, labels).tolist() == [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]


@given(seed=st.integers(0, 1000), margin=st.floats(0.1, 5.0))
def test_equal_costs_are_a_margin(seed, margin):
    rng = np.random.default_rng(seed)
    scores, labels = rng.standard_normal((50, 3)), rng.integers(0, 3, 50)
    costs = CostSensitiveHinge(tuple(map(tuple, (margin * (1.0 - np.eye(3))).tolist())))
    np.testing.assert_allclose(costs.value(scores, labels), Hinge(margin).value(scores, labels), atol=1e-12)
    np.testing.assert_array_equal(costs.weights(scores, labels), Hinge(margin).weights(scores, labels))


@pytest.mark.parametrize("costs", [((0.0, 1.0),), ((0.0, -1.0), (1.0, 0.0)), ((1.0, 1.0), (1.0, 0.0))])
def test_bad_costs_are_refused(costs):
    with pytest.raises(ValueError, match="costs"):
        CostSensitiveHinge(costs)


def test_a_blend_has_a_share():
    with pytest.raises(ValueError, match="share"):
        Blend(Hinge(), 2.0)
    with pytest.raises(TypeError, match="such as Hinge"):
        Blend("hinge")
    scores, labels = np.array([[1.0, 0.5]]), np.array([1])
    assert Blend(Hinge(), 1.0).value(scores, labels) == Nll().value(scores, labels)
    assert Blend(Hinge(), 0.0).value(scores, labels) == Hinge().value(scores, labels)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_costs_of_other_classes_are_refused(n_classes):
    with pytest.raises(ValueError, match=f"3 classes, and there are {n_classes}"):
        CostSensitiveHinge(COSTS).weights(np.zeros((1, n_classes)), np.array([0]))
