"""Weights of components, in the kernel and over batches: minus the gradient of the loss, the component hidden."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdem_dist import losses
from sdem_dist.kernels import losses as kernel
from sdem_dist.models.heads import by_class

COSTS = ((0.0, 2.0, 5.0), (1.0, 0.0, 3.0), (0.5, 4.0, 0.0))
NAMED = {
    **losses.NAMED,
    "margin 3": losses.Hinge(3.0),
    "costs": losses.CostSensitiveHinge(COSTS),
    "NCLL and NLL": losses.Blend(losses.Ncll(), 0.3),
    "hinge and NLL": losses.Blend(losses.Hinge(), 0.3),
}
OWNERS = (0, 0, 0, 1, 2, 2)
score = st.one_of(st.integers(-3, 3).map(float), st.floats(-40, 40), st.floats(-1e5, 1e5))
scores = hnp.arrays(np.float64, len(OWNERS), elements=score)


def over_batch(loss, drawn, label):
    of_class, posterior = by_class(drawn[None], OWNERS)
    weights = NAMED[loss].weights(of_class, np.array([label]))
    return (weights[:, OWNERS] * posterior)[0], of_class[0]


def near_a_kink(loss, of_class, label, width):
    margins = np.array(COSTS)[label] if loss == "costs" else np.full(3, 3.0 if loss == "margin 3" else 1.0)
    missed = np.delete(of_class + margins - of_class[label], label)
    near = np.abs(missed).min() < width or abs(missed[0] - missed[1]) < width
    return near and loss not in ("nll", "ncll", "NCLL and NLL")


@pytest.mark.parametrize("loss", NAMED)
@given(drawn=scores, label=st.integers(0, 2))
def test_kernel_and_batch_agree(loss, drawn, label):
    out = np.full(len(OWNERS), np.nan)
    largest = kernel.component_weights(losses.kernel_form(NAMED[loss], 3), drawn, label, np.array(OWNERS), out)
    expected, of_class = over_batch(loss, drawn, label)
    if near_a_kink(loss, of_class, label, 1e-9):
        return  # rounding decides
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12)
    assert 0 <= largest <= 1 + 1e-12


@pytest.mark.parametrize("loss", NAMED)
@given(drawn=hnp.arrays(np.float64, len(OWNERS), elements=st.floats(-5, 5)), label=st.integers(0, 2))
def test_minus_the_gradient(loss, drawn, label):
    def value(at):
        return NAMED[loss].value(by_class(at[None], OWNERS)[0], np.array([label]))[0]

    weights, of_class = over_batch(loss, drawn, label)
    if near_a_kink(loss, of_class, label, 1e-3):
        return
    step = 1e-6
    for j, unit in enumerate(np.eye(len(OWNERS)) * step):
        assert (value(drawn + unit) - value(drawn - unit)) / (2 * step) == pytest.approx(-weights[j], abs=1e-5)


def test_components_of_one_each_are_classes():
    drawn = np.random.default_rng(0).normal(size=(5, 4))
    of_class, posterior = by_class(drawn, (0, 1, 2, 3))
    np.testing.assert_allclose(of_class, drawn, rtol=1e-15)
    assert (posterior == 1).all()


def test_an_impossible_class_has_no_posterior():
    of_class, posterior = by_class(np.array([[-np.inf, -np.inf, 0.0]]), (0, 0, 1))
    assert of_class.tolist() == [[-np.inf, 0.0]]
    assert posterior.tolist() == [[0.0, 0.0, 1.0]]
