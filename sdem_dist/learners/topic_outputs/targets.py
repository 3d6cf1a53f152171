"""Real numbers of each document: a Gaussian about U theta."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdem_dist.kernels import topic_outputs
from sdem_dist.learners.topic_outputs.protocol import Seen, Settings, TopicOutput
from sdem_dist.models.supervised_lda import TopicParameters
from sdem_dist.models.word_counts import LocalDocuments

RUNAWAY = 1e6
"""Standard deviations of a target; an entry of U beyond it shows that training has diverged."""


class Targets(TopicOutput):
    """The mean is U theta, the precision gamma, of targets less their location in units of their scale."""

    kind = topic_outputs.GAUSSIAN
    learns = "targets"
    runaway = RUNAWAY

    def prepared(self, targets: np.ndarray, location: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return targets less their location, in units of their scale."""
        return np.asarray((targets - location) / scale)

    def sums(self, settings: Settings, parameters: TopicParameters, batches: Iterable[Seen]) -> np.ndarray:
        """Return weights, squared errors, targets, and their squares."""
        total = np.zeros(1 + 3 * settings.n_outputs)
        for seen in batches:
            total += errors(seen.outputs, seen.documents)
        return total

    def metrics(self, settings: Settings, sums: np.ndarray) -> dict[str, float]:
        """Return the mean squared error and the predictive R2, means over targets.

        R2 of a constant target is 0, or 1 if it is met, as scikit-learn's.
        """
        weight = max(float(sums[0]), 1e-300)
        squared, totals, squares = sums[1:].reshape(3, -1)
        spread = squares - totals**2 / weight
        varies = spread > 1e-12 * squares  # the rest is rounding
        r2 = np.where(varies, 1.0 - squared / np.where(varies, spread, 1.0), squared == 0.0)
        mse = squared / weight * np.asarray(settings.scale) ** 2
        return {"mse": float(mse.mean()), "r2": float(r2.mean())}


def errors(means: np.ndarray, d: LocalDocuments) -> np.ndarray:
    """Return the sums of `Targets.sums` of one batch."""
    columns = (d.targets - means) ** 2, d.targets, d.targets**2
    return np.array([d.weights.sum(), *np.concatenate([(d.weights[:, None] * c).sum(axis=0) for c in columns])])
