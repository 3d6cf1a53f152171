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
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import Pipeline

    name = type(model).__name__
    if name == "MultinomialNB":
        steps = _steps_of_words(model)
        if not from_counts and model.vectorizer_ is not None and model.vectorizer_["kind"] != "matrix":
            steps.insert(0, ("text", vectorizer_of(VectorizerSettings.from_json(model.vectorizer_), model.vocabulary_)))
        return Pipeline(steps)
    if name == "GaussianRegressor":
        coefficients = {"coef_": model.coef_, "intercept_": model.intercept_, "n_features_in_": model.n_features_in_}
        return Pipeline([("target", _with(LinearRegression(), **coefficients))])
    if name in EXPRESSIBLE:
        return Pipeline([("classes", _naive_bayes_of_table(name, model))])
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

    linear = linear_classifier(model)
    n_features = linear.coef.shape[1]
    steps: list[tuple[str, Any]] = []
    if linear.form == "log":
        steps.append(("logarithms", FunctionTransformer(np.log1p, accept_sparse=True).fit(np.zeros((1, 1)))))
    elif linear.form == "binary":
        steps.append(("ones", _with(Binarizer(), n_features_in_=n_features)))
    if linear.form == "tfidf" or linear.factors is not None or linear.unit:
        norm, use_idf = "l2" if linear.unit else None, linear.factors is not None
        weigh = TfidfTransformer(norm=norm, sublinear_tf=linear.form == "tfidf", use_idf=use_idf)
        idf = {"idf_": linear.factors} if use_idf else {}
        steps.append(("weights", _with(weigh, n_features_in_=n_features, **idf)))
    # Of two classes scikit-learn has one row: that of the second against the first.
    coef, intercept = linear.coef, linear.intercept
    if len(linear.classes) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    fitted = {"classes_": linear.classes, "n_features_in_": n_features, "n_iter_": np.array([model.n_iter_], np.int32)}
    return [*steps, ("classes", _with(LogisticRegression(), coef_=coef, intercept_=intercept, **fitted))]


def _with(peer: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(peer, name, value)
    return peer


def _naive_bayes_of_table(name: str, model: Any) -> Any:
    from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB

    shared = {k: getattr(model, k) for k in ("classes_", "class_count_", "class_log_prior_", "n_features_in_")}
    if name == "GaussianNB":
        prior = np.exp(model.class_log_prior_)
        return _with(GaussianNB(), **shared, class_prior_=prior, theta_=model.theta_, var_=model.var_, epsilon_=0.0)
    variables = model.learner_.model.variables
    blocks = list(zip(variables.blocks, variables.split(model._parameters.theta), strict=True))
    if name == "BernoulliNB":
        ((_, theta), *_) = blocks  # theta: shape (n_classes, n_columns, n_statistics)
        return _with(BernoulliNB(binarize=model.binarize), **shared, feature_log_prob_=log_expit(theta[..., 0]))
    tables: dict[int, np.ndarray] = {}
    for block, theta in blocks:
        of_all = np.concatenate([np.zeros_like(theta[..., :1]), theta], axis=-1)  # that of category 0 is 0
        tables |= dict(zip(block.columns, np.moveaxis(log_softmax(of_all, axis=-1), 1, 0), strict=True))
    log_p = [tables[column] for column in range(model.n_features_in_)]
    n_categories = np.array([p.shape[1] for p in log_p])
    return _with(CategoricalNB(), **shared, feature_log_prob_=log_p, n_categories_=n_categories)
