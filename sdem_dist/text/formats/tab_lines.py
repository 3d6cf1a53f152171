"""Lines of columns separated by TABs, without a header: ``label<TAB>text``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from sdem_dist.text.bad_lines import LineGate
from sdem_dist.text.decoded import numbered_lines

_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)


def read_tab_lines(
    path: Path, encoding: str, gate: LineGate, label: int | None, text: int | None
) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each line; blank lines are passed over.

    Parameters
    ----------
    label, text : int or None
        Columns counted from 0, or from the end if negative. If both are None every line must have exactly two
        columns, label and text: a file of more columns is not guessed at, since one of them may give the label away.
    """
    chosen = label is not None or text is not None
    label, text = label or 0, 1 if text is None else text
    for number, line in numbered_lines(path, encoding, gate):
        columns = line.split("\t")
        if len(columns) == 1 and not chosen:
            gate.refuse(path, number, "there is no TAB between a label and a text")
            continue
        if len(columns) != 2 and not chosen:
            gate.refuse(
                path, number, f"{len(columns)} columns instead of 2; choose with --label NUMBER --text NUMBER, from 0"
            )
            continue
        if not all(-len(columns) <= wanted < len(columns) for wanted in (label, text)):
            gate.refuse(path, number, f"{len(columns)} columns, so there is no column {max(label, text)} (from 0)")
            continue
        if number == 1 and _HEADINGS & {columns[wanted].strip().lower() for wanted in (label, text)}:
            warnings.warn(
                f"{path}, line 1: it looks like a header ({columns[label]!r:.40}, {columns[text]!r:.40}), and is read as a "
                "document: such files have none; remove the line",
                stacklevel=2,
            )
        name = gate.label(path, number, columns[label])
        if name is not None:
            yield name, columns[text]
