"""Latent components: each belongs to a class, and a class scores with the sum of its components."""

import numpy as np

from sdem_dist.losses import Loss, marginal_log_likelihood


def check_owners(owners: tuple[int, ...], n_classes: int) -> None:
    """Raise ValueError unless `owners` ascend and leave no class out."""
    found = sorted(set(owners))
    if sorted(owners) != list(owners) or len(found) != n_classes or found != list(range(n_classes)):
        raise ValueError("owners must be the classes of the components, ascending, and every class must have one")


def check_components(
    n_components: int, n_classes: int, owners: tuple[int, ...], log_prior: tuple[float, ...] | None
) -> None:
    """Raise ValueError unless the owners, if there are any, and a fixed ln p(y) match the classes."""
    if owners:
        check_owners(owners, n_classes)
    if log_prior is not None and len(log_prior) != n_components:
        raise ValueError(f"log_prior has {len(log_prior)} numbers for {n_components} classes")


def starts_of(owners: tuple[int, ...]) -> np.ndarray:
    """Return the first component of each class; `owners`, the classes of the components, ascend and leave none out."""
    return np.searchsorted(np.asarray(owners), np.arange(owners[-1] + 1))


def by_class(scores: np.ndarray, owners: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return what classes score, and the posteriors of their components.

    `scores`: shape (n, n_components), ``ln p(z, y, x)``.
    Returns `scores`, shape (n, n_classes): ``ln p(y, x) = ln sum_z p(z, y, x)``.
    Returns `posteriors`, shape (n, n_components): ``p(z | y, x)`` for the class y of each component; zeros for a
    class of score -inf.
    """
    starts = starts_of(owners)
    top = np.maximum.reduceat(scores, starts, axis=1)
    top = np.where(np.isneginf(top), 0.0, top)
    posteriors = np.exp(scores - top[:, owners])
    totals = np.add.reduceat(posteriors, starts, axis=1)
    posteriors /= np.where(totals > 0, totals, 1.0)[:, owners]
    with np.errstate(divide="ignore"):
        return top + np.log(totals), posteriors


def loss_of_components(
    loss: Loss, scores: np.ndarray, labels: np.ndarray, owners: tuple[int, ...], unlabelled_weight: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return minus the gradient of a loss by the components' scores, and what each row costs (Table 2).

    `scores`: shape (n, n_components).
    `labels`: shape (n,), integers, -1: the class is hidden too, and the row costs ``-ln p(x)`` whatever the loss.
    `owners`: the class of each component; empty: every column is a class.
    `unlabelled_weight`: of rows without a label.
    Returns `weights`, shape (n, n_components): the weight of the class times ``p(z | y, x)``.
    Returns `values`, shape (n,).
    """
    of_class, posteriors = by_class(scores, owners) if owners else (scores, None)
    hidden = labels < 0
    known = np.where(hidden, 0, labels)
    weights, values = loss.weights(of_class, known), loss.value(of_class, known)
    if hidden.any():
        total = marginal_log_likelihood(of_class)
        posterior = np.exp(of_class - total[:, None])
        weights = np.where(hidden[:, None], unlabelled_weight * posterior, weights)
        values = np.where(hidden, -unlabelled_weight * total, values)
    return (weights if posteriors is None else weights[:, owners] * posteriors), values
