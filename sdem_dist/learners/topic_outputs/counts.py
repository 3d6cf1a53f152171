"""Counts of each document: a Poisson distribution whose ln of the mean is U theta."""

from collections.abc import Iterable

import numpy as np
from scipy.special import xlogy

from sdem_dist.kernels import topic_outputs
from sdem_dist.learners.topic_outputs.protocol import Seen, Settings
from sdem_dist.learners.topic_outputs.targets import Targets, errors
from sdem_dist.models.supervised_lda import TopicParameters

RUNAWAY = 50.0
"""ln of a factor of the mean; beyond it training has diverged. Long training on rare counts reaches half of it."""


class Counts(Targets):
    """The mean is ``scale * exp(U theta)``, the scale being the mean of all documents."""

    kind = topic_outputs.POISSON
    runaway = RUNAWAY

    def prepared(self, targets: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return targets in units of their means."""
        if (targets < 0.0).any():
            raise ValueError('family="poisson" learns counts, and a target is negative')
        return np.asarray(targets / scale)

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return the sums of `Targets`, and last the deviances."""
        total = np.zeros(1 + 4 * settings.n_outputs)
        for seen in batches:
            d, means = seen.documents, np.exp(np.minimum(seen.outputs, topic_outputs.MOST))
            deviance = 2.0 * (xlogy(d.targets, d.targets) - d.targets * seen.outputs - d.targets + means)
            total += np.concatenate([errors(means, d), (d.weights[:, None] * deviance).sum(axis=0)])
        return total

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return the mean Poisson deviance beside what `Targets` has."""
        n = settings.n_outputs
        deviance = sums[-n:] / max(float(sums[0]), 1e-300) * np.asarray(settings.scale)
        return {"poisson_deviance": float(deviance.mean()), **super().metrics(settings, sums[:-n])}
