"""Log-odds of documents as sums over their words, for each kind of classifier; pure functions over arrays."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.models.heads import by_class
from sdem_dist.models.lda import LdaParameters, log_word_probabilities
from sdem_dist.models.many_classes import ManyClassParameters
from sdem_dist.models.naive_bayes import NaturalParameters, joint_scores
from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.reports.explanation import DocumentParts, TopicPart

Table = Callable[[np.ndarray], np.ndarray]


def each(documents: Documents) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each document's number, its words, and their weights."""
    bounds = documents.indptr.tolist()
    for i, (start, stop) in enumerate(pairwise(bounds)):
        yield i, documents.indices[start:stop].astype(np.int64), documents.data[start:stop].astype(np.float64)


def of_naive_bayes(
    parameters: NaturalParameters, documents: Documents, pairs: np.ndarray, temperature: float
) -> list[DocumentParts]:
    """Return the parts of naive Bayes, which are exact: ``x_w ln(p(w | a) / p(w | b)) / temperature``.

    The length of a document has no part of its own: p(w | class) sum to 1 over the vocabulary.

    `documents`: as the model weighs them.
    `pairs`: shape (n_documents, 2), integers: classes a and b of each document.
    """
    parts = []
    for i, words, x in each(documents):
        a, b = pairs[i]
        p, q = (parameters.log_words[words, k] - parameters.log_totals[k] for k in (a, b))
        prior = float(parameters.log_prior[a] - parameters.log_prior[b]) / temperature
        parts.append(DocumentParts(words, x, p, q, x * (p - q) / temperature, prior))
    return parts


def of_many_classes(
    parameters: ManyClassParameters, documents: Documents, pairs: np.ndarray, temperature: float
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of many classes, as `of_naive_bayes` does."""
    parts = []
    for i, words, x in each(documents):
        a, b = pairs[i]
        p, q = parameters.log_words(words, a), parameters.log_words(words, b)
        prior = float(parameters.log_prior[a] - parameters.log_prior[b]) / temperature
        parts.append(DocumentParts(words, x, p, q, x * (p - q) / temperature, prior))
    return parts


def of_labels(
    parameters: NaturalParameters, documents: Documents, labels: np.ndarray, temperatures: np.ndarray
) -> list[DocumentParts]:
    """Return the parts of each document's log-odds of one label against its rest, which are exact.

    `parameters`: of log-odds, see `sdem_dist.models.one_against_rest`.
    `labels`: shape (n_documents,), integers.
    `temperatures`: shape (n_labels,).
    """
    parts = []
    for i, words, x in each(documents):
        k = int(labels[i])
        odds, unknown = parameters.log_words[words, k] - parameters.log_totals[k], np.full(len(words), np.nan)
        prior = float(parameters.log_prior[k] / temperatures[k])
        parts.append(DocumentParts(words, x, unknown, unknown, x * odds / temperatures[k], prior))
    return parts


def of_component_columns(
    densities: Callable[[np.ndarray], np.ndarray],
    log_prior: np.ndarray,
    values: np.ndarray,
    pairs: np.ndarray,
    owners: tuple[int, ...],
    temperature: float,
) -> list[DocumentParts]:
    """Return the parts of classes that are mixtures of densities of columns, as `of_components` does of words.

    `densities`: from a row, NaN where a value is missing, to ln p(column | component), shape (n_features,
    n_components).
    `log_prior`: shape (n_components,).
    `values`: shape (n_documents, n_features), float64.
    """
    found = []
    for row, pair in zip(values, pairs, strict=True):
        known = np.flatnonzero(~np.isnan(row))
        log_p = densities(row)[known]
        (p_a, prior_a), (p_b, prior_b) = _by_class(log_p, log_prior, log_p.sum(axis=0) + log_prior, pair, owners)
        parts, prior = (p_a - p_b) / temperature, (prior_a - prior_b) / temperature
        found.append(DocumentParts(known, row[known], p_a, p_b, parts, prior, (), "mixing of the components"))
    return found


def _by_class(
    log_p: np.ndarray, log_prior: np.ndarray, scores: np.ndarray, pair: np.ndarray, owners: tuple[int, ...]
) -> list[tuple[np.ndarray, float]]:
    """Return means of ln p(column | component) and of ln p(component) over p(component | class, document), by class."""
    posteriors, class_of = by_class(scores[None], owners)[1][0], np.asarray(owners)
    parts = []
    for k in pair:
        mine = np.where(class_of == k, posteriors, 0.0)
        parts.append((np.where(mine > 0, log_p, 0.0) @ mine, float(np.where(mine > 0, log_prior, 0.0) @ mine)))
    return parts


def of_components(
    parameters: NaturalParameters,
    documents: Documents,
    pairs: np.ndarray,
    owners: tuple[int, ...],
    temperature: float,
) -> list[DocumentParts]:
    """Return the parts of classes that are mixtures of multinomials.

    With q = p(component | class, document), ``ln sum_j exp(s_j) = sum_j q_j s_j + entropy of q``: words and prior are
    means over components by q, and the entropies are the rest.
    """
    scores, found = joint_scores(parameters, documents), []
    for i, words, x in each(documents):
        log_p = parameters.log_words[words] - parameters.log_totals
        (p_a, prior_a), (p_b, prior_b) = _by_class(log_p, parameters.log_prior, scores[i], pairs[i], owners)
        parts, prior = x * (p_a - p_b) / temperature, (prior_a - prior_b) / temperature
        found.append(DocumentParts(words, x, p_a, p_b, parts, prior, (), "mixing of the components"))
    return found


def of_lda(
    parameters: LdaParameters,
    documents: Documents,
    pairs: np.ndarray,
    proportions: np.ndarray,
    titles: Sequence[str],
) -> list[DocumentParts]:
    """Return the parts of classes that are LDA models: a word's p is that of the document's topics under the class.

    `proportions`: shape (n_documents, n_topics, n_classes), float64.
    `titles`: of the topics, class by class.
    """
    found, n_topics = [], parameters.n_topics
    for i, words, x in each(documents):
        a, b = (int(k) for k in pairs[i])
        topics = np.exp(log_word_probabilities(parameters._replace(words=parameters.words[words])))
        p, q = (np.log(proportions[i, :, k] @ topics[k]) for k in (a, b))
        prior = float(parameters.log_prior[a] - parameters.log_prior[b])
        shares = proportions[i, :, a]
        order = np.argsort(-shares, kind="stable").tolist()
        said = tuple(TopicPart(titles[a * n_topics + z], float(shares[z]), None) for z in order)
        found.append(DocumentParts(words, x, p, q, x * (p - q), prior, said, "topics of the document"))
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
    for i, words, x in each(documents):
        says, theta = outputs[i], proportions[i]
        mixed = parameters.topics[words] * theta
        of_topics = mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300)
        parts = x / max(x.sum(), 1e-300) * (of_topics @ says)
        p, q = (np.full(len(words), np.nan) for _ in range(2))
        order = np.argsort(-np.abs(says * theta), kind="stable").tolist()
        said = tuple(TopicPart(titles[k], float(theta[k]), float(says[k] * theta[k])) for k in order)
        found.append(DocumentParts(words, x, p, q, parts, 0.0, said, "prior of the topics"))
    return found


def of_columns(
    densities: Callable[[np.ndarray], np.ndarray], log_prior: np.ndarray, values: np.ndarray, pairs: np.ndarray
) -> list[DocumentParts]:
    """Return the parts of naive Bayes of columns, which are exact: ``ln p(x_j | a) - ln p(x_j | b)``.

    `densities`: from a row, NaN where a value is missing, to ln p(column | class), shape (n_features, n_classes).
    `log_prior`: shape (n_classes,).
    `values`: shape (n_documents, n_features), float64.
    `pairs`: shape (n_documents, 2), integers.
    """
    parts = []
    for i, row in enumerate(values):
        a, b = pairs[i]
        present = np.flatnonzero(~np.isnan(row))
        p, prior = densities(row)[present], float(log_prior[a] - log_prior[b])
        parts.append(DocumentParts(present, row[present], p[:, a], p[:, b], p[:, a] - p[:, b], prior))
    return parts


def of_regression(mean: np.ndarray, covariance: np.ndarray, values: np.ndarray) -> list[DocumentParts]:
    """Return the parts of a joint Gaussian's conditional mean: ``b_j (x_j - mean_j)``, b of the known features.

    `mean`: shape (n_features + 1,), float64: the target last.
    `covariance`: shape (n_features + 1, n_features + 1), float64.
    `values`: shape (n_documents, n_features), float64: NaN where a value is missing.
    """
    parts, slopes = [], dict[bytes, np.ndarray]()
    for row in values:
        is_present = ~np.isnan(row)
        present, key = np.flatnonzero(is_present), is_present.tobytes()
        if key not in slopes:
            slopes[key] = np.linalg.solve(covariance[np.ix_(present, present)], covariance[present, -1])
        none = np.full(len(present), np.nan)
        parts.append(
            DocumentParts(present, row[present], none, none, slopes[key] * (row[present] - mean[present]), 0.0)
        )
    return parts
