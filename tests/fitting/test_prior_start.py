"""Pseudo-counts of words grow with their document frequencies: with a higher power where no idf makes these light."""

from __future__ import annotations

import numpy as np
import pytest
from reference.random_documents import random_counts

from sdem_dist.corpus.memory import MemoryCorpus
from sdem_dist.fitting.mixture_starts import PriorStart
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.models.weighting import Weighting

X, Y = random_counts(60, 30, 3)


@pytest.mark.parametrize(("form", "power"), [("tfidf", 1 / 8), ("counts", 1 / 8), ("log", 3 / 8), ("binary", 3 / 8)])
def test_pseudo_counts_are_powers_of_document_frequencies(form, power):
    corpus = MemoryCorpus(X, Y, (0, 1, 2))
    prior = PriorStart(NaiveBayes(30, Classes(3), 2.0), corpus, Weighting(form, 10.0)).prior
    frequency = np.maximum(np.asarray((X > 0).sum(axis=0)).ravel(), 1)
    np.testing.assert_allclose(prior, 2.0 * frequency**power)
