"""Naive Bayes of tables whose columns are values 0 and 1, categories, counts, or of different kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags

from sdem_dist.compat import check_columns
from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import encoded_table, is_table, numbering
from sdem_dist.errors import CorpusError
from sdem_dist.estimators import parameters as p
from sdem_dist.estimators.table_naive_bayes import FeatureNB
from sdem_dist.families import Bernoulli, Categorical, Exponential, Family, Poisson
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.validation import some
from sdem_dist.learners.starts import (
    categorical_blocks,
    gaussian_block,
    refuse,
    refuse_beyond_squares,
    refuse_other_than_categories,
)
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.features import Block
from sdem_dist.models.naive_bayes import pseudo_count


@p.estimator
class BernoulliNB(FeatureNB):
    """Bernoulli naive Bayes: every column is 0 or 1, with its own probability in every class.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> from sdem_dist import BernoulliNB
    >>> clf = BernoulliNB(loss="nll").fit([[1, 0], [1, 0], [0, 1], [1, 1]], [0, 0, 1, 1])
    >>> clf.predict([[1, 0], [0, 1]]).tolist()
    [0, 1]
    """

    alpha: float = p.param(1.0, "Pseudo-count of each of the two values.")
    binarize: float | None = p.param(
        0.0, "Values above it count as 1, others as 0; None: values are 0 and 1.", p.or_none(p.real(-np.inf))
    )

    spec = replace(FeatureNB.spec, poor_score=True)  # a threshold loses much of a continuous feature

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        threshold = None if self.binarize is None else float(self.binarize)
        family = Bernoulli(pseudo_count(self.alpha, 0), threshold)
        return (Block(family, tuple(range(len(summary.n)))),)

    @property
    def feature_log_prob_(self) -> np.ndarray:
        """Logarithm of p(value 1 | class), shape (n_classes, n_features)."""
        return self._log_densities(1.0 if self.binarize is None else float(self.binarize) + 1.0).T


@p.estimator
class CategoricalNB(FeatureNB):
    """Categorical naive Bayes: every column holds one of a few categories, numbered from 0.

    With ``loss="nll"`` it is scikit-learn's.

    Examples
    --------
    >>> from sdem_dist import CategoricalNB
    >>> clf = CategoricalNB(loss="nll").fit([[0, 2], [0, 1], [1, 0], [2, 0]], [0, 0, 1, 1])
    >>> clf.predict([[0, 1], [2, 0]]).tolist()
    [0, 1]
    """

    alpha: float = p.param(1.0, "Pseudo-count of each category.")
    min_categories: object = p.param(
        None,
        "Least categories of a column; None: as many as training shows.",
        p.checked_later("int or array-like of shape (n_features,)"),
    )

    spec = replace(FeatureNB.spec, positive=True)

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        columns = np.arange(len(summary.n))
        return categorical_blocks(summary, columns, pseudo_count(self.alpha, 0), self.min_categories)

    @property
    def n_categories_(self) -> np.ndarray:
        """Categories of each column, shape (n_features,), int64."""
        sizes = np.empty(self.n_features_in_, np.int64)
        for block in self.learner_.model.variables.blocks:
            sizes[list(block.columns)] = block.family.n_categories
        return sizes

    @property
    def feature_log_prob_(self) -> list[np.ndarray]:
        """Logarithm of p(category | class) of each column, shapes (n_classes, n_categories)."""
        sizes = self.n_categories_
        of_categories = np.stack([self._log_densities(np.minimum(c, sizes - 1)) for c in range(sizes.max())], axis=2)
        return [of_categories[column, :, :n] for column, n in enumerate(sizes)]

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse_other_than_categories(type(self).__name__, X)
        return X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


@p.estimator
class PoissonNB(FeatureNB):
    """Poisson naive Bayes: every column is a count, with its own mean in every class.

    Examples
    --------
    >>> from sdem_dist import PoissonNB
    >>> clf = PoissonNB(loss="nll").fit([[9, 1], [8, 0], [1, 7], [0, 9]], [0, 0, 1, 1])
    >>> clf.predict([[7, 2], [1, 6]]).tolist()
    [0, 1]
    """

    alpha: float = p.param(1.0, "Observations of the count 1 that the conjugate Gamma prior adds to every class.")

    spec = replace(FeatureNB.spec, positive=True)

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        return (Block(Poisson(pseudo_count(self.alpha, 0)), tuple(range(len(summary.n)))),)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        refuse(X, X < 0, "Negative values", type(self).__name__, "counts are 0 or more")
        return X


KINDS = ("gaussian", "bernoulli", "categorical", "poisson", "exponential")


@p.estimator
class MixedNB(FeatureNB):
    """Naive Bayes whose columns have families of their own; takes pandas tables.

    Examples
    --------
    >>> import pandas as pd
    >>> from sdem_dist import MixedNB
    >>> frame = pd.DataFrame({"visits": [1, 2, 9, 8], "country": ["fr", "fr", "de", "de"]})
    >>> clf = MixedNB(loss="nll", kinds={"visits": "poisson"}).fit(frame, ["new", "new", "old", "old"])
    >>> clf.predict(frame[:1]).tolist()
    ['new']
    """

    _learned: ClassVar[Mapping[str, str]] = {
        "categories_": "dict of int to ndarray\n"
        "Categories of the columns that do not hold numbers, in the order of the numbers that stand for them in `sample`.\n"
        "Other categories met in prediction are missing values."
    }

    kinds: Mapping[Any, str | Family] | None = p.param(
        None,
        'From a column (name or position), or a tuple of columns that make one variable, to "gaussian", "bernoulli",\n'
        '"categorical", "poisson", "exponential" or a `sdem_dist.families.Family`. Of the others, texts,\n'
        "categories and booleans of pandas are categorical, the rest gaussian. Turn dates into numbers.",
        p.Constraint("mapping", "a mapping or None", lambda v: v is None or isinstance(v, Mapping)),
    )
    alpha: float = p.param(1.0, "Pseudo-count of each category or value, as in `CategoricalNB`.")
    var_smoothing: float = p.param(1e-9, "As in `GaussianNB`.")
    prior: float = p.param(1.0, "As in `GaussianNB`.")

    _takes_categories = True

    def _encoded(self, X: Any, *, reset: bool) -> Any:
        """Return a table of pandas with its categories numbered."""
        if not is_table(X):
            if reset:
                self.categories_ = {}
            return X
        import pandas as pd  # type: ignore[import-untyped]

        if not reset or X.columns.is_unique:
            check_columns(self, X, reset=reset)
        table = encoded_table(X, None if reset else self.categories_)
        self.categories_ = table.categories
        return pd.DataFrame(table.values, index=X.index, columns=X.columns)

    def _check_columns(self, source: Source) -> None:
        super()._check_columns(source)
        if isinstance(source.corpus, Corpus):
            theirs, ours = (
                {i: c.tolist() for i, c in categories.items()}
                for categories in (numbering(source.corpus.header.vectorizer) or {}, self.categories_)
            )
            if theirs != ours:
                raise CorpusError(
                    f"{source.name} numbers its categories in another way than the model's training documents: write it "
                    "from the table with write_corpus(vectorizer=corpus.header.vectorizer), of the corpus trained on"
                )

    def _kinds_of(self, n_columns: int) -> list[tuple[str | Family, list[int]]]:
        names = {name: i for i, name in enumerate(getattr(self, "feature_names_in_", []))}
        kinds: list[tuple[str | Family, list[int]]] = []
        for key, kind in (self.kinds or {}).items():
            if not isinstance(kind, Family) and kind not in KINDS:
                raise ValueError(f"kinds: {kind!r} is neither a family nor one of {KINDS}")
            columns = [names.get(c, c) for c in (key if isinstance(key, tuple) else (key,))]
            for c in columns:
                if not isinstance(c, int | np.integer) or not 0 <= c < n_columns:
                    raise ValueError(f"kinds: there is no column {c!r}")
                listed: Any = getattr(self, "categories_", {}).get(c)
                codes = listed is not None and listed.dtype != bool  # numbered by the alphabet
                if codes and kind != "categorical" and not isinstance(kind, Categorical):
                    name = getattr(self, "feature_names_in_", range(n_columns))[c]
                    raise ValueError(
                        f"kinds: column {name!r} holds categories ({some(listed)}), and {kind!r} is for numbers: leave it out, "
                        "so that it is categorical, or turn the column into numbers or booleans"
                    )
            kinds.append((kind, [int(c or 0) for c in columns]))
        named = [c for _, columns in kinds for c in columns]
        if len(set(named)) < len(named):
            raise ValueError("kinds: a column is named twice")
        words = getattr(self, "categories_", {})
        kinds += [("categorical" if c in words else "gaussian", [c]) for c in range(n_columns) if c not in named]
        return kinds

    def _blocks(self, summary: ColumnSummary, generative: bool) -> tuple[Block, ...]:
        alpha = pseudo_count(self.alpha, 0)
        columns_of: dict[str | Family, list[int]] = {}
        for kind, columns in self._kinds_of(len(summary.n)):
            if isinstance(kind, Family) and kind.width != len(columns):
                raise ValueError(f"kinds: {kind} makes a variable of {kind.width} columns, not of {columns}")
            columns_of.setdefault(kind, []).extend(columns)
        blocks: list[Block] = []
        for kind, listed in columns_of.items():
            positions = np.array(listed)
            if isinstance(kind, Family):
                units: tuple[tuple[float, ...], ...] = ()
                if kind.standardised:
                    refuse_beyond_squares(summary, positions)
                    units = tuple(summary.mean[positions].tolist()), tuple(summary.scale[positions].tolist())
                blocks.append(Block(kind, tuple(listed), *units))
            elif kind == "gaussian":
                added = self.var_smoothing * summary.variance[positions].max()
                prior, literal = 0.0 if generative else self.prior, self.step == "paper"
                blocks.append(gaussian_block(summary, positions, prior, added, standardised=not literal))
            elif kind == "categorical":
                blocks.extend(categorical_blocks(summary, positions, alpha))
            else:
                family = {"bernoulli": Bernoulli, "poisson": Poisson, "exponential": Exponential}[kind](alpha)
                blocks.append(Block(family, tuple(listed)))
        return tuple(blocks)

    def _checked(self, X: np.ndarray) -> np.ndarray:
        for kind, columns in self._kinds_of(X.shape[1]):
            if kind == "categorical":
                refuse_other_than_categories(type(self).__name__, X[:, columns])
        return X
