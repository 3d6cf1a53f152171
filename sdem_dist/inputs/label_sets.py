"""Documents with several labels, as estimators that take them see them: which document has which label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import all_labels, indicator_of, membership, sets_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.documents import Documents, View
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True)
class WithMembers(View):
    """A corpus behind the same reading interface, whose documents bring their labels as targets of zeros and ones.

    `corpus`: its classes are sets of labels.
    `members`: sparse matrix of shape (n_sets, n_labels), uint8, which label is in which set.
    """

    members: sp.csr_matrix

    @property
    def cache_key(self) -> str:
        """Name the content."""
        return f"{self.corpus.cache_key} with {self.members.shape[1]} labels"

    def read(self, start: int, stop: int) -> Documents:
        """Return the documents `start` up to `stop`, with their labels as targets."""
        documents = cast(Documents, self.corpus.read(start, stop))
        assert documents.labels is not None
        return replace(documents, targets=self.members[documents.labels].toarray())


def coded(y: object, known: np.ndarray | None) -> tuple[np.ndarray, list[LabelSet], list[ClassLabel]]:
    """Return the labels of documents in memory as positions in a list of sets, the list, and all labels.

    `y`: indicator matrix, dense or sparse, or sequence of collections of labels.
    `known`: shape (n_labels,): the labels of a fitted model: the columns of an indicator matrix are these.
    Raises ValueError: a label is not among those of the model, or there is none at all.
    """
    names = None if known is None else known.tolist()
    try:
        sets = sets_of(y, names)
    except CorpusError as error:
        raise ValueError(str(error)) from None
    place: dict[LabelSet, int] = {}
    codes = np.array([place.setdefault(labels, len(place)) for labels in sets], np.int32)
    found = list(place)
    if names is None:
        indicator = indicator_of(y)
        names = list(all_labels(found) if indicator is None else range(indicator.shape[1]))
    elif unknown := [label for labels in found for label in labels if label not in names]:
        raise ValueError(f"y has the label {unknown[0]!r}, which is not among the model's")
    if not names:
        raise ValueError("y has no label at all: no document has one")
    return codes, found, names


def indicator_of_labels(y: object, known: np.ndarray | None) -> sp.csr_matrix:
    """Return which document in memory has which label, uint8 of shape (n_documents, n_labels); raises as `coded`."""
    codes, sets, names = coded(y, known)
    return membership(sets, names)[codes]


def members_of(corpus: Corpus, known: np.ndarray | None) -> tuple[sp.csr_matrix, list[ClassLabel]]:
    """Return which label is in which class of a corpus, and the labels: those of a fitted model, or those that occur.

    Raises CorpusError: a label is not among those of the model.
    """
    sets = corpus.header.label_sets
    sets = tuple((label,) for label in corpus.header.classes) if sets is None else sets  # type: ignore[misc]
    names = list(all_labels(sets)) if known is None else known.tolist()
    try:
        return membership(sets, names), names
    except KeyError as error:
        raise CorpusError(
            f"{corpus.path} has the label {error}, which the model was not trained on; ingest it with those of the training "
            "corpus (sdem ingest --vocabulary-from)"
        ) from None
