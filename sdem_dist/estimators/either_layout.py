"""Estimators that take documents and tables: the first `fit` decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.sparse as sp

from sdem_dist.corpus import Corpus
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.raw_text import are_texts

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from sdem_dist.inputs.spec import Extra, Layout


class EitherLayout(EngineEstimator):
    """Base of estimators of sparse matrices, texts and tables. What is trained on is what the model is of."""

    _trained_layout: Layout | None = None

    @property
    def _layout(self) -> Layout:
        return self._trained_layout or self.spec.layout

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Both: documents and tables."""
        return ("sparse", "dense")

    def _look_at(self, X: object) -> None:
        rows = getattr(X, "_meta", X)  # of a dask array this tells what its blocks are
        sparse = X.header.layout == "sparse" if isinstance(X, Corpus) else sp.issparse(rows) or are_texts(X)
        self._trained_layout = "sparse" if sparse else "dense"

    def extra(self) -> dict[str, object]:
        """Return what documents are."""
        return {**super().extra(), "layout": self._layout}

    def take_extra(self, extra: Extra) -> None:
        """Take back what documents are."""
        super().take_extra(extra)
        if extra["layout"] not in ("sparse", "dense"):
            raise ValueError(f"its layout is {extra['layout']!r}")
        self._trained_layout = extra["layout"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = False
        return tags
