"""Several labels of a document, or none: a sigmoid of each entry of U theta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from sdem_dist.kernels import topic_outputs
from sdem_dist.label_scores import Decisions, finish, label_sums
from sdem_dist.learners.topic_outputs.protocol import Drawn, Seen, Settings
from sdem_dist.models.supervised_lda import TopicParameters


class Labels(Drawn):
    """``p(label | d) = sigmoid(gamma U theta)``, labels apart. Targets are zeros and ones."""

    kind = topic_outputs.LABELS
    learns: Literal["targets"] = "targets"

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return those of `sdem_dist.label_scores`."""
        odds, members, weights = zip(
            *((settings.gamma * s.outputs, s.documents.targets, s.documents.weights) for s in batches), strict=True
        )
        n = settings.n_outputs
        decisions = Decisions(np.ones(n), np.full(n, 0.5))
        return label_sums(np.concatenate(odds), np.concatenate(members), np.concatenate(weights), decisions)

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return how well labels are found."""
        return finish(sums)
