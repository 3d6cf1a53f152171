"""Documents of a corpus as a model reads them: weighted, without those held out, or with sets of labels as targets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus.base import AnyDocuments, BaseCorpus
from sdem_dist.corpus.labels import all_labels, indicator_of, membership, sets_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.documents import CorpusLike, Documents, offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.models.heads import trained_part

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.models.weighting import Weighting

BaseCorpusT = TypeVar("BaseCorpusT", bound=BaseCorpus)


@dataclass(frozen=True, repr=False)
class Weigh:
    """A transform: counts as a model weighs them."""

    weighting: Weighting
    trained_on: Corpus | MemoryCorpus | np.ndarray
    """Where document frequencies come from: workers read those of a corpus on disk for themselves."""
    words: list[str] | None = None  # where the weighting chooses among n-grams and no corpus on disk has them

    def __getstate__(self) -> dict[str, object]:
        return {"weighting": self.weighting, "trained_on": self.trained_on, "words": self.words}  # not the factors

    @cached_property
    def _name(self) -> str:
        trained = self.trained_on
        return hashlib.sha256(trained.tobytes()).hexdigest() if isinstance(trained, np.ndarray) else ""

    def __repr__(self) -> str:
        return f"{self.weighting} {self._name}"

    @cached_property
    def factors(self) -> np.ndarray:
        words, frequency = self.words, self.trained_on
        if not isinstance(frequency, np.ndarray):
            if words is None and self.weighting.orders is not None:
                words = frequency.vocabulary()
            frequency = frequency.document_frequency
        return self.weighting.factors(frequency, words)

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        return self.weighting.apply(cast(Documents, documents), self.factors)


@dataclass(frozen=True, repr=False)
class HoldOut:
    """A transform: only the documents that are held out of training, and that have a label where others have one.

    Words that only held-out documents of a range have are left out, like unknown words of new documents: they would
    take a share of a document's length.
    """

    seed: int
    share: float  # of the documents; 1: all that the corpus has
    frequency: np.ndarray | BaseCorpus
    """Shape (n_features,): how many documents each word has that are trained on or held out; of a corpus on disk
    workers read it for themselves."""

    def __repr__(self) -> str:
        return f"held out {self.seed} {self.share}"

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        documents = cast(Documents, documents)
        held_out = np.ones(stop - start, bool)
        if self.share < 1.0:
            held_out = ~trained_part(self.seed, start, stop, self.share)
        if documents.labels is not None:  # one without a label is trained on
            held_out &= documents.labels >= 0
        if documents.weights is not None:
            held_out &= documents.weights > 0
        documents = documents.taken(np.flatnonzero(held_out))
        frequency = self.frequency if isinstance(self.frequency, np.ndarray) else self.frequency.document_frequency
        is_trained = (frequency > np.bincount(documents.indices, minlength=len(frequency)))[documents.indices]
        indptr = offsets_of(is_trained)[documents.indptr]
        return replace(documents, data=documents.data[is_trained], indices=documents.indices[is_trained], indptr=indptr)


def held_out_documents(
    corpus: BaseCorpusT, seed: int = 0, share: float = 1.0, frequency: np.ndarray | None = None
) -> BaseCorpusT:
    """Return the documents of a corpus that are held out of training, see `HoldOut`; by default all that it has."""
    return corpus.transformed(HoldOut(seed, share, corpus if frequency is None else frequency))


def unweighed(corpus: CorpusLike) -> CorpusLike:
    """Return a corpus as it is before a model weighs it."""
    if not isinstance(corpus, BaseCorpus):
        return corpus
    return corpus._with(transforms=tuple(t for t in corpus.transforms if not isinstance(t, Weigh)))


@dataclass(frozen=True, repr=False)
class Members:
    """A transform: the labels of documents, of which each may have several, as targets of zeros and ones."""

    members: sp.csr_matrix  # shape (n_sets, n_labels), uint8: which label is in which set

    def __repr__(self) -> str:
        return f"with {self.members.shape[1]} labels"

    def __call__(self, documents: AnyDocuments, start: int, stop: int) -> Documents:
        return replace(cast(Documents, documents), targets=self.members[documents.labels].toarray())


def coded(y: object, classes: np.ndarray | None) -> tuple[np.ndarray, list[LabelSet], list[ClassLabel]]:
    """Return the labels of documents in memory as positions in a list of sets, the list, and all labels.

    `y`: indicator matrix, dense or sparse, or sequence of collections of labels; its columns are the `classes`, those
    of a fitted model.
    """
    names = None if classes is None else classes.tolist()
    try:
        sets = sets_of(y, names)
    except CorpusError as error:
        raise ValueError(str(error)) from None
    position: dict[LabelSet, int] = {}
    codes = np.array([position.setdefault(labels, len(position)) for labels in sets], np.int32)
    distinct = list(position)
    if names is None:
        indicator = indicator_of(y)
        names = list(all_labels(distinct) if indicator is None else range(indicator.shape[1]))
    elif unknown := [label for labels in distinct for label in labels if label not in names]:
        raise ValueError(f"y has the label {unknown[0]!r}, which is not among the model's")
    if not names:
        raise ValueError("y has no label at all: no document has one")
    return codes, distinct, names


def members_of(corpus: Corpus, classes: np.ndarray | None) -> tuple[sp.csr_matrix, list[ClassLabel]]:
    """Return which label is in which class of a corpus, and the labels: a fitted model's, or those that occur."""
    sets = [label if isinstance(label, tuple) else (label,) for label in corpus.header.classes]
    names = list(all_labels(sets)) if classes is None else classes.tolist()
    try:
        return membership(sets, names), names
    except KeyError as error:
        raise CorpusError(
            f"{corpus.path} has the label {error}, which the model was not trained on; ingest it with those of the training "
            "corpus (sdem ingest --vocabulary-from)"
        ) from None
