"""What a notebook shows of a search."""

from collections.abc import Callable
from typing import Any, cast

from sklearn.base import BaseEstimator

from sdem_dist.selection import summary


class ShownInNotebooks(BaseEstimator):
    """A search that shows its report once it is fitted, and before that scikit-learn's diagram."""

    def _html(self) -> str:
        return summary.html(cast(Any, self))

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram: Callable[[], str] = super()._repr_html_  # raises AttributeError where scikit-learn is to show text
        return self._html if hasattr(self, "best_index_") else diagram

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """Return all forms at once, for front ends that ask for them."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        fitted = "text/html" in bundle and hasattr(self, "best_index_")
        return bundle | {"text/html": self._html()} if fitted else bundle
