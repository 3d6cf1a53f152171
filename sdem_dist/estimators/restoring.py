"""Learners and their states from what a model file holds, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdem_dist.learners.features import FeatureSdem, FeatureState
from sdem_dist.learners.hidden_class import HiddenClassSdem
from sdem_dist.learners.lda import LdaSdem
from sdem_dist.learners.regression import GaussianRegression
from sdem_dist.learners.sdem import Sdem
from sdem_dist.learners.word_counts import SdemState
from sdem_dist.losses import LOSSES
from sdem_dist.models.lda import Inference


def restore_multinomial(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int, kind: type[Sdem] | None = None
) -> tuple[Sdem, SdemState]:
    """Return the learner and the state of a `MultinomialNB`, or of another kind of the same fields.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = (kind or (HiddenClassSdem if "unlabelled_weight" in settings else Sdem))(**settings)
    state = SdemState(*(as_field(arrays[f]) for f in SdemState._fields))
    _check_counts(learner, state, learner.n_classes)
    if learner.n_features != n_features:
        raise ValueError("the number of features does not match the arrays")
    _check_prior(learner)
    return learner, state


def restore_features(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int, kind: type[FeatureSdem] = FeatureSdem
) -> tuple[FeatureSdem, FeatureState]:
    """Return the learner, of a kind, and the state of a naive Bayes of dense features.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = kind(**settings)
    state = FeatureState(*(as_field(arrays[f]) for f in FeatureState._fields))
    columns = sorted(c for block in learner.model.blocks for c in block.columns)
    if columns != list(range(n_features)):
        raise ValueError("the columns of the blocks are not those of the table")
    shape = (learner.n_classes, learner.model.n_statistics)
    best = len(state.best_counts) > 0
    expected = {
        "class_counts": shape[:1],
        "mu": shape,
        "best_counts": shape[:1] if best else (0,),
        "best_mu": shape if best else (0, 0),
    }
    for field, wanted in expected.items():
        value = np.asarray(getattr(state, field))
        if value.shape != wanted or value.dtype != np.float64 or not np.isfinite(value).all():
            raise ValueError(f"array {field!r} is not made of {wanted} finite numbers")
    counts = state.best_counts if best else state.class_counts
    if (counts < 0).any() or not counts.any() or not np.isfinite(learner.parameters(state).theta).all():
        raise ValueError("array 'mu' is not inside S")
    _check_prior(learner)
    return learner, state


def restore_regression(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[Any, FeatureState]:
    """Return the learner and the state of a `GaussianRegressor`, whose table has the target as one more column."""
    return restore_features(arrays, settings, n_features + 1, GaussianRegression)


def restore_lda(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[LdaSdem, SdemState]:
    """Return the learner and the state of an `LDAClassifier`.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = LdaSdem(**settings)
    if not isinstance(learner.inference, Inference):
        raise ValueError("its inference is not one of topics")
    _ = learner.inference.how  # fails where a name is unknown
    state = SdemState(*(as_field(arrays[f]) for f in SdemState._fields))
    _check_counts(learner, state, learner.n_topics * learner.n_classes)
    if learner.n_features != n_features:
        raise ValueError("the number of features does not match the arrays")
    _check_prior(learner)
    return learner, state


def _check_counts(learner: Sdem | LdaSdem, state: SdemState, n_columns: int) -> None:
    """Check the arrays and the names in the settings of a model of word counts."""
    if learner.loss not in LOSSES or learner.merge not in ("mean", "sum"):
        raise ValueError(f"it was trained with loss {learner.loss!r} and merge {learner.merge!r}, which are unknown")
    averaged = bool(state.n_averaged)
    has_means = averaged or (learner.average and state.mean_words.size > 0)  # there before the first round averaged
    expected = {
        "words": (learner.n_features, n_columns),
        "totals": (n_columns,),
        "class_counts": (learner.n_classes,),
        "mean_words": (learner.n_features, n_columns) if has_means else (0, 0),
        "mean_class_counts": (learner.n_classes,) if averaged else (0,),
        **dict.fromkeys(("gamma", "class_gamma", "t", "n_averaged"), ()),
    }
    for field, shape in expected.items():
        value = np.asarray(getattr(state, field))
        if value.shape != shape or value.dtype != np.float64 or not (np.isfinite(value).all() and (value >= 0).all()):
            raise ValueError(f"array {field!r} is not made of {shape} finite numbers, none negative")


def _check_prior(learner: Sdem | LdaSdem | FeatureSdem) -> None:
    if learner.log_prior is not None and len(learner.log_prior) != learner.n_classes:
        raise ValueError("the class prior does not match the classes")


def as_field(value: np.ndarray) -> Any:
    """Return an array as a field of a state: numbers as floats."""
    return float(value) if value.ndim == 0 else value
