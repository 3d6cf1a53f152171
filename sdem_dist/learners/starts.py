"""Where the training of mixtures starts: at random examples that a survey drew, or at what EM found."""

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import CorpusLike, Documents
from sdem_dist.models.feature_classes import FeatureState, started
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.k_means import k_means
from sdem_dist.models.mixture import MixtureWeights
from sdem_dist.models.nonnegative_rows import RowTransform


def rows_at(corpus: CorpusLike, positions: Iterable[int]) -> np.ndarray:
    """Return some documents as rows of a table, float64."""
    rows = []
    for position in positions:
        document = corpus.read(int(position), int(position) + 1)
        rows.append(document.to_csr().toarray()[0] if isinstance(document, Documents) else document.values[0])
    return np.array(rows, np.float64)


def weights_at_examples(
    examples: np.ndarray, n_classes: int, component_class: tuple[int, ...], transform: RowTransform
) -> MixtureWeights:
    """Return W = 1 and theta = X_n of random examples (Saul and Lee 2001, section 6); no owners: shared components."""
    theta = transform.dense(examples)
    log_weights = np.zeros((n_classes, len(theta)))
    if component_class:
        log_weights[np.asarray(component_class) != np.arange(n_classes)[:, None]] = -np.inf
    return MixtureWeights(log_weights, theta)


def weights_of_features(
    model: FeatureModel, mu: np.ndarray, counts: np.ndarray, component_class: tuple[int, ...]
) -> MixtureWeights:
    """Return the discriminative parameters that are a mixture of exponentials, or of Gaussians over expanded rows.

    `model`: one block over all columns, as they are.
    `mu`, `counts`: of the components.
    """
    (block,) = model.blocks
    parameters = model.to_natural(mu, np.log(counts / counts.sum()))
    theta = block.shaped(parameters.theta)
    location, spread = np.asarray(block.location), np.asarray(block.scale)
    constant = parameters.log_prior - parameters.partitions.sum(axis=1)
    linear = theta[..., 0] / spread
    constant = constant - (linear * location).sum(axis=1)
    if theta.shape[-1] == 1:
        coefficients = linear
    else:  # theta_2 ((x - a) / s)^2 multiplied out
        square = theta[..., 1] / spread**2
        linear = linear - 2.0 * square * location
        constant = constant + (square * location**2).sum(axis=1)
        n_columns = len(spread)
        first, second = np.triu_indices(n_columns)
        products = np.zeros((len(mu), len(first)))
        products[:, first == second] = square
        coefficients = np.concatenate([np.zeros((len(mu), 1)), linear, products], axis=1)
    log_weights = np.full((component_class[-1] + 1, len(component_class)), -np.inf)
    log_weights[np.asarray(component_class), np.arange(len(component_class))] = constant
    return MixtureWeights(log_weights, coefficients)


def features_at_examples(
    examples: np.ndarray, numbers: Sequence[int], model: FeatureModel, classes: FeatureState
) -> FeatureState:
    """Return components half way between their class and a random example, in the expectation parameters.

    A class of one component is the class.

    `examples`: shape (n_components, n_columns).
    `numbers`: components of each class.
    """
    component_class = np.repeat(np.arange(len(numbers)), numbers)
    rows = model.features(examples)
    of_class = classes.mu[component_class]
    missing = rows.missing[:, model.variable_of] > 0 if rows.missing.shape[1] else np.zeros(of_class.shape, bool)
    example = np.where(missing, of_class, rows.statistics)
    is_single = np.asarray(numbers)[component_class] == 1
    mu = np.where(is_single[:, None], of_class, 0.5 * (of_class + example))
    return started(classes.class_counts[component_class] / np.asarray(numbers)[component_class], mu)


def counts_at_examples(
    examples: Iterable[np.ndarray], numbers: Sequence[int], words: np.ndarray, class_counts: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return expected counts of components half way between their class and a random document.

    `examples`: iterable of ndarray of shape (n_features,), one a component, not all in memory at once.
    `numbers`: components of each class. `words`: shape (n_features, n_classes), expected counts of words and classes.
    `class_counts`: documents of each class. Returns `words`, shape (n_features, n_components).
    Returns `counts`, shape (n_components,): documents, by equal shares of the classes'.
    """
    component_class = np.repeat(np.arange(len(numbers)), numbers)
    shares = 1.0 / np.asarray(numbers)[component_class]
    start = words[:, component_class] * shares
    for j, row in enumerate(examples):
        if numbers[component_class[j]] > 1 and row.any():
            start[:, j] = 0.5 * (start[:, j] + start[:, j].sum() * row / row.sum())
    return start, np.asarray(class_counts)[component_class] * shares


SURE = 0.99
"""Share of a row that belongs to its cluster of k-means; all clusters share the rest, so that an empty one can grow."""


def features_by_k_means(
    table: np.ndarray, n_clusters: int, model: FeatureModel, weight: float, seed: int
) -> FeatureState:
    """Return components that are the clusters of k-means of some rows; a missing value has the mean of its column.

    `table`: shape (n_rows, n_columns).
    `model`: one block over all columns.
    `weight`: documents of the corpus.
    """
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
    """Return expected counts of clusters that k-means finds in some documents.

    It sees tf-idf rows of unit length, so that distances are cosines.

    Returns `words`, shape (n_features, n_clusters): `alpha` included. Returns `counts`, shape (n_clusters,).
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    X = documents.to_csr().astype(np.float64)
    clusters = k_means(
        TfidfTransformer().fit_transform(X), np.ones(X.shape[0]), n_clusters, seed, tries=1, spherical=True
    )
    assigned = _assigned(clusters.labels, n_clusters)
    return np.asarray(X.T @ assigned) + alpha, assigned.sum(axis=0)
