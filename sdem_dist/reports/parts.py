"""Log-odds of documents as sums over their words, for each kind of classifier; pure functions over arrays."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.models.heads import by_class
from sdem_dist.models.lda import LdaParameters, log_word_probabilities
from sdem_dist.models.many_classes import ManyClassParameters
from sdem_dist.models.naive_bayes import NaturalParameters
from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.reports.explanation import DocumentParts, TopicPart

Densities = Callable[[np.ndarray], np.ndarray]
"""From a row, NaN where a value is missing, to ln p(column | class or component), shape (n_features, n_classes)."""


class Row(NamedTuple):
    """The columns that a document has."""

    number: int
    columns: np.ndarray  # shape (n_columns,), integers
    values: np.ndarray
    times: np.ndarray | float  # how often each ln p(column | class) counts


def _of_counts(documents: Documents) -> Iterator[Row]:
    for i, (start, stop) in enumerate(pairwise(documents.indptr.tolist())):
        x = documents.data[start:stop].astype(np.float64)
        yield Row(i, documents.indices[start:stop].astype(np.int64), x, x)


def _of_table(table: np.ndarray) -> Iterator[Row]:
    for i, row in enumerate(table):
        present = np.flatnonzero(~np.isnan(row))
        yield Row(i, present, row[present], 1.0)


def _exact(
    rows: Iterable[Row], pairs: np.ndarray, log_p: Callable[[Row, np.ndarray], np.ndarray], log_prior: np.ndarray
) -> Iterator[DocumentParts]:
    """Yield the parts of naive Bayes, which are exact: ``x_w ln(p(w | a) / p(w | b))``.

    The length of a document has no part of its own: p(w | class) sum to 1 over the vocabulary.

    `pairs`: shape (n_documents, 2), integers: classes a and b of each document.
    `log_p`: from a row and two classes to ln p(column | class), shape (n_columns, 2).
    """
    for row, pair in zip(rows, pairs, strict=True):
        (p, q), (prior_a, prior_b) = log_p(row, pair).T, log_prior[pair]
        yield DocumentParts(row.columns, row.values, p, q, row.times * (p - q), float(prior_a - prior_b))


def _tempered(parts: Iterable[DocumentParts], temperature: float) -> list[DocumentParts]:
    return [one._replace(parts=one.parts / temperature, prior=one.prior / temperature) for one in parts]


def of_naive_bayes(
    parameters: NaturalParameters, documents: Documents, pairs: np.ndarray, temperature: float
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of words; `documents` as the model weighs them."""

    def log_p(row: Row, pair: np.ndarray) -> np.ndarray:
        return np.asarray(parameters.log_words[row.columns[:, None], pair] - parameters.log_totals[pair])

    return _tempered(_exact(_of_counts(documents), pairs, log_p, parameters.log_prior), temperature)


def of_many_classes(
    parameters: ManyClassParameters, documents: Documents, pairs: np.ndarray, temperature: float
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of many classes."""

    def log_p(row: Row, pair: np.ndarray) -> np.ndarray:
        return np.stack([parameters.log_words(row.columns, k) for k in pair], axis=1)

    return _tempered(_exact(_of_counts(documents), pairs, log_p, parameters.log_prior), temperature)


def of_columns(
    densities: Densities, log_prior: np.ndarray, values: np.ndarray, pairs: np.ndarray
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of columns; `values`: shape (n_documents, n_features), float64."""

    def log_p(row: Row, pair: np.ndarray) -> np.ndarray:
        return densities(values[row.number])[row.columns[:, None], pair]

    return list(_exact(_of_table(values), pairs, log_p, log_prior))


def of_labels(
    parameters: NaturalParameters, documents: Documents, labels: np.ndarray, temperatures: np.ndarray
) -> list[DocumentParts]:
    """Return the parts of each document's log-odds of one label against its rest, which are exact.

    `parameters`: of log-odds, see `sdem_dist.models.one_against_rest`.
    `labels`: shape (n_documents,), integers.
    `temperatures`: shape (n_labels,).
    """
    found = []
    for (_, words, x, _), k in zip(_of_counts(documents), labels.tolist(), strict=True):
        odds = parameters.log_words[words, k] - parameters.log_totals[k]
        unknown, prior = np.full(len(words), np.nan), float(parameters.log_prior[k] / temperatures[k])
        found.append(DocumentParts(words, x, unknown, unknown, x * odds / temperatures[k], prior))
    return found


def _mixed(
    rows: Iterable[Row],
    pairs: np.ndarray,
    log_p: Callable[[Row], np.ndarray],
    log_prior: np.ndarray,
    component_class: tuple[int, ...],
) -> Iterator[DocumentParts]:
    """Yield the parts of classes that are mixtures.

    With q = p(component | class, document), ``ln sum_j exp(s_j) = sum_j q_j s_j + entropy of q``: words and prior are
    means over components by q, and the entropies are the rest.

    `log_p`: from a row to ln p(column | component), shape (n_columns, n_components).
    """
    for row, pair in zip(rows, pairs, strict=True):
        p = log_p(row)
        scores = (row.times * p.T).sum(axis=1) + log_prior
        posteriors = by_class(scores[None], component_class)[1][0]
        q = np.where(np.asarray(component_class) == pair[:, None], posteriors, 0.0)
        p_a, p_b = (np.where(one > 0, p, 0.0) @ one for one in q)
        prior_a, prior_b = (np.where(q > 0, log_prior, 0.0) * q).sum(axis=1).tolist()
        parts = row.times * (p_a - p_b)
        yield DocumentParts(row.columns, row.values, p_a, p_b, parts, prior_a - prior_b, (), "mixing of the components")


def of_components(
    parameters: NaturalParameters,
    documents: Documents,
    pairs: np.ndarray,
    component_class: tuple[int, ...],
    temperature: float,
) -> list[DocumentParts]:
    """Return the parts of classes that are mixtures of multinomials."""

    def log_p(row: Row) -> np.ndarray:
        return np.asarray(parameters.log_words[row.columns] - parameters.log_totals)

    return _tempered(_mixed(_of_counts(documents), pairs, log_p, parameters.log_prior, component_class), temperature)


def of_component_columns(
    densities: Densities,
    log_prior: np.ndarray,
    values: np.ndarray,
    pairs: np.ndarray,
    component_class: tuple[int, ...],
    temperature: float,
) -> list[DocumentParts]:
    """Return the parts of classes that are mixtures of densities of columns."""

    def log_p(row: Row) -> np.ndarray:
        return densities(values[row.number])[row.columns]

    return _tempered(_mixed(_of_table(values), pairs, log_p, log_prior, component_class), temperature)


def of_lda(
    parameters: LdaParameters, documents: Documents, pairs: np.ndarray, proportions: np.ndarray, titles: Sequence[str]
) -> list[DocumentParts]:
    """Return the parts of classes that are LDA models: a word's p is that of the document's topics under the class.

    `proportions`: shape (n_documents, n_topics, n_classes), float64.
    `titles`: of the topics, class by class.
    """

    def log_p(row: Row, pair: np.ndarray) -> np.ndarray:
        topics = np.exp(log_word_probabilities(parameters._replace(words=parameters.words[row.columns])))
        return np.log(np.stack([proportions[row.number, :, k] @ topics[k] for k in pair], axis=1))

    found, n_topics = [], parameters.n_topics
    exact = _exact(_of_counts(documents), pairs, log_p, parameters.log_prior)
    for parts, a, shares in zip(exact, pairs[:, 0].tolist(), proportions.transpose(0, 2, 1), strict=True):
        order = np.argsort(-shares[a], kind="stable").tolist()
        topics = tuple(TopicPart(titles[a * n_topics + z], float(shares[a, z]), None) for z in order)
        found.append(parts._replace(topics=topics, offset_name="topics of the document"))
    return found


def of_supervised_topics(
    parameters: TopicParameters,
    documents: Documents,
    outputs: np.ndarray,
    proportions: np.ndarray,
    titles: Sequence[str],
) -> list[DocumentParts]:
    """Return the parts of a sum over topic proportions: those of topics are exact, and words share them.

    A word has its share of each topic by p(topic | word, document). The prior of the proportions, and steps that have
    not converged, leave a rest that belongs to no word.

    `outputs`: shape (n_documents, n_topics), float64: what a topic adds if it is all that the document is about: of two
    classes the difference.
    `proportions`: shape (n_documents, n_topics), float64.
    """
    found = []
    for (_, words, x, _), output, theta in zip(_of_counts(documents), outputs, proportions, strict=True):
        mixed = parameters.topics[words] * theta
        of_topics = mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300)
        parts, unknown = x / max(x.sum(), 1e-300) * (of_topics @ output), np.full(len(words), np.nan)
        order = np.argsort(-np.abs(output * theta), kind="stable").tolist()
        topics = tuple(TopicPart(titles[k], float(theta[k]), float(output[k] * theta[k])) for k in order)
        found.append(DocumentParts(words, x, unknown, unknown, parts, 0.0, topics, "prior of the topics"))
    return found


def of_regression(mean: np.ndarray, covariance: np.ndarray, values: np.ndarray) -> list[DocumentParts]:
    """Return the parts of a joint Gaussian's conditional mean: ``b_j (x_j - mean_j)``, b of the known features.

    `mean`: shape (n_features + 1,), float64: the target last.
    `covariance`: shape (n_features + 1, n_features + 1), float64.
    `values`: shape (n_documents, n_features), float64: NaN where a value is missing.
    """
    found, slopes = [], dict[bytes, np.ndarray]()
    for _, present, x, _ in _of_table(values):
        if (key := present.tobytes()) not in slopes:
            slopes[key] = np.linalg.solve(covariance[np.ix_(present, present)], covariance[present, -1])
        unknown = np.full(len(present), np.nan)
        found.append(DocumentParts(present, x, unknown, unknown, slopes[key] * (x - mean[present]), 0.0))
    return found
