"""Learners and their states from what a model file holds, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdem_dist.learners.bp_slda import BpSlda, TopicState
from sdem_dist.learners.features import FeatureSdem, FeatureState
from sdem_dist.learners.hidden_class import HiddenClassSdem
from sdem_dist.learners.sdem import Sdem, SdemState


def restore_multinomial(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[Sdem, SdemState]:
    """Return the learner and the state of a `MultinomialNB`.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = (HiddenClassSdem if "unlabelled_weight" in settings else Sdem)(**settings)
    state = SdemState(*(_field(arrays[f]) for f in SdemState._fields))
    n_classes = learner.n_classes
    averaged = bool(state.n_averaged)
    has_means = averaged or (learner.average and state.mean_words.size > 0)  # there before the first round averaged
    expected = {
        "words": (n_features, n_classes),
        "totals": (n_classes,),
        "class_counts": (n_classes,),
        "mean_words": (n_features, n_classes) if has_means else (0, 0),
        "mean_class_counts": (n_classes,) if averaged else (0,),
        **dict.fromkeys(("gamma", "class_gamma", "t", "n_averaged"), ()),
    }
    for field, shape in expected.items():
        value = np.asarray(getattr(state, field))
        if value.shape != shape or value.dtype != np.float64 or not (np.isfinite(value).all() and (value >= 0).all()):
            raise ValueError(f"array {field!r} is not made of {shape} finite numbers, none negative")
    if learner.n_features != n_features:
        raise ValueError("the number of features does not match the arrays")
    _check_prior(learner)
    return learner, state


def restore_features(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[FeatureSdem, FeatureState]:
    """Return the learner and the state of a naive Bayes of dense features.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = FeatureSdem(**settings)
    state = FeatureState(*(_field(arrays[f]) for f in FeatureState._fields))
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


def restore_topics(
    arrays: Mapping[str, np.ndarray], settings: dict[str, Any], n_features: int
) -> tuple[BpSlda, TopicState]:
    """Return the learner and the state of a topic model by mirror descent.

    Raises
    ------
    ValueError
        An array has another shape than the settings say, or holds what no model does.
    """
    learner = BpSlda(**settings)
    state = TopicState(*(_field(arrays[f]) for f in TopicState._fields))
    topics, output = (n_features, learner.n_topics), (learner.n_outputs, learner.n_topics)
    expected: dict[str, tuple[int, ...]] = {"topics": topics, "mean_topics": topics}
    expected |= {"output": output, "mean_output": output}
    expected |= {"squares": topics[1:], **dict.fromkeys(("t", "seen", "n_averaged"), ())}
    for field, shape in expected.items():
        value = np.asarray(getattr(state, field))
        if value.shape != shape or value.dtype != np.float64 or not np.isfinite(value).all():
            raise ValueError(f"array {field!r} is not made of {shape} finite numbers")
    columns = learner.parameters(state).topics
    if learner.n_features != n_features or (columns <= 0).any() or not np.allclose(columns.sum(axis=0), 1.0):
        raise ValueError("the columns of the topics are not on the simplex")
    if len(learner.location) != len(learner.scale) or len(learner.location) not in (0, learner.n_outputs):
        raise ValueError("the targets' locations and scales do not match the outputs")
    return learner, state


def _check_prior(learner: Sdem | FeatureSdem) -> None:
    if learner.log_prior is not None and len(learner.log_prior) != learner.n_classes:
        raise ValueError("the class prior does not match the classes")


def _field(value: np.ndarray) -> Any:
    return float(value) if value.ndim == 0 else value
