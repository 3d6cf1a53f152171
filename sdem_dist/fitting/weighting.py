"""The weighting that parameters and documents ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sdem_dist.models.unit import Moves, Unit, moves_of, unit_of
from sdem_dist.models.weighting import Weighting

if TYPE_CHECKING:
    from sdem_dist.documents import Documents
    from sdem_dist.inputs.spec import Source

NORM = 10.0
"""Euclidean length of documents, or their mean length: the scale on which a margin of 1 is neither near nor far."""
SAMPLE = 4096
"""Documents that lengths are measured on."""


def weighting_of(e: Any, source: Source) -> Weighting | None:
    """Return how an estimator's parameters ask for counts to be weighed; None: they are taken as they are.

    Raises
    ------
    ValueError
        Numbers that are not counts are to be weighed, or n-grams to be chosen that have no names.
    """
    form = e.weighting
    if form == "auto":
        form = "counts" if source.weighted or e.loss == "nll" else "tfidf"
    if source.weighted and form != "counts":
        raise ValueError(
            f"weighting={form!r} is for whole counts, and {source.name} holds other numbers: leave it at 'auto', which "
            "takes them as they are"
        )
    norm = e.norm
    if norm == "auto":
        norm = None if form == "counts" else NORM
    orders, characters = None, False
    if e.ngram_range is not None:
        if source.vocabulary is None:
            raise ValueError("ngram_range chooses among n-grams of a corpus, and these columns have no names")
        orders = checked_orders(e.ngram_range)
        characters = str((source.vectorizer or {}).get("analyzer", "word")) != "word"
    found = Weighting(form, float(norm or 0.0), 1.0, int(e.min_df), orders, characters, source.n_documents)
    plain = form == "counts" and norm is None and e.min_df == 1 and orders is None
    return None if plain and (e.loss == "nll" or e.steps == "paper") else found


def checked_orders(ngram_range: object) -> tuple[int, int]:
    """Return the shortest and the longest n-grams, or raise ValueError."""
    pair = tuple(cast("tuple[int, int]", ngram_range)) if isinstance(ngram_range, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) for n in pair) or not 1 <= pair[0] <= pair[1]:
        raise ValueError(f"ngram_range must be (shortest, longest), such as (1, 2), got {ngram_range!r}")
    return int(pair[0]), int(pair[1])


def sample(source: Source) -> Documents:
    """Return the first documents of a source, as they are weighed: those of a corpus are in random order."""
    return cast("Documents", source.documents.read(0, min(SAMPLE, source.n_documents)))


def shared_unit(source: Source, prior: np.ndarray, moves: dict[object, Moves]) -> Unit:
    """Return the unit of steps over a sample, see `unit_of`; `moves` keeps what other weights of it share, by weighting."""
    if source.weighting not in moves:
        documents = sample(source)
        moves[source.weighting] = moves_of(documents, prior)
        return moves[source.weighting].mean(documents.weights)
    documents = cast("Documents", source.corpus.read(0, min(SAMPLE, source.n_documents)))
    return moves[source.weighting].mean(documents.weights)


def scaled(source: Source, weighting: Weighting) -> Weighting:
    """Return a weighting with the factor that gives documents a mean squared length of `NORM` squared."""
    documents = sample(source)
    mean = unit_of(documents, np.ones(documents.n_features)).mean_square
    return replace(weighting, scale=NORM / mean**0.5)
