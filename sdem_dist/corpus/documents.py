"""One document of a corpus, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sdem_dist.corpus.base import AnyDocuments
from sdem_dist.corpus.manifest import Classes, ClassLabel, LabelSet
from sdem_dist.counted import one_line
from sdem_dist.documents import DenseDocuments, Documents

PRINTED_WORDS = 12


@dataclass(frozen=True, repr=False)
class StoredDocument:
    """What a corpus holds of a document.

    `counts`: count or weight of each word, the largest first; of columns by number where they have no names. Of a table
    all values.
    `targets`: numbers to be predicted.
    """

    counts: Mapping[str | int, float]
    id: int | str
    label: ClassLabel | LabelSet | None = None
    targets: tuple[float, ...] = ()

    @classmethod
    def of(cls, documents: AnyDocuments, id_: int | str, words: list[str] | None, classes: Classes) -> StoredDocument:
        if isinstance(documents, DenseDocuments):
            entries = list(enumerate(documents.values[0].tolist()))
        else:
            pairs = zip(documents.indices.tolist(), documents.data.tolist(), strict=True)
            entries = sorted(pairs, key=lambda entry: (-entry[1], entry[0]))
        labels, targets = documents.labels, documents.targets if isinstance(documents, Documents) else None
        return cls(
            {i if words is None else words[i]: count for i, count in entries},
            id_,
            None if labels is None or labels[0] < 0 else classes[int(labels[0])],
            () if targets is None else tuple(targets[0].tolist()),
        )

    def __repr__(self) -> str:
        parts = [f"id {one_line(self.id)}"]
        parts += [] if self.label is None else [f"label {one_line(self.label)}"]
        parts += [f"targets {', '.join(f'{t:g}' for t in self.targets)}"] if self.targets else []
        words = ", ".join(f"{one_line(word)} {n:g}" for word, n in list(self.counts.items())[:PRINTED_WORDS])
        n_more = len(self.counts) - PRINTED_WORDS
        words += f", and {n_more:,} more" if n_more > 0 else ""
        return f"<document: {'; '.join(parts)}; {words or 'no words'}>"
