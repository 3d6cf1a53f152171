"""The vocabulary of a corpus, chosen as scikit-learn's CountVectorizer chooses it."""

from __future__ import annotations

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.text.runs import MergedTerms, Runs
from sdem_dist.text.vectorizer import VectorizerSettings


def choose(runs: Runs, settings: VectorizerSettings, n_documents: int) -> MergedTerms:
    """Return the terms of the corpus.

    Parameters
    ----------
    runs : Runs
        All that was counted.
    settings : VectorizerSettings
        Its `min_df`, `max_df` and `max_features` decide.
    n_documents : int
        Number of documents that were counted.

    Raises
    ------
    IngestError
        If no term is left.
    """
    least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
    if runs.is_empty:
        raise IngestError(
            "no document has a word; check the column of the text, and what a word is (token_pattern, stop_words; "
            "--text, --token-pattern, --stop-words)"
        )
    terms = runs.merged(max(least, 1), most)
    if not len(terms):
        raise IngestError(
            f"no word is in at least {least:g} and at most {most:g} of the {n_documents} documents; "
            "lower min_df (--min-df) or raise max_df (--max-df)"
        )
    if settings.max_features is not None and terms.totals is not None and len(terms) > settings.max_features:
        # the very expression of scikit-learn, whose sort decides between terms of equal totals
        best = (-terms.totals).argsort()[: settings.max_features]
        terms.keep(np.sort(best))
    return terms
