"""Naive Bayes of words as what it is to a document: a linear classifier of its weighted counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.errors import ModelError
from sdem_dist.models.weighting import Weighting


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
