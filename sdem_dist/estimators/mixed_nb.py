"""Naive Bayes for tables whose columns are of different kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features

from sdem_dist.estimators.bernoulli_nb import checked_alpha
from sdem_dist.estimators.categorical_nb import categorical_blocks, refuse_other_than_categories
from sdem_dist.estimators.feature_naive_bayes import FeatureNB
from sdem_dist.estimators.gaussian_nb import check_gaussian, gaussian_block, refuse_beyond_squares
from sdem_dist.estimators.settings import pseudo_count
from sdem_dist.families import Bernoulli, Exponential, Family, Poisson
from sdem_dist.learners.columns import ColumnSummary
from sdem_dist.models.features import Block

KINDS = ("gaussian", "bernoulli", "categorical", "poisson", "exponential")


class MixedNB(FeatureNB):
    """Naive Bayes whose columns have families of their own; takes pandas tables.

    Parameters
    ----------
    kinds : mapping, default=None
        From a column (name or position), or a tuple of columns that make one variable, to one of "gaussian",
        "bernoulli", "categorical", "poisson", "exponential", or a `sdem_dist.families.Family`. Columns left out: of a
        table of pandas text, categories and booleans are categorical; all others are gaussian.
    alpha : float, default=1.0
        Pseudo-count of each category or value, as in `CategoricalNB`, `BernoulliNB` and `PoissonNB`.
    var_smoothing, prior : float, default=1e-9, 1.0
        As in `GaussianNB`.
    **shared
        See `sdem_dist.estimators.feature_naive_bayes.FeatureNB`.

    Attributes
    ----------
    categories_ : dict of int to ndarray
        The categories of those columns that hold other things than numbers. Others met in prediction are missing values.
    """

    def __init__(
        self,
        *,
        kinds: Mapping[Any, str | Family] | None = None,
        alpha: float = 1.0,
        var_smoothing: float = 1e-9,
        prior: float = 1.0,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.kinds = kinds
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.prior = prior

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        """Return a table of pandas with its categories numbered."""
        if not hasattr(X, "iloc"):
            if reset:
                self.categories_: dict[int, np.ndarray] = {}
            return X
        import pandas as pd  # type: ignore[import-untyped]
        from pandas.api.types import is_bool_dtype as is_bool  # type: ignore[import-untyped]
        from pandas.api.types import is_numeric_dtype as is_number

        if not X.columns.is_unique:
            raise ValueError(f"two columns are named {X.columns[X.columns.duplicated()][0]!r}: rename one")
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, X, reset=reset)
        if reset:
            words = [i for i, dtype in enumerate(X.dtypes) if not is_number(dtype) or is_bool(dtype)]
            self.categories_ = {i: _categories(X.iloc[:, i]) for i in words}
        numbers = {
            i: pd.Index(self.categories_[i]).get_indexer(X.iloc[:, i]) if i in self.categories_ else X.iloc[:, i]
            for i in range(X.shape[1])
        }
        table = pd.DataFrame(numbers, index=X.index).astype(np.float64)
        for i in self.categories_:
            table[i] = table[i].replace(-1.0, np.nan)
        table.columns = X.columns
        return table

    def _kinds_of(self, n_columns: int) -> list[tuple[str | Family, list[int]]]:
        """Return each kind and its columns, in the order of the columns."""
        names = {name: i for i, name in enumerate(getattr(self, "feature_names_in_", []))}
        kinds: list[tuple[str | Family, list[int]]] = []
        for key, kind in (self.kinds or {}).items():
            if not isinstance(kind, Family) and kind not in KINDS:
                raise ValueError(f"kinds: {kind!r} is neither a family nor one of {KINDS}")
            columns = [names.get(c, c) for c in (key if isinstance(key, tuple) else (key,))]
            for c in columns:
                if not isinstance(c, int | np.integer) or not 0 <= c < n_columns:
                    raise ValueError(f"kinds: there is no column {c!r}")
            kinds.append((kind, [int(c or 0) for c in columns]))
        named = [c for _, columns in kinds for c in columns]
        if len(set(named)) < len(named):
            raise ValueError("kinds: a column is named twice")
        words = getattr(self, "categories_", {})
        kinds += [("categorical" if c in words else "gaussian", [c]) for c in range(n_columns) if c not in named]
        return kinds

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        alpha = pseudo_count(checked_alpha(self.alpha), 0)
        check_gaussian(self)
        together: dict[str | Family, list[int]] = {}
        for kind, columns in self._kinds_of(len(summary.n)):
            if isinstance(kind, Family) and kind.width != len(columns):
                raise ValueError(f"kinds: {kind} makes a variable of {kind.width} columns, not of {columns}")
            together.setdefault(kind, []).extend(columns)
        blocks: list[Block] = []
        for kind, listed in together.items():
            found = np.array(listed)
            if isinstance(kind, Family):
                blocks.append(_own(kind, summary, found))
            elif kind == "gaussian":
                added = self.var_smoothing * summary.variance[found].max()
                blocks.append(gaussian_block(summary, found, 0.0 if generative else self.prior, added))
            elif kind == "categorical":
                blocks.extend(categorical_blocks(summary, found, alpha))
            else:
                family = {"bernoulli": Bernoulli, "poisson": Poisson, "exponential": Exponential}[kind](alpha)
                blocks.append(Block(family, tuple(listed)))
        return tuple(blocks)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        for kind, columns in self._kinds_of(X.shape[1]):
            if kind == "categorical":
                refuse_other_than_categories(type(self).__name__, X[:, columns])
        return X


def _own(family: Family, summary: ColumnSummary, columns: np.ndarray) -> Block:
    listed = tuple(columns.tolist())
    if not family.standardised:
        return Block(family, listed)
    refuse_beyond_squares(summary, columns)
    return Block(family, listed, tuple(summary.mean[columns].tolist()), tuple(summary.scale[columns].tolist()))


def _categories(column: Any) -> np.ndarray:
    """Return what a column of a pandas table holds, sorted; ValueError where it cannot be sorted or saved."""
    found = column.dropna().unique().tolist()
    kinds = {type(c) for c in found}
    if len(kinds) > 1 or not kinds <= {str, bool, int, float}:
        names = sorted(kind.__name__ for kind in kinds)
        raise ValueError(
            f"column {column.name!r} holds values of type {', '.join(names)}: categories are all text, all numbers of one "
            "type or all booleans; turn the column into one of these"
        )
    return np.array(sorted(found))
