"""What an ingest did."""

from dataclasses import dataclass, field

import numpy as np

from sdem_dist.corpus.layout import ClassLabel, LabelSet
from sdem_dist.text.batches import Batch
from sdem_dist.text.counting import Tally
from sdem_dist.text.plan import CorpusPlan


@dataclass
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    path : str
        The corpus.
    n_documents, n_features, n_nonzeros : int
        Of the corpus; `n_empty` of its documents have no word.
    classes : list
        Class names.
    held_out_path : str, or None
        The corpus of held-out documents, `n_held_out` of them.
    n_skipped : int
        Bad lines left out; `skipped_examples` says of the first few what was wrong.
    first_column : int, or None
        The number of the first column, where svmlight sources were read and nobody said it.
    seconds : float
    """

    path: str
    n_documents: int = 0
    n_features: int = 0
    n_nonzeros: int = 0
    n_empty: int = 0
    classes: list[ClassLabel | LabelSet] = field(default_factory=list)
    held_out_path: str | None = None
    n_held_out: int = 0
    n_skipped: int = 0
    skipped_examples: list[str] = field(default_factory=list)
    first_column: int | None = None
    seconds: float = 0.0

    def take(self, tally: Tally, plan: CorpusPlan, targets: bool) -> None:
        """Note what was counted and chosen."""
        self.n_features, self.classes = plan.columns.n_features, [] if targets else list(plan.classes)
        self.n_held_out = tally.n_held_out

    def add(self, batch: Batch) -> None:
        """Count a batch that goes into the corpus."""
        indptr = batch[0].indptr
        self.n_documents += len(indptr) - 1
        self.n_nonzeros += int(indptr[-1])
        self.n_empty += int(np.count_nonzero(np.diff(indptr) == 0))
