"""Laws that hold for every exponential family, and a family that breaks each."""

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
NORMAL = GaussianFull(2)
COVARIANCE = np.array([[2.0, 0.6], [0.6, 1.0]])


@given(family=FAMILIES, seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_every_family_obeys_the_laws(family, seed):
    check_family(family, seed=seed, n_points=3)


def _half_checked(self, mu):
    inside = np.where(mu < 1e-10, mu / 2, mu)
    return inside, int((inside != mu).sum())


OVERCOMPLETE = {
    "n_statistics": 2,
    "centre": np.array([0.5, 0.5]),
    "statistics": lambda self, x: np.concatenate([x, 1.0 - x], axis=-1),
    "to_natural": lambda self, mu: np.log(mu),
    "to_expectation": lambda self, theta: np.exp(theta) / np.exp(theta).sum(axis=-1, keepdims=True),
    "log_partition": lambda self, theta: np.log(np.exp(theta).sum(axis=-1)),
    "sample": lambda self, theta, rng: Bernoulli.sample(self, theta[..., :1] - theta[..., 1:], rng),
}
BROKEN = {
    "partition": (Poisson, {"log_partition": lambda self, t: 1.01 * Poisson.log_partition(self, t)}, "log-partition"),
    "way back": (Gaussian, {"to_expectation": lambda self, t: Gaussian.to_expectation(self, t)[..., ::-1]}, "not give"),
    "silent check": (Bernoulli, {"check": lambda self, mu: (Bernoulli.check(self, mu)[0], 0)}, "without reporting it"),
    "no check": (Gaussian, {"check": lambda self, mu: (mu, 0)}, "theta does not exist|not finite"),
    "half a check": (Exponential, {"check": _half_checked}, "idempotent"),
    "base": (Poisson, {"log_base": lambda self, x: np.zeros(x.shape[:-1])}, "integrate to 1"),
    "samples": (Gaussian, {"sample": lambda self, t, rng: 2.0 * Gaussian.sample(self, t, rng)}, "mean|vary"),
    "overcomplete": (Bernoulli, OVERCOMPLETE, "positive definite|inverse"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_family_is_found_out(name):
    family, methods, law = BROKEN[name]
    with pytest.raises(AssertionError, match=law), np.errstate(all="ignore"):
        check_family(type("Broken", (family,), methods)())


PAIRS = stats.multivariate_normal([1.0, -1.0], COVARIANCE)


@pytest.mark.parametrize(("family", "mu", "x", "expected"), [
    (Bernoulli(), [0.3], [1.0], stats.bernoulli.logpmf(1, 0.3)),
    (Poisson(), [2.5], [4.0], stats.poisson.logpmf(4, 2.5)),
    (Exponential(), [2.0], [3.0], stats.expon.logpdf(3, scale=2.0)),
    (Gaussian(), [1.0, 5.0], [2.5], stats.norm.logpdf(2.5, 1.0, 2.0)),
    (Categorical(3), [0.2, 0.5], [2.0], np.log(0.5)),
    (Categorical(3), [0.2, 0.5], [0.0], np.log(0.3)),
    (Multinomial(3, length=5), [1.0, 2.5], [1.0, 1.0, 3.0], stats.multinomial.logpmf([1, 1, 3], 5, [0.3, 0.2, 0.5])),
    (NORMAL, NORMAL.from_moments(PAIRS.mean, COVARIANCE), [0.5, 0.25], PAIRS.logpdf([0.5, 0.25])),
], ids=lambda value: type(value).__name__ if hasattr(value, "statistics") else "")  # fmt: skip
def test_densities_are_scipys(family, mu, x, expected):
    assert family.log_density(family.to_natural(np.asarray(mu)), np.asarray(x)) == pytest.approx(expected, rel=1e-12)


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
