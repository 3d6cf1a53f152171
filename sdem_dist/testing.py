"""Checks of the laws of exponential families, losses and learners, including your own classes."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.families import Family
from sdem_dist.learners.protocol import AnyLearner, Lane, WideLearner, restored_state
from sdem_dist.losses import Loss
from sdem_dist.records import plain, restored

_STEP = 1e-5


def check_family(family: Family, *, seed: int = 0, n_points: int = 10) -> None:
    """Check an exponential family against its laws, at random points inside S; AssertionError names the broken law."""
    rng, centre = np.random.default_rng(seed), np.asarray(family.centre, np.float64)
    _holds(centre.shape == (family.n_statistics,), "the centre does not have n_statistics numbers")
    x = family.sample(np.broadcast_to(family.to_natural(centre), (n_points, 5, len(centre))), rng)
    statistics, missing = family.statistics(x), np.full((1, family.width), np.nan)
    _holds(x.shape == (n_points, 5, family.width), f"samples have shape {x.shape}, not (..., width)")
    _holds(statistics.shape == (n_points, 5, len(centre)), f"statistics have shape {statistics.shape}")
    _holds(family.log_base(x).shape == x.shape[:-1], "log_base must drop the last axis, and no other")
    _holds(not family.unfit(x).any(), "unfit rejects samples")
    _holds(not family.unfit(missing).any(), "unfit rejects NaN, which represents a missing value")
    points = 0.5 * centre + 0.5 * statistics.mean(axis=1)  # averages of points of S, which is convex
    _close(family.check(points), (points, 0), "check() changes points inside S, or reports that it did")
    theta = family.to_natural(points)
    _holds(theta.shape == points.shape, "theta and mu have different shapes")
    _close(family.to_expectation(theta), points, "mu -> theta -> mu does not give the same mu")
    _close(family.to_natural(family.to_expectation(theta)), theta, "theta -> mu -> theta does not give the same theta")
    for mu, t in zip(points, theta, strict=True):
        _close(_jacobian(family.log_partition, t)[0], mu, "the gradient of the log-partition is not mu", 1e-5)
        fisher = _jacobian(family.to_expectation, t)
        _close(fisher, fisher.T, "the Fisher information is not symmetric", 1e-5)
        _holds(np.diag(fisher) > 0, "the Fisher information is not positive definite")
        scale = np.sqrt(np.diag(fisher))
        smallest = np.linalg.eigvalsh(fisher / np.outer(scale, scale)).min()
        _holds(smallest > 1e-9, "the Fisher information is not positive definite: the statistics are not minimal")
        inverse = fisher @ _jacobian(family.to_natural, mu)
        _close(inverse, np.eye(len(mu)), "d theta / d mu is not the inverse of d mu / d theta", 1e-3)
        x = family.sample(np.broadcast_to(t, (4000, len(t))), rng)
        deviations = (family.statistics(x) - mu) / scale
        _holds(np.abs(deviations.mean(axis=0)) < 6 / len(x) ** 0.5, "the mean of the statistics of samples is not mu")
        spread = (deviations**2).mean(axis=0)
        _holds((spread > 0.5) & (spread < 2.0), "the variance of the statistics is not the Fisher information")
        if family.width == 1:  # sum or integrate the density over the range of samples, extended on both sides
            margin = 2.0 * max(float(np.ptp(x)), 1.0)
            low, high, step = np.floor(x.min() - margin), np.ceil(x.max() + margin), 1.0
            grid = np.arange(low, high + 1.0)[:, None]
            if (x != np.floor(x)).any():
                edges, step = np.linspace(low, high, 400_001, retstep=True)
                grid = edges[:-1, None] + 0.5 * step
            density = np.exp(family.log_density(t, grid[~family.unfit(grid)]))
            _holds(abs(density.sum() * step - 1.0) < 0.02, "the density does not integrate to 1")
    _holds(family.divergence(points, points[rng.permutation(n_points)]) >= 0, "a KL divergence is negative")
    _holds(np.abs(family.divergence(points, points)) < 1e-7, "the KL divergence of a point from itself is not 0")
    for distance in (1.0, 3.0, 100.0):  # far out, in all directions
        away = points + distance * rng.standard_normal(points.shape) * (np.abs(points) + 1.0)
        projected, acted = family.check(away)
        _holds(acted >= (projected != away).any(axis=-1).sum(), "check changes a point without reporting it")
        _close(family.check(projected), (projected, 0), "check is not idempotent")
        theta = family.to_natural(projected)
        _holds(np.isfinite([projected, theta]), "check returns a point where mu is not finite, or theta does not exist")
        _holds(np.isfinite(family.log_partition(theta)), "check returns a point where the log-partition is not finite")
    posterior = family.posterior_mean(points * 1e12, np.full(n_points, 1e12))
    _close(posterior, points, "the prior outweighs many observations", 1e-5)
    start = family.posterior_mean(np.zeros_like(points), np.zeros(n_points))
    _holds(np.isfinite(family.to_natural(start)), "theta does not exist without observations")


def _jacobian(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Return central differences of a function, one column per coordinate."""
    steps = np.diag(_STEP * np.clip(np.abs(at), 1e-3, 1.0))
    return np.stack([np.atleast_1d(function(at + s) - function(at - s)) / (2.0 * s.max()) for s in steps], axis=1)


def check_loss(loss: Loss, *, n_classes: int = 3, seed: int = 0) -> None:
    """Check that a loss's weights are minus the gradient of its value; AssertionError names the broken law."""
    rng, n = np.random.default_rng(seed), 200
    scores, labels = 3.0 * rng.standard_normal((n, n_classes)), rng.integers(0, n_classes, n)
    copies = scores.copy(), labels.copy()
    value, weights = loss.value(scores, labels), loss.weights(scores, labels)
    _equal((scores, labels), copies, "the loss changes its arguments")
    _holds(value.shape == (n,), f"value has shape {value.shape}, not (n_documents,)")
    _holds(weights.shape == (n, n_classes), f"weights have shape {weights.shape}, not (n_documents, n_classes)")
    _holds(np.isfinite(value).all() and np.isfinite(weights), "the loss is not finite at finite scores")
    for k, step in enumerate(_STEP * np.eye(n_classes)):
        up, down = (loss.value(scores + step, labels) - value), (value - loss.value(scores - step, labels))
        smooth = np.abs(up - down) < 1e-3 * _STEP  # at a kink there is no gradient
        _holds(smooth.mean() > 0.9, "the loss has a kink nearly everywhere")
        downhill = -0.5 * (up + down)[smooth] / _STEP
        _close(weights[smooth, k], downhill, "the weights are not the negative gradient of the value", 1e-4)


def check_learner(
    learner: AnyLearner,
    documents: Documents | DenseDocuments,
    *,
    state: Any = None,
    additive: bool = False,
    weighted: bool = True,
    apart: bool = True,
    own: Sequence[type] = (),
) -> None:
    """Check the properties of a learner that the engine needs: the same bits, sums that add up, states as files.

    Raises AssertionError with the broken law, or ValueError if a state contradicts `state_fields`.

    Parameters
    ----------
    documents : Documents or DenseDocuments
        At least a dozen documents, with the labels, weights and targets that the learner needs.
    state : NamedTuple, optional
        Initial state; None: ``learner.init()``.
    additive : bool, default=False
        Whether the combined statistics of parts must equal those of all documents, unlike means over lanes.
    weighted : bool, default=True
        Whether documents with weight zero must have no effect.
    apart : bool, default=True
        Whether blocks of a wide learner must change like the complete state, even in rounds with several lanes.
    own : sequence of classes
        Custom dataclasses that files may contain.
    """

    def result(name: str, *arguments: Any) -> Any:
        copies, function = deepcopy(arguments), getattr(learner, name)
        value = function(*arguments)
        _equal(function(*arguments), value, f"{name} returns different bits for the same inputs")
        _equal(arguments, copies, f"{name} changes its arguments")
        return value

    n, state = documents.n_documents, learner.init() if state is None else state
    cuts = [n * i // 3 for i in range(4)]
    lanes = [Lane(0, 0, i, cuts[i], cuts[i + 1], n) for i in range(3)]
    prepared = [learner.prepare(documents[lane.start : lane.stop]) for lane in lanes]
    first = [result("map", state, *each) for each in zip(prepared, lanes, strict=True)]
    combined = result("combine", first)
    for grouped in ([learner.combine(first[:2]), first[2]], [first[0], learner.combine(first[1:])]):
        _close(learner.combine(grouped), combined, "combine is not associative")
    _close(learner.combine(first[::-1]), combined, "combine ignores lanes, or depends on their order")
    after = result("update", state, combined)
    sums = result("evaluate", after, prepared)
    of_parts = sum(learner.evaluate(after, [part]) for part in prepared)
    _close(of_parts, sums, "evaluation sums do not add up over batches")
    metrics = result("metrics", sums)
    _holds([*learner.metrics(sums)] == [*metrics], "metrics returns different names for the same sums")
    _holds(all(isinstance(value, float) for value in metrics.values()), "metrics are not floats")
    if hasattr(learner, "parameters"):
        result("parameters", after)
    for each in (state, after):
        _holds(tuple(learner.state_fields()) == each._fields, "state_fields does not list the fields in order")
        back = restored_state(learner, {name: np.asarray(value) for name, value in each._asdict().items()})
        _holds(type(back) is type(each), "state_type is not the type of states")
        _equal(back, each, "a state cannot be restored from its arrays")
    settings = restored(json.loads(json.dumps(plain(learner))), {cls.__name__: cls for cls in (type(learner), *own)})
    _holds(settings == learner, "the learner cannot be restored from JSON")
    if additive:
        statistics = learner.map(state, learner.prepare(documents), Lane(0, 0, 0, 0, n, n))
        _close(combined, statistics, "the combined statistics of parts differ from those of all documents")
    nobody = replace(documents, weights=np.zeros(n))
    for rows, what in ((slice(0, n), "documents of weight zero"), (slice(0, 0), "0 documents")) if weighted else ():
        nothing = learner.map(state, learner.prepare(nobody[rows]), Lane(0, 0, 3, 0, rows.stop, n))
        _close(learner.update(state, nothing), state, f"a round of {what} changes the state")
        for with_nothing in ([*first, nothing], [nothing, *first]):
            _close(learner.update(state, learner.combine(with_nothing)), after, f"a lane of {what} changes the state")
    if hasattr(learner.model, "bounds") if hasattr(learner, "model") else hasattr(learner, "initial_block"):
        if not apart:
            lanes, prepared = [Lane(0, 0, 0, 0, 1, 1)], [learner.prepare(replace(documents[:1], weights=np.ones(1)))]
        wide, n_blocks = cast(WideLearner[Any, Any, Any], learner), 3
        blocks = [wide.block_of_state(state, block, n_blocks) for block in range(n_blocks)]
        _close(wide.gathered(n_blocks, blocks.__getitem__), state, "the joined blocks differ from the state")
        parts = [wide.map(wide.joined(blocks), *each) for each in zip(prepared, lanes, strict=True)]
        after = wide.update(state, wide.combine(parts))
        for block in range(n_blocks):
            start = wide.block_of_state(wide.init(), block, n_blocks)
            _close(wide.initial_block(block, n_blocks), start, "initial_block differs from the same block of init")
            sums = wide.combine([wide.block_of_statistics(part, block, n_blocks) for part in parts])
            moved, expected = wide.update(blocks[block], sums), wide.block_of_state(after, block, n_blocks)
            _close(moved, expected, "a round of one block differs from the same block of the next state")


def _leaves(value: Any) -> list[np.ndarray]:
    """Return the arrays and numbers in tuples, lists, mappings and dataclasses, in order, without None."""
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [np.asarray(value)]


def _equal(actual: Any, expected: Any, otherwise: str) -> None:
    pairs = zip(_leaves(actual), _leaves(expected), strict=True)
    _holds(all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs), otherwise)


def _close(actual: Any, expected: Any, otherwise: str, tolerance: float = 1e-9) -> None:
    """Raise AssertionError unless arrays are equal up to rounding, relative to their largest number."""
    a, b = _leaves(actual), _leaves(expected)
    _holds([x.shape for x in a] == [y.shape for y in b], f"{otherwise}: shapes differ")
    for x, y in zip(a, b, strict=True):
        size = max(float(np.abs(y[np.isfinite(y)]).max(initial=0.0)), 1e-9)
        np.testing.assert_allclose(x, y, max(tolerance, 1e-8), tolerance * size, err_msg=otherwise)


def _holds(condition: Any, otherwise: str) -> None:
    if not np.all(condition):
        raise AssertionError(otherwise)
