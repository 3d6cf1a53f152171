"""Documents of a corpus as a model weighs them, without those held out, and with sets of labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.corpus import Corpus, MemoryCorpus
from sdem_dist.corpus.labels import all_labels, indicator_of, membership, sets_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.documents import Documents, View, offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.models.heads import trained_part

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.models.weighting import Weighting


@dataclass(frozen=True)
class WeightedCorpus(View):
    """A corpus behind the same reading interface, weighted as it is read.

    `corpus`: of counts.
    `trained_on`: Corpus, MemoryCorpus or ndarray of shape (n_features,), where document frequencies come from:
    workers read those of a corpus on disk for themselves.
    `words`: the words, where the weighting chooses among n-grams and no corpus on disk has them.
    """

    weighting: Weighting
    trained_on: Corpus | MemoryCorpus | np.ndarray
    words: list[str] | None = None

    def __getstate__(self) -> dict[str, object]:
        # Caches are not sent.
        return {"corpus": self.corpus, "weighting": self.weighting, "trained_on": self.trained_on, "words": self.words}

    @cached_property
    def cache_key(self) -> str:
        """Name the content."""
        trained = self.trained_on
        frequency = hashlib.sha256(trained.tobytes()).hexdigest() if isinstance(trained, np.ndarray) else ""
        return f"{self.corpus.cache_key} {self.weighting} {frequency}"

    @cached_property
    def factors(self) -> np.ndarray:
        """What multiplies each column."""
        source, words = self.trained_on, self.words
        frequency = source if isinstance(source, np.ndarray) else source.document_frequency
        if words is None and self.weighting.orders is not None and not isinstance(source, np.ndarray):
            words = source.vocabulary()
        return self.weighting.factors(frequency, words)

    def read(self, start: int, stop: int) -> Documents:
        """Return the documents `start` up to `stop`, weighted."""
        return self.weighting.apply(cast(Documents, self.corpus.read(start, stop)), self.factors)


@dataclass(frozen=True)
class HeldOut(View):
    """The documents of a corpus that are held out of training, read like a corpus of all of them.

    A range holds those of its documents that are held out, so it may be empty; where some have no label these are not
    among them. Words that only held-out documents have are left out, like unknown words of new documents: they would
    take a share of a document's length, and make it seem less sure. A word of held-out documents in two ranges stays.
    """

    corpus: Corpus | MemoryCorpus
    seed: int = 0
    share: float = 1.0  # of the documents; 1: all that the corpus has
    frequency: np.ndarray | None = None
    """Shape (n_features,): how many documents each word has that are trained on or held out; None: those of the
    corpus."""

    @property
    def cache_key(self) -> str:
        """Name the content."""
        return f"{self.corpus.cache_key} held out {self.seed} {self.share}"

    def read(self, start: int, stop: int) -> Documents:
        """Return those of the documents `start` up to `stop` that are held out."""
        documents = cast(Documents, self.corpus.read(start, stop))
        held_out = np.ones(stop - start, bool)
        if self.share < 1.0:
            held_out = ~trained_part(self.seed, start, stop, self.share)
        if documents.labels is not None:  # one without a label is trained on
            held_out &= documents.labels >= 0
        if documents.weights is not None:
            held_out &= documents.weights > 0
        documents = documents.taken(np.flatnonzero(held_out))
        frequency = self.corpus.document_frequency if self.frequency is None else self.frequency
        is_known = (frequency > np.bincount(documents.indices, minlength=len(frequency)))[documents.indices]
        indptr = offsets_of(is_known)[documents.indptr]
        return replace(documents, data=documents.data[is_known], indices=documents.indices[is_known], indptr=indptr)


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
    labels_in_order = list(place)
    if names is None:
        indicator = indicator_of(y)
        names = list(all_labels(labels_in_order) if indicator is None else range(indicator.shape[1]))
    elif unknown := [label for labels in labels_in_order for label in labels if label not in names]:
        raise ValueError(f"y has the label {unknown[0]!r}, which is not among the model's")
    if not names:
        raise ValueError("y has no label at all: no document has one")
    return codes, labels_in_order, names


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
