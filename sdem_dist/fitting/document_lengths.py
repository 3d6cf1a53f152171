"""Naive Bayes of counts as a story of documents: how long they are, and drawing them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage, Stages, state_of
from sdem_dist.fitting.drawing import sample_counts
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.length_sums import Lengths
from sdem_dist.models.document_lengths import DocumentLengths, fitted

if TYPE_CHECKING:
    import scipy.sparse as sp


def check_lengths(kind: str | None, *, counted: bool) -> None:
    """Raise ValueError where lengths are asked for and documents are not counted as they are."""
    if kind is not None and not counted:
        raise ValueError(
            f"lengths={kind!r} is of counts with loss='nll', and without unlabelled documents: set these, or leave lengths "
            "at None"
        )


def check_fixed(kind: str | None) -> None:
    """Raise ValueError where lengths would have to be learned batch by batch."""
    if kind is not None:
        raise ValueError("lengths are learned by fit alone: leave lengths at None in partial_fit and in searches")


def with_lengths(learner: WordEm, kind: str, plan: Plan) -> Stages[WordEm]:
    """Yield a pass that sums up lengths; return a learner whose model has them."""
    sums = yield from state_of(Stage("lengths", Lengths(learner.model.n_classes), replace(plan, n_blocks=1)))
    return replace(learner, model=replace(learner.model, lengths=fitted(kind, *sums)))


def documents_drawn(
    log_words: np.ndarray, classes: np.ndarray, lengths: DocumentLengths | int, rng: np.random.Generator
) -> sp.csr_matrix:
    """Draw a document of each of some classes; of so many words, or as many as their class has."""
    n_words = lengths.sample(classes, rng) if isinstance(lengths, DocumentLengths) else lengths
    return sample_counts(log_words, classes, n_words, rng)
