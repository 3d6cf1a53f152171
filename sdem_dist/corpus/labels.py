"""Class labels of any kind as positions in a list of classes."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.manifest import Classes, ClassLabel, LabelSet
from sdem_dist.errors import CorpusError


def array_of(classes: Classes) -> np.ndarray:
    """Return classes as an array; whole numbers beyond int64, such as hashes, as uint64, where NumPy takes floats."""
    whole = len(classes) > 0 and all(type(label) is int for label in classes)
    if whole and max(cast("Sequence[int]", classes)) >= 1 << 63:
        return np.array(classes, np.uint64 if min(cast("Sequence[int]", classes)) >= 0 else object)
    return np.array(classes)


class LabelEncoder:
    """Turns labels into codes, batch by batch, and the codes into positions at the end.

    `classes`: the classes in their order. None: those found, sorted, once all batches have been seen.
    `unlabelled`: the value for no label; its code is -1. If it is given, None, NaN and pandas' NA are no labels, too.
    """

    def __init__(self, classes: Sequence[object] | None, unlabelled: object = None) -> None:
        self._unlabelled = unlabelled
        self._fixed = classes is not None
        self._codes: dict[ClassLabel | LabelSet, int] = {}
        self._seen: dict[tuple[type, object], int] = {}  # by kind, too, since True equals 1
        for label in () if classes is None else classes:
            plain = _plain(label)
            if plain in self._codes:
                raise CorpusError(f"classes names {plain!r} twice")
            self._codes[plain] = len(self._codes)
        if self._fixed and not self._codes:
            raise CorpusError("classes is empty; leave it out to take the classes from the labels")
        self._labelled: bool | None = None

    @property
    def labelled(self) -> bool:
        """Whether the batches seen had labels."""
        return bool(self._labelled)

    def encode(self, y: ArrayLike | None, n_documents: int, first: int) -> np.ndarray:
        """Return the codes, int32, of a batch's labels; zeros without labels.

        Raises CorpusError: the number of labels is wrong, one is not among the classes, or some batches have labels and
        some not.
        """
        if self._labelled not in (None, y is not None):
            raise CorpusError(f"some batches have labels and some not, from document {first} on")
        self._labelled = y is not None
        if y is None:
            if self._fixed:
                raise CorpusError("classes are given but no labels")
            return np.zeros(n_documents, np.int32)
        labels = np.asarray(y)
        if labels.dtype.kind in "Mm":
            raise CorpusError(f"the labels from document {first} on are {labels.dtype}: {_DATES}")
        if labels.shape != (n_documents,):
            raise CorpusError(
                f"the batch from document {first} on has {n_documents} documents and labels of shape {labels.shape}"
            )
        if labels.dtype.kind in "OT":  # np.unique cannot sort None or mixed kinds
            values = labels.tolist()
            pairs = list(zip(map(type, values), values, strict=True))
            try:
                if not all(map(self._seen.__contains__, pairs)):
                    for i, pair in enumerate(pairs):
                        if pair not in self._seen:
                            self._seen[pair] = self._code(pair[1], first + i)
                return np.fromiter(map(self._seen.__getitem__, pairs), np.int32, n_documents)
            except TypeError:  # one is not hashable
                return np.array([self._code(v, first + i) for i, v in enumerate(labels)], np.int32)
        found, where, inverse = np.unique(labels, return_index=True, return_inverse=True)
        codes = [self._code(label, first + int(at)) for label, at in zip(found, where, strict=True)]
        return np.array(codes, np.int32)[inverse]

    def _code(self, label: object, document: int) -> int:
        if self._unlabelled is not None and (is_missing(label) or label == self._unlabelled):
            return -1
        try:
            plain = _plain(label)
        except CorpusError as error:
            raise CorpusError(f"document {document}: {error}") from error
        if plain not in self._codes:
            if self._fixed:
                raise CorpusError(f"document {document} has the label {plain!r}, which is not among the classes")
            self._codes[plain] = len(self._codes)
        return self._codes[plain]

    def finish(self) -> tuple[Classes, np.ndarray]:
        """Return the classes in their final order, and the position there of each code: int32."""
        found = list(self._codes)
        if self._fixed:
            return tuple(found), np.arange(len(found), dtype=np.int32)
        try:
            order = sorted(range(len(found)), key=found.__getitem__)
        except TypeError as error:
            raise CorpusError(f"the labels are of kinds that cannot be sorted together: {error}") from error
        positions = np.zeros(max(1, len(found)), np.int32)
        positions[order] = np.arange(len(found))
        return tuple(found[code] for code in order), positions


_DATES = "dates and times are not labels; make texts of them (y.astype(str))"


def _plain(label: object) -> ClassLabel | LabelSet:
    """Return a label, or a set of labels, as plain values."""
    return tuple(map(plain_label, label)) if isinstance(label, tuple) else plain_label(label)


def plain_label(label: object) -> ClassLabel:
    """Return a label as a Python string, integer, float or boolean; raise CorpusError for anything else."""
    if isinstance(label, np.datetime64 | np.timedelta64):
        raise CorpusError(f"{label!r} cannot be a class label: {_DATES}")
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, float) and not math.isfinite(plain):
        raise CorpusError(f"{plain} cannot be a class label")
    if isinstance(plain, str):
        if plain.endswith("\0"):
            raise CorpusError(f"{plain!r} cannot be a class label: it ends with a NUL, which NumPy drops")
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise CorpusError(f"{plain!r} cannot be a class label: it holds half of a surrogate pair") from error
    if isinstance(plain, str | int | float):
        return plain
    raise CorpusError(
        f"{plain!r} cannot be a class label: strings, integers, floats and booleans can; make texts of others"
    )


def is_missing(value: object) -> bool:
    """Say whether a value is None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)
