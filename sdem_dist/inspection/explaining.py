"""Explanations of fitted classifiers: which words of a document spoke for its class, and which against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import expit, log_expit, log_softmax
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import check_is_fitted

from sdem_dist.counted import counted
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import ModelError
from sdem_dist.inputs import validation as checks
from sdem_dist.inputs.raw_text import are_texts, text_column
from sdem_dist.inputs.validation import some
from sdem_dist.reports.explanation import (
    DocumentParts,
    Explanation,
    Explanations,
    NumberExplanation,
    NumberExplanations,
    number_parts,
    word_parts,
)
from sdem_dist.text.marking import marked, terms
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator

HASHED = 1 << 31


def explanations(
    estimator: Estimator,
    X: object,
    against: object = None,
    texts: Sequence[str] | None = None,
    of_labels: np.ndarray | None = None,
) -> Explanations:
    """Return why each document was taken for its class; see `EngineClassifier.explain`.

    `X`: texts, {array-like, sparse matrix} of shape (n_samples, n_features), Documents or DenseDocuments.
    `texts`: the texts of the documents of a matrix.
    `of_labels`: where documents may have several, the position of the label to explain for each; None: the most
    probable.
    """
    documents, texts = _documents(estimator, X, texts)
    if documents.n_documents == 0:
        return Explanations()
    names = _names(estimator)
    if estimator.several_labels:
        return _of_labels(estimator, documents, against, names, texts, of_labels)
    log_p = log_softmax(estimator._class_scores(documents), axis=1)  # type: ignore[attr-defined]
    pairs = _pairs(estimator, log_p, against)
    found = estimator._document_parts(documents, pairs)  # type: ignore[attr-defined]
    known = _known(estimator, texts)
    return Explanations(
        _explained(estimator, parts, log_p[i], pairs[i], names, None if texts is None else texts[i], known)
        for i, parts in enumerate(found)
    )


def _of_labels(
    estimator: Any,
    documents: Documents | DenseDocuments,
    against: object,
    names: Sequence[str],
    texts: Sequence[str] | None,
    labels: np.ndarray | None,
) -> Explanations:
    """Return why each document has a label, or its most probable one, against all without that label."""
    if against is not None:
        raise ValueError("the model gives several labels, each against all documents without it: leave against at None")
    scores = np.asarray(estimator._class_scores(documents))
    best = scores.argmax(axis=1) if labels is None else labels
    vocabulary, explanations = _known(estimator, texts), Explanations()
    for i, parts in enumerate(estimator._document_parts(documents, np.stack([best, best], axis=1))):
        score, k = float(scores[i, best[i]]), int(best[i])
        text = None if texts is None else texts[i]
        explained = _explained(estimator, parts, log_expit(scores[i]), np.array([k, k]), names, text, vocabulary)
        explanations.append(
            replace(
                explained,
                against=f"not {estimator.classes_[k]}",
                probability_against=float(expit(-score)),
                log_odds=score,
                offset=score - parts.prior - float(parts.parts.sum()) if parts.offset_name else 0.0,
                temperature=float(estimator.temperatures_[k]) if hasattr(estimator, "temperatures_") else 1.0,
            )
        )
    return explanations


def number_explanations(estimator: Any, X: object, target: int = 0) -> NumberExplanations:
    """Return why each document got its number; see ``explain`` of the regressors.

    Raises ValueError: there is no such target, or the documents do not fit the model.
    """
    documents, texts = _documents(estimator, X, None)
    n_targets = len(np.atleast_2d(estimator.coef_))
    if not 0 <= target < n_targets:
        raise ValueError(f"target {target} is not among the model's {counted(n_targets, 'target')}, counted from 0")
    if documents.n_documents == 0:
        return NumberExplanations()
    names, (predictions, mean, parts_of_documents) = _names(estimator), estimator._number_parts(documents, target)
    vocabulary, explanations = _known(estimator, texts), NumberExplanations()
    for i, parts in enumerate(parts_of_documents):
        text = None if texts is None else texts[i]
        words, marks, unknown = _spelled(estimator, text, parts, names, vocabulary)
        left = float(predictions[i]) - mean - float(parts.parts.sum()) if parts.offset_name else 0.0
        arguments = number_parts(words, parts), parts.topics, text, tuple(marks), tuple(unknown)
        explanations.append(NumberExplanation(float(predictions[i]), mean, left, parts.offset_name, *arguments))
    return explanations


def _documents(
    estimator: Estimator, X: object, texts: Sequence[str] | None
) -> tuple[Documents | DenseDocuments, Sequence[str] | None]:
    """Return documents as the model takes them, and their texts where they are known."""
    check_is_fitted(estimator)
    X = text_column(X) if estimator._layout == "sparse" else X
    if are_texts(X):
        texts = [str(text) for text in cast("Iterable[str]", X)]
        X = estimator.vectorize(texts)
    return _rows(estimator, X), texts


def _rows(estimator: Estimator, X: object) -> Documents | DenseDocuments:
    """Return documents with the values that the estimator was trained on, before they are weighed."""
    if isinstance(X, Documents | DenseDocuments):
        return X

    checks.refuse_no_documents(X)
    if estimator._layout == "dense":
        rows = checks.validated(estimator, estimator._encoded(X, reset=False), reset=False)[0]
        return DenseDocuments(estimator._checked(rows))
    return checks.as_documents(checks.checked_csr(estimator, checks.validated(estimator, X, reset=False)[0]))


def _names(estimator: Estimator) -> Sequence[str]:
    """Return how words, or columns, are called."""
    names = estimator.vocabulary_
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    return [f"#{i}" for i in range(estimator.n_features_in_)] if names is None else names


def _pairs(estimator: Estimator, log_p: np.ndarray, against: object) -> np.ndarray:
    """Return the positions of each document's prediction, and of the class that it is compared with."""
    n, classes = len(log_p), estimator.classes_.tolist()
    order = np.argsort(-log_p, axis=1, kind="stable")
    if len(classes) < 2:
        raise ValueError("the model has one class only, and there is nothing to compare it with")
    rivals = order[:, 1].copy()
    if against is not None:
        wanted = [against] * n if np.ndim(against) == 0 else list(against)  # type: ignore[arg-type, call-overload]
        if len(wanted) != n:
            raise ValueError(
                f"against has {counted(len(wanted), 'class', 'classes')}, and X has {counted(n, 'document')}: give one class, "
                "or one for each document"
            )
        if unknown := [label for label in wanted if label not in classes]:
            raise ValueError(f"{unknown[0]!r} is not among the model's classes: {some(estimator.classes_)}")
        wanted_positions = np.array([classes.index(label) for label in wanted])
        rivals = np.where(wanted_positions == order[:, 0], rivals, wanted_positions)
    return np.stack([order[:, 0], rivals], axis=1)


def _explained(
    estimator: Estimator,
    parts: DocumentParts,
    log_p: np.ndarray,
    pair: np.ndarray,
    names: Sequence[str],
    text: str | None,
    known: frozenset[str],
) -> Explanation:
    a, b = int(pair[0]), int(pair[1])
    log_odds = float(log_p[a] - log_p[b])
    words, marks, unknown = _spelled(estimator, text, parts, names, known)
    left = 0.0
    if parts.offset_name and np.isfinite(log_odds):  # naive Bayes has no other part: the rest is rounding
        left = log_odds - parts.prior - float(parts.parts.sum())
    return Explanation(
        label=estimator.classes_[a].item() if hasattr(estimator.classes_[a], "item") else estimator.classes_[a],
        against=estimator.classes_[b].item() if hasattr(estimator.classes_[b], "item") else estimator.classes_[b],
        probability=float(np.exp(log_p[a])),
        probability_against=float(np.exp(log_p[b])),
        log_odds=log_odds,
        prior=parts.prior,
        offset=left,
        offset_name=parts.offset_name,
        words=word_parts(words, parts),
        topics=parts.topics,
        text=text,
        generative=getattr(estimator, "loss", "nll") == "nll",
        marks=tuple(marks),
        temperature=float(getattr(estimator.learner_, "temperature", 1.0)),
        unknown=tuple(unknown),
    )


def _known(estimator: Estimator, texts: object) -> frozenset[str]:
    """Return the vocabulary of a model that is to explain texts."""
    return frozenset() if texts is None or estimator.vocabulary_ is None else frozenset(estimator.vocabulary_)


def _spelled(
    estimator: Estimator, text: str | None, parts: DocumentParts, names: Sequence[str], known: frozenset[str]
) -> tuple[list[str], list[tuple[int, int, float]], list[str]]:
    """Return the words of a text, by name where they are hashed, the stretches that they are, and words not known."""
    words = [str(names[w]) for w in parts.columns.tolist()]
    if text is None or estimator.vectorizer_ is None:
        return words, [], []
    settings = VectorizerSettings.from_json(estimator.vectorizer_)
    spelled_terms = list(terms(text, settings))
    if estimator.vocabulary_ is not None:
        values = dict(zip(words, parts.parts.tolist(), strict=True))
        single = settings.analyzer == "word" and settings.ngram_range[0] == 1
        places = [at[0] for term, at in spelled_terms if single and len(at) == 1 and term not in known]
        unknown = list(dict.fromkeys(text[start:stop] for start, stop in places))
        return words, [(*mark,) for mark in marked(spelled_terms, values)], unknown
    place = {column: i for i, column in enumerate(parts.columns.tolist())}
    met: dict[int, dict[str, int]] = {}
    for term, _ in spelled_terms:
        column = hashed(term, int(estimator.n_features_in_))
        if column in place:
            of_column = met.setdefault(column, {})
            of_column[term] = of_column.get(term, 0) + 1
    values = {}
    for column, times in met.items():
        total, part = sum(times.values()), float(parts.parts[place[column]])
        values |= {term: part * n / total for term, n in times.items()}
        words[place[column]] = " | ".join(times)
    return words, [(*mark,) for mark in marked(spelled_terms, values)], []


def hashed(term: str, n_features: int) -> int:
    """Return the column of a hashed term, as scikit-learn's ``FeatureHasher`` gives it."""
    hash_value = int(murmurhash3_32(term.encode("utf-8", "surrogatepass"), 0))
    # The one number without a positive counterpart, as FeatureHasher takes it.
    return (HASHED - 1 - (n_features - 1)) % n_features if hash_value == -HASHED else abs(hash_value) % n_features


def refused(estimator: Any) -> ModelError:
    """Return the error for models whose scores are not a sum over words."""
    return ModelError(
        f"{type(estimator).__name__} does not score documents by a sum over their words, and explain has nothing to show; "
        "MultinomialNB, LDAClassifier, SupervisedLDAClassifier, EM and sdEM mixtures, and naive Bayes of tables do"
    )
