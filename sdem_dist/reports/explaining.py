"""Explanations of fitted classifiers and regressors: which words of a document spoke for its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.counted import counted
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import ModelError
from sdem_dist.inputs import validation as checks
from sdem_dist.inputs.validation import are_texts, some, text_column
from sdem_dist.reports.explanation import DocumentParts, Explanation, Explanations, NumberExplanation, WordPart
from sdem_dist.text.vectorizer import VectorizerSettings, marked, terms

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def explanations(
    estimator: Any,
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
    scores = np.asarray(estimator._class_scores(documents))
    several, n, classes = estimator.several_labels, np.arange(len(scores)), estimator.classes_.tolist()
    if several:
        if against is not None:
            raise ValueError("of several labels each is against all documents without it: leave against at None")
        best = scores.argmax(axis=1) if of_labels is None else of_labels
        pairs, odds = np.stack([best, best], axis=1), scores[n, best]
        probabilities = expit(np.stack([odds, -odds], axis=1))
        temperatures = getattr(estimator, "temperatures_", np.ones(len(classes)))[best]
    else:
        log_p = log_softmax(scores, axis=1)
        pairs = _pairs(estimator, log_p, against)
        log_p = np.take_along_axis(log_p, pairs, axis=1)
        odds, probabilities = log_p[:, 0] - log_p[:, 1], np.exp(log_p)
        temperatures = np.full(len(scores), float(getattr(estimator.learner_, "temperature", 1.0)))
    terms_of, all_parts = Terms(estimator, texts), estimator._document_parts(documents, pairs)
    return Explanations(
        Explanation(
            label=classes[a],
            against=f"not {classes[a]}" if several else classes[b],
            probability=float(probabilities[i, 0]),
            probability_against=float(probabilities[i, 1]),
            log_odds=float(odds[i]),
            prior=parts.prior,
            temperature=float(temperatures[i]),
            **terms_of.fields(i, parts, float(odds[i]) - parts.prior),
        )
        for i, ((a, b), parts) in enumerate(zip(pairs.tolist(), all_parts, strict=True))
    )


def number_explanations(estimator: Any, X: object, target: int = 0) -> Explanations:
    """Return why each document got its number; see ``explain`` of the regressors."""
    documents, texts = _documents(estimator, X, None)
    n_targets = len(np.atleast_2d(estimator.coef_))
    if not 0 <= target < n_targets:
        raise ValueError(f"target {target} is not among the model's {counted(n_targets, 'target')}, counted from 0")
    if documents.n_documents == 0:
        return Explanations()
    (predictions, mean, parts), terms_of = estimator._number_parts(documents, target), Terms(estimator, texts)
    return Explanations(
        NumberExplanation(prediction=y, mean=mean, **terms_of.fields(i, p, y - mean))
        for i, (y, p) in enumerate(zip(predictions.tolist(), parts, strict=True))
    )


def _documents(
    estimator: Estimator, X: object, texts: Sequence[str] | None
) -> tuple[Documents | DenseDocuments, Sequence[str] | None]:
    """Return documents with the values that the estimator was trained on, before they are weighed, and their texts."""
    check_is_fitted(estimator)
    X = text_column(X) if estimator._layout == "sparse" else X
    if are_texts(X):
        texts = [str(text) for text in cast("Iterable[str]", X)]
        X = estimator.vectorize(texts)
    if isinstance(X, Documents | DenseDocuments):
        return X, texts
    checks.refuse_no_documents(X)
    rows = checks.validated(estimator, X, reset=False)[0]
    return DenseDocuments(rows) if estimator._layout == "dense" else checks.as_documents(rows), texts


def _pairs(estimator: Estimator, log_p: np.ndarray, against: object) -> np.ndarray:
    """Return the positions of each document's prediction, and of the class that it is compared with."""
    n, classes = len(log_p), estimator.classes_.tolist()
    order = np.argsort(-log_p, axis=1, kind="stable")
    if len(classes) < 2:
        raise ValueError("the model has one class only, and there is nothing to compare it with")
    if against is None:
        return order[:, :2]
    wanted = [against] * n if np.ndim(against) == 0 else list(against)  # type: ignore[arg-type, call-overload]
    if len(wanted) != n:
        raise ValueError(
            f"against has {counted(len(wanted), 'class', 'classes')}, and X has {counted(n, 'document')}: give one class, "
            "or one for each document"
        )
    if unknown := [label for label in wanted if label not in classes]:
        raise ValueError(f"{unknown[0]!r} is not among the model's classes: {some(estimator.classes_)}")
    rivals = np.array([classes.index(label) for label in wanted])
    return np.stack([order[:, 0], np.where(rivals == order[:, 0], order[:, 1], rivals)], axis=1)


class Terms:
    """The names of columns, and where they stand in texts, as a model knows both."""

    def __init__(self, estimator: Estimator, texts: Sequence[str] | None) -> None:
        names, self.texts = estimator.vocabulary_, texts
        self.vocabulary = None if names is None else frozenset(names)
        names = getattr(estimator, "feature_names_in_", None) if names is None else names
        self.names: Sequence[Any] = [f"#{i}" for i in range(estimator.n_features_in_)] if names is None else names
        settings = estimator.vectorizer_
        self.settings = None if texts is None or settings is None else VectorizerSettings.from_json(settings)

    def fields(self, i: int, parts: DocumentParts, total: float) -> dict[str, Any]:
        """Return what all explanations have, for document `i`; `total` is what words and offset sum to."""
        left = total - float(parts.parts.sum())
        # A model whose sum is exact names no offset: what is left is rounding.
        fields: dict[str, Any] = {"offset": left if parts.offset_name and np.isfinite(left) else 0.0}
        words, n = [str(self.names[w]) for w in parts.columns.tolist()], len(parts.columns)
        if self.texts is not None:
            fields["text"] = text = self.texts[i]
            if self.settings is not None:
                spelled = list(terms(text, self.settings))
                values = dict(zip(words, parts.parts.tolist(), strict=True))
                if self.vocabulary is None:
                    words, values = self._hashed(spelled, parts)
                else:
                    single = self.settings.analyzer == "word" and self.settings.ngram_range[0] == 1
                    places = [at[0] for term, at in spelled if single and len(at) == 1 and term not in self.vocabulary]
                    fields["unknown"] = tuple(dict.fromkeys(text[start:stop] for start, stop in places))
                fields["marks"] = tuple((*mark,) for mark in marked(spelled, values))
        columns = [parts.weights, parts.parts]
        columns += [np.full(n, np.nan) if p is None else p for p in (parts.log_p, parts.log_p_against)]
        order = np.argsort(-np.abs(parts.parts), kind="stable")
        rows = zip(*(np.asarray(column, np.float64)[order].tolist() for column in columns), strict=True)
        fields["words"] = tuple(WordPart(words[k], *row) for k, row in zip(order.tolist(), rows, strict=True))
        return fields | {"offset_name": parts.offset_name, "topics": parts.topics}

    def _hashed(self, spelled: list[Any], parts: DocumentParts) -> tuple[list[str], dict[str, float]]:
        """Return hashed columns by what the text has for them, and the share of each term in its column's part."""
        from sklearn.feature_extraction import FeatureHasher  # slow: it imports scipy.stats

        if not spelled:
            return [str(self.names[w]) for w in parts.columns.tolist()], {}
        times = Counter(term for term, _ in spelled)
        hasher = FeatureHasher(len(self.names), input_type="string", alternate_sign=False)
        columns = hasher.transform([[term.encode("utf-8", "surrogatepass")] for term in times]).indices.tolist()
        of_column: dict[int, list[str]] = {}
        for term, column in zip(times, columns, strict=True):
            of_column.setdefault(column, []).append(term)
        words, shares = list[str](), dict[str, float]()
        for column, part in zip(parts.columns.tolist(), parts.parts.tolist(), strict=True):
            own = of_column[column]
            words.append(" | ".join(own))
            shares |= {term: part * times[term] / sum(times[one] for one in own) for term in own}
        return words, shares


def refused(estimator: Any) -> ModelError:
    return ModelError(
        f"{type(estimator).__name__} does not score documents by a sum over their words, and explain has nothing to show; "
        "MultinomialNB, LDAClassifier, SupervisedLDAClassifier, EM and sdEM mixtures, and naive Bayes of tables do"
    )
