"""Lines of columns separated by TABs, without a header: ``label<TAB>text``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sdem_dist.kernels.lines import lines
from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.line_blocks import LineBlock, Part, line_blocks
from sdem_dist.text.texts import TextBlock, Texts

_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)
MOST_NAMES = 10_000  # of classes; of numbers there may be as many as lines
_N_COLUMNS, _GOOD, _LABEL, _TEXT = 2, 3, 4, 6


def read_tab_lines(
    path: Path,
    encoding: str,
    gate: LineGate,
    label: int | None,
    text: int | None,
    block_documents: int,
    part: Part | None = None,
) -> Iterator[TextBlock]:
    """Yield the documents of lines; blank lines are passed over.

    Parameters
    ----------
    label, text : int or None
        Columns counted from 0, or from the end if negative. If both are None every line must have exactly two
        columns, label and text: a file of more columns is not guessed at, since one of them may give the label away.
    block_documents : int
        Lines of a block at most.
    part : pair of int, optional
        See `line_blocks`; `gate` knows where it begins.
    """
    reader = _TabLines(path, gate, label, text)
    bounds = np.empty((block_documents, 8), np.int64)
    for block in line_blocks(path, encoding, part):
        start, data = 0, block.data
        while start < len(data):
            n_lines, start = lines(data, start, *reader.columns, bounds)
            yield reader.documents(block, bounds[:n_lines].copy())


class _TabLines:
    """Checks lines, in order."""

    def __init__(self, path: Path, gate: LineGate, label: int | None, text: int | None) -> None:
        self._path, self._gate = path, gate
        self._chosen = label is not None or text is not None
        self.columns = label or 0, 1 if text is None else text
        self._n_lines = 0
        self._names: dict[bytes, str] = {}  # that the gate let through

    def documents(self, block: LineBlock, bounds: np.ndarray) -> TextBlock:
        """Return the documents of consecutive lines."""
        good = (
            (bounds[:, _GOOD] == 1) & (bounds[:, _LABEL] >= 0) & (bounds[:, _TEXT] >= 0) & (bounds[:, _N_COLUMNS] > 1)
        )
        if not self._chosen:
            good &= bounds[:, _N_COLUMNS] == 2
        labels: list[str] = []
        kept = np.ones(len(bounds), bool)
        raw, names = block.raw, self._names
        spans = zip(good.tolist(), bounds[:, _LABEL].tolist(), bounds[:, _LABEL + 1].tolist(), strict=True)
        for i, (fine, start, stop) in enumerate(spans):
            name = names.get(raw[start:stop]) if fine else None
            if name is None or self._n_lines + i == 0:
                name = self._looked_at(block, bounds[i], self._n_lines + i + 1)
                if name is None:
                    kept[i] = False
                    continue
                if len(names) < MOST_NAMES:
                    names[raw[start:stop]] = name
            labels.append(name)
        self._n_lines += len(bounds)
        bounds = bounds[kept]
        return TextBlock(labels, Texts(block.data, bounds[:, _TEXT].copy(), bounds[:, _TEXT + 1].copy()))

    def _looked_at(self, block: LineBlock, bounds: np.ndarray, number: int) -> str | None:
        """Return the class name of a line, or None if it is blank or refused."""
        line = block.text(int(bounds[0]), int(bounds[1]))
        columns = line.split("\t")
        if len(columns) == 1 and (not line or line.isspace()):
            return None
        if (problem := not_unicode(line)) is not None:
            self._gate.refuse(self._path, number, f"the line has {problem}")
            return None
        if not self._chosen and len(columns) != 2:
            found = f"{len(columns)} columns instead of 2; choose with --label NUMBER --text NUMBER, from 0"
            without = "there is no TAB between a label and a text"
            self._gate.refuse(self._path, number, without if len(columns) == 1 else found)
            return None
        label, text = self.columns
        if not all(-len(columns) <= wanted < len(columns) for wanted in (label, text)):
            problem = f"{len(columns)} columns, so there is no column {max(label, text)} (from 0)"
            self._gate.refuse(self._path, number, problem)
            return None
        if (
            number == 1
            and not self._gate.start
            and _HEADINGS & {columns[wanted].strip().lower() for wanted in (label, text)}
        ):
            warnings.warn(
                f"{self._path}, line 1: it looks like a header ({columns[label]!r:.40}, {columns[text]!r:.40}), and is read "
                "as a document: such files have none; remove the line",
                stacklevel=2,
            )
        return self._gate.label(self._path, number, columns[label])
