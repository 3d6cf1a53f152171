"""What a caller asks of an ingest."""

from dataclasses import dataclass
from pathlib import Path

from sdem_dist.storage.numbers import JsonObject
from sdem_dist.text.bad_lines import LineGate
from sdem_dist.text.counting import Progress, Tally
from sdem_dist.text.ingest_checks import check_tally, warn_of_lookalikes
from sdem_dist.text.plan import CorpusPlan, IngestPlan
from sdem_dist.text.sources import Reading


@dataclass(frozen=True)
class Asked:
    """The checked arguments of `sdem_dist.text.ingest`, and what follows from them."""

    sources: list[Path]
    destinations: list[str]  # the corpus, and that of held-out documents, if there is to be one
    reading: Reading
    form: str | None  # the format of sources of numbers; None: they hold text
    plan: IngestPlan
    gate: LineGate
    targets: bool
    held_out: float
    vocabulary_from: str | Path | None
    n_jobs: int | None
    block_documents: int
    random_state: int
    shard_documents: int | None
    overwrite: bool
    keep_text: bool
    progress: Progress

    def check(self, tally: Tally) -> None:
        """Raise IngestError where the sources, or one of both parts, have no document, or none a label.

        Warns of labels that look alike, and of words without spaces between them.
        """
        check_tally(tally, self.held_out, self.gate, self.sources)
        if not self.targets:
            warn_of_lookalikes(tally.classes)
        if self.form is None:
            tally.scripts.warn(self.plan.settings)

    def made_by(self, corpus_plan: CorpusPlan) -> JsonObject:
        """Return what the manifest says of where the corpus comes from."""
        gate = self.gate
        return {
            "command": "ingest",
            "sources": [str(source) for source in self.sources],
            "vocabulary_from": None if self.vocabulary_from is None else str(self.vocabulary_from),
            "held_out": self.held_out,
            "skipped_lines": gate.skipped,
            "zero_based": corpus_plan.zero_based,
            **({} if gate.separator is None else {"label_separator": gate.separator}),
            **({} if gate.unlabelled is None else {"unlabelled": gate.unlabelled}),
            "random_state": self.random_state,
        }
