"""Why documents got their class or number: sums over words or columns, by name and marked in texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.counted import counted
from sdem_dist.inputs.validation import are_texts, some, text_column
from sdem_dist.reports.explanation import Explanation, Explanations, NumberExplanation, WordPart
from sdem_dist.reports.parts import Parts, parts_of_classes, parts_of_numbers
from sdem_dist.text.vectorizer import VectorizerSettings, marked, terms

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


def explanations(
    estimator: Any, X: object, against: object = None, texts: Sequence[str] | None = None, of_labels: Any = None
) -> Explanations:
    """Return what `EngineClassifier.explain` does.

    `texts`: of the documents of a matrix, or of Documents. `of_labels`: where documents may have several, the position
    of the label to explain for each, shape (n_documents,); None: the most probable.
    """
    X, texts = _counted(estimator, X, texts)
    scores = np.asarray(estimator._class_scores(X))
    several, n, classes = estimator.several_labels, len(scores), estimator.classes_.tolist()
    if several:
        if against is not None:
            raise ValueError("of several labels each is against all documents without it: leave against out")
        best = scores.argmax(axis=1) if of_labels is None else of_labels
        pairs, odds = np.stack([best, best], axis=1), scores[np.arange(n), best]
        probabilities = expit(np.stack([odds, -odds], axis=1))
        temperatures = getattr(estimator, "temperatures_", np.ones(len(classes)))[best]
    else:
        log_p = log_softmax(scores, axis=1)
        pairs = np.argsort(-log_p, axis=1, kind="stable")[:, :2]
        if len(classes) < 2:
            raise ValueError("the model has one class only, and there is nothing to compare it with")
        if against is not None:
            wanted = [against] * n if np.ndim(against) == 0 else list(against)  # type: ignore[arg-type, call-overload]
            if len(wanted) != n:
                both = f"against has {counted(len(wanted), 'class', 'classes')}, and X has {counted(n, 'document')}"
                raise ValueError(f"{both}: give one class, or one for each document")
            if unknown := [label for label in wanted if label not in classes]:
                raise ValueError(f"{unknown[0]!r} is not among the model's classes: {some(estimator.classes_)}")
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
    """Return why each document or row got its number: what its words or known features add to the mean of training.

    The parts sum to the prediction less the mean. A feature's part is its distance from its mean, times its coefficient
    in the regression on the features that the row has. Words count through topics.

    X : texts, or {array-like, sparse matrix} of shape (n_samples, n_features) -- Texts get their words marked.
    target : int, default=0 -- Which of several targets, from 0.
    """
    X, texts = _counted(estimator, X, None)
    n_targets = len(np.atleast_2d(estimator.coef_))
    if not 0 <= target < n_targets:
        raise ValueError(f"target {target} is not among the model's {counted(n_targets, 'target')}, counted from 0")
    predictions, mean, parts = parts_of_numbers(estimator, X, target)
    rows = zip(predictions.tolist(), _in_words(estimator, texts, parts, predictions - mean), strict=True)
    return Explanations(NumberExplanation(prediction=number, mean=mean, **fields) for number, fields in rows)


def _counted(estimator: Any, X: Any, texts: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Return texts as counts, and beside them; other documents as they are."""
    check_is_fitted(estimator)
    column: Any = text_column(X) if estimator._layout == "sparse" else X
    if not are_texts(column):
        return X, texts
    texts = [str(text) for text in column]
    return estimator.vectorize(texts), texts


def _in_words(
    estimator: Estimator, texts: Sequence[str] | None, all_parts: Parts, totals: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Yield what explanations of all kinds have; `totals`: what prior, words and offset of each document sum to."""
    vocabulary, settings, single = estimator.vocabulary_, None, False
    names: Any = getattr(estimator, "feature_names_in_", None) if vocabulary is None else vocabulary
    names = [f"#{i}" for i in range(estimator.n_features_in_)] if names is None else names
    if texts is not None and estimator.vectorizer_ is not None:
        settings = VectorizerSettings.from_json(estimator.vectorizer_)
        single = settings.analyzer == "word" and settings.ngram_range[0] == 1
    in_vocabulary = frozenset(vocabulary or ())
    if settings is not None and vocabulary is None:
        from sklearn.feature_extraction import FeatureHasher  # slow: it imports scipy.stats

        hasher = FeatureHasher(len(names), input_type="string", alternate_sign=False)
    for i, (parts, total) in enumerate(zip(all_parts, totals.tolist(), strict=True)):
        words, sizes = [str(names[w]) for w in parts.columns.tolist()], parts.parts.tolist()
        left = total - parts.prior - float(parts.parts.sum())
        # A model whose sum is exact names no offset: what is left is rounding.
        fields: dict[str, Any] = {"offset": left if parts.offset_name and np.isfinite(left) else 0.0}
        if texts is not None:
            fields["text"] = text = texts[i]
        if texts is not None and settings is not None:
            spelled = list(terms(text, settings))
            if vocabulary is not None:
                values = dict(zip(words, sizes, strict=True))
                places = [at[0] for term, at in spelled if single and len(at) == 1 and term not in in_vocabulary]
                fields["unknown"] = tuple(dict.fromkeys(text[start:stop] for start, stop in places))
            else:  # columns are named by what the text has for them, and share their part out to these terms
                values, times, terms_of = {}, Counter(term for term, _ in spelled), dict[int, list[str]]()
                hashed = hasher.transform([[term.encode("utf-8", "surrogatepass")] for term in times] or [[]])
                for term, column in zip(times, hashed.indices.tolist(), strict=True):
                    terms_of.setdefault(column, []).append(term)
                for k, part in enumerate(sizes if spelled else ()):
                    own = terms_of[int(parts.columns[k])]
                    words[k] = " | ".join(own)
                    values |= {term: part * times[term] / sum(times[one] for one in own) for term in own}
            fields["marks"] = tuple((*mark,) for mark in marked(spelled, values))
        columns = np.broadcast_arrays(parts.weights, parts.parts, parts.log_p, parts.log_p_against)
        order = np.argsort(-np.abs(parts.parts), kind="stable")
        rows = zip(*(np.asarray(column, np.float64)[order].tolist() for column in columns), strict=True)
        fields["words"] = tuple(WordPart(words[k], *row) for k, row in zip(order.tolist(), rows, strict=True))
        yield fields | {"offset_name": parts.offset_name, "topics": parts.topics}
