"""The vectorised logarithm is as good as the usual one."""

import numpy as np
import pytest

from sdem_dist.kernels.multinomial import with_logarithms
from sdem_dist.kernels.vectors import take_logarithms

SMALLEST = np.finfo(np.float64).tiny


def log_of(x) -> np.ndarray:
    found = np.array(x, np.float64)
    take_logarithms(found)
    return found


def ulps(x: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the true value."""
    true = np.log(x.astype(np.longdouble))
    nearest = np.abs(true.astype(np.float64))
    return (np.abs(log_of(x) - true) / np.spacing(np.maximum(nearest, SMALLEST))).astype(np.float64)


@pytest.fixture(scope="module", autouse=True)
def _needs_a_longer_float():
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("longdouble is no longer than float64 here")


def test_every_magnitude():
    rng = np.random.default_rng(0)
    mantissas = 1 + rng.random(200)
    for exponent in range(-1022, 1024, 7):
        assert ulps(np.ldexp(mantissas, exponent)).max() < 1.0
    assert ulps(np.array([SMALLEST, np.finfo(np.float64).max, 1.0])).max() < 1.0
    assert log_of([1.0]) == 0.0


@pytest.mark.parametrize("around", [1.0, np.sqrt(0.5), np.sqrt(2.0), 2.0, 1e-300, 1e300])
def test_neighbours_of_awkward_points(around):
    steps = np.arange(-2000, 2001)
    x = (np.float64(around).view(np.int64) + steps).view(np.float64)
    assert ulps(x).max() < 1.0
    widely = around * (1 + np.linspace(-0.4, 0.4, 20_001))
    assert ulps(widely).max() < 1.0
    assert (np.diff(log_of(np.sort(widely))) >= 0).all()


def test_zero_and_plain_python():
    x = np.array([0.0, 0.5, 3.0, np.inf, -1.0, np.nan])
    plain = x.copy()
    take_logarithms.py_func(plain)
    np.testing.assert_array_equal(log_of(x), plain)
    assert plain[0] == -np.inf
    assert plain[3] == np.inf
    assert np.isnan(plain[4:]).all()


def single(x: np.ndarray) -> np.ndarray:
    rows = with_logarithms(x.astype(np.float64)[:, None], np.arange(len(x), dtype=np.uint32))
    np.testing.assert_array_equal(rows[:, 0], x)
    return rows[:, 1]


def test_single_precision():
    rng = np.random.default_rng(0)
    ends = np.array([np.finfo(np.float32).tiny, np.finfo(np.float32).max, 1.0], np.float32)
    x = np.concatenate([np.ldexp(1 + rng.random(20_000), rng.integers(-126, 127, 20_000)).astype(np.float32), ends])
    true = np.log(x.astype(np.float64))
    smallest = np.finfo(np.float32).tiny
    last_places = np.spacing(np.maximum(np.abs(true), smallest).astype(np.float32)).astype(np.float64)
    assert (np.abs(single(x) - true) / last_places).max() < 1.0
    assert single(ends)[2] == 0.0
