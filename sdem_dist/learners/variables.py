"""Columns of a table as variables of families, by what a pass over them found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sdem_dist.families import Bernoulli, Categorical, Exponential, Family, Gaussian, Poisson
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.features import Block
from sdem_dist.models.naive_bayes import pseudo_count

MOST_CATEGORIES = 100_000  # categories of a column: each takes a number for every row and class


def refuse_beyond_squares(summary: ColumnSummary, columns: np.ndarray, target: int | None = None) -> None:
    """Raise ValueError if a column, one of which may be the target, holds values whose squares cannot be summed."""
    largest = np.maximum(np.abs(summary.low), np.abs(summary.high))
    unfit = columns[(largest[columns] > LARGEST) & (summary.n[columns] > 0)]
    if len(unfit):
        column = int(unfit[0])
        name = "the target" if column == target else f"column {column} (from 0)"
        why = f"squares of more than {LARGEST:.0e} cannot be summed"
        hint = "divide it by a constant, or mark such values as missing (NaN)"
        raise ValueError(f"{name} contains values as large as {largest[column]:.3g}, and {why}: {hint}")


def gaussian_block(
    summary: ColumnSummary, columns: np.ndarray, prior: float, added: float, *, standardised: bool = True
) -> Block:
    """Return columns as Gaussian variables; `added` is added to variances of the generative fit."""
    refuse_beyond_squares(summary, columns)
    location, scale = summary.mean[columns], summary.scale[columns]
    if not standardised:
        location, scale = np.zeros_like(location), np.ones_like(scale)
    smoothing = tuple((added / scale**2).tolist())
    return Block(Gaussian(smoothing, prior), tuple(columns.tolist()), tuple(location.tolist()), tuple(scale.tolist()))


def categorical_blocks(
    summary: ColumnSummary, columns: np.ndarray, alpha: float, least: object = None
) -> tuple[Block, ...]:
    """Return columns as categorical variables, those with as many categories together; `least`: of each column."""
    high = np.maximum(summary.high[columns], 1.0)
    if (high >= MOST_CATEGORIES).any():
        raise ValueError(
            f"column {int(columns[high.argmax()])} (from 0) contains the category {high.max():.10g}, but at most "
            f"{MOST_CATEGORIES:,} are supported: renumber them 0, 1, 2, ... (for example with scikit-learn's OrdinalEncoder)"
        )
    n_values = high.astype(int) + 1
    if least is not None:
        least = np.asarray(least)
        if least.dtype.kind not in "iu" or least.shape not in ((), n_values.shape):
            expected = f"an integer, or one for each of {len(n_values)} columns"
            raise ValueError(f"min_categories must be {expected}, got {least}")
        n_values = np.maximum(n_values, least)
    numbers = np.unique(n_values).tolist()
    return tuple(Block(Categorical(n, alpha), tuple(columns[n_values == n].tolist())) for n in numbers)


def blocks_of_columns(
    summary: ColumnSummary,
    kinds: Mapping[str | Family, Sequence[int]],
    *,
    standardised: bool = True,
    alpha: float = 0.0,
    prior: float = 0.0,
    var_smoothing: float = 0.0,
    binarize: float | None = None,
    min_categories: object = None,
) -> tuple[Block, ...]:
    """Return columns as variables of their kinds, with priors by parameters that `MixedNB` and others describe."""
    alpha, blocks = pseudo_count(alpha, 0), list[Block]()
    bernoulli = Bernoulli(alpha, None if binarize is None else float(binarize))
    families = {"bernoulli": bernoulli, "poisson": Poisson(alpha), "exponential": Exponential(alpha)}
    for kind, columns in kinds.items():
        positions = np.array(columns)
        if kind == "gaussian":
            added = var_smoothing * summary.variance[positions].max()
            blocks.append(gaussian_block(summary, positions, prior, added, standardised=standardised))
        elif kind == "categorical":
            blocks += categorical_blocks(summary, positions, alpha, min_categories)
        else:
            family, units = families[kind] if isinstance(kind, str) else kind, tuple[tuple[float, ...], ...]()
            if family.standardised:
                refuse_beyond_squares(summary, positions)
                units = tuple(summary.mean[positions].tolist()), tuple(summary.scale[positions].tolist())
            blocks.append(Block(family, tuple(columns), *units))
    return tuple(blocks)


def refuse_other_than_categories(who: str, X: np.ndarray) -> None:
    for unfit, what in ((X < 0, "Negative values"), (np.floor(X) != X, "Non-integer values")):
        refuse(X, unfit & ~np.isnan(X), what, who, "categories are numbered 0, 1, 2, ...")


def refuse(X: np.ndarray, unfit: np.ndarray, what: str, who: str, rule: str) -> None:
    if unfit.any():
        row, column = np.argwhere(unfit)[0]
        cell = f"row {row}, column {column} (from 0) contains {X[row, column]}"
        raise ValueError(f"{what} in data passed to {who} (input X): {cell}; {rule}")


@dataclass(frozen=True)
class Kind:
    """What the components over columns of a table are: "gaussian" or "exponential", their prior, and an offset."""

    name: str
    alpha: float = 1.0
    offset: float = 0.0

    def block(self, summary: ColumnSummary) -> Block:
        columns = np.arange(len(summary.n))
        if self.name == "gaussian":
            return gaussian_block(summary, columns, self.alpha, 0.0)
        shift = self.offset * float(summary.mean.mean())
        scale = np.where(summary.mean + shift > 0, summary.mean + shift, 1.0)
        location = (-shift,) * len(columns)
        return Block(Exponential(self.alpha), tuple(columns.tolist()), location, tuple(scale.tolist()))
