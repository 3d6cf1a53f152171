"""Why documents got their class or number: answers of each kind of model as sums over words, then in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.utils.validation import check_is_fitted

from sdem_dist.counted import counted
from sdem_dist.documents import Documents
from sdem_dist.errors import ModelError
from sdem_dist.inputs.validation import are_texts, some, text_column
from sdem_dist.models.heads import by_class
from sdem_dist.models.lda import LdaParameters, log_word_probabilities
from sdem_dist.models.many_classes import ManyClassParameters
from sdem_dist.models.naive_bayes import NaturalParameters
from sdem_dist.models.topic_heads import TopicParameters
from sdem_dist.reports.explanation import Explanation, Explanations, NumberExplanation, TopicPart, WordPart
from sdem_dist.text.vectorizer import VectorizerSettings, marked, terms

if TYPE_CHECKING:
    from sdem_dist.inputs.spec import Estimator


class DocumentParts(NamedTuple):
    """Log-odds of one document, class against class, in parts by column, before columns have names."""

    columns: np.ndarray  # words of the document; this and the other arrays have shape (n_words,)
    weights: np.ndarray
    parts: np.ndarray  # of the log-odds
    prior: float
    log_p: np.ndarray | float = np.nan  # NaN where the model has no p(word | class)
    log_p_against: np.ndarray | float = np.nan
    topics: tuple[TopicPart, ...] = ()
    offset_name: str = ""


Parts = Iterable[DocumentParts]


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
    parts, explained = list(estimator._document_parts(X, pairs)), Explanations()
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
    predictions, mean, parts = estimator._number_parts(X, target)
    rows = zip(predictions.tolist(), _in_words(estimator, texts, parts, predictions - mean), strict=True)
    return Explanations(NumberExplanation(prediction=number, mean=mean, **fields) for number, fields in rows)


def refused(estimator: Any) -> ModelError:
    return ModelError(
        f"{type(estimator).__name__} does not score documents by a sum over their words, and explain has nothing to show; "
        "MultinomialNB, LDAClassifier, SupervisedLDAClassifier, EM and sdEM mixtures, and naive Bayes of tables do"
    )


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


Row = tuple[np.ndarray, np.ndarray, np.ndarray | float, np.ndarray]
"""The columns of a document, their values, how often each ln p(column | class) counts, and these, a row a column."""


def _entries(documents: Documents) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start, stop in pairwise(documents.indptr.tolist()):
        yield documents.indices[start:stop].astype(np.int64), documents.data[start:stop].astype(np.float64)


def word_rows(parameters: NaturalParameters, documents: Documents) -> Iterator[Row]:
    """Yield documents as the model weighs them, with ln p(word | class or component)."""
    for words, x in _entries(documents):
        yield words, x, x, parameters.log_words[words] - parameters.log_totals


def table_rows(densities: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> Iterator[Row]:
    """Yield rows of a table, NaN where a value is missing; `densities`: from a row to ln p(value | class) by column."""
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        yield present, row[present], 1.0, densities(row)[present]


def _exact(row: Row, log_prior: np.ndarray, temperature: float = 1.0, **more: Any) -> DocumentParts:
    """Return the parts of naive Bayes of two classes: ``x_w ln(p(w | a) / p(w | b)) / temperature``.

    The length of a document has no part of its own: p(w | class) sum to 1 over the vocabulary.
    """
    columns, values, times, log_p = row
    (p, q), prior = log_p.T, float(log_prior[0] - log_prior[1]) / temperature
    return DocumentParts(columns, values, times * (p - q) / temperature, prior, p, q, **more)


def of_classes(
    rows: Iterable[Row], pairs: np.ndarray, log_prior: np.ndarray, component_class: tuple[int, ...], temperature: float
) -> Parts:
    """Return the parts of naive Bayes, or of classes that are mixtures, if components have classes.

    With q = p(component | class, document), ``ln sum_j exp(s_j) = sum_j q_j s_j + entropy of q``: words and prior are
    means over components by q, and the entropies are the rest.

    `pairs`: shape (n_documents, 2): the class explained, and the other one.
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
        yield _exact((columns, values, times, means), priors, temperature, offset_name="mixing of the components")


def of_many_classes(theta: ManyClassParameters, documents: Documents, pairs: np.ndarray, temperature: float) -> Parts:
    """Return the parts of naive Bayes of many classes: only those of a pair are read."""
    for (words, x), pair in zip(_entries(documents), pairs, strict=True):
        log_p = np.stack([theta.log_words(words, k) for k in pair], axis=1)
        yield _exact((words, x, x, log_p), theta.log_prior[pair], temperature)


def of_labels(rows: Iterable[Row], labels: np.ndarray, log_prior: np.ndarray, temperatures: np.ndarray) -> Parts:
    """Return the exact parts of each document's log-odds of one label, of shape (n_documents,), against its rest."""
    for (columns, values, times, log_p), k in zip(rows, labels.tolist(), strict=True):
        prior, temperature = float(log_prior[k] / temperatures[k]), temperatures[k]
        yield DocumentParts(columns, values, times * log_p[:, k] / temperature, prior)


def of_lda(
    parameters: LdaParameters, documents: Documents, pairs: np.ndarray, proportions: np.ndarray, titles: Sequence[str]
) -> Parts:
    """Return the parts of classes that are LDA models: a word's p is that of the document's topics under the class.

    `proportions`: shape (n_documents, n_topics, n_classes). `titles`: of the topics, class by class.
    """
    for (words, x), pair, shares in zip(_entries(documents), pairs, proportions, strict=True):
        topics = np.exp(log_word_probabilities(parameters._replace(words=parameters.words[words])))
        log_p = np.log(np.stack([shares[:, k] @ topics[k] for k in pair], axis=1))
        of_class = shares[:, pair[0]]
        order = np.argsort(-of_class, kind="stable").tolist()
        of_document = tuple(
            TopicPart(titles[pair[0] * parameters.n_topics + z], float(of_class[z]), None) for z in order
        )
        more: dict[str, Any] = {"topics": of_document, "offset_name": "topics of the document"}
        yield _exact((words, x, x, log_p), parameters.log_prior[pair], **more)


def of_supervised_topics(
    parameters: TopicParameters, documents: Documents, outputs: np.ndarray, shares: np.ndarray, titles: Sequence[str]
) -> Parts:
    """Return the parts of a sum over topic proportions: those of topics are exact, and words share them.

    A word has its share of each topic by p(topic | word, document). The prior of the proportions, and steps that have
    not converged, leave a rest that belongs to no word.

    `outputs`, `shares`: shape (n_documents, n_topics): what a topic adds if it is all of the document (of two classes
    the difference), and how much of it the document has.
    """
    for (words, x), output, theta in zip(_entries(documents), outputs, shares, strict=True):
        mixed = parameters.topics[words] * theta
        of_topics = mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1e-300)
        parts = x / max(x.sum(), 1e-300) * (of_topics @ output)
        order = np.argsort(-np.abs(output * theta), kind="stable").tolist()
        topics = tuple(TopicPart(titles[k], float(theta[k]), float(output[k] * theta[k])) for k in order)
        yield DocumentParts(words, x, parts, 0.0, topics=topics, offset_name="prior of the topics")


def of_regression(mean: np.ndarray, covariance: np.ndarray, values: np.ndarray) -> Parts:
    """Return the parts of a joint Gaussian's conditional mean: ``b_j (x_j - mean_j)``, b of the known features.

    `mean`, `covariance`: of the features and, last, the target. `values`: NaN where one is missing.
    """
    slopes = dict[bytes, np.ndarray]()
    for row in values:
        present = np.flatnonzero(~np.isnan(row))
        x, key = row[present], present.tobytes()
        if key not in slopes:
            slopes[key] = np.linalg.solve(covariance[np.ix_(present, present)], covariance[present, -1])
        yield DocumentParts(present, x, slopes[key] * (x - mean[present]), 0.0)
