"""The learner and the state of topic models by mirror descent from what a model file holds, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdem_dist.estimators.restoring import as_field
from sdem_dist.learners.bp_slda import BpSlda, TopicState


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
    state = TopicState(*(as_field(arrays[f]) for f in TopicState._fields))
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
