"""Natural parameters of a fitted model, made when they are first asked for; one thread of BLAS; draws from a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from sdem_dist.inputs.validation import seed_of

if TYPE_CHECKING:
    from sdem_dist.text.transform import TextTransformer


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS has one thread."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Find this process's libraries; look again only after new imports, since a search takes as long as a small fit."""
    return ThreadpoolController()


def sample_counts(
    log_words: np.ndarray, drawn: np.ndarray, length: int | np.ndarray, rng: np.random.Generator
) -> sp.csr_matrix:
    """Draw a document from each of some components, of `length` words or each of its own length."""
    p = np.exp(log_words)
    p /= p.sum(axis=1, keepdims=True)
    of_each = np.broadcast_to(length, len(drawn))
    rows = [sp.csr_matrix(rng.multinomial(n, p[j])) for n, j in zip(of_each, drawn, strict=True)]
    return sp.vstack(rows, format="csr") if rows else sp.csr_matrix((0, p.shape[1]), dtype=np.int64)


def drawn_from(log_prior: np.ndarray, n: int, random_state: object) -> tuple[np.ndarray, np.random.Generator]:
    """Return classes or components drawn by their prior, and the generator for what follows.

    Raises ValueError: `n` is not a number of rows.
    """
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n_samples must be an integer that is not negative, got {n!r}")
    rng = np.random.default_rng(seed_of(random_state))
    prior = np.exp(log_prior)
    return rng.choice(len(prior), n, p=prior / prior.sum()), rng


_limiting = Lock()
"""BLAS has one number of threads a process: of two threads that limit it at once, one would restore it too early."""


class LazyParameters:
    """What predicting takes, made when first asked for: natural parameters are as large as the state of a wide model.

    An object of its own, since predicting may not change the attributes of an estimator.

    `trained`: those of the training, where these have another class prior.
    """

    def __init__(self, make: Callable[[], Any], trained: LazyParameters | None = None) -> None:
        self._make, self._trained = make, trained
        self._value: Any = None
        self.factors: tuple[object, object, np.ndarray] | None = None
        """A weighting, document frequencies, and what they multiply columns with."""
        self._transformer: tuple[object, object, TextTransformer] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "factors": None, "_transformer": None}

    def transformer(self, vectorizer: dict[str, Any], vocabulary: list[str] | None) -> TextTransformer:
        """Return a counter of texts with these settings and words; to make one of many words takes long."""
        from sdem_dist.text.transform import TextTransformer
        from sdem_dist.text.vectorizer import VectorizerSettings

        kept = self._transformer
        if kept is None or kept[0] is not vectorizer or kept[1] is not vocabulary:
            kept = vectorizer, vocabulary, TextTransformer(VectorizerSettings.from_json(vectorizer), vocabulary)
            self._transformer = kept
        return kept[2]

    def keep(self, vectorizer: object, vocabulary: object, transformer: TextTransformer | None) -> None:
        """Keep the counter of texts with these settings and words that the training made."""
        self._transformer = None if transformer is None else (vectorizer, vocabulary, transformer)

    @property
    def value(self) -> Any:
        """The parameters: the same bits whatever the number of threads that BLAS has."""
        if self._value is None:
            # Inverses of wide covariances have other bits with more threads.
            with _limiting, one_blas_thread():
                if self._value is None:
                    self._value = self._make()
        return self._value

    @property
    def trained(self) -> LazyParameters:
        """The parameters of the state: these, or those that `with_prior` began with."""
        # Not an attribute: a wide model in a reference cycle would wait for the garbage collector.
        return self if self._trained is None else self._trained

    def with_prior(self, log_prior: np.ndarray) -> LazyParameters:
        """Return the same with another ln p(y)."""
        trained = self.trained
        other = LazyParameters(trained._make, trained)
        other._value = trained.value._replace(log_prior=log_prior)
        return other
