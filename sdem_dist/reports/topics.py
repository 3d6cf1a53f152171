"""What documents are about: topics with their words, shares, and how much of each class they make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.reports.html import html_table
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.inspection.topics import Topic


@dataclass(frozen=True)
class TopicReport:
    """Topics over documents.

    Attributes
    ----------
    topics : sequence of Topic
    proportions : ndarray of shape (n_documents, n_topics), float64
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    """

    topics: Sequence[Topic]
    proportions: np.ndarray
    labels: np.ndarray | None
    classes: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents."""
        return len(self.proportions)

    @property
    def shares(self) -> np.ndarray:
        """Mean proportion of each topic over documents, shape (n_topics,)."""
        return np.asarray(self.proportions.mean(axis=0))

    @property
    def prevalence(self) -> np.ndarray | None:
        """Mean proportion of topics in each class, shape (n_classes, n_topics); NaN for a class without documents."""
        if self.labels is None:
            return None
        found = np.full((len(self.classes), len(self.topics)), np.nan)
        for k in np.unique(self.labels[self.labels >= 0]):
            found[k] = self.proportions[self.labels == k].mean(axis=0)
        return found

    def examples(self, topic: int, n: int = 3) -> list[int]:
        """Return the positions of the documents that a topic has the largest proportion of, the largest first."""
        found: list[int] = np.argsort(-self.proportions[:, topic], kind="stable")[:n].tolist()
        return found

    @property
    def titles(self) -> list[str]:
        """How topics are called: by number, and by what each speaks for."""
        return [topic.title for topic in self.topics]

    @property
    def figures(self) -> dict[str, float]:
        """None: no single number measures topics."""
        return {}

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        prevalence = self.prevalence
        rows = zip(self.titles, self.shares.tolist(), self.topics, strict=True)
        return {
            "documents": self.n_documents,
            "topics": [
                {"topic": t, "share": s, "words": topic.words, "telling": topic.telling} for t, s, topic in rows
            ],
            "classes": self.classes.tolist(),
            "prevalence": None
            if prevalence is None
            else [[None if p != p else p for p in row] for row in prevalence.tolist()],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return the topics with their shares, and those in each class, as a pandas table."""
        import pandas as pd

        frame = pd.DataFrame(
            {"share": self.shares, "words": [" ".join(t.words) for t in self.topics]}, index=self.titles
        )
        prevalence = self.prevalence
        if prevalence is not None:
            frame = frame.join(pd.DataFrame(prevalence.T, index=self.titles, columns=self.classes.tolist()))
        return frame.rename_axis("topic")

    def _order(self) -> list[int]:
        found: list[int] = np.argsort(-self.shares, kind="stable").tolist()
        return found

    def _heavy(self, k: int) -> str:
        """Return the classes that have most of a topic."""
        prevalence = self.prevalence
        if prevalence is None:
            return ""
        filled = np.nan_to_num(prevalence[:, k])
        most = np.argsort(-filled, kind="stable")[:2]
        return ", ".join(f"{self.classes[c]} {filled[c]:.0%}" for c in most)

    def __str__(self) -> str:
        rows = [
            (self.titles[k], f"{self.shares[k]:.1%}", one_line(" ".join(self.topics[k].telling), 46))
            for k in self._order()
        ]
        width = max((len(row[-1]) for row in rows), default=0)
        table = columns(("topic", "share", "words"), [(one_line(t, 20), s, w.ljust(width)) for t, s, w in rows])
        return f"{counted(self.n_documents, 'document')}\n\n{table}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<div class="sdem">{self.table_of_topics()}</div>'

    def table_of_topics(self) -> str:
        """Return the topics as an HTML table, the largest share first."""
        rows = [
            (
                self.titles[k],
                " ".join(self.topics[k].words),
                " ".join(self.topics[k].telling),
                self._heavy(k),
                f"{self.shares[k]:.1%}",
            )
            for k in self._order()
        ]
        return html_table(("topic", "most probable", "most telling", "classes with most of it", "share"), rows, left=4)
