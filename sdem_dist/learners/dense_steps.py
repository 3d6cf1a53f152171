"""Steps of expectation parameters that stay inside S (Masegosa 2014, sections 3.2 and 4.1)."""

import numpy as np

from sdem_dist.models.feature_classes import FeatureStatistics
from sdem_dist.models.features import FeatureModel

HALVINGS = 40
"""How often a step is halved at most."""
LEAST_SHARE = 0.5
"""What a safe step leaves of each class's count, at least."""
Point = tuple[np.ndarray, np.ndarray]
"""N of shape (n_components,) and mu of shape (n_components, n_statistics); or how N and S move."""


def safe_step(
    variables: FeatureModel, at: Point, way: Point, rho: float, radius: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Step along a way, halved for each variable until it stays inside S and within `radius` (section 3.2).

    Counts sum to n, so that rho = 1 with the statistics of all documents and the NLL is a step of EM.

    Returns `rho`, the largest step that a variable has gone.
    """
    (counts, mu), (class_step, step) = at, way
    for _ in range(HALVINGS):
        new = counts + rho * class_step
        if (new > 0).all() and (new >= LEAST_SHARE * counts).all():
            break
        rho *= 0.5
    else:
        return counts, mu, rho
    # A generative fit may lie outside (a probability of 0 without a prior): from there no step would be inside.
    start = variables.check(mu)[0]
    along = (step - class_step[:, None] * start) / new[:, None]
    rhos = np.full((len(counts), variables.n_variables), rho)
    for _ in range(HALVINGS):
        moved = start + rhos[:, variables.variable_of] * along
        far = ~_within(variables, moved, start, radius)
        if not far.any():
            return new, moved, float(rhos.max())
        rhos[far] *= 0.5
    return new, np.where(far[:, variables.variable_of], start, moved), float(rhos.max())


def _within(variables: FeatureModel, moved: np.ndarray, start: np.ndarray, radius: float) -> np.ndarray:
    """Return which variables of which classes stay inside S and within `radius` of where they were."""
    finite = variables.all_of_variables(np.isfinite(moved))
    moved = np.where(finite[:, variables.variable_of], moved, start)
    checked, outside = variables.check(moved)
    inside = variables.all_of_variables(checked == moved) if outside else True
    return np.asarray(finite & inside & (variables.divergence(checked, start) <= radius))


def paper_step(
    variables: FeatureModel, at: Point, s: FeatureStatistics, rho: float, share: float, class_alpha: float
) -> Point:
    """Return the step of section 4.1: N without shrinkage (nu = 0), S with, then the check.

    `share` is rho times the part of the prior that belongs to the documents of the step.
    """
    (counts, mu), nu = at, variables.prior_weight
    new = np.maximum(counts + rho * s.class_sums + share * class_alpha, share * class_alpha)
    sums = (1.0 - share * nu) * counts[:, None] * mu + rho * s.sums + share * nu * variables.centre
    return new, variables.check(sums / new[:, None])[0]
