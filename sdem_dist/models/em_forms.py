"""The forms of EM: how the hidden component of a document is filled in (E-step), and how far an iteration goes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sdem_dist.losses import marginal_log_likelihood
from sdem_dist.records import record

FORMS = ("soft", "hard", "stochastic", "generalised", "online", "variational")
COOLING = 0.8
"""Factor of the temperature of annealing after each epoch, until it is 1."""
DECAY = 0.7
"""Steps of online EM are ``(rounds + 2) ** -DECAY``: between 1/2 and 1, as stochastic approximation asks for."""


@record
@dataclass(frozen=True)
class EmForm:
    """Which EM."""

    kind: str = "soft"
    """"soft": the posterior of the components (Dempster, Laird and Rubin 1977). "hard": the most probable one,
    classification EM. "stochastic": one drawn from the posterior (both Celeux and Govaert 1992). "generalised": the
    M-step goes some way to its maximum. "online": stepwise EM, a step for a batch (Cappe and Moulines 2009).
    "variational": parameters have a posterior too (Attias 2000)."""
    step: float = 1.0  # of "generalised": the share of the way, above 0 and at most 1
    annealing: float = 1.0
    """Temperature of the first epoch; posteriors are raised to one over it (Ueda and Nakano 1998)."""

    def __post_init__(self) -> None:
        if self.kind not in FORMS:
            raise ValueError(f"em must be one of {FORMS}, and is {self.kind!r}")

    @property
    def rises(self) -> bool:
        """Whether no iteration may lower the objective."""
        return self.kind not in ("stochastic", "online") and self.annealing == 1.0

    def temperature(self, epoch: int) -> float:
        """Return the temperature of an epoch, from 0."""
        return max(1.0, self.annealing * COOLING**epoch)

    def rho(self, seen: float, batch: float) -> float:
        """Return the step of online EM, from the documents seen and those of a batch."""
        return float((seen / batch + 2.0) ** -DECAY)

    def responsibilities(
        self, scores: np.ndarray, temperature: float, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares of components in documents, and what the objective gains by each document.

        `scores`: shape (n, n_components), ``ln p(component, document)``; -inf where a component cannot be.
        `keys`: uint64 of shape (n,), random keys of the documents, of which "stochastic" makes its draws.
        Returns `shares`, shape (n, n_components): rows add up to 1; zeros where no component can be.
        Returns `values`, shape (n,): ``ln p(document)``; of "hard" the largest score; at a temperature t ``t ln sum
        exp(scores / t)``.
        """
        if self.kind == "hard":
            return np.eye(scores.shape[1])[scores.argmax(axis=1)], scores.max(axis=1)
        scores = scores / temperature
        total = marginal_log_likelihood(scores)
        shares = np.exp(scores - np.where(np.isneginf(total), 0.0, total)[:, None])
        if self.kind == "stochastic":
            below = np.cumsum(shares, axis=1)
            drawn = (keys >> np.uint64(11)) * 2.0**-53 * below[:, -1]
            shares = np.eye(scores.shape[1])[(below[:, :-1] <= drawn[:, None]).sum(axis=1)]
        return shares, temperature * total


EXACT = EmForm()
"""Plain EM."""


class EStep(NamedTuple):
    """An E-step over the rows of a lane."""

    form: EmForm
    temperature: float
    keys: np.ndarray  # random keys of the rows, uint64
    unlabelled_weight: float = 1.0  # weight of a row without a label

    def shares(self, scores: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return `EmForm.responsibilities` of some of the rows."""
        return self.form.responsibilities(scores, self.temperature, self.keys[rows])
