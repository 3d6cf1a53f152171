"""Naive Bayes of counts as a story of documents: how long they are, and drawing them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.stages import Stage, Stages, state_of
from sdem_dist.errors import ModelError
from sdem_dist.estimators.feature_naive_bayes import drawn_from
from sdem_dist.estimators.mixture import sample_counts
from sdem_dist.learners.em import WordEm
from sdem_dist.learners.length_sums import Lengths
from sdem_dist.models.document_lengths import fitted

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.estimators.naive_bayes import MultinomialNB


def check_lengths(e: MultinomialNB) -> None:
    """Raise ValueError where lengths are asked for and documents are not counted as they are."""
    counted = e.loss == "nll" and e.weighting in ("auto", "counts") and e.unlabelled is None
    if e.lengths is not None and not counted:
        raise ValueError(
            f"lengths={e.lengths!r} is of counts with loss='nll', and without unlabelled documents: set these, or leave "
            "lengths at None"
        )


def with_lengths(learner: WordEm, kind: str, plan: Plan) -> Stages[WordEm]:
    """Yield a pass that sums up lengths; return a learner whose model has them."""
    sums = yield from state_of(Stage("lengths", Lengths(learner.model.n_classes), replace(plan, n_blocks=1)))
    return replace(learner, model=replace(learner.model, lengths=fitted(kind, *sums)))


def documents_drawn(
    e: MultinomialNB, n_samples: int, random_state: object, length: int
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw documents and their classes; see ``MultinomialNB.sample``."""
    check_is_fitted(e)
    if e.loss != "nll" or e.weighting_ is not None:
        raise ModelError("sample draws documents of a model with loss='nll' of counts, which this is not")
    drawn, rng = drawn_from(e.class_log_prior_, n_samples, random_state)
    lengths = e.learner_.model.lengths
    n_words = np.full(len(drawn), length) if lengths is None else lengths.sample(drawn, rng)
    return sample_counts(e.feature_log_prob_, drawn, n_words, rng), e.classes_[drawn]
