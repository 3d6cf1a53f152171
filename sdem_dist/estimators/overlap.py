"""Which loss ``loss="auto"`` takes: the hinge loss, or NCLL where three or more classes overlap.

The hinge loss looks at the label and its strongest rival alone. Where a document may well belong to each of several
classes, the classes with the lowest hinge loss are not the most probable ones (Tewari and Bartlett 2007, on the loss of
Crammer and Singer: it needs a class with more than half of the probability). NCLL has no such limit. Where classes are
apart it is slower and less accurate.
"""

from __future__ import annotations

MANY_WRONG = 0.2
"""Share of held-out documents that the hinge loss has to get wrong for NCLL to be tried."""
DOCUMENTS_A_CLASS = 10
"""Documents of a class, in the mean, under which an error says that they are few, not that classes overlap."""


def may_overlap(n_documents: int, n_classes: int, accuracy: float) -> bool:
    """Whether NCLL is to be tried, too, given the accuracy of the hinge loss on held-out documents."""
    enough = n_classes > 2 and n_documents >= DOCUMENTS_A_CLASS * n_classes
    return enough and accuracy < 1.0 - MANY_WRONG
