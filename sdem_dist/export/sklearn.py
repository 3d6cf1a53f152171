"""Models as plain fitted scikit-learn pipelines, and naive Bayes of words as a linear classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit, log_softmax

from sdem_dist.errors import ModelError
from sdem_dist.models.weighting import Weighting
from sdem_dist.text.vectorizer import KERNEL_PATTERN, VectorizerSettings

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class LinearClassifier:
    """p(class | d) is the softmax of ``coef @ weights(d) + intercept``."""

    form: str  # what becomes of a count x: "counts" x, "log" ln(1 + x), "binary" 1, "tfidf" 1 + ln x
    factors: np.ndarray | None  # shape (n_features,), float64: multiply the columns; None: all are 1
    unit: bool  # documents get the Euclidean length 1 then
    coef: np.ndarray
    """Shape (n_classes, n_features), float64: the mean over classes is 0 in every column: probabilities do not change,
    and numbers stay small."""
    intercept: np.ndarray  # shape (n_classes,), float64: likewise
    classes: np.ndarray  # shape (n_classes,)


def linear_classifier(model: Any) -> LinearClassifier:
    """Return a fitted `MultinomialNB` as a linear classifier; its temperature goes into the coefficients.

    Raises ModelError: a class without documents has no logarithm of its probability.
    """
    weighting, factors = model.weighting_ or Weighting(), None
    if weighting.form == "tfidf" or weighting.chooses:
        assert model.document_frequency_ is not None
        factors = weighting.factors(model.document_frequency_, model.vocabulary_).astype(np.float64)
    scale = (weighting.norm or weighting.scale) / model.temperature_
    coef, intercept = model.feature_log_prob_ * scale, model.class_log_prior_ / model.temperature_
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ModelError("a class of this model had no training document: it has no finite coefficients to export")
    return LinearClassifier(
        weighting.form,
        factors,
        weighting.norm > 0,
        coef - coef.mean(axis=0),
        intercept - intercept.mean(),
        model.classes_,
    )


EXPRESSIBLE = ("MultinomialNB", "GaussianNB", "BernoulliNB", "CategoricalNB", "GaussianRegressor")
"""Estimators that are exported."""
_OF_TEXT = ("lowercase", "token_pattern", "analyzer", "ngram_range", "strip_accents")


def to_sklearn(model: Any, *, from_counts: bool = False) -> Pipeline:
    """Return a fitted model as a pipeline of scikit-learn's own objects, with equal predictions.

    There is one exception: scikit-learn's pipelines refuse tables with missing values (NaN), which the models of tables
    take.

    `model`: fitted estimator: one of `EXPRESSIBLE`.
    `from_counts`: leave out the step from text to counts.
    Raises ModelError: the model is another, or scikit-learn has no step for its way from text to counts.
    """
    from sklearn.pipeline import Pipeline

    name = type(model).__name__
    if name == "MultinomialNB":
        steps = _steps_of_words(model)
        if not from_counts and model.vectorizer_ is not None and model.vectorizer_["kind"] != "matrix":
            steps.insert(0, ("text", vectorizer_of(VectorizerSettings.from_json(model.vectorizer_), model.vocabulary_)))
        return Pipeline(steps)
    tables = {"GaussianNB": _gaussian, "BernoulliNB": _bernoulli, "CategoricalNB": _categorical}
    if name in tables:
        return Pipeline([("classes", tables[name](model))])
    if name == "GaussianRegressor":
        return Pipeline([("target", _linear_regression(model))])
    raise ModelError(
        f"a {name} cannot be exported to scikit-learn yet; {', '.join(EXPRESSIBLE)} can. save(path) keeps a {name} for "
        "places where this package is installed"
    )


def vectorizer_of(settings: VectorizerSettings, vocabulary: list[str] | None) -> Any:
    """Return the scikit-learn vectorizer of settings of text.

    Raises ModelError: words are stemmed, or split by a pattern of the library regex.
    """
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    if settings.stem is not None:
        raise ModelError(
            f"the model stems words ({settings.stem}), and scikit-learn has no step for that: export it from counts "
            "(from_counts=True, or --from-counts)"
        )
    if not KERNEL_PATTERN.fullmatch(settings.token_pattern):
        raise ModelError(
            f"the model's token_pattern {settings.token_pattern!r} is one of the library regex, and scikit-learn splits by "
            "Python's: export it from counts (from_counts=True, or --from-counts)"
        )
    options: dict[str, Any] = {name: getattr(settings, name) for name in _OF_TEXT}
    stopped = settings.stop_words
    options["stop_words"] = list(stopped) if isinstance(stopped, tuple) else stopped
    if settings.kind == "hashing":
        return HashingVectorizer(n_features=settings.n_features, alternate_sign=False, norm=None, **options)
    assert vocabulary is not None
    vectorizer = CountVectorizer(vocabulary={word: column for column, word in enumerate(vocabulary)}, **options)
    vectorizer.vocabulary_, vectorizer.fixed_vocabulary_ = vectorizer.vocabulary, True
    return vectorizer


def _steps_of_words(model: Any) -> list[tuple[str, Any]]:
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import Binarizer, FunctionTransformer

    found = linear_classifier(model)
    steps: list[tuple[str, Any]] = []
    if found.form == "log":
        steps.append(("logarithms", FunctionTransformer(np.log1p, accept_sparse=True).fit(np.zeros((1, 1)))))
    elif found.form == "binary":
        steps.append(("ones", Binarizer()))
        steps[-1][1].n_features_in_ = found.coef.shape[1]
    if found.form == "tfidf" or found.factors is not None or found.unit:
        weigh = TfidfTransformer(
            norm="l2" if found.unit else None,
            sublinear_tf=found.form == "tfidf",
            use_idf=found.factors is not None,
            smooth_idf=True,
        )
        if found.factors is not None:
            weigh.idf_ = found.factors
        weigh.n_features_in_ = found.coef.shape[1]
        steps.append(("weights", weigh))
    linear = LogisticRegression()
    linear.classes_ = found.classes
    two = len(found.classes) == 2
    linear.coef_ = found.coef[1:] - found.coef[:1] if two else found.coef
    linear.intercept_ = found.intercept[1:] - found.intercept[:1] if two else found.intercept
    linear.n_features_in_, linear.n_iter_ = found.coef.shape[1], np.array([model.n_iter_], np.int32)
    return [*steps, ("classes", linear)]


def _gaussian(model: Any) -> Any:
    from sklearn.naive_bayes import GaussianNB

    peer = GaussianNB()
    peer.classes_, peer.class_count_ = model.classes_, model.class_count_
    peer.class_prior_ = np.exp(model.class_log_prior_)
    peer.theta_, peer.var_, peer.epsilon_ = model.theta_, model.var_, 0.0
    peer.n_features_in_ = model.n_features_in_
    return peer


def _bernoulli(model: Any) -> Any:
    from sklearn.naive_bayes import BernoulliNB

    peer = _counting(BernoulliNB(binarize=model.binarize), model)
    (_, theta), *_ = _blocks_of(model)
    peer.feature_log_prob_ = log_expit(theta[..., 0])
    return peer


def _categorical(model: Any) -> Any:
    from sklearn.naive_bayes import CategoricalNB

    peer = _counting(CategoricalNB(), model)
    tables: dict[int, np.ndarray] = {}
    for columns, theta in _blocks_of(model):
        of_all = np.concatenate([np.zeros_like(theta[..., :1]), theta], axis=-1)  # that of category 0 is 0
        tables |= dict(zip(columns, np.moveaxis(log_softmax(of_all, axis=-1), 1, 0), strict=True))
    peer.feature_log_prob_ = [tables[column] for column in range(model.n_features_in_)]
    peer.n_categories_ = np.array([p.shape[1] for p in peer.feature_log_prob_])
    return peer


def _blocks_of(model: Any) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Return columns of one kind and their theta, shape (n_classes, n_columns, n_statistics)."""
    variables = model.learner_.model.variables
    thetas = variables.split(model._parameters.theta)
    return [(block.columns, theta) for block, theta in zip(variables.blocks, thetas, strict=True)]


def _counting(made: Any, model: Any) -> Any:
    """Return a naive Bayes of scikit-learn with what the kinds of it that count have in common."""
    made.classes_, made.class_count_ = model.classes_, model.class_count_
    made.class_log_prior_, made.n_features_in_ = model.class_log_prior_, model.n_features_in_
    return made


def _linear_regression(model: Any) -> Any:
    from sklearn.linear_model import LinearRegression

    peer = LinearRegression()
    peer.coef_, peer.intercept_ = model.coef_, model.intercept_
    peer.n_features_in_ = model.n_features_in_
    return peer
