"""Where words start: at pseudo-counts that grow with the documents that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.learners.blocks import bounds
from sdem_dist.models.naive_bayes import pseudo_count

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus, MemoryCorpus
    from sdem_dist.models.naive_bayes import NaiveBayes
    from sdem_dist.models.one_against_rest import OneAgainstRest
    from sdem_dist.models.weighting import Weighting
    from sdem_dist.models.word_counts import SdemState

PRIOR_POWER = 0.125
"""Power of its document frequency that a word's pseudo-count grows with: words that are met often take shorter steps."""


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which every process makes for itself from the corpus's document frequencies.

    Attributes
    ----------
    model : NaiveBayes or OneAgainstRest
    corpus : Corpus or MemoryCorpus
    weighting : Weighting or None
    words : list of str or None
        The words, where the weighting chooses among n-grams and no corpus on disk has them.
    """

    model: NaiveBayes | OneAgainstRest
    corpus: Corpus | MemoryCorpus
    weighting: Weighting | None = None
    words: list[str] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What is cached stays behind.
        return {"model": self.model, "corpus": self.corpus, "weighting": self.weighting, "words": self.words}

    @cached_property
    def prior(self) -> np.ndarray:
        """Pseudo-counts, shape (n_features,)."""
        frequency = self.corpus.document_frequency
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** PRIOR_POWER
        if self.weighting is not None and self.weighting.chooses:
            words = self.words
            if words is None and self.weighting.orders is not None:
                words = self.corpus.vocabulary()
            # A column that is left out takes nothing of the classes' totals, as if it were not there.
            left_out = self.weighting.factors(frequency, words) == 0.0
            prior[left_out] = pseudo_count(0.0, self.model.n_features)
        return np.asarray(prior)

    def block(self, block: int, n_blocks: int) -> SdemState:
        """Return the words of a block."""
        first, last = bounds(self.model.n_features, block, n_blocks)
        return self.model.start_at(self.prior[first:last])
