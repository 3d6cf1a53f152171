"""Which words speak for which class, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def speaking_words(estimator: Estimator, n_words: int = 10) -> dict[Any, list[str]]:
    """Return the words that speak most for each class of a fitted naive Bayes, or each cluster of a mixture.

    A word's weight is ``p(w | c) * (ln p(w | c) - ln mean of p(w | other classes))``: what it adds, on average over the
    words of a document of the class, to the evidence against the others. For `KMeans` it is by how much the word is
    more frequent in the centre than in the mean of all documents.

    Parameters
    ----------
    estimator : fitted classifier
    n_words : int

    Returns
    -------
    dict of class to list of str
        The largest weight first; a model without vocabulary names words by their numbers. Empty for models that are not
        of counts of words.
    """
    return {c: list(said) for c, said in word_weights(estimator, n_words).items()}


def word_weights(estimator: Estimator, n_words: int = 10) -> dict[Any, dict[str, float]]:
    """Return the words of `speaking_words` with weights: nats per word of the document; of `KMeans` in its own unit."""
    from scipy.special import rel_entr

    if estimator.spec.words is None or estimator._layout == "dense":
        return {}
    p = np.exp(getattr(estimator, estimator.spec.words))
    classes = estimator.classes_.tolist() if estimator.spec.predicts == "class" else list(range(len(p)))
    if len(p) < 2:
        return {}
    if (weights := estimator.spec.word_weights) is not None:
        say = getattr(estimator, weights)
        order = np.lexsort((-p, -say), axis=1)  # of equals the word of the greater share, then the first
    else:
        say = rel_entr(p, (p.sum(axis=0) - p) / (len(p) - 1))  # p ln(p / others), 0 where p is
        order = np.argsort(-say, axis=1, kind="stable")
    names = estimator.vocabulary_ or [f"#{i}" for i in range(p.shape[1])]
    tops = order[:, :n_words].tolist()
    return {c: {names[w]: float(s[w]) for w in top} for c, s, top in zip(classes, say, tops, strict=True)}
