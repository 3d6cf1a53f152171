"""Natural parameters of a fitted model, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.fitting.blas import one_blas_thread

if TYPE_CHECKING:
    from sdem_dist.text.transform import TextTransformer

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
