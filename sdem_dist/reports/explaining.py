"""Explanations of predicted classes and numbers: sums over named words or columns, marked in texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.counted import counted
from sdem_dist.inputs.validation import are_texts, some, text_column
from sdem_dist.reports.explanation import Explanation, Explanations, NumberExplanation, WordPart
from sdem_dist.reports.occurrences import Occurrence, marked, parts_of_words, terms
from sdem_dist.reports.parts import Parts, parts_of_classes, parts_of_numbers
from sdem_dist.text.vectorizer import MARK, VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def explanations(
    estimator: Any, X: object, against: object = None, texts: Sequence[str] | None = None, of_labels: Any = None
) -> Explanations:
    """Return the result of `EngineClassifier.explain`.

    `texts`: texts of the documents, if X has only counts. `of_labels`: for several labels per document, the position of
    the label to explain, shape (n_documents,); None: the most probable label.
    """
    X, texts = _counted(estimator, X, texts)
    scores = np.asarray(estimator._class_scores(X))
    several, n, classes = estimator.several_labels, len(scores), estimator.classes_.tolist()
    if several:
        if against is not None:
            raise ValueError("with several labels, each label is compared with its absence: omit against")
        best = scores.argmax(axis=1) if of_labels is None else of_labels
        pairs, odds = np.stack([best, best], axis=1), scores[np.arange(n), best]
        probabilities = expit(np.stack([odds, -odds], axis=1))
        temperatures = getattr(estimator, "temperatures_", np.ones(len(classes)))[best]
    else:
        log_p = log_softmax(scores, axis=1)
        pairs = np.argsort(-log_p, axis=1, kind="stable")[:, :2]
        if len(classes) < 2:
            raise ValueError("the model has only one class, so there is nothing to explain")
        if against is not None:
            wanted = [against] * n if np.ndim(against) == 0 else list(against)  # type: ignore[arg-type, call-overload]
            if len(wanted) != n:
                both = f"against has {counted(len(wanted), 'class', 'classes')}, but X has {counted(n, 'document')}"
                raise ValueError(f"{both}: pass one class, or one per document")
            if unknown := [label for label in wanted if label not in classes]:
                raise ValueError(f"{unknown[0]!r} is not a class of the model, which has {some(estimator.classes_)}")
            rivals = np.array([classes.index(label) for label in wanted])
            pairs[:, 1] = np.where(rivals == pairs[:, 0], pairs[:, 1], rivals)
        log_p = np.take_along_axis(log_p, pairs, axis=1)
        odds, probabilities = log_p[:, 0] - log_p[:, 1], np.exp(log_p)
        temperatures = np.full(n, float(getattr(estimator.learner_, "temperature", 1.0)))
    parts, explained = list(parts_of_classes(estimator, X, pairs)), Explanations()
    names = ("probability", "probability_against", "log_odds", "temperature")
    rows = zip(pairs.tolist(), np.column_stack([probabilities, odds, temperatures]).tolist(), parts, strict=True)
    for ((a, b), row, of_document), fields in zip(rows, _in_words(estimator, texts, parts, odds), strict=True):
        fields |= dict(zip(names, row, strict=True)) | {"prior": of_document.prior}
        rival = f"not {classes[a]}" if several else classes[b]
        explained.append(Explanation(label=classes[a], against=rival, **fields))
    return explained


def number_explanations(estimator: Any, X: object, target: int = 0) -> Explanations:
    """Explain predicted numbers: the training mean plus contributions of words or known features.

    Contributions add up to the prediction minus the mean. The contribution of a feature is its deviation from its mean,
    times its coefficient in a regression on the known features of the row. Words contribute through the topics.

    X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features) -- Words of texts are highlighted.
    target : int, default=0 -- Index of the target to explain, from 0.
    """
    X, texts = _counted(estimator, X, None)
    n_targets = len(np.atleast_2d(estimator.coef_))
    if not 0 <= target < n_targets:
        raise ValueError(f"there is no target {target}: the model has {counted(n_targets, 'target')}, numbered from 0")
    predictions, mean, parts = parts_of_numbers(estimator, X, target)
    rows = zip(predictions.tolist(), _in_words(estimator, texts, parts, predictions - mean), strict=True)
    return Explanations(NumberExplanation(prediction=number, mean=mean, **fields) for number, fields in rows)


def _counted(estimator: Any, X: Any, texts: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Return X and the texts; texts in X are replaced by counts."""
    check_is_fitted(estimator)
    column: Any = text_column(X) if estimator._layout == "sparse" else X
    if not are_texts(column):
        return X, texts
    texts = [str(text) for text in column]
    return estimator.vectorize(texts), texts


def _in_words(
    estimator: Estimator, texts: Sequence[str] | None, all_parts: Parts, totals: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Yield the fields of `Explained` for each document; `totals`: sums of prior, words and offset."""
    vocabulary, settings, single = estimator.vocabulary_, None, False
    names: Any = getattr(estimator, "feature_names_in_", None) if vocabulary is None else vocabulary
    names = [f"#{i}" for i in range(estimator.n_features_in_)] if names is None else names
    if texts is not None and estimator.vectorizer_ is not None and estimator.vectorizer_["kind"] != "matrix":
        settings = VectorizerSettings.from_json(estimator.vectorizer_)
        single = settings.analyzer == "word" and settings.ngram_range[0] == 1
    in_vocabulary, kind = frozenset(vocabulary or ()), "column" if estimator._layout == "dense" else "word"
    labels = {(i, k): f"={v}" for i, of_i in getattr(estimator, "categories_", {}).items() for k, v in enumerate(of_i)}
    hashed = None if settings is None or vocabulary is not None else _hashing(settings)
    for i, (parts, total) in enumerate(zip(all_parts, totals.tolist(), strict=True)):
        sizes, cells = parts.parts.tolist(), [*zip(parts.columns.tolist(), parts.weights.tolist(), strict=True)]
        words = [f"{names[cell[0]]}{labels.get(cell, '')}" for cell in cells]  # an array may contain 0.5 for a boolean
        weights = np.where([cell in labels for cell in cells], 1.0, parts.weights)
        left = total - parts.prior - float(parts.parts.sum())
        # Models with exact sums have no offset: the remainder is rounding.
        fields: dict[str, Any] = {"offset": left if parts.offset_name and np.isfinite(left) else 0.0}
        values, of_words, found = dict[str, float](), dict[str, float](), set[str]()
        if texts is not None:
            fields["text"] = text = texts[i]
        if texts is not None and settings is not None:
            spelled = list(terms(text, settings))
            if hashed is None:
                values = dict(zip(words, sizes, strict=True))
            elif spelled:
                words, values = hashed(spelled, parts.columns.tolist(), sizes)
            fields["marks"] = tuple((*mark,) for mark in marked(spelled, values))
            if settings.features != "words":
                of_words, found = parts_of_words(text, settings, values), {term for term, _ in spelled}
                found.update(words if hashed is not None else ())
            if hashed is None and single:
                of_one_word = ((term, at[0]) for term, at in spelled if len(at) == 1 and not term.startswith(MARK))
                unknown = (at for term, at in of_one_word if term not in in_vocabulary and term not in of_words)
                fields["unknown"] = tuple(dict.fromkeys(text[start:stop] for start, stop in unknown))
        columns = np.broadcast_arrays(weights, parts.parts, parts.log_p, parts.log_p_against)
        rows = zip(words, *(np.asarray(column, np.float64).tolist() for column in columns), strict=True)
        # the parts of n-grams of characters are added to the words that contain them
        own = [WordPart(*row) for row in rows if not (row[0].startswith(MARK) and row[0] in found)]
        own = [word._replace(part=word.part + of_words.pop(word.word, 0.0)) for word in own]
        own += [WordPart(word, 0.0, part) for word, part in of_words.items()]
        order = np.argsort([-abs(word.part) for word in own], kind="stable").tolist()
        fields["words"] = tuple(own[k] for k in order)
        yield fields | {"offset_name": parts.offset_name, "topics": parts.topics, "kind": kind}


def _hashing(settings: VectorizerSettings) -> Callable[..., tuple[list[str], dict[str, float]]]:
    """Return a function that names hashed columns by the terms of a text, and divides their values among the terms."""
    from sklearn.feature_extraction import FeatureHasher  # slow to import

    def hasher(part: VectorizerSettings) -> Any:
        return FeatureHasher(part.n_features or 1, input_type="string", alternate_sign=False)

    kinds = [(hasher(part), first) for part, first in zip(settings.parts, (0, settings.boundary(None)), strict=False)]

    def named(
        spelled: Sequence[Occurrence], columns: Sequence[int], sizes: Sequence[float]
    ) -> tuple[list[str], dict[str, float]]:
        times, terms_of, values = Counter(term for term, _ in spelled), dict[int, list[str]](), dict[str, float]()
        for kind, (of_kind, first) in enumerate(kinds):
            own = [term for term in times if len(kinds) == 1 or term.startswith(MARK) == bool(kind)]
            bare = [[term[len(MARK) * kind :].encode("utf-8", "surrogatepass")] for term in own] or [[]]
            for term, column in zip(own, of_kind.transform(bare).indices.tolist(), strict=True):
                terms_of.setdefault(first + column, []).append(term)
        for column, size in zip(columns, sizes, strict=True):
            own = terms_of.get(column, [])  # empty if a lower case depends on neighbours
            values |= {term: size * times[term] / sum(times[one] for one in own) for term in own}
        return [" | ".join(terms_of.get(column, [f"#{column}"])) for column in columns], values

    return named
