"""One document of a corpus, for people."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sdem_dist.corpus.layout import Classes, ClassLabel, LabelSet
from sdem_dist.documents import DenseDocuments, Documents

_SHOWN = 12


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
    """Return a value as text without characters that control a terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def stored_document(
    found: Documents | DenseDocuments, id_: object, words: list[str] | None, classes: Classes
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


def gathered(read: Callable[[int], Any], at: Callable[[int], tuple[int, int]], documents: Iterable[int]) -> list[Any]:
    """Return what `read` gives of a shard for each of some documents; every shard is read once."""
    wanted = list(documents)
    found: dict[int, Any] = {}
    shard, values = -1, None
    for document in sorted(set(wanted)):
        of, row = at(document)
        if of != shard:
            shard, values = of, read(of)
        found[document] = values[row]  # type: ignore[index]  # it was read: no shard is -1
    return [found[document] for document in wanted]
