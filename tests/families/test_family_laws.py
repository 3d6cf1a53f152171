"""Laws that hold for every exponential family, and a family that breaks each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sdem_dist.families import Bernoulli, Categorical, Exponential, Gaussian, GaussianFull, Multinomial, Poisson
from sdem_dist.testing import check_family

FAMILIES = st.one_of(
    st.builds(Bernoulli, alpha=st.floats(0.0, 5.0)),
    st.builds(Poisson, alpha=st.floats(0.0, 5.0)),
    st.builds(Exponential, alpha=st.floats(0.0, 5.0)),
    st.builds(Gaussian, alpha=st.floats(0.0, 5.0)),
    st.builds(Categorical, n_categories=st.integers(2, 6), alpha=st.floats(0.0, 5.0)),
    st.builds(Multinomial, n_categories=st.integers(2, 5), alpha=st.floats(0.0, 5.0), length=st.integers(1, 9)),
    st.builds(GaussianFull, n_columns=st.integers(1, 3), alpha=st.floats(0.0, 5.0)),
)


@given(family=FAMILIES, seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_every_family_obeys_the_laws(family, seed):
    check_family(family, seed=seed, n_points=3)


@dataclass(frozen=True)
class WrongPartition(Poisson):
    def log_partition(self, theta):
        return super().log_partition(theta) * 1.01


@dataclass(frozen=True)
class WrongWayBack(Gaussian):
    def to_expectation(self, theta):
        return super().to_expectation(theta)[..., ::-1]


@dataclass(frozen=True)
class SilentCheck(Bernoulli):
    def check(self, mu):
        return super().check(mu)[0], 0


@dataclass(frozen=True)
class NoCheck(Gaussian):
    def check(self, mu):
        return mu, 0


@dataclass(frozen=True)
class HalfCheck(Exponential):
    def check(self, mu):
        inside = np.where(mu < 1e-10, mu / 2, mu)
        return inside, int((inside != mu).sum())


@dataclass(frozen=True)
class WrongBase(Poisson):
    def log_base(self, x):
        return np.zeros(x.shape[:-1])


@dataclass(frozen=True)
class WrongSamples(Gaussian):
    def sample(self, theta, rng):
        return 2.0 * super().sample(theta, rng)


@dataclass(frozen=True)
class Overcomplete(Bernoulli):
    @property
    def n_statistics(self):
        return 2

    @property
    def centre(self):
        return np.array([0.5, 0.5])

    def statistics(self, x):
        return np.concatenate([x, 1.0 - x], axis=-1)

    def to_natural(self, mu):
        return np.log(mu)

    def to_expectation(self, theta):
        return np.exp(theta) / np.exp(theta).sum(axis=-1, keepdims=True)

    def log_partition(self, theta):
        return np.log(np.exp(theta).sum(axis=-1))

    def sample(self, theta, rng):
        return super().sample(theta[..., :1] - theta[..., 1:], rng)


@pytest.mark.parametrize(
    ("family", "law"),
    [
        (WrongPartition(), "gradient of the log-partition"),
        (WrongWayBack(), "does not return"),
        (SilentCheck(), "does not say so"),
        (NoCheck(), "theta does not exist|not finite"),
        (HalfCheck(), "idempotent"),
        (WrongBase(), "add up to one"),
        (WrongSamples(), "mean of the statistics|vary"),
        (Overcomplete(), "positive definite|inverse"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_wrong_family_is_found_out(family, law):
    with pytest.raises(AssertionError, match=law), np.errstate(all="ignore"):
        check_family(family)


NORMAL = GaussianFull(2)
COVARIANCE = np.array([[2.0, 0.6], [0.6, 1.0]])


@pytest.mark.parametrize(
    ("family", "mu", "x", "expected"),
    [
        (Bernoulli(), [0.3], [1.0], stats.bernoulli.logpmf(1, 0.3)),
        (Poisson(), [2.5], [4.0], stats.poisson.logpmf(4, 2.5)),
        (Exponential(), [2.0], [3.0], stats.expon.logpdf(3, scale=2.0)),
        (Gaussian(), [1.0, 5.0], [2.5], stats.norm.logpdf(2.5, 1.0, 2.0)),
        (Categorical(3), [0.2, 0.5], [2.0], np.log(0.5)),
        (Categorical(3), [0.2, 0.5], [0.0], np.log(0.3)),
        (
            Multinomial(3, length=5),
            [1.0, 2.5],
            [1.0, 1.0, 3.0],
            stats.multinomial.logpmf([1, 1, 3], 5, [0.3, 0.2, 0.5]),
        ),
        (
            NORMAL,
            NORMAL.from_moments(np.array([1.0, -1.0]), COVARIANCE),
            [0.5, 0.25],
            stats.multivariate_normal.logpdf([0.5, 0.25], [1.0, -1.0], COVARIANCE),
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "statistics") else "",
)
def test_densities_are_scipys(family, mu, x, expected):
    theta = family.to_natural(np.asarray(mu))
    assert family.log_density(theta, np.asarray(x)) == pytest.approx(expected, rel=1e-12)


def test_unfit_values():
    cases = [
        (Bernoulli(), [[0.0], [1.0], [0.5], [-1.0]], [False, False, True, True]),
        (Categorical(3), [[0.0], [2.0], [3.0], [0.5]], [False, False, True, True]),
        (Poisson(), [[0.0], [7.0], [-1.0], [np.inf]], [False, False, True, True]),
        (Bernoulli(threshold=0.5), [[0.7], [-np.inf]], [False, True]),
        (Exponential(), [[0.0], [0.1], [-0.1], [np.inf]], [False, False, True, True]),
        (Gaussian(), [[-3.0], [np.inf]], [False, True]),
        (GaussianFull(2), [[0.0, 1.0], [0.0, -np.inf]], [False, True]),
        (Multinomial(2, length=3), [[1.0, 2.0], [1.0, 1.0], [4.0, -1.0], [np.nan, 1.0]], [False, True, True, False]),
    ]
    for family, x, expected in cases:
        assert family.unfit(np.array(x)).tolist() == expected, family


def test_smoothing_widens_the_generative_fit_only():
    mu = Gaussian(smoothing=(0.5, 0.0)).posterior_mean(np.array([[2.0, 4.0], [2.0, 4.0]]), np.array([2.0, 2.0]))
    assert mu.tolist() == [[1.0, 2.5], [1.0, 2.0]]
