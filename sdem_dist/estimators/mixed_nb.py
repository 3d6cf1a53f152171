"""Naive Bayes for tables whose columns are of different kinds."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sdem_dist.compat import check_columns
from sdem_dist.corpus import Corpus
from sdem_dist.corpus.tables import encoded_table, is_table, numbering
from sdem_dist.errors import CorpusError
from sdem_dist.estimators.parameters import Constraint, estimator, param, real
from sdem_dist.estimators.table_naive_bayes import FeatureNB
from sdem_dist.families import Bernoulli, Categorical, Exponential, Family, Poisson
from sdem_dist.inputs.source import Source
from sdem_dist.inputs.validation import some
from sdem_dist.learners.column_blocks import (
    categorical_blocks,
    gaussian_block,
    refuse_beyond_squares,
    refuse_other_than_categories,
)
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.features import Block
from sdem_dist.models.naive_bayes import pseudo_count

KINDS = ("gaussian", "bernoulli", "categorical", "poisson", "exponential")


@estimator
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

    kinds: Mapping[Any, str | Family] | None = param(
        None,
        Constraint("mapping", "a mapping or None", lambda v: v is None or isinstance(v, Mapping)),
        'From a column (name or position), or a tuple of columns that make one variable, to "gaussian", "bernoulli",\n'
        '"categorical", "poisson", "exponential" or a `sdem_dist.families.Family`. Of the others, texts,\n'
        "categories and booleans of pandas are categorical, the rest gaussian. Turn dates into numbers.",
    )
    alpha: float = param(1.0, real(), "Pseudo-count of each category or value, as in `CategoricalNB`.")
    var_smoothing: float = param(1e-9, real(), "As in `GaussianNB`.")
    prior: float = param(1.0, real(), "As in `GaussianNB`.")

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

    def _take_categories(self, categories: dict[int, np.ndarray], where: str) -> None:
        self.categories_ = categories

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
            self._refuse_numbers_of_words(kind, [int(c or 0) for c in columns])
            kinds.append((kind, [int(c or 0) for c in columns]))
        named = [c for _, columns in kinds for c in columns]
        if len(set(named)) < len(named):
            raise ValueError("kinds: a column is named twice")
        words = getattr(self, "categories_", {})
        kinds += [("categorical" if c in words else "gaussian", [c]) for c in range(n_columns) if c not in named]
        return kinds

    def _refuse_numbers_of_words(self, kind: str | Family, columns: list[int]) -> None:
        """Raise ValueError if categories, which are numbered by the alphabet, are to be taken for numbers."""
        if kind == "categorical" or isinstance(kind, Categorical):
            return
        for c in columns:
            words = getattr(self, "categories_", {}).get(c)
            if words is not None and words.dtype != bool:
                names = getattr(self, "feature_names_in_", range(c + 1))
                raise ValueError(
                    f"kinds: column {names[c]!r} holds categories ({some(words)}), and {kind!r} is for numbers: leave it out, so "
                    "that it is categorical, or turn the column into numbers or booleans"
                )

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
                blocks.append(_own(kind, summary, positions))
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


def _own(family: Family, summary: ColumnSummary, columns: np.ndarray) -> Block:
    listed = tuple(columns.tolist())
    if not family.standardised:
        return Block(family, listed)
    refuse_beyond_squares(summary, columns)
    return Block(family, listed, tuple(summary.mean[columns].tolist()), tuple(summary.scale[columns].tolist()))
