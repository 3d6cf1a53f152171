"""Scores of documents as sums over words or columns, for each kind of model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.errors import ModelError
from sdem_dist.inputs.source import documents_of, table_of
from sdem_dist.models import lda, topics
from sdem_dist.models.features import FeatureModel, FeatureParameters
from sdem_dist.models.heads import by_class
from sdem_dist.models.many_classes import ManyClassParameters
from sdem_dist.models.naive_bayes import NaturalParameters
from sdem_dist.models.topic_heads import Levels, Rates, TopicParameters
from sdem_dist.reports.explanation import TopicPart
from sdem_dist.reports.top_words import named, topics_of


class DocumentParts(NamedTuple):
    """Log-odds of one document, class against class, as a sum over columns without names."""

    columns: np.ndarray  # words of the document; all arrays have shape (n_words,)
    weights: np.ndarray  # counts, weighted counts or values, see `WordPart`
    parts: np.ndarray  # contributions to the log-odds
    prior: float
    log_p: np.ndarray | float = np.nan  # NaN if the model has no p(word | class)
    log_p_against: np.ndarray | float = np.nan
    topics: tuple[TopicPart, ...] = ()
    offset_name: str = ""


Parts = Iterable[DocumentParts]


def parts_of_classes(estimator: Any, X: Any, pairs: np.ndarray) -> Parts:
    """Return the log-odds of the classes in `pairs`, (n_documents, 2); with several labels, of the first, a label."""
    parameters, learner = estimator._parameters, estimator.learner_
    if isinstance(parameters, FeatureParameters):
        rows = table_rows(learner.model.variables, parameters, table_of(estimator, X))
    elif isinstance(parameters, NaturalParameters):
        rows = word_rows(parameters, documents_of(estimator, X))
    elif isinstance(parameters, ManyClassParameters):
        return of_many_classes(parameters, documents_of(estimator, X), pairs, estimator.temperature_)
    elif isinstance(parameters, lda.LdaParameters):
        documents, names = documents_of(estimator, X), named(topics_of(estimator, 3))
        _, proportions = learner.model.scores(parameters, documents, learner.seed)
        return of_lda(parameters, documents, pairs, proportions, names)
    elif isinstance(parameters, TopicParameters):
        output, (a, b) = learner.head.gamma * parameters.output, pairs.T
        of_topics = output[a] if estimator.several_labels else output[a] - output[b]
        if isinstance(learner.head, Levels):
            of_topics = np.sign(a - b)[:, None] * output[:1]
        return _of_topics(estimator, X, of_topics)[1]
    else:
        raise refused(estimator)
    if estimator.several_labels:
        return of_labels(rows, pairs[:, 0], parameters.log_prior, estimator.temperatures_)
    return of_classes(rows, pairs, parameters.log_prior, learner.head.component_class, estimator.temperature_)


def parts_of_numbers(estimator: Any, X: Any, target: int) -> tuple[np.ndarray, float, Parts]:
    """Return predictions of a target, its training mean, and the parts of their difference."""
    parameters, learner = estimator._parameters, estimator.learner_
    if not isinstance(parameters, TopicParameters):
        means, covariance = learner.model.moments(estimator.state_)
        parts = list(of_regression(means, covariance, table_of(estimator, X)))
        return np.array([means[-1] + float(one.parts.sum()) for one in parts]), float(means[-1]), parts
    if isinstance(learner.head, Rates):  # its predictions are products over topics
        raise refused(estimator)
    mean = float(learner.head.location[target])
    shares, of_documents = _of_topics(estimator, X, estimator.coef_[target] - mean)
    return topics.outputs(estimator.coef_, shares)[:, target], mean, of_documents


def _of_topics(estimator: Any, X: Any, outputs: np.ndarray) -> tuple[np.ndarray, Parts]:
    """Return topic proportions of documents, and the parts of their predictions; see `of_supervised_topics`."""
    parameters, model = estimator._parameters, estimator.learner_.model
    documents = model.transformed(documents_of(estimator, X))
    shares, _ = model.inference.proportions(parameters, documents)
    names, outputs = named(topics_of(estimator, 3)), np.broadcast_to(outputs, shares.shape)
    return shares, of_supervised_topics(parameters, documents, outputs, shares, names)


def refused(estimator: Any) -> ModelError:
    return ModelError(
        f"{type(estimator).__name__} does not score documents by a sum over their words, so explain has nothing to show; "
        "use MultinomialNB, LDAClassifier, SupervisedLDAClassifier, an EM or sdEM mixture, or naive Bayes of tables"
    )


Row = tuple[np.ndarray, np.ndarray, np.ndarray | float, np.ndarray]
"""A document: columns, their values, factors of ln p(column | class), and ln p(column | class), one row per column."""


def _entries(documents: Documents) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start, stop in pairwise(documents.indptr.tolist()):
        yield documents.indices[start:stop].astype(np.int64), documents.data[start:stop].astype(np.float64)


def word_rows(parameters: NaturalParameters, documents: Documents) -> Iterator[Row]:
    """Yield documents weighted by the model, with ln p(word | class or component)."""
    for words, x in _entries(documents):
        yield words, x, x, parameters.log_words[words] - parameters.log_totals


def table_rows(variables: FeatureModel, parameters: FeatureParameters, values: np.ndarray) -> Iterator[Row]:
    """Yield the known values of a table's rows (NaN: missing), with ln p(value | class or component)."""
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        yield present, row[present], 1.0, variables.log_densities(parameters, row)[present]


def _exact(row: Row, log_prior: np.ndarray, temperature: float = 1.0, **more: Any) -> DocumentParts:
    """Return the parts of naive Bayes of two classes: ``x_w ln(p(w | a) / p(w | b)) / temperature``.

    The length of a document contributes nothing, since p(w | class) sums to 1 over the vocabulary.
    """
    columns, values, times, log_p = row
    (p, q), prior = log_p.T, float(log_prior[0] - log_prior[1]) / temperature
    return DocumentParts(columns, values, times * (p - q) / temperature, prior, p, q, **more)


def of_classes(
    rows: Iterable[Row], pairs: np.ndarray, log_prior: np.ndarray, component_class: tuple[int, ...], temperature: float
) -> Parts:
    """Return the parts of naive Bayes, or of classes that are mixtures of components (see `component_class`).

    With q = p(component | class, document), ``ln sum_j exp(s_j) = sum_j q_j s_j + entropy of q``: the parts of words
    and prior are means over components weighted by q, and the entropies are the offset.

    `pairs`: shape (n_documents, 2): the explained class, and the other class.
    """
    for (columns, values, times, log_p), pair in zip(rows, pairs, strict=True):
        if not component_class:
            yield _exact((columns, values, times, log_p[:, pair]), log_prior[pair], temperature)
            continue
        scores = (times * log_p.T).sum(axis=1) + log_prior
        posteriors = by_class(scores[None], component_class)[1][0]
        q = np.where(np.asarray(component_class) == pair[:, None], posteriors, 0.0)
        means = np.stack([np.where(one > 0, log_p, 0.0) @ one for one in q], axis=1)
        priors = (np.where(q > 0, log_prior, 0.0) * q).sum(axis=1)
        yield _exact((columns, values, times, means), priors, temperature, offset_name="uncertainty of the components")


def of_many_classes(theta: ManyClassParameters, documents: Documents, pairs: np.ndarray, temperature: float) -> Parts:
    """Return the parts of naive Bayes with many classes; only the parameters of each pair are read."""
    for (words, x), pair in zip(_entries(documents), pairs, strict=True):
        log_p = np.stack([theta.log_words(words, k) for k in pair], axis=1)
        yield _exact((words, x, x, log_p), theta.log_prior[pair], temperature)


def of_labels(rows: Iterable[Row], labels: np.ndarray, log_prior: np.ndarray, temperatures: np.ndarray) -> Parts:
    """Return the exact parts of the log-odds of a label against its absence; `labels`: shape (n_documents,)."""
    for (columns, values, times, log_p), k in zip(rows, labels.tolist(), strict=True):
        prior, temperature = float(log_prior[k] / temperatures[k]), temperatures[k]
        yield DocumentParts(columns, values, times * log_p[:, k] / temperature, prior)


def of_lda(
    parameters: lda.LdaParameters,
    documents: Documents,
    pairs: np.ndarray,
    proportions: np.ndarray,
    titles: Sequence[str],
) -> Parts:
    """Return the parts of classes that are LDA models: p(word | class) is the mixture of the document's topics.

    `proportions`: shape (n_documents, n_topics, n_classes). `titles`: titles of the topics, class by class.
    """
    for (words, x), pair, shares in zip(_entries(documents), pairs, proportions, strict=True):
        p = np.exp(lda.log_word_probabilities(parameters._replace(words=parameters.words[words])))
        log_p = np.log(np.stack([shares[:, k] @ p[k] for k in pair], axis=1))
        of_class, first = shares[:, pair[0]], pair[0] * parameters.n_topics
        order = np.argsort(-of_class, kind="stable").tolist()
        of_document = tuple(TopicPart(titles[first + z], float(of_class[z]), None) for z in order)
        more: dict[str, Any] = {"topics": of_document, "offset_name": "topics of the document"}
        yield _exact((words, x, x, log_p), parameters.log_prior[pair], **more)


def of_supervised_topics(
    parameters: TopicParameters, documents: Documents, outputs: np.ndarray, shares: np.ndarray, titles: Sequence[str]
) -> Parts:
    """Return the parts of a sum over topic proportions: the parts of topics are exact and are divided among words.

    A word gets its share of each topic by p(topic | word, document). The offset is the effect of the prior of the
    proportions, and of steps that have not converged.

    `outputs`: shape (n_documents, n_topics): output of a topic with proportion 1 (for two classes, the difference).
    `shares`: shape (n_documents, n_topics): topic proportions.
    """
    for (words, x), output, theta in zip(_entries(documents), outputs, shares, strict=True):
        mixed = parameters.topics[words] * theta
        of_topics = mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300)
        parts = x / max(x.sum(), 1e-300) * (of_topics @ output)
        order = np.argsort(-np.abs(output * theta), kind="stable").tolist()
        of_document = tuple(TopicPart(titles[k], float(theta[k]), float(output[k] * theta[k])) for k in order)
        yield DocumentParts(words, x, parts, 0.0, topics=of_document, offset_name="topic prior")


def of_regression(mean: np.ndarray, covariance: np.ndarray, values: np.ndarray) -> Parts:
    """Return the parts of a joint Gaussian's conditional mean: ``b_j (x_j - mean_j)`` for the known features j.

    `mean`, `covariance`: of the features and, last, of the target. `values`: NaN for missing values.
    """
    slopes = dict[bytes, np.ndarray]()
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        x, key = row[present], present.tobytes()
        if key not in slopes:
            slopes[key] = np.linalg.solve(covariance[np.ix_(present, present)], covariance[present, -1])
        yield DocumentParts(present, x, slopes[key] * (x - mean[present]), 0.0)
