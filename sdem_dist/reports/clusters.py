"""What clusters hold, and how well they agree with classes that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.glossary import named
from sdem_dist.reports.cluster_scores import cluster_scores
from sdem_dist.reports.html import html_table
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ClusterReport:
    """Documents by cluster.

    Attributes
    ----------
    probabilities : ndarray of shape (n_documents, n_clusters), float64
    words : list of str
        What each cluster speaks of; empty where words have no names.
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    """

    probabilities: np.ndarray
    words: list[str]
    labels: np.ndarray | None
    classes: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents."""
        return len(self.probabilities)

    @property
    def sizes(self) -> np.ndarray:
        """Documents whose most probable cluster each one is, int64."""
        return np.bincount(self.probabilities.argmax(axis=1), minlength=self.probabilities.shape[1])

    @property
    def figures(self) -> dict[str, float]:
        """Purity, normalised mutual information and adjusted Rand index, where labels are known."""
        if self.labels is None or not (self.labels >= 0).any():
            return {}
        known = self.labels >= 0
        return cluster_scores(self.labels[known], self.probabilities.argmax(axis=1)[known])

    def _rows(self) -> list[tuple[str, str, str, str]]:
        shares = self.sizes / max(self.n_documents, 1)
        order = np.argsort(-self.sizes, kind="stable")
        return [
            (f"{k}", f"{self.sizes[k]:,}", f"{shares[k]:.1%}", self.words[k] if self.words else "")
            for k in order.tolist()
        ]

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        return {"documents": self.n_documents, **self.figures, "sizes": self.sizes.tolist(), "words": self.words}

    def to_frame(self) -> pd.DataFrame:
        """Return sizes and words by cluster, as a pandas table."""
        import pandas as pd

        words = self.words or [""] * len(self.sizes)
        return pd.DataFrame({"documents": self.sizes, "words": words}).rename_axis("cluster")

    def __str__(self) -> str:
        rows = [(*numbers, one_line(words, 48)) for *numbers, words in self._rows()]
        lines = [f"{name} {value:.3f}" for name, value in named(self.figures).items()]
        head = ", ".join([counted(self.n_documents, "document"), *lines])
        # Words stand to the left, at the end of lines.
        heads = ("cluster", "documents", "share", "words")
        widths = max((len(row[-1]) for row in rows), default=0)
        return f"{head}\n\n{columns(heads, [(*row[:-1], row[-1].ljust(widths)) for row in rows])}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(k, words, n, share) for k, n, share, words in self._rows()]
        return html_table(("cluster", "words", "documents", "share"), rows, left=2)
