"""sdEM for documents with several labels: how they are prepared, and how well their labels are found."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.label_scores import Decisions, decisions_of, finish, fitted, fitting_sums, label_sums
from sdem_dist.learners.sdem import Sdem
from sdem_dist.models.one_against_rest import OneAgainstRest
from sdem_dist.models.word_counts import LocalDocuments, SdemState
from sdem_dist.records import record

TEMPERATURE, THRESHOLD = "temperature of label ", "threshold of label "
"""Before the number of a label: names of the metrics that held-out documents choose by."""


@record
@dataclass(frozen=True)
class LabelSdem(Sdem[OneAgainstRest]):
    """The learner of `OneAgainstRest`.

    Documents bring their labels as targets of zeros and ones, shape (n_documents, n_labels).
    """

    temperatures: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    """`temperatures` and `thresholds`: of each label, see `sdem_dist.label_scores.Decisions`. Empty: 1 and 0.5."""
    several: bool = True
    """Documents may have several labels, or none. False: labels are classes, and the strongest one is predicted."""

    @property
    def cache_key(self) -> str:
        """Prepared documents hold their labels, too."""
        return f"{super().cache_key} labels {self.several}"

    @property
    def n_rivals(self) -> int:
        """Classes that a document is scored for at a time: those with the label, and the rest."""
        return 2

    @property
    def decisions(self) -> Decisions:
        """How log-odds become probabilities and labels."""
        return decisions_of(self.model.n_classes, self.thresholds, self.temperatures)

    def check_state(self, state: SdemState) -> None:
        """Raise ValueError unless there is a temperature and a threshold for each label, or for none."""
        super().check_state(state)
        for name, values in (("temperatures", self.temperatures), ("thresholds", self.thresholds)):
            if len(values) not in (0, self.model.n_classes):
                raise ValueError(f"there are {len(values)} {name} for {self.model.n_classes} labels")

    def prepare(self, documents: Documents) -> LocalDocuments:
        """Renumber words compactly; raises as `WordLearner.prepare`."""
        prepared = super().prepare(replace(documents, targets=None))
        members = documents.targets
        if not self.several:
            members = prepared.labels[:, None] == np.arange(self.model.n_classes)
        if members is None:
            raise ValueError("documents bring their labels as targets of zeros and ones")
        return prepared._replace(targets=np.ascontiguousarray(members, np.uint8))

    def evaluate(self, state: SdemState, batches: Iterable[LocalDocuments]) -> np.ndarray:
        """Return the sums of `sdem_dist.label_scores` over batches; where labels are classes those of `WordLearner`."""
        if not self.several:
            return super().evaluate(state, batches)
        odds, members, weights = zip(*(self._odds(state, local) for local in batches), strict=True)
        documents = np.concatenate(odds), np.concatenate(members), np.concatenate(weights)
        sums = label_sums(*documents, self.decisions)
        return np.concatenate([sums, fitting_sums(*documents)]) if self.held_out else sums

    def _odds(self, state: SdemState, local: LocalDocuments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        odds, _ = self.model.scores(self.model.parameters(state, local.words), local, self.seed)
        return odds, local.targets, np.where(local.labels < 0, 0.0, local.weights)

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return how well labels are found; with documents held out, also what these choose."""
        if not self.several:
            return super().metrics(sums)
        n_labels = self.model.n_classes
        n = len(label_sums(np.empty((0, n_labels)), np.empty((0, n_labels)), np.empty(0), self.decisions))
        found = finish(sums[:n])
        if not self.held_out or sums[0] == 0.0:
            return found
        decisions, fit = fitted(sums[n:], n_labels)
        chosen = {f"{TEMPERATURE}{i}": t for i, t in enumerate(decisions.temperatures.tolist())}
        chosen |= {f"{THRESHOLD}{i}": t for i, t in enumerate(decisions.thresholds.tolist())}
        return found | fit | chosen
