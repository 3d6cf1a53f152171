"""What every exponential family and every loss has to obey; run it over your own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdem_dist.families import Family
from sdem_dist.losses import Loss

_STEP = 1e-5


def check_family(family: Family, *, seed: int = 0, n_points: int = 10) -> None:
    """Check an exponential family against its laws, at random points inside S.

    Round trips between mu and theta; the gradient of the log-partition is mu, its Hessian the Fisher information,
    positive definite, and the covariance of the statistics of samples; densities of single columns sum to one; KL
    divergences are not negative; the check step leaves the interior alone, acts once, and ends where theta exists.

    Parameters
    ----------
    family : Family
    seed : int, default=0
    n_points : int, default=10

    Raises
    ------
    AssertionError
        The message says which law does not hold.
    """
    rng = np.random.default_rng(seed)
    points = _interior_points(family, rng, n_points)
    _same(family.check(points)[0], points, "check changes points inside S")
    _holds(family.check(points)[1] == 0, "check says that it acted on points inside S")
    theta = family.to_natural(points)
    _holds(theta.shape == points.shape, "theta and mu have different shapes")
    _same(family.to_expectation(theta), points, "mu -> theta -> mu does not return")
    _same(family.to_natural(family.to_expectation(theta)), theta, "theta -> mu -> theta does not return")
    for mu, t in zip(points, theta, strict=True):
        _same(_jacobian(family.log_partition, t)[0], mu, "the gradient of the log-partition is not mu", 1e-5)
        fisher = _jacobian(family.to_expectation, t)
        _same(fisher, fisher.T, "the Fisher information is not symmetric", 1e-5)
        scale = np.sqrt(np.diag(fisher))
        _holds(bool((np.diag(fisher) > 0).all()), "the Fisher information is not positive definite")
        smallest = np.linalg.eigvalsh(fisher / np.outer(scale, scale)).min()
        _holds(smallest > 1e-9, "the Fisher information is not positive definite: the statistics are not minimal")
        inverse = fisher @ _jacobian(family.to_natural, mu)
        _same(inverse, np.eye(len(mu)), "d theta / d mu is not the inverse of d mu / d theta", 1e-3)
        _check_samples(family, mu, t, fisher, rng)
    others = points[rng.permutation(n_points)]
    _holds(bool((family.divergence(points, others) >= 0).all()), "a KL divergence is negative")
    _same(
        family.divergence(points, points), np.zeros(n_points), "the KL divergence of a point from itself is not 0", 1e-7
    )
    _check_check(family, points, rng)
    _same(family.posterior_mean(points * 1e12, np.full(n_points, 1e12)), points, "many observations are outvoted", 1e-5)
    nothing = family.posterior_mean(np.zeros_like(points), np.zeros(n_points))
    _holds(bool(np.isfinite(family.to_natural(nothing)).all()), "without observations there is no theta")


def _interior_points(family: Family, rng: np.random.Generator, n_points: int) -> np.ndarray:
    """Return mixtures of the centre and of statistics of samples: inside S, which is convex."""
    centre = np.asarray(family.centre, np.float64)
    _holds(centre.shape == (family.n_statistics,), "the centre has not n_statistics numbers")
    theta = np.broadcast_to(family.to_natural(centre), (n_points, 5, len(centre)))
    x = family.sample(theta, rng)
    _holds(x.shape == (n_points, 5, family.width), f"samples have shape {x.shape}, not (..., width)")
    _holds(not family.unfit(x).any(), "unfit refuses samples")
    statistics = family.statistics(x)
    _holds(statistics.shape == theta.shape, f"statistics have shape {statistics.shape}, not (..., n_statistics)")
    _holds(family.log_base(x).shape == x.shape[:-1], "log_base keeps the last axis, or drops others")
    missing = np.full((1, family.width), np.nan)
    _holds(not family.unfit(missing).any(), "unfit refuses NaN, which stands for a missing value")
    return 0.5 * centre + 0.5 * statistics.mean(axis=1)


def _jacobian(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Return central differences of a function, one column for each coordinate."""
    columns = []
    for i in range(len(at)):
        step = np.zeros_like(at)
        step[i] = _STEP * max(1e-3, min(1.0, abs(at[i])))
        columns.append(np.atleast_1d(function(at + step) - function(at - step)) / (2.0 * step[i]))
    return np.stack(columns, axis=1)


def _check_samples(
    family: Family, mu: np.ndarray, theta: np.ndarray, fisher: np.ndarray, rng: np.random.Generator
) -> None:
    n = 4000
    x = family.sample(np.broadcast_to(theta, (n, len(theta))), rng)
    statistics = family.statistics(x)
    error = (statistics.mean(axis=0) - mu) / np.sqrt(np.diag(fisher) / n)
    _holds(bool((np.abs(error) < 6).all()), "the mean of the statistics of samples is not mu")
    deviations = (statistics - mu) / np.sqrt(np.diag(fisher))
    spread = (deviations**2).mean(axis=0)
    _holds(
        bool(((spread > 0.5) & (spread < 2.0)).all()),
        "the statistics of samples do not vary as the Fisher information says",
    )
    if family.width == 1:
        _holds(abs(_mass(family, theta, x) - 1.0) < 0.02, "the densities do not add up to one")


def _mass(family: Family, theta: np.ndarray, x: np.ndarray) -> float:
    """Return the sum or integral of the density over where samples are, and as much again on both sides."""
    low, high = float(x.min()), float(x.max())
    reach = max(high - low, 1.0)
    if (x == np.floor(x)).all():
        grid = np.arange(np.floor(low - 2 * reach), np.ceil(high + 2 * reach) + 1.0)[:, None]
        weights = np.ones(len(grid))
    else:
        edges = np.linspace(low - 2 * reach, high + 2 * reach, 400_001)
        grid, weights = 0.5 * (edges[1:] + edges[:-1])[:, None], np.diff(edges)
    fit = ~family.unfit(grid)
    return float((np.exp(family.log_density(theta, grid[fit])) * weights[fit]).sum())


def _check_check(family: Family, points: np.ndarray, rng: np.random.Generator) -> None:
    """Check the projection of points that lie far out, in all directions."""
    for distance in (1.0, 3.0, 100.0):
        away = points + distance * rng.standard_normal(points.shape) * (np.abs(points) + 1.0)
        projected, acted = family.check(away)
        _holds(bool(np.isfinite(projected).all()), "check returns what is not finite")
        again, acted_again = family.check(projected)
        _same(again, projected, "check is not idempotent")
        _holds(acted_again == 0, "check acts on what it has projected")
        unchanged = (projected == away).all(axis=-1).sum()
        _holds(acted >= len(points) - unchanged, "check acts and does not say so")
        theta = family.to_natural(projected)
        _holds(bool(np.isfinite(theta).all()), "check ends where theta does not exist")
        _holds(bool(np.isfinite(family.log_partition(theta)).all()), "check ends where the log-partition is not finite")


def check_loss(loss: Loss, *, n_classes: int = 3, seed: int = 0) -> None:
    """Check a loss: its weights are minus the gradient of its value, and neither changes its arguments.

    Parameters
    ----------
    loss : Loss
    n_classes : int, default=3
    seed : int, default=0

    Raises
    ------
    AssertionError
        The message says what does not hold.
    """
    rng = np.random.default_rng(seed)
    n = 200
    scores, labels = 3.0 * rng.standard_normal((n, n_classes)), rng.integers(0, n_classes, n)
    kept = scores.copy(), labels.copy()
    value, weights = loss.value(scores, labels), loss.weights(scores, labels)
    _holds(np.array_equal(scores, kept[0]) and np.array_equal(labels, kept[1]), "the loss changes its arguments")
    _holds(value.shape == (n,), f"value has shape {value.shape}, not (n_documents,)")
    _holds(weights.shape == (n, n_classes), f"weights have shape {weights.shape}, not (n_documents, n_classes)")
    _holds(bool(np.isfinite(value).all() and np.isfinite(weights).all()), "the loss is not finite at finite scores")
    for k in range(n_classes):
        step = np.zeros(n_classes)
        step[k] = _STEP
        up = (loss.value(scores + step, labels) - value) / _STEP
        down = (value - loss.value(scores - step, labels)) / _STEP
        smooth = np.abs(up - down) < 1e-3  # at a kink there is no gradient
        _holds(smooth.mean() > 0.9, "the loss has a kink nearly everywhere")
        _same(
            weights[smooth, k], -0.5 * (up + down)[smooth], "the weights are not minus the gradient of the value", 1e-4
        )


def _holds(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


def _same(found: np.ndarray, expected: np.ndarray, otherwise: str, tolerance: float = 1e-8) -> None:
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))):
        raise AssertionError(f"{otherwise}: {found} where {expected} belongs")
