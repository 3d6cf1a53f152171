"""What to do with a record that is not a document: stop there, or leave it out and count it."""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdem_dist.corpus.labels import name_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import is_utf8
from sdem_dist.text.texts import RecordBatch, Records, Texts, listed, texts_of_arrow, texts_of_bytes, texts_of_strings

MAX_EXAMPLES = 5
MOST_NAMES = 10_000  # of classes that are remembered; targets may be as many as documents
LONGEST = 60  # characters of an unknown label that a message shows
NONE = ""
"""The name that stands for no label: no class has it, since an empty label is refused where none may be missing."""
MIXED = "is a text in some places of the sources and not in others: write all alike"


class NoLabelError(IngestError):
    first: bool = True
    """Whether no document before it has one, as far as is known."""


@dataclass
class RowValidator:
    """Decides about every record: documents pass, bad records raise or are counted."""

    on_error: Literal["raise", "skip"] = "raise"  # stop at the first bad record, or leave bad ones out and count them
    known_classes: frozenset[str] | None = None  # the only labels allowed; None: any
    numeric: bool = False  # labels have to be finite numbers
    separator: str | None = None  # stands between the labels of a document; or these are a list; it may have none
    unlabelled: str | None = None  # the label that stands for none: such documents, and those without, have `NONE`
    start: int = 0  # the byte of the file that line 1 begins with, where a part of it is read
    named: tuple[Path, Path] | None = None  # a source, and the name that the user gave it, for messages
    skipped: int = 0  # records left out so far
    examples: list[str] = field(default_factory=list)  # the messages of the first few of them
    labelled: bool = False  # whether a record with a label has passed
    texts: dict[str, bool] = field(default_factory=dict)  # whether each label that passed was a text, by its name
    _passed: dict[str | bytes, str] = field(default_factory=dict)  # class names of labels that passed

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is 'raise' or 'skip', not {self.on_error!r}")

    def reject(
        self, path: Path, line: int, problem: str, unit: str = "line", kind: type[IngestError] = IngestError
    ) -> None:
        """Record the bad line `line` (counted from 1) of `path`, or raise the `kind` of IngestError."""
        if self.on_error == "skip" and len(self.examples) >= MAX_EXAMPLES:
            self.skipped += 1
            return
        if self.start:  # lines are counted only when somebody asks
            rest = self.start
            with path.open("rb") as file:
                while rest > 0 and (chunk := file.read(min(1 << 22, rest))):
                    line += chunk.count(b"\n")
                    rest -= len(chunk)
        if self.named is not None and path.is_relative_to(self.named[0]):
            path = self.named[1] / path.relative_to(self.named[0])
        error = kind(problem, path=path, record=line, unit=unit)
        if self.on_error == "raise":
            error.hint = f"{{on_error='skip'}} leaves such {unit}s out"
            if isinstance(error, NoLabelError):
                error.first = not (self.labelled or self.start)
            raise error
        self.skipped += 1
        self.examples.append(str(error))

    def merge(self, skipped: int, examples: list[str]) -> None:
        self.skipped += skipped
        self.examples += examples[: MAX_EXAMPLES - len(self.examples)]

    def check(self, path: Path, batch: RecordBatch) -> Records:
        """Return the documents of a batch; its other records are rejected, in order. A text that is null is empty."""
        problems, decode, columns = batch.problems, "surrogatepass" if batch.escaped else "surrogateescape", []
        for column in batch.texts:
            texts = column if isinstance(column, Texts) else texts_of_arrow(column)
            if texts is None:
                values = listed(column)
                for row, value in enumerate(values):
                    if value is not None and not isinstance(value, str):
                        problems.setdefault(row, (f"the text is {value!r:.60}, not a string", IngestError))
                texts = texts_of_strings([value if isinstance(value, str) else "" for value in values])
            columns.append(texts)
            if batch.are_valid or not len(texts) or is_utf8(texts.data, int(texts.starts[0]), int(texts.stops[-1])):
                continue
            for row in range(len(texts)):
                if problem := not_unicode(texts.bytes_of(row).decode("utf-8", decode)):
                    problems.setdefault(row, (f"the text has {problem}", IngestError))
        if len(columns) != 1:  # of a matrix none
            parts = [[column.bytes_of(i) for column in columns] for i in range(len(batch))]
            columns = [texts_of_bytes(list(map(b"\n".join, parts)))]
        labels: list[Any] = [] if self.unlabelled is None else [NONE] * len(batch)
        if "label" in batch.roles:
            # labels that have passed are looked up at once; 1, 1.0 and True would be the same key, and lists none
            raw, passed_labels = listed(batch.roles["label"]), self._passed
            labels = [passed_labels.get(label) if isinstance(label, str | bytes) else None for label in raw]
            for row, label in enumerate(raw) if None in labels else ():
                if labels[row] is None and row not in problems:
                    try:
                        labels[row] = self.class_of(
                            label.decode("utf-8", decode) if isinstance(label, bytes) else label
                        )
                    except IngestError as error:
                        problems[row] = error.problem, type(error)
                        continue
                    if isinstance(label, str | bytes) and len(passed_labels) < MOST_NAMES:
                        passed_labels[label] = labels[row]
        beside = {role: listed(column, decode) for role, column in batch.roles.items() if role != "label"}
        for role in ("id", "group"):
            for row, value in enumerate(beside.get(role, ())):
                if not isinstance(value, str | int):
                    missing = "missing" if value is None else f"{value!r:.60}"
                    problems.setdefault(row, (f"the {role} is {missing}", IngestError))
                elif isinstance(value, str) and (problem := not_unicode(value)):
                    problems.setdefault(row, (f"the {role} has {problem}", IngestError))
        groups, weights = (list(map(str, beside["group"])) if "group" in beside else None), None
        if "weight" in beside:
            weights = np.full(len(batch), np.nan)
            for row, value in enumerate(beside["weight"]):
                with suppress(ValueError):
                    weights[row] = float(str(value))
                if not 0 <= weights[row] < np.inf:
                    problem = f"the weight is {value!r:.40}: weights are numbers from 0 on"
                    problems.setdefault(row, (problem, IngestError))
        passed = np.ones(len(batch), bool)
        passed[list(problems)] = False
        first = int(batch.numbers[passed.argmax()]) if labels and passed.any() else 1 << 62
        rejected = [(int(batch.numbers[row]), *why) for row, why in problems.items() if why is not None]
        rejected += [(number, problem, IngestError) for number, problem in batch.invalid.items()]
        for number, problem, kind in sorted(rejected, key=lambda item: item[0]):
            self.labelled = self.labelled or number > first
            self.reject(path, number, problem, batch.unit, kind)
        self.labelled = self.labelled or first < 1 << 62
        records = Records(columns[0], labels, beside.get("id"), batch.beside, groups, weights, batch.matrix)
        return records if passed.all() else records.take(np.flatnonzero(passed))

    def class_of(self, raw: object) -> str:
        """Return a label, or the set of several, as a class name without blanks around it, or raise IngestError."""
        if self.unlabelled is not None:
            missing = raw is None or (isinstance(raw, float) and math.isnan(raw))
            if missing or label_name(raw) in (NONE, self.unlabelled.strip()):
                return NONE
        labels, names = [raw], set[str]()
        if self.separator is not None and isinstance(raw, str):
            labels = [part for part in raw.split(self.separator) if part.strip()]
        elif self.separator is not None and isinstance(raw, list):
            labels = raw
        advice = "--unlabelled '' takes such documents as ones without a label"
        for label in labels:
            name = label_name(label)
            if label is None:
                raise NoLabelError(f"the label is missing; {advice}")
            if isinstance(label, list):
                raise IngestError(f"the label is a list, {label!r:.60}: --label-separator , takes the labels of lists")
            if name is None:
                raise IngestError(f"the label is {label!r}, neither a text nor a finite number")
            if not name:
                raise NoLabelError(f"the label is empty; {advice} (or one of several, or none: --label-separator ,)")
            if name.endswith("\0"):
                raise IngestError(f"the label {name!r} ends with a NUL, which arrays drop: remove it")
            if problem := not_unicode(name):
                raise IngestError(f"the label has {problem}")
            names.add(name)
            if self.numeric:
                with suppress(ValueError):
                    if math.isfinite(float(name)):
                        continue
                raise IngestError(f"the label {name!r} is not a finite number, which targets have to be")
            if self.known_classes is not None and name not in self.known_classes:
                classes = ", ".join(sorted(self.known_classes)[:10]) + ", ..." * (len(self.known_classes) > 10)
                hint = f"; labels are cut at {self.separator!r}, or at --label-separator" * (self.separator is not None)
                if alike := {unicodedata.normalize(form, name) for form in ("NFC", "NFD")} & self.known_classes:
                    hint = f"; it differs from {min(alike)!r} only by Unicode normalisation: write both in one form"
                shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"  # a text, where columns are swapped
                raise IngestError(f"label {shown!r} is not among the classes ({classes}){hint}")
            if self.texts.setdefault(name, isinstance(label, str)) != isinstance(label, str):
                raise IngestError(f"the label {label!r} {MIXED}")
        return name_of(tuple(sorted(names))) if self.separator is not None else min(names)


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


def not_unicode(text: str) -> str | None:
    """Return why `text` cannot be stored as UTF-8, if so; readers decode with "surrogateescape" or "surrogatepass"."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            return f"the byte 0x{code - 0xDC00:02x}, which the encoding does not allow; name the right one (--encoding)"
        return f"half of a surrogate pair, U+{code:04X}"
    return None


def warn_of_lookalikes(labels: Iterable[object]) -> None:
    """Warn of labels that differ only by the code points that spell the same letters."""
    spellings: dict[str, str] = {}
    for label in labels:
        other = spellings.setdefault(unicodedata.normalize("NFC", label), label) if isinstance(label, str) else label
        if other != label:
            warnings.warn(
                f"two labels look alike, and are two classes: {label!r} ({label!a}) and {other!r} ({other!a}) "
                "differ only by Unicode normalisation; write all in one form, such as NFC",
                stacklevel=2,
            )
