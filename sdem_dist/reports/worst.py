"""Which of very many classes a table shows: those with most errors."""

from collections.abc import Sequence

import numpy as np

from sdem_dist.counted import counted

MOST = 60
"""Classes, or labels, that a table or a picture shows."""


def worst(wrong: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Return the positions of the classes with most errors, of equals those with most documents, ascending.

    `wrong`: shape (n_classes,), integers: documents of the class that were not found, and documents of others that were
    taken for it.
    `documents`: shape (n_classes,), integers.
    """
    return np.sort(np.lexsort((-documents, -wrong))[:MOST])


def title(what: str, n_all: int, documents: np.ndarray, shown: Sequence[int]) -> str:
    """Return the title of a table by class or label: how many it leaves out, and where to find them.

    `what`: "class" or "label".
    `n_all`: classes that the table could show.
    `documents`: shape (n_classes,), integers.
    `shown`: positions in `documents`.
    """
    left_out = n_all - len(shown)
    if not left_out:
        return f"By {what}, lowest F1 first"
    hidden = int(documents.sum() - documents[shown].sum())
    return (
        f"By {what}, the {len(shown)} with most errors, lowest F1 first; {counted(left_out, 'other')} "
        f"({counted(hidden, 'document')}) are in to_frame() and in sdem evaluate --report --json"
    )
