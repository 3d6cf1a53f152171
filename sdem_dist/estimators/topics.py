"""Topics for people: their words, how well these go together, a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Topic(NamedTuple):
    """A topic of a class."""

    label: Any
    """The class."""
    number: int
    """Which of the topics of its class."""
    share: float
    """Of the expected words of its class."""
    words: list[str]
    """The most probable words, the first most so."""
    telling: list[str]
    """The words that tell the class apart most: those of ``p(w | topic) ln(p(w | topic) / p(w | other classes))``."""


def topics_of_classes(estimator: Any, n_words: int) -> list[Topic]:
    """Return the topics of a fitted `LDAClassifier`, class by class; a model without vocabulary numbers its words."""
    from scipy.special import rel_entr

    n_classes, n_topics = len(estimator.classes_), estimator._learner.n_topics
    p = estimator.components_.reshape(n_classes, n_topics, -1)
    totals = estimator._parameters.totals + estimator._parameters.gamma * p.shape[2]  # a class may have lost all counts
    totals = totals.reshape(n_topics, n_classes).T
    shares = totals / totals.sum(axis=1, keepdims=True)
    of_class = np.einsum("kz,kzw->kw", shares, p)
    names = estimator.vocabulary_ or [f"#{i}" for i in range(p.shape[2])]
    found = []
    for k, label in enumerate(estimator.classes_.tolist()):
        others = np.delete(of_class, k, axis=0).mean(axis=0)
        for z in range(n_topics):
            likely, telling = (
                [names[w] for w in np.argsort(-weight, kind="stable")[:n_words]]
                for weight in (p[k, z], rel_entr(p[k, z], others))
            )
            found.append(Topic(label, z, float(shares[k, z]), likely, telling))
    return found


def coherence(components: np.ndarray, X: Any, n_words: int = 10) -> np.ndarray:
    """Return how well the most probable words of each topic go together in documents that did not train it.

    The mean over pairs of words of ``ln(p(v, w) / (p(v) p(w))) / -ln p(v, w)`` (NPMI, Bouma 2009), where p is the share of the
    documents that have the words; -1 for a pair that never meets.

    Parameters
    ----------
    components : ndarray of shape (n_topics, n_features)
        Weights of words, such as ``components_``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or Corpus
    n_words : int, default=10

    Returns
    -------
    ndarray of shape (n_topics,), float64
        From -1 to 1; NaN for topics of words that no document has.
    """
    tops = np.argsort(-components, axis=1, kind="stable")[:, :n_words]
    words, places = np.unique(tops, return_inverse=True)
    places = places.reshape(tops.shape)
    together, n_documents = np.zeros((len(words), len(words))), 0
    for block in _blocks(X):
        present = (block[:, words] > 0).astype(np.float64)
        together += (present.T @ present).toarray()
        n_documents += block.shape[0]
    return np.array([_npmi(together[np.ix_(topic, topic)] / n_documents) for topic in places])


def _npmi(p: np.ndarray) -> float:
    """Return the mean NPMI of the pairs of some words, from the shares of documents with both (the diagonal: with each)."""
    one, other = np.triu_indices(len(p), 1)
    seen = (np.diag(p)[one] > 0) & (np.diag(p)[other] > 0)
    one, other = one[seen], other[seen]
    if not len(one):
        return float("nan")
    both, alone = p[one, other], np.diag(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.log(both / (alone[one] * alone[other])) / -np.log(both)
    npmi[both == 0] = -1.0
    npmi[both == 1] = 1.0
    return float(npmi.mean())


def _blocks(X: Any, size: int = 16_384) -> Iterator[sp.csr_matrix]:
    from sdem_dist.corpus import Corpus

    if not isinstance(X, Corpus):
        yield sp.csr_matrix(X)
        return
    for start in range(0, X.header.n_documents, size):
        yield X.read(start, min(start + size, X.header.n_documents)).to_csr()


def plot_topics(topics: Sequence[Topic], path: str | Path, n_words: int = 8) -> None:
    """Draw the most probable and the most telling words of each topic into a picture file: a row a class, a panel a topic.

    Parameters
    ----------
    topics : sequence of Topic
    path : path
        PNG, SVG or PDF, by its suffix.
    n_words : int, default=8
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(t.label for t in topics))
    columns = max(t.number for t in topics) + 1
    figure = Figure(figsize=(4.2 * columns, 0.6 + (0.25 * n_words + 0.5) * len(labels)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(labels), columns, squeeze=False)
    for topic in topics:
        axes = panels[labels.index(topic.label)][topic.number]
        axes.set_axis_off()
        axes.set_title(f"{topic.label}, topic {topic.number + 1}: {topic.share:.0%}", loc="left", fontsize=10)
        for x, heading, words in ((0.0, "most probable", topic.words), (0.5, "most telling", topic.telling)):
            axes.text(x, 1.0, heading, va="top", fontsize=8, color="0.5")
            for i, word in enumerate(words[:n_words]):
                axes.text(x, 1.0 - (i + 1) / (n_words + 1), word, va="top", fontsize=9)
    figure.savefig(path, dpi=110)
