"""What an estimator takes and what it can do, declared once: input checks, files, the command and reports read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layout = Literal["sparse", "dense"]
Target = Literal["labels", "numbers", "nothing"]
Topics = Literal["classes", "documents"]


@dataclass(frozen=True)
class Spec:
    """Declaration of an estimator.

    Attributes
    ----------
    layout : {"sparse", "dense"}
        Documents as CSR matrices of counts or weights, or rows of a dense table.
    target : {"labels", "numbers", "nothing"}
        What documents bring to be learned. A dense corpus has its numbers as the last column.
    predicts : str or None
        What `predict` returns, for people: "class", "cluster", "number"; None where there is no `predict`.
    shown : tuple of str
        Metrics that people see where there is room for few.
    words : str or None
        The attribute with ln p(word | class or cluster), shape (n_rows, n_features).
    topics : {"classes", "documents"} or None
        Whose topics `topics` returns.
    unlabelled : bool
        The parameter of this name says which label stands for none.
    shuffled : bool
        Documents in memory are put into a random order, once: steps a few documents long need it.
    """

    layout: Layout
    target: Target
    predicts: str | None
    shown: tuple[str, ...] = ("accuracy", "ncll")
    words: str | None = None
    topics: Topics | None = None
    unlabelled: bool = False
    shuffled: bool = True
