"""The vocabulary of a corpus, chosen as scikit-learn's CountVectorizer chooses it."""

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.text.runs import MergedTerms, Runs
from sdem_dist.text.vectorizer import VectorizerSettings


def choose(runs: Runs, settings: VectorizerSettings, n_documents: int) -> MergedTerms:
    """Return the terms of the corpus.

    `runs`: all that was counted.
    `settings`: its `min_df`, `max_df` and `max_features` decide.
    `n_documents`: number of documents that were counted.
    Raises IngestError if no term is left.
    """
    if runs.is_empty:
        raise no_word()
    terms = runs.merged(*bounds_of(settings, n_documents))
    limit(terms, settings, n_documents)
    return terms


def no_word() -> IngestError:
    """Return the error for an empty vocabulary."""
    return IngestError(
        "no document has a word; check the column of the text, and what a word is (token_pattern, stop_words; "
        "--text, --token-pattern, --stop-words)"
    )


def bounds_of(settings: VectorizerSettings, n_documents: int) -> tuple[float, float]:
    """Return the least and the largest number of documents that a term of the corpus is in."""
    least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
    return max(least, 1), most


def limit(terms: MergedTerms, settings: VectorizerSettings, n_documents: int) -> None:
    """Keep no more than `max_features` of terms within bounds; raise IngestError where there are none."""
    if not len(terms):
        least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
        raise IngestError(
            f"no word is in at least {least:g} and at most {most:g} of the {n_documents} documents; "
            "lower min_df (--min-df) or raise max_df (--max-df)"
        )
    if settings.max_features is not None and terms.totals is not None and len(terms) > settings.max_features:
        # exactly scikit-learn's expression: its sort decides between terms of equal totals
        best = (-terms.totals).argsort()[: settings.max_features]
        terms.keep(np.sort(best))
