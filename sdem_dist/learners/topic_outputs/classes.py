"""A class of each document, by the softmax of U theta."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdem_dist.evaluation import classifier_metrics, classifier_sums, joined, scored
from sdem_dist.kernels import topic_outputs
from sdem_dist.learners.topic_outputs.protocol import Seen, Settings, TopicOutput
from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.models.word_counts import lengths

NAMES = ("accuracy", "ncll", "macro_f1", "brier", "ece")
"""Metrics of classes: the model has no p(d)."""


class Classes(TopicOutput):
    """``p(c | d)`` is proportional to ``exp(gamma U theta)``."""

    kind = topic_outputs.SOFTMAX
    learns = "labels"

    def scores(self, gamma: float, parameters: TopicParameters, outputs: np.ndarray) -> np.ndarray:
        """Return ln p(c | d) up to a constant of each document, from U theta."""
        return gamma * outputs

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return those of every classifier."""
        return classifier_sums(
            joined(
                scored(
                    self.scores(settings.gamma, parameters, seen.outputs),
                    seen.documents.labels,
                    seen.documents.weights,
                    lengths(seen.documents.documents),
                )
                for seen in batches
            )
        )

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return those of `NAMES`, among them the mean of ``-ln p(y | d)`` (ncll)."""
        found = classifier_metrics(sums, settings.n_outputs)
        return {name: found[name] for name in NAMES}
