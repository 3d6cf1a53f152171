"""Where words start: at pseudo-counts that grow with the documents that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.fitting.defaults import PRIOR_POWER, PRIOR_POWERS
from sdem_dist.models.naive_bayes import NaiveBayes, pseudo_count
from sdem_dist.models.word_counts import SdemState, bounds

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus, MemoryCorpus
    from sdem_dist.models.weighting import Weighting


@dataclass(frozen=True)
class PriorStart:
    """mu_0 of words, which every process makes for itself from the corpus's document frequencies.

    `words`: the words, where the weighting chooses among n-grams and no corpus on disk has them.
    """

    model: NaiveBayes
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
        power = PRIOR_POWER if self.weighting is None else PRIOR_POWERS.get(self.weighting.form, PRIOR_POWER)
        prior = self.model.alpha * np.maximum(frequency, 1.0) ** power
        if self.weighting is not None and self.weighting.chooses:
            words = self.words
            if words is None and self.weighting.orders is not None:
                words = self.corpus.vocabulary()
            # A column that is left out adds nothing to the classes' totals.
            left_out = self.weighting.factors(frequency, words) == 0.0
            prior[left_out] = pseudo_count(0.0, self.model.n_features)
        return np.asarray(prior)

    def block(self, block: int, n_blocks: int) -> SdemState:
        """Return the words of a block."""
        first, last = bounds(self.model.n_features, block, n_blocks)
        return self.model.start_at(self.prior[first:last])
