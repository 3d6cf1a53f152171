"""Initial states: of mixtures from random examples or k-means, of words from the log-odds of a generative model."""

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from sdem_dist.documents import CorpusLike, Documents
from sdem_dist.models.em import k_means
from sdem_dist.models.feature_classes import FeatureState, started
from sdem_dist.models.features import FeatureModel
from sdem_dist.models.heads import by_class
from sdem_dist.models.word_counts import SdemState

SURE = 0.99  # share of a row for its k-means cluster; all clusters share the remainder, so that empty ones can grow


def rows_at(corpus: CorpusLike, positions: Iterable[int]) -> np.ndarray:
    rows = []
    for position in positions:
        document = corpus.read(int(position), int(position) + 1)
        rows.append(document.to_csr().toarray()[0] if isinstance(document, Documents) else document.values[0])
    return np.array(rows, np.float64)


def features_at_examples(
    examples: np.ndarray, numbers: Sequence[int], model: FeatureModel, classes: FeatureState
) -> FeatureState:
    """Return `numbers` components per class, halfway between class and example; a single one equals the class."""
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
    """Return expected counts of components halfway between class and example, and their counts of documents."""
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
    """Return the k-means clusters of rows as components; a missing value is replaced by the mean of its column."""
    rows, used = model.features(table), np.concatenate([block.is_coordinate for block in model.blocks])
    present = 1.0 - rows.missing if rows.missing.shape[1] else np.ones((len(table), model.n_variables))
    values, known = rows.statistics[:, used], present[:, model.variable_of[used]]
    deviations = values - known * (values.sum(axis=0) / np.maximum(known.sum(axis=0), 1.0))
    scale = np.sqrt((deviations**2).mean(axis=0))
    points = sp.csr_matrix(deviations / np.where(scale > 0, scale, 1.0))
    assigned = _assigned(k_means(points, np.ones(len(table)), n_clusters, seed, tries=1).labels, n_clusters)
    counts = np.einsum("nk,nv->kv", assigned, present)
    mu = model.posterior_mean(np.einsum("nk,ns->ks", assigned, rows.statistics), counts)
    return started(assigned.sum(axis=0) * (weight / len(table)), mu)


def _assigned(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    return SURE * np.eye(n_clusters)[labels] + (1.0 - SURE) / n_clusters


def counts_by_k_means(documents: Documents, n_clusters: int, alpha: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected counts, plus `alpha`, of spherical k-means clusters of tf-idf rows, and their documents."""
    from sklearn.feature_extraction.text import TfidfTransformer

    X = documents.to_csr().astype(np.float64)
    weighted, ones = TfidfTransformer().fit_transform(X), np.ones(X.shape[0])
    assigned = _assigned(k_means(weighted, ones, n_clusters, seed, tries=1, spherical=True).labels, n_clusters)
    return np.asarray(X.T @ assigned) + alpha, assigned.sum(axis=0)


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model times `weight`, up to a constant per document.

    The pseudo-counts of each word keep their geometric mean over columns, which sets the size of steps.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def weight_of_margin(
    generative: SdemState, documents: Documents, margin: float, component_class: tuple[int, ...] = ()
) -> float:
    """Return the weight, at most 1, that gives the median document a `margin` between its top two classes.

    The weight is rounded to two digits. The median counts documents by weight. `component_class`: class of each column.
    """
    weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
    if not weights.any():
        return 1.0
    scores = documents.to_csr() @ (np.log(generative.words) - np.log(generative.totals))
    scores = by_class(scores, component_class)[0] if component_class else scores
    second, first = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].T
    leads = first - second
    order = np.argsort(leads)
    below = np.cumsum(weights[order])
    # The weighted median; for equal weights, it equals NumPy's.
    middle = [np.searchsorted(below, 0.5 * below[-1], side) for side in ("left", "right")]
    median = float(0.5 * leads[order[middle]].sum())
    return float(f"{min(1.0, margin / max(median, margin)):.2g}")
