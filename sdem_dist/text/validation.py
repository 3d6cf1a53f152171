"""What to do with a line that is not a document: stop there, or leave it out and count it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sdem_dist.corpus.label_sets import name_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.errors import IngestError

EXAMPLES_KEPT = 5
LONGEST = 60  # characters of an unknown label that a message shows
NONE = ""
"""The name that stands for no label: no class has it, since an empty label is refused where none may be missing."""


class NoLabelError(IngestError):
    """A document has no label, or there is nothing to take it from."""

    first: bool = True
    """Whether no document before it has one, as far as is known."""


@dataclass
class RowValidator:
    """Decides about every line: documents pass, bad lines raise or are counted."""

    on_error: Literal["raise", "skip"] = "raise"
    """Whether to stop at the first bad line, or to leave bad lines out and count them."""
    known_classes: frozenset[str] | None = None  # the only labels allowed; None allows any
    numeric: bool = False  # labels have to be finite numbers
    start: int = 0  # the byte of the file that line 1 begins with, where a part of it is read
    separator: str | None = None
    """Documents may have several labels, and this stands between them; or a label is a list. No label is none of
    them."""
    named: tuple[Path, Path] | None = None  # a source, and the name that the user gave it, for messages
    owner: str = "corpus"  # what has the known classes, for messages: a corpus, or a model
    unlabelled: str | None = None
    """The label that stands for none. Such documents, and those whose label is empty or missing, have the label
    `NONE`."""
    skipped: int = 0  # lines left out so far
    examples: list[str] = field(default_factory=list)  # the messages of the first few of them
    labelled: bool = False  # whether a line with a label has passed
    _texts: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is 'raise' or 'skip', not {self.on_error!r}")

    def reject(
        self, path: Path, line: int, problem: str, unit: str = "line", kind: type[IngestError] = IngestError
    ) -> None:
        """Record the bad line `line` (counted from 1) of `path`.

        Raises IngestError, or the `kind` of it, if bad lines are not to be skipped.
        """
        if self.on_error == "skip" and len(self.examples) >= EXAMPLES_KEPT:
            self.skipped += 1
            return
        if self.start:
            line += _lines_before(path, self.start)
        if self.named is not None and path.is_relative_to(self.named[0]):
            path = self.named[1] / path.relative_to(self.named[0])
        if self.on_error == "raise":
            hint = f"{{on_error='skip'}} leaves such {unit}s out"
            error = kind(problem, path=path, record=line, unit=unit, hint=hint)
            if isinstance(error, NoLabelError):
                error.first = not (self.labelled or self.start)
            raise error
        self.skipped += 1
        self.examples.append(str(kind(problem, path=path, record=line, unit=unit)))

    def copy(self, on_error: Literal["raise", "skip"]) -> RowValidator:
        """Return a gate for the same labels, which has refused nothing yet."""
        return RowValidator(
            on_error, self.known_classes, self.numeric, separator=self.separator, unlabelled=self.unlabelled
        )

    def merge(self, skipped: int, examples: list[str]) -> None:
        """Count lines that another gate left out."""
        self.skipped += skipped
        self.examples += examples[: EXAMPLES_KEPT - len(self.examples)]

    @property
    def texts(self) -> dict[str, bool]:
        """Whether each label that was let through was a text, by its name."""
        return self._texts

    def label(self, path: Path, line: int, raw: object, unit: str = "line") -> str | None:
        """Return the label as a class name without blanks around it, or None if the line is refused.

        It is `NONE` where the label stands for none. Of several labels it is the name of their set, see
        `sdem_dist.corpus.label_sets.name_of`.
        """
        if self.unlabelled is not None:
            missing = raw is None or (isinstance(raw, float) and math.isnan(raw))
            if missing or label_name(raw) in (NONE, self.unlabelled.strip()):
                return NONE
        raws = [raw] if self.separator is None else _split(raw, self.separator)
        names = [label_name(one) for one in raws]
        for one, name in zip(raws, names, strict=True):
            if (problem := self._problem(one, name)) is not None:
                self.reject(path, line, problem, unit, NoLabelError if one is None or name == NONE else IngestError)
                return None
        self.labelled = True
        return names[0] if self.separator is None else name_of(tuple(sorted({str(name) for name in names})))

    def _problem(self, raw: object, name: str | None) -> str | None:
        if name is None and raw is None:
            return "the label is missing; --unlabelled '' takes such documents as ones without a label"
        if name is None and isinstance(raw, list):
            return f"the label is a list, {raw!r:.60}: --label-separator , takes the labels of lists"
        if name is None:
            return f"the label is {raw!r}, neither a text nor a finite number"
        if name.endswith("\0"):
            return f"the label {name!r} ends with a NUL, which arrays drop: remove it"
        if not name:
            return (
                "the label is empty; --unlabelled '' takes such documents as ones without a label (where documents may have "
                "several labels, or none: --label-separator ,)"
            )
        if (problem := not_unicode(name)) is not None:
            return f"the label has {problem}"
        if self.numeric:
            return None if is_number(name) else f"the label {name!r} is not a finite number, which targets have to be"
        if self.known_classes is not None and name not in self.known_classes:
            known = ", ".join(sorted(self.known_classes)[:10])
            more = ", ..." if len(self.known_classes) > 10 else ""
            label = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"  # a text, where columns are swapped
            cut = "" if self.separator is None else f"; labels are cut at {self.separator!r}, or at --label-separator"
            return f"label {label!r} is not among the {self.owner}'s classes ({known}{more}){cut}"
        if self._texts.setdefault(name, isinstance(raw, str)) != isinstance(raw, str):
            here, there = ("a text", "no text") if isinstance(raw, str) else ("no text", "a text")
            return f"the label {raw!r} is {here}, and an earlier {name} is {there}: write both alike"
        return None


def _lines_before(path: Path, start: int) -> int:
    """Return the number of lines that end before a byte; it is counted only when somebody asks."""
    with path.open("rb") as file:
        found = 0
        while start > 0 and (piece := file.read(min(1 << 22, start))):
            found, start = found + piece.count(b"\n"), start - len(piece)
    return found


def _split(raw: object, separator: str) -> list[object]:
    """Return the labels of a document: those of a list, or the parts of a text that are not empty."""
    if isinstance(raw, list):
        return raw
    return [part for part in raw.split(separator) if part.strip()] if isinstance(raw, str) else [raw]


def class_name(label: ClassLabel | LabelSet) -> str:
    """Return the name that a class of a corpus has in sources: that of a label, or of a set of them."""
    if isinstance(label, tuple):
        return name_of(tuple(sorted(str(label_name(one)) for one in label)))
    return str(label_name(label))


def label_name(raw: object) -> str | None:
    """Return a label as text (1.0 becomes "1", True becomes "true"), or None for anything but a text or a number."""
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, float):
        return None if not math.isfinite(raw) else str(int(raw)) if raw.is_integer() else str(raw)
    return str(raw) if isinstance(raw, int) else None


def is_number(text: str) -> bool:
    """Say whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def not_unicode(text: str) -> str | None:
    """Return what makes `text` impossible to store as UTF-8, or None if nothing does.

    Readers decode with "surrogateescape", which turns an undecodable byte into one of U+DC80..U+DCFF.
    """
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            return (
                f"the byte 0x{code - 0xDC00:02x}, which the encoding does not allow; name the file's own (--encoding)"
            )
        return f"half of a surrogate pair, U+{code:04X}"
    return None
