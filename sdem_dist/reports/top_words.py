"""Most indicative words of classes, clusters and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr

from sdem_dist.fitting.running import AnyCorpus
from sdem_dist.models.em import KMeansState
from sdem_dist.models.topics import outputs
from sdem_dist.table import Table
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def word_weights(estimator: Estimator, n_words: int = 10) -> dict[Any, dict[str, float]]:
    """Return the most indicative words of each class of a naive Bayes model, each cluster, or each topic (by number).

    The weight is ``p(w | c) * (ln p(w | c) - ln mean of p(w | other classes))``: the average contribution of a word,
    over the words of a document in the class, to the evidence against other classes, in nats per word. For `KMeans`, it
    is the difference between the frequency of the word in the centre and in all documents.

    Largest weight first. Without a vocabulary, words are numbers. Empty for models that do not use word counts.
    """
    spec, settings = estimator.spec, estimator.vectorizer_ or {}
    if (spec.words is None and spec.topics is None) or estimator._layout == "dense":
        return {}
    p = estimator.components_ if spec.words is None else np.exp(getattr(estimator, spec.words))
    classes = estimator.classes_.tolist() if spec.words and spec.predicts == "class" else list(range(len(p)))
    if len(p) < 2:
        return {}
    if isinstance(centres := estimator._parameters, KMeansState):
        weights = centres.counts if centres.counts.any() else None
        say = estimator.cluster_centers_ - np.average(estimator.cluster_centers_, axis=0, weights=weights)
        order = np.lexsort((-p, -say), axis=1)  # ties: by decreasing p, then the first word
    else:
        say = rel_entr(p, (p.sum(axis=0) - p) / (len(p) - 1))  # p ln(p / mean of the others), 0 if p is 0
        order = np.argsort(-say, axis=1, kind="stable")
    names = estimator.vocabulary_ or [f"#{i}" for i in range(p.shape[1])]
    if "features" in settings:  # only words: n-grams of characters are hard to read
        boundary = VectorizerSettings.from_json(settings).boundary(estimator.vocabulary_)
        order = np.array([row[row < boundary] for row in order])
    tops = order[:, :n_words].tolist()
    return {c: {names[w]: float(s[w]) for w in top} for c, s, top in zip(classes, say, tops, strict=True)}


class Topic(NamedTuple):
    """A topic of a class (`LDAClassifier`) or of all documents (the topic models by mirror descent)."""

    label: Any
    """The class of the topic. If all classes share topics, the class that it supports most, or the predicted target (or
    a tuple of targets); None for unsupervised topics."""
    number: int
    """Number of the topic, from 0, within its class or among all topics."""
    share: float
    """Fraction of the expected words in its class, or in all training documents."""
    words: list[str]
    """The most probable words, most probable first."""
    distinctive: list[str]
    """The most distinctive words, by ``p(w | topic) ln(p(w | topic) / p(w | other classes))``, or other topics if all
    classes share topics."""

    @property
    def title(self) -> str:
        """Name of the topic: its number, and its class or coefficients."""
        labels = self.label if isinstance(self.label, tuple) else (self.label,)
        text = ", ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in labels)
        return f"{self.number}" if self.label is None else f"{self.number} ({text})"


class Topics(list[Topic]):
    """A list of topics, displayed as a table in notebooks."""

    def _repr_html_(self) -> str:
        rows = [(t.title, " ".join(t.words), " ".join(t.distinctive), f"{t.share:.1%}") for t in self]
        return Table(("topic", "most probable", "most distinctive", "share"), rows, left=range(3)).html()


def topics_of(estimator: Any, n_words: int = 10) -> Topics:
    """Return all topics in the order of `components_`, with `n_words` each, see `sdem_dist.reports.top_words.Topic`."""
    p, rows = estimator.components_, list[tuple[Any, int, float, np.ndarray, np.ndarray]]()
    if estimator.spec.topics == "classes":
        n_classes, n_topics = len(estimator.classes_), estimator.learner_.model.n_topics
        p, parameters = p.reshape(n_classes, n_topics, -1), estimator._parameters
        totals = parameters.totals + parameters.gamma * p.shape[2]  # gamma, since a class may have lost all counts
        totals = totals.reshape(n_topics, n_classes).T
        shares = totals / totals.sum(axis=1, keepdims=True)
        of_class = np.einsum("kz,kzw->kw", shares, p)
        for k, label in enumerate(estimator.classes_.tolist()):
            others = np.delete(of_class, k, axis=0).mean(axis=0)
            rows += [(label, z, shares[k, z], p[k, z], others) for z in range(n_topics)]
    else:
        others = (p.sum(axis=0) - p) / (len(p) - 1) if len(p) > 1 else np.full_like(p, 1 / p.shape[1])
        rows += zip(_labels_of(estimator, len(p)), range(len(p)), estimator.topic_shares_, p, others, strict=True)
    names = getattr(estimator, "feature_names_in_", None) if estimator.vocabulary_ is None else estimator.vocabulary_
    topics = Topics()
    for label, number, share, probable, p_others in rows:
        orders = (np.argsort(-weights, kind="stable") for weights in (probable, rel_entr(probable, p_others)))
        tops = (order[:n_words].tolist() for order in orders)
        words = [[f"#{w}" if names is None else str(names[w]) for w in top] for top in tops]
        topics.append(Topic(label, number, float(share), *words))
    return topics


def _labels_of(estimator: Any, n_topics: int) -> list[Any]:
    """Return the class that each topic supports most, or its coefficients of the targets; None without labels."""
    if estimator.spec.target == "nothing":
        return [None] * n_topics
    if estimator.spec.target == "numbers":
        return estimator.coef_[0].tolist() if estimator.single_ else [tuple(c) for c in estimator.coef_.T.tolist()]
    output = estimator._parameters.output
    scores = estimator.learner_.head.scores(output, outputs(output, np.eye(n_topics)))
    return list(estimator.classes_[scores.argmax(axis=1)].tolist())


def named(topics: Sequence[Topic]) -> list[str]:
    """Return names of topics: their titles and distinctive words."""
    return [f"topic {t.title}: {' '.join(t.distinctive)}" for t in topics]


def coherence(components: np.ndarray, X: object, n_words: int = 10) -> np.ndarray:
    """Return the coherence of the most probable words of each topic in held-out documents.

    The mean over pairs of words of ``ln(p(v, w) / (p(v) p(w))) / -ln p(v, w)`` (NPMI, Bouma 2009), where p is the
    fraction of documents that contain the words; -1 for a pair that never occurs together.

    `components`: shape (n_topics, n_features): weights of words, such as ``components_``. `X`: {array-like, sparse
    matrix} of shape (n_samples, n_features), or Corpus. Returns shape (n_topics,), float64, from -1 to 1; NaN for
    topics whose words do not occur.
    """
    tops = np.argsort(-components, axis=1, kind="stable")[:, :n_words]
    words, places = np.unique(tops, return_inverse=True)
    joint, n_documents, coherences = np.zeros((len(words), len(words))), 0, list[float]()
    corpus: Any = X if isinstance(X, AnyCorpus) else None
    for part in [()] if corpus is None else corpus.ranges():
        block = sp.csr_matrix(corpus.read(*part).to_csr() if part else X)
        if part and corpus.mask is not None:
            block = block[corpus.mask[slice(*part)]]
        if block.shape[1] != components.shape[1]:
            raise ValueError(f"X has {block.shape[1]} features, but the topics have {components.shape[1]}")
        present = (block[:, words] > 0).astype(np.float64)
        joint += (present.T @ present).toarray()
        n_documents += block.shape[0]
    for topic in places.reshape(tops.shape):
        p = joint[np.ix_(topic, topic)] / n_documents  # shares of documents with both words
        occur = np.flatnonzero(np.diag(p))
        one, other = (occur[index] for index in np.triu_indices(len(occur), 1))
        both = p[one, other]
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(both / (np.diag(p)[one] * np.diag(p)[other])) / -np.log(both)
        npmi = np.where(both == 0, -1.0, np.where(both == 1, 1.0, npmi))
        coherences.append(npmi.mean() if len(npmi) else np.nan)
    return np.array(coherences)
