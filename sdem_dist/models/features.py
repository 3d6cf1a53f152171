"""Naive Bayes over dense features: variables are independent given the class, each with a distribution family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.families import Categorical, Family, GaussianFull
from sdem_dist.records import record


@record
class Block:
    """Variables of one family."""

    family: Family
    columns: tuple[int, ...]  # columns of the table; variable i has ``columns[i * width : (i + 1) * width]``
    location: tuple[float, ...] = ()  # subtracted from each column before the family gets the values; empty: 0
    scale: tuple[float, ...] = ()  # each column is then divided by its scale; empty: 1

    def __post_init__(self) -> None:
        n, width = len(self.columns), self.family.width
        if width < 1 or n % width or {len(self.location), len(self.scale)} not in ({0}, {n}):
            raise ValueError(f"a block of {n} columns does not match its family, location or scale")
        if not (np.isfinite(self.location).all() and np.isfinite(self.scale).all() and all(s > 0 for s in self.scale)):
            raise ValueError("location and scale of a block must be finite, and its scale positive")

    @property
    def n_variables(self) -> int:
        return len(self.columns) // self.family.width

    @property
    def n_statistics(self) -> int:
        return self.n_variables * self.family.n_statistics

    @property
    def is_coordinate(self) -> np.ndarray:
        """Mask of the statistics of first order, bool of shape (n_statistics,): all but the products of Gaussians."""
        n = self.family.width if self.family.standardised else self.family.n_statistics
        return np.tile(np.arange(self.family.n_statistics) < n, self.n_variables)

    def values(self, table: np.ndarray) -> np.ndarray:
        """Return the block's values, scaled for its family, shape (n_rows, n_variables, width), float64."""
        values = np.asarray(table[:, list(self.columns)], np.float64)
        if self.location:
            values = (values - np.asarray(self.location)) / np.asarray(self.scale)
        return values.reshape(len(table), self.n_variables, self.family.width)

    def in_units(self, values: np.ndarray) -> np.ndarray:
        """Return scaled values in the units of the table, shape (n_rows, n_columns)."""
        return values * np.asarray(self.scale) + np.asarray(self.location) if self.location else values

    def log_base(self, values: np.ndarray) -> np.ndarray:
        """Return ln h of scaled values, including the scaling of the columns, shape (n_rows, n_variables)."""
        if not self.scale:
            return self.family.log_base(values)
        return self.family.log_base(values) - np.log(self.scale).reshape(self.n_variables, -1).sum(axis=1)

    def shaped(self, statistics: np.ndarray) -> np.ndarray:
        return statistics.reshape(*statistics.shape[:-1], self.n_variables, self.family.n_statistics)


class Features(NamedTuple):
    """Rows of a table as sufficient statistics."""

    statistics: np.ndarray  # shape (n_rows, n_statistics), float64, zeros for missing variables
    missing: np.ndarray  # shape (n_rows, n_variables), float64, 1 if a variable is missing; (n_rows, 0) if none is
    log_base: np.ndarray  # shape (n_rows,): ln h of the observed variables, including the scaling of the columns
    labels: np.ndarray  # shape (n_rows,), int32; -1 for rows without a label
    weights: np.ndarray  # shape (n_rows,)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)

    def take(self, rows: np.ndarray) -> Features:
        return Features(*(array[rows] for array in self))


class FeatureParameters(NamedTuple):
    """Natural parameters of all classes, ready for scoring."""

    theta: np.ndarray  # shape (n_classes, n_statistics)
    partitions: np.ndarray  # log-partition of each class and variable, shape (n_classes, n_variables)
    log_prior: np.ndarray  # ln p(y), shape (n_classes,)


@record
class FeatureModel:
    """p(y) times the product of p(variable | y); missing variables (NaN) are integrated out."""

    blocks: tuple[Block, ...]

    @cached_property
    def n_variables(self) -> int:
        return sum(b.n_variables for b in self.blocks)

    @cached_property
    def n_statistics(self) -> int:
        return sum(b.n_statistics for b in self.blocks)

    def split(self, statistics: np.ndarray) -> list[np.ndarray]:
        """Return the statistics of each block, shapes (..., n_variables, n_statistics of one variable)."""
        ends = np.cumsum([b.n_statistics for b in self.blocks])
        return [b.shaped(statistics[..., e - b.n_statistics : e]) for b, e in zip(self.blocks, ends, strict=True)]

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([p.reshape(*p.shape[:-2], p.shape[-2] * p.shape[-1]) for p in parts], axis=-1)

    def _each(self, call: Callable[..., Any], *statistics: np.ndarray) -> list[Any]:
        """Return the results of a function of each block's family and statistics."""
        parts = zip(*map(self.split, statistics), strict=True)
        return [call(block.family, *own) for block, own in zip(self.blocks, parts, strict=True)]

    @cached_property
    def variable_of(self) -> np.ndarray:
        """The variable that each statistic belongs to, shape (n_statistics,)."""
        sizes = np.concatenate([np.full(b.n_variables, b.family.n_statistics) for b in self.blocks])
        return np.repeat(np.arange(self.n_variables), sizes)

    def all_of_variables(self, values: np.ndarray) -> np.ndarray:
        """Return for each variable whether `values` is true for all its statistics, shape (..., n_variables)."""
        first = np.unique(self.variable_of, return_index=True)[1]
        return np.logical_and.reduceat(values, first, axis=-1)

    @cached_property
    def centre(self) -> np.ndarray:
        return np.concatenate([np.tile(b.family.centre, b.n_variables) for b in self.blocks])

    @cached_property
    def prior_weight(self) -> np.ndarray:
        return np.concatenate([np.full(b.n_variables, b.family.prior_weight) for b in self.blocks])

    def posterior_mean(self, sums: np.ndarray, n_observed: np.ndarray) -> np.ndarray:
        """Return the mu of the generative fit; `n_observed`: shape (..., n_variables), see `Family.posterior_mean`."""
        ends = np.cumsum([b.n_variables for b in self.blocks])
        parts = zip(self.blocks, self.split(sums), np.split(n_observed, ends[:-1], axis=-1), strict=True)
        return self.join([b.family.posterior_mean(s, n) for b, s, n in parts])

    def features(self, table: np.ndarray, labels: Any = None, weights: Any = None) -> Features:
        """Return a table's rows as statistics; raise ValueError for a value that its family does not support."""
        n = len(table)
        parts, absent, base = [], [], np.zeros(n)
        for block in self.blocks:
            values = block.values(table)
            if (unfit := block.family.unfit(values)).any():
                row, variable = np.argwhere(unfit)[0]
                columns = np.reshape(block.columns, (block.n_variables, -1))[variable].tolist()
                hint = ""
                if isinstance(block.family, Categorical):
                    categories = f"0 to {block.family.n_categories - 1}"
                    hint = f"; known categories are {categories}: use NaN for others, or set CategoricalNB(min_categories=)"
                held, numbers = table[row, columns].tolist(), ", ".join(map(str, columns))
                where = f"in column {numbers} (counting from 0), but {type(block.family).__name__}"
                raise ValueError(f"a row contains {held} {where} does not support this value{hint}")
            gone = np.isnan(values).any(axis=-1)
            if block.family.width > 1 and (gone & ~np.isnan(values).all(axis=-1)).any():
                raise ValueError(
                    f"a row has NaN in some, but not all, columns of a {type(block.family).__name__}: impute values"
                )
            values = np.where(gone[..., None], 0.0, values)
            parts.append(np.where(gone[..., None], 0.0, block.family.statistics(values)))
            base += np.where(gone, 0.0, block.log_base(values)).sum(axis=1)
            absent.append(gone)
        missing = np.concatenate(absent, axis=1)
        gaps = missing.astype(np.float64) if missing.any() else np.zeros((n, 0))
        labels = np.full(n, -1, np.int32) if labels is None else labels
        return Features(self.join(parts), gaps, base, labels, np.ones(n) if weights is None else weights)

    def to_natural(self, mu: np.ndarray, log_prior: np.ndarray) -> FeatureParameters:
        thetas = self._each(lambda family, m: family.to_natural(m), mu)
        partitions = [b.family.log_partition(theta) for b, theta in zip(self.blocks, thetas, strict=True)]
        return FeatureParameters(self.join(thetas), np.concatenate(partitions, axis=-1), log_prior)

    def under_posterior(
        self, mu: np.ndarray, weight: np.ndarray, log_prior: np.ndarray
    ) -> tuple[FeatureParameters, np.ndarray]:
        """Return the expected theta and log-partitions under a posterior, and KL(posterior || prior) of theta."""
        thetas, partitions, divergence = [], [], np.zeros(len(mu))
        for block, m in zip(self.blocks, self.split(mu), strict=True):
            family, nu = block.family, block.family.prior_weight
            total = np.broadcast_to(nu + weight[:, None], m.shape[:-1])
            centre = np.broadcast_to(family.centre, m.shape)
            theta, partition, log_volume = family.posterior_of_theta(m, total)
            prior_volume = family.posterior_of_theta(centre, np.full_like(total, nu))[2]
            moved = ((total[..., None] * m - nu * centre) * theta).sum(axis=-1)
            divergence += (moved - weight[:, None] * partition - log_volume + prior_volume).sum(axis=1)
            thetas.append(theta)
            partitions.append(partition)
        return FeatureParameters(self.join(thetas), np.concatenate(partitions, axis=-1), log_prior), divergence

    def scores(self, parameters: FeatureParameters, features: Features) -> np.ndarray:
        """Return ln p(y, x) of every row and class, shape (n_rows, n_classes)."""
        # No BLAS: the bits of its products depend on the number of threads.
        scores = np.einsum("ns,ks->nk", features.statistics, parameters.theta)
        scores += parameters.log_prior - parameters.partitions.sum(axis=1) + features.log_base[:, None]
        if features.missing.shape[1]:
            scores += np.einsum("nv,kv->nk", features.missing, parameters.partitions)
        return np.asarray(scores)

    def log_densities(self, parameters: FeatureParameters, row: np.ndarray) -> np.ndarray:
        """Return ln p(variable | class) of a row, (n_columns, n_classes): in a variable's first column, else 0."""
        densities = np.zeros((len(row), len(parameters.theta)))
        thetas, first = self.split(parameters.theta), 0
        for block, theta in zip(self.blocks, thetas, strict=True):
            values = block.values(row[None])[0]
            complete = np.flatnonzero(~np.isnan(values).any(axis=-1))
            filled = np.where(np.isnan(values), 0.0, values)
            products = np.einsum("vs,kvs->vk", block.family.statistics(filled), theta)
            partitions = parameters.partitions[:, first : first + len(filled)]
            products += block.log_base(filled[None])[0][:, None] - partitions.T
            columns = np.reshape(block.columns, (block.n_variables, -1))[:, 0]
            densities[columns[complete]] = products[complete]
            first += block.n_variables
        return densities

    def means(self, mu: np.ndarray) -> np.ndarray:
        """Return the mean of each column, shape (n_classes, n_columns); NaN if T(x) does not begin with x."""
        table = np.full((len(mu), sum(len(b.columns) for b in self.blocks)), np.nan)
        for block, own in zip(self.blocks, self.split(mu), strict=True):
            x = np.full(block.family.width, 2.0)
            if not isinstance(block.family, Categorical) and (block.family.statistics(x)[: len(x)] == x).all():
                table[:, list(block.columns)] = block.in_units(own[..., : block.family.width].reshape(len(mu), -1))
        return table

    def covariances(self, mu: np.ndarray) -> np.ndarray:
        """Return covariances of Gaussian columns, (n_classes, n_columns, n_columns); or variances, one axis less."""
        block, scale = self.blocks[0], np.asarray(self.blocks[0].scale)
        if isinstance(block.family, GaussianFull):
            return np.asarray(block.family.to_moments(mu)[1] * scale[:, None] * scale)
        own = block.shaped(mu)
        return np.asarray((own[..., 1] - own[..., 0] ** 2) * scale**2)

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Return mu with every variable projected into the interior of its S, and how many variables were outside."""
        checked = self._each(lambda family, m: family.check(m), mu)
        return self.join([mu for mu, _ in checked]), sum(n for _, n in checked)

    def lifted(self, mu: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return mu with variances of at least `least`, shape (n_classes,), in each class."""
        return self.join(self._each(lambda family, m: family.lifted(m, least[:, None]), mu))

    def divergence(self, mu: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.concatenate(self._each(lambda family, m, o: family.divergence(m, o), mu, other), axis=-1)

    def sample(self, parameters: FeatureParameters, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        table = np.empty((len(classes), sum(len(b.columns) for b in self.blocks)))
        for block, theta in zip(self.blocks, self.split(parameters.theta), strict=True):
            values = block.family.sample(theta[classes], rng).reshape(len(classes), len(block.columns))
            table[:, list(block.columns)] = block.in_units(values)
        return table
