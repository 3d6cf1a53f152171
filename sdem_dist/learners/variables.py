"""Columns of a table as variables of families, from statistics of the columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdem_dist.families import Bernoulli, Categorical, Exponential, Family, Gaussian, GaussianFull, Poisson
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.features import Block
from sdem_dist.models.naive_bayes import pseudo_count

MOST_CATEGORIES = 100_000  # most categories of a column: each takes a number for every row and class


def refuse_beyond_squares(summary: ColumnSummary, columns: np.ndarray, target: int | None = None) -> None:
    """Raise ValueError if a column (`target` is the target's) holds values whose squares cannot be summed."""
    largest = np.maximum(np.abs(summary.low), np.abs(summary.high))
    unfit = columns[(largest[columns] > LARGEST) & (summary.n[columns] > 0)]
    if len(unfit):
        column = int(unfit[0])
        name = "the target" if column == target else f"column {column} (counting from 0)"
        why = f"at most {LARGEST:.0e} is supported"
        hint = "divide it by a constant, or mark such values as missing (NaN)"
        raise ValueError(f"{name} contains values as large as {largest[column]:.3g}, but {why}: {hint}")


def categorical_blocks(
    summary: ColumnSummary, columns: np.ndarray, alpha: float, least: object = None
) -> tuple[Block, ...]:
    """Return categorical variables, a block per number of categories; `least` categories, for all or per column."""
    high = np.maximum(summary.high[columns], 1.0)
    if (high >= MOST_CATEGORIES).any():
        raise ValueError(
            f"column {int(columns[high.argmax()])} (counting from 0) contains the category {high.max():.10g}, but at most "
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
    covariance_type: str = "diag",
    offset: float | None = None,  # of exponential columns, in means; divides the columns by their means
) -> tuple[Block, ...]:
    """Return columns as variables of their kinds; `MixedNB` and others describe the parameters of the priors."""
    alpha, blocks = pseudo_count(alpha, 0), list[Block]()
    bernoulli = Bernoulli(alpha, None if binarize is None else float(binarize))
    families: Any = {"bernoulli": bernoulli, "poisson": Poisson(alpha), "exponential": Exponential(alpha)}
    for kind, columns in kinds.items():
        positions = np.array(columns)
        if kind == "categorical":
            blocks += categorical_blocks(summary, positions, alpha, min_categories)
            continue
        location, scale = summary.mean[positions], summary.scale[positions]
        if not standardised:
            location, scale = np.zeros_like(location), np.ones_like(scale)
        family: Any = families.get(kind, kind)
        if kind == "gaussian":
            smoothing = tuple((var_smoothing * summary.variance[positions].max() / scale**2).tolist())
            family = GaussianFull(len(columns), prior) if covariance_type == "full" else Gaussian(smoothing, prior)
        if family.standardised:
            refuse_beyond_squares(summary, positions)
        elif kind == "exponential" and offset is not None:
            shift = offset * float(location.mean())
            location, scale = np.full_like(location, -shift), np.where(location + shift > 0, location + shift, 1.0)
        else:
            location = scale = np.empty(0)
        blocks.append(Block(family, tuple(columns), tuple(location.tolist()), tuple(scale.tolist())))
    return tuple(blocks)


def refuse_other_than_categories(who: str, X: np.ndarray) -> None:
    for unfit, what in ((X < 0, "Negative values"), (np.floor(X) != X, "Non-integer values")):
        refuse(X, unfit & ~np.isnan(X), what, who, "categories are numbered 0, 1, 2, ...")


def refuse(X: np.ndarray, unfit: np.ndarray, what: str, who: str, rule: str) -> None:
    if unfit.any():
        row, column = np.argwhere(unfit)[0]
        cell = f"row {row}, column {column} (counting from 0) contains {X[row, column]}"
        raise ValueError(f"{what} in data passed to {who} (input X): {cell}; {rule}")
