"""One document of a corpus, and what the whole holds, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sdem_dist.documents import DenseDocuments

if TYPE_CHECKING:
    from sdem_dist.corpus.layout import ClassLabel
    from sdem_dist.documents import Documents

CLASSES_SHOWN = 20
"""In a notebook, the largest first."""
_SHOWN = 12


@dataclass(frozen=True, repr=False)
class StoredDocument:
    """What a corpus holds of a document.

    Attributes
    ----------
    counts : dict of str or int to number
        Count or weight of each word, the largest first; of columns by number where they have no names. Of a table all values.
    id : int or str
    label : class label, or None
    targets : tuple of float
        Numbers to be predicted.
    """

    counts: Mapping[str | int, float]
    id: int | str
    label: ClassLabel | None = None
    targets: tuple[float, ...] = ()

    def __repr__(self) -> str:
        parts = [f"id {_shown(self.id)}"]
        if self.label is not None:
            parts.append(f"label {_shown(self.label)}")
        if self.targets:
            parts.append(f"targets {', '.join(f'{t:g}' for t in self.targets)}")
        first = [f"{_shown(word)} {count:g}" for word, count in list(self.counts.items())[:_SHOWN]]
        rest = len(self.counts) - len(first)
        words = ", ".join(first) + (f", and {rest:,} more" if rest else "")
        return f"<document: {'; '.join(parts)}; {words or 'no words'}>"


def _shown(value: object) -> str:
    """Return a value as text in which nothing steers a terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def stored_document(
    found: Documents | DenseDocuments, id_: object, words: list[str] | None, classes: tuple[ClassLabel, ...]
) -> StoredDocument:
    """Return one document with names."""
    if isinstance(found, DenseDocuments):
        entries = list(enumerate(found.values[0].tolist()))
    else:
        entries = sorted(zip(found.indices.tolist(), found.data.tolist(), strict=True), key=lambda e: (-e[1], e[0]))
    label = None if found.labels is None or found.labels[0] < 0 else classes[int(found.labels[0])]
    targets = getattr(found, "targets", None)
    return StoredDocument(
        {i if words is None else words[i]: count for i, count in entries},
        cast("int | str", id_),
        label,
        () if targets is None else tuple(targets[0].tolist()),
    )
