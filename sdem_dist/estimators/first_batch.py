"""What batch after batch is trained with: parameters that the first call of `partial_fit` settles."""

from collections.abc import Mapping

import numpy as np

from sdem_dist.estimators.base import EngineEstimator

_MODEL = ("loss", "alpha", "class_prior", "fit_prior", "unlabelled_weight")
_STEPS = ("step", "steps", "merge")
_DOCUMENTS = ("weighting", "norm", "min_df", "ngram_range", "vectorizer")


def settled(estimator: EngineEstimator) -> dict[str, object]:
    """Return the parameters that later batches cannot change, with their values."""
    return {name: getattr(estimator, name) for name in (*_MODEL, *_STEPS, *_DOCUMENTS)}


def check_settled(estimator: EngineEstimator, begun_with: Mapping[str, object]) -> None:
    """Raise ValueError where one of them has another value now than when training began."""
    for name, now in settled(estimator).items():
        then = begun_with[name]
        if not np.array_equal(np.array(now, object), np.array(then, object)):
            raise ValueError(
                f"{name} is {now!r}, and was {then!r} when training began: partial_fit cannot change it; set it back, or "
                "begin again with fit, or with a new estimator"
            )
