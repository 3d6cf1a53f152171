"""What a fitted model predicts with, made when it is first asked for."""

from __future__ import annotations

from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

_limiting = Lock()
"""The number of threads that BLAS has is the process's: of two threads that limit it at once, one would restore it too early,
and the other for good to what the first had made of it."""


class LazyParameters:
    """Natural parameters of a learner's state: of a wide model they are as large as the state, and training needs none.

    An object of its own, since predicting may not change the attributes of an estimator.

    Parameters
    ----------
    learner : Learner
    state : state
    """

    def __init__(self, learner: Any, state: Any) -> None:
        self._learner, self._state = learner, state
        self._origin: LazyParameters | None = None
        self._value: Any = None

    @property
    def value(self) -> Any:
        """The parameters: the same bits whatever the number of threads that BLAS has."""
        if self._value is None:
            # Inverses of wide covariances come out otherwise with more threads.
            with _limiting, threadpool_limits(1, user_api="blas"):
                if self._value is None:
                    self._value = self._learner.parameters(self._state)
        return self._value

    @property
    def trained(self) -> LazyParameters:
        """Those of the state: these, or what `with_prior` moved away from."""
        # Not an attribute: a wide model in a cycle would wait for the garbage collector.
        return self if self._origin is None else self._origin

    def with_prior(self, log_prior: Any) -> LazyParameters:
        """Return the same with another ln p(y)."""
        other = LazyParameters(self._learner, self._state)
        other._origin, other._value = self.trained, self.value._replace(log_prior=log_prior)
        return other
