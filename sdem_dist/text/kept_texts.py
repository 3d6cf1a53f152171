"""Texts that are to be stored with the counts: on disk in the order of the source until their positions are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.offsets import offsets_of
from sdem_dist.storage.strings import decode_strings
from sdem_dist.text.spill import load_arrays, save_arrays
from sdem_dist.text.texts import Texts

_PART = 1 << 16


class KeptTexts:
    """Collects the texts of an ingest in a file, and gives back those of any documents.

    Memory holds eight bytes a document.

    `path`: a file that does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: list[np.ndarray] = []
        self._bounds: np.ndarray | None = None

    def add(self, texts: Texts) -> None:
        """Append texts, the next ones of the source."""
        with self._path.open("ab") as file:
            for first in range(0, len(texts), _PART):
                file.write(b"".join(texts.bytes_of(i) for i in range(first, min(first + _PART, len(texts)))))
        self._sizes.append(texts.stops - texts.starts)

    def save(self) -> None:
        """Write beside the file what `reopened` needs."""
        sizes = np.concatenate([np.zeros(0, np.int64), *self._sizes])
        save_arrays(self._path.with_suffix(".sizes"), sizes)

    @classmethod
    def reopened(cls, path: Path) -> KeptTexts:
        """Return the texts of a file that `save` was called for."""
        kept = cls(path)
        kept._sizes = load_arrays(path.with_suffix(".sizes"), 1)
        return kept

    def strings(self, positions: np.ndarray) -> list[str]:
        """Return the texts at positions of the source."""
        return decode_strings(*self.at(positions))

    def places(self) -> dict[str, int]:
        """Return the position of each text, all of which are in memory then; IngestError where two are equal."""
        found: dict[str, int] = {}
        for place, text in enumerate(self.strings(np.arange(sum(map(len, self._sizes))))):
            if found.setdefault(text, place) != place:
                raise IngestError(f"two documents have the id {text!r}: with texts or groups, ids have to differ")
        return found

    def at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the joined bytes of the texts at positions of the source, and their offsets: uint8 and int64."""
        if self._bounds is None:
            self._bounds = offsets_of(np.concatenate(self._sizes))
        starts, stops = self._bounds[positions], self._bounds[positions + 1]
        offsets = offsets_of(stops - starts)
        if not offsets[-1]:
            return np.zeros(0, np.uint8), offsets
        data = np.memmap(self._path, np.uint8, "r")
        joined = b"".join(data[a:b].tobytes() for a, b in zip(starts.tolist(), stops.tolist(), strict=True))
        return np.frombuffer(joined, np.uint8), offsets
