"""Beginnings of fits of the same documents share what is equal."""

from __future__ import annotations

import numpy as np
from reference.random_documents import random_counts

from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.fitting.prior_start import Known, PriorStart
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes

X, Y = random_counts(60, 30, 3)


def test_folds_that_begin_alike_share_one_state_and_others_do_not():
    known, corpora = Known(), [MemoryCorpus(X, Y, (0, 1, 2)) for _ in range(3)]
    starts = [PriorStart(NaiveBayes(30, Classes(3), alpha), corpus) for alpha in (0.5, 1.0) for corpus in corpora]
    states = [known.block_of(start)(0, 1) for start in starts]
    assert len({id(state) for state in states}) == 2
    for start, state in zip(starts, states, strict=True):
        np.testing.assert_array_equal(state.words, start.block(0, 1).words)
