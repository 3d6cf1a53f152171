"""Where training starts: columns of a table as blocks of variables; mixtures at random examples, or by k-means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import CorpusLike, Documents
from sdem_dist.families import Categorical, Exponential, Gaussian
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.learners.surveys import ColumnSummary
from sdem_dist.models.em import k_means
from sdem_dist.models.feature_classes import FeatureState, started
from sdem_dist.models.features import Block, FeatureModel

MOST_CATEGORIES = 100_000  # categories of a column: each takes a number for every row and class
SURE = 0.99  # share of a row that belongs to its cluster of k-means; all share the rest: an empty one can grow


def moments(block: Block, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances of Gaussian variables, each of shape (n_classes, n_columns)."""
    theta, scale = block.shaped(parameters), np.asarray(block.scale)
    variance = -0.5 / theta[..., 1]
    return theta[..., 0] * variance * scale + np.asarray(block.location), variance * scale**2


def refuse_beyond_squares(summary: ColumnSummary, columns: np.ndarray, target: int | None = None) -> None:
    """Raise ValueError if a column, one of which may be the target, holds values whose squares cannot be summed."""
    largest = np.maximum(np.abs(summary.low), np.abs(summary.high))
    unfit = columns[(largest[columns] > LARGEST) & (summary.n[columns] > 0)]
    if len(unfit):
        column = int(unfit[0])
        name = "the target" if column == target else f"column {column} (from 0)"
        why = f"squares of more than {LARGEST:.0e} cannot be summed"
        hint = "divide it by a constant, or mark such values as missing (NaN)"
        raise ValueError(f"{name} holds values as large as {largest[column]:.3g}, and {why}: {hint}")


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
            f"column {int(columns[high.argmax()])} (from 0) holds the category {high.max():.10g}, and {MOST_CATEGORIES:,} of "
            "a column are the most there may be: number those that occur 0, 1, 2, ... (scikit-learn's OrdinalEncoder does)"
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


def refuse_other_than_categories(who: str, X: np.ndarray) -> None:
    for unfit, what in ((X < 0, "Negative values"), (np.floor(X) != X, "Values that are not whole")):
        refuse(X, unfit & ~np.isnan(X), what, who, "categories are numbered 0, 1, 2, ...")


def refuse(X: np.ndarray, unfit: np.ndarray, what: str, who: str, rule: str) -> None:
    if unfit.any():
        row, column = np.argwhere(unfit)[0]
        cell = f"row {row}, column {column} (from 0) holds {X[row, column]}"
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


def rows_at(corpus: CorpusLike, positions: Iterable[int]) -> np.ndarray:
    rows = []
    for position in positions:
        document = corpus.read(int(position), int(position) + 1)
        rows.append(document.to_csr().toarray()[0] if isinstance(document, Documents) else document.values[0])
    return np.array(rows, np.float64)


def features_at_examples(
    examples: np.ndarray, numbers: Sequence[int], model: FeatureModel, classes: FeatureState
) -> FeatureState:
    """Return components, `numbers` of each class, half way between class and example; a single one is its class."""
    component_class = np.repeat(np.arange(len(numbers)), numbers)
    rows = model.features(examples)
    of_class = classes.mu[component_class]
    missing = rows.missing[:, model.variable_of] > 0 if rows.missing.shape[1] else np.zeros(of_class.shape, bool)
    example = np.where(missing, of_class, rows.statistics)
    of_component = np.asarray(numbers)[component_class]
    mu = np.where((of_component == 1)[:, None], of_class, 0.5 * (of_class + example))
    return started(classes.class_counts[component_class] / of_component, mu)


def counts_at_examples(
    examples: Iterable[np.ndarray], numbers: Sequence[int], words: np.ndarray, class_counts: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return expected counts of components half way between those of their class and a random document, one by one."""
    component_class = np.repeat(np.arange(len(numbers)), numbers)
    shares = 1.0 / np.asarray(numbers)[component_class]
    start = words[:, component_class] * shares
    for j, row in enumerate(examples):
        if numbers[component_class[j]] > 1 and row.any():
            start[:, j] = 0.5 * (start[:, j] + start[:, j].sum() * row / row.sum())
    return start, np.asarray(class_counts)[component_class] * shares


def features_by_k_means(
    table: np.ndarray, n_clusters: int, model: FeatureModel, weight: float, seed: int
) -> FeatureState:
    """Return the clusters of k-means of some rows as components; a missing value has the mean of its column."""
    (block,) = model.blocks
    values, rows = block.values(table)[..., 0], model.features(table)
    gaps = np.isnan(values)
    mean = np.where(gaps, 0.0, values).sum(axis=0) / np.maximum((~gaps).sum(axis=0), 1)
    filled = sp.csr_matrix(np.where(gaps, mean, values))
    assigned = _assigned(k_means(filled, np.ones(len(table)), n_clusters, seed, tries=1).labels, n_clusters)
    counts = np.repeat(assigned.sum(axis=0)[:, None], model.n_variables, axis=1)
    if rows.missing.shape[1]:
        counts = counts - np.einsum("nk,nv->kv", assigned, rows.missing)
    mu = model.posterior_mean(np.einsum("nk,ns->ks", assigned, rows.statistics), counts)
    return started(assigned.sum(axis=0) * (weight / len(table)), mu)


def _assigned(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    return SURE * np.eye(n_clusters)[labels] + (1.0 - SURE) / n_clusters


def counts_by_k_means(documents: Documents, n_clusters: int, alpha: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return expected counts, with `alpha`, of clusters of k-means by cosines of tf-idf rows, and documents of each."""
    from sklearn.feature_extraction.text import TfidfTransformer

    X = documents.to_csr().astype(np.float64)
    weighted, ones = TfidfTransformer().fit_transform(X), np.ones(X.shape[0])
    assigned = _assigned(k_means(weighted, ones, n_clusters, seed, tries=1, spherical=True).labels, n_clusters)
    return np.asarray(X.T @ assigned) + alpha, assigned.sum(axis=0)
