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
from sdem_dist.models.topic_heads import TopicParameters
from sdem_dist.reports.explanation import DocumentParts, TopicPart


class Row(NamedTuple):
    """The columns that a document has."""

    columns: np.ndarray  # shape (n_columns,), integers
    values: np.ndarray
    times: np.ndarray | float  # how often each ln p(column | class) counts
    log_p: np.ndarray  # shape (n_columns, n_classes or n_components)


def _entries(documents: Documents) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start, stop in pairwise(documents.indptr.tolist()):
        yield documents.indices[start:stop].astype(np.int64), documents.data[start:stop].astype(np.float64)


def word_rows(parameters: NaturalParameters, documents: Documents) -> Iterator[Row]:
    """Yield documents as the model weighs them, with ln p(word | class or component)."""
    for words, x in _entries(documents):
        yield Row(words, x, x, parameters.log_words[words] - parameters.log_totals)


def table_rows(densities: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> Iterator[Row]:
    """Yield rows of a table, NaN where a value is missing; `densities`: from a row to ln p(value | class) by column."""
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        yield Row(present, row[present], 1.0, densities(row)[present])


def _exact(row: Row, a: int, b: int, log_prior: np.ndarray, temperature: float = 1.0) -> DocumentParts:
    """Return the parts of naive Bayes, which are exact: ``x_w ln(p(w | a) / p(w | b)) / temperature``.

    The length of a document has no part of its own: p(w | class) sum to 1 over the vocabulary.
    """
    p, q, prior = row.log_p[:, a], row.log_p[:, b], float(log_prior[a] - log_prior[b]) / temperature
    return DocumentParts(row.columns, row.values, row.times * (p - q) / temperature, prior, p, q)


def of_naive_bayes(
    rows: Iterable[Row], pairs: np.ndarray, log_prior: np.ndarray, temperature: float = 1.0
) -> list[DocumentParts]:
    """Return the parts of naive Bayes; `pairs`: shape (n_documents, 2): the class explained, and the other one."""
    return [_exact(row, a, b, log_prior, temperature) for row, (a, b) in zip(rows, pairs.tolist(), strict=True)]


def of_many_classes(
    parameters: ManyClassParameters, documents: Documents, pairs: np.ndarray, temperature: float
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of many classes: only those of a pair are read."""
    parts = []
    for (words, x), pair in zip(_entries(documents), pairs, strict=True):
        log_p = np.stack([parameters.log_words(words, k) for k in pair], axis=1)
        parts.append(_exact(Row(words, x, x, log_p), 0, 1, parameters.log_prior[pair], temperature))
    return parts


def of_labels(
    rows: Iterable[Row], labels: np.ndarray, log_prior: np.ndarray, temperatures: np.ndarray
) -> list[DocumentParts]:
    """Return the parts of each document's log-odds of one label against its rest, which are exact.

    `rows`, `log_prior`: of log-odds of each label. `labels`: shape (n_documents,). `temperatures`: shape (n_labels,).
    """
    return [
        DocumentParts(r.columns, r.values, r.times * r.log_p[:, k] / temperatures[k], float(prior))
        for r, k, prior in zip(rows, labels.tolist(), (log_prior / temperatures)[labels], strict=True)
    ]


def of_components(
    rows: Iterable[Row], pairs: np.ndarray, log_prior: np.ndarray, component_class: tuple[int, ...], temperature: float
) -> list[DocumentParts]:
    """Return the parts of classes that are mixtures.

    With q = p(component | class, document), ``ln sum_j exp(s_j) = sum_j q_j s_j + entropy of q``: words and prior are
    means over components by q, and the entropies are the rest.
    """
    parts = []
    for row, pair in zip(rows, pairs, strict=True):
        scores = (row.times * row.log_p.T).sum(axis=1) + log_prior
        posteriors = by_class(scores[None], component_class)[1][0]
        q = np.where(np.asarray(component_class) == pair[:, None], posteriors, 0.0)
        p_a, p_b = (np.where(one > 0, row.log_p, 0.0) @ one for one in q)
        prior_a, prior_b = (np.where(q > 0, log_prior, 0.0) * q).sum(axis=1).tolist()
        own, prior = row.times * (p_a - p_b) / temperature, (prior_a - prior_b) / temperature
        parts.append(DocumentParts(row.columns, row.values, own, prior, p_a, p_b, (), "mixing of the components"))
    return parts


def of_lda(
    parameters: LdaParameters, documents: Documents, pairs: np.ndarray, proportions: np.ndarray, titles: Sequence[str]
) -> list[DocumentParts]:
    """Return the parts of classes that are LDA models: a word's p is that of the document's topics under the class.

    `proportions`: shape (n_documents, n_topics, n_classes). `titles`: of the topics, class by class.
    """
    all_parts, n_topics = [], parameters.n_topics
    for (words, x), (a, b), shares in zip(_entries(documents), pairs.tolist(), proportions, strict=True):
        topics = np.exp(log_word_probabilities(parameters._replace(words=parameters.words[words])))
        log_p = np.log(np.stack([shares[:, k] @ topics[k] for k in (a, b)], axis=1))
        order = np.argsort(-shares[:, a], kind="stable").tolist()
        of_document = tuple(TopicPart(titles[a * n_topics + z], float(shares[z, a]), None) for z in order)
        parts = _exact(Row(words, x, x, log_p), 0, 1, parameters.log_prior[[a, b]])
        all_parts.append(parts._replace(topics=of_document, offset_name="topics of the document"))
    return all_parts


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

    `outputs`, `proportions`: shape (n_documents, n_topics): what a topic adds if it is all that the document is about
    (of two classes the difference), and the share that it has.
    """
    all_parts = []
    for (words, x), output, theta in zip(_entries(documents), outputs, proportions, strict=True):
        mixed = parameters.topics[words] * theta
        of_topics = mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300)
        parts = x / max(x.sum(), 1e-300) * (of_topics @ output)
        order = np.argsort(-np.abs(output * theta), kind="stable").tolist()
        topics = tuple(TopicPart(titles[k], float(theta[k]), float(output[k] * theta[k])) for k in order)
        all_parts.append(DocumentParts(words, x, parts, 0.0, topics=topics, offset_name="prior of the topics"))
    return all_parts


def of_regression(mean: np.ndarray, covariance: np.ndarray, values: np.ndarray) -> list[DocumentParts]:
    """Return the parts of a joint Gaussian's conditional mean: ``b_j (x_j - mean_j)``, b of the known features.

    `mean`, `covariance`: of the features and, last, the target. `values`: NaN where one is missing.
    """
    parts, slopes = [], dict[bytes, np.ndarray]()
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        x, key = row[present], present.tobytes()
        if key not in slopes:
            slopes[key] = np.linalg.solve(covariance[np.ix_(present, present)], covariance[present, -1])
        parts.append(DocumentParts(present, x, slopes[key] * (x - mean[present]), 0.0))
    return parts
