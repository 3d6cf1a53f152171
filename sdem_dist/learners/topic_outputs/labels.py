"""Several labels of a document, or none: a sigmoid of each entry of U theta."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdem_dist.kernels import topic_outputs
from sdem_dist.label_scores import OF_THRESHOLDS, decisions_of, finish, label_sums
from sdem_dist.learners.topic_outputs.protocol import Seen, Settings, TopicOutput
from sdem_dist.models.supervised_lda import TopicParameters


class Labels(TopicOutput):
    """``p(label | d) = sigmoid(gamma U theta)``, labels apart. Targets are zeros and ones."""

    kind = topic_outputs.LABELS
    learns = "targets"

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return those of `sdem_dist.label_scores`."""
        odds, members, weights = zip(
            *((settings.gamma * s.outputs, s.documents.targets, s.documents.weights) for s in batches), strict=True
        )
        decisions = decisions_of(settings.n_outputs, settings.thresholds)
        return label_sums(np.concatenate(odds), np.concatenate(members), np.concatenate(weights), decisions)

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return how well labels are found; before thresholds are known, without what depends on them."""
        found = finish(sums)
        return found if settings.thresholds else {name: found[name] for name in found if name not in OF_THRESHOLDS}
