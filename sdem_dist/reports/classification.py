"""What a classifier gets right and wrong, by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.calibration import Reliability, bin_sums, brier_scores, reliability
from sdem_dist.counted import counted
from sdem_dist.evaluation import macro_f1
from sdem_dist.glossary import named
from sdem_dist.reports.html import cell, html_table, meter, name_cell
from sdem_dist.reports.worst import title, worst
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    import pandas as pd

NAME_WIDTH = 24
"""Characters of a class that tables show."""
MATRIX, LINE = 12, 80
"""Classes of a confusion matrix at a terminal, and characters of its lines, at most."""
NAMED = 10
"""Classes without documents that are named."""


class Confusion(NamedTuple):
    """Documents of one class that were taken for another."""

    label: object
    prediction: object
    documents: int
    share: float
    """Of the documents of the class."""


@dataclass(frozen=True)
class ClassificationReport:
    """Figures of a classifier over documents whose classes are known.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64
        ln p(class | document).
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is: those without a label are left out.
    beside_errors : callable, or None
        From positions of errors, and their labels, to more columns of `errors_frame`: telling words, texts.
    """

    classes: np.ndarray
    labels: np.ndarray
    log_probabilities: np.ndarray
    positions: np.ndarray
    beside_errors: Callable[[np.ndarray, list[object]], dict[str, list[str]]] | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise ValueError("none of the documents has a label: a report needs some that have")

    @property
    def n_documents(self) -> int:
        """Documents that have a label."""
        return len(self.labels)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """p(class | document), shape (n_documents, n_classes)."""
        return np.asarray(np.exp(self.log_probabilities))

    @cached_property
    def predictions(self) -> np.ndarray:
        """Position of the most probable class of each document, shape (n_documents,)."""
        return np.asarray(self.log_probabilities.argmax(axis=1))

    @cached_property
    def confidence(self) -> np.ndarray:
        """Probability of each prediction, shape (n_documents,)."""
        return np.asarray(self.probabilities.max(axis=1))

    @cached_property
    def right(self) -> np.ndarray:
        """Whether each prediction is right, shape (n_documents,)."""
        return np.asarray(self.predictions == self.labels)

    @property
    def accuracy(self) -> float:
        """Share of the documents whose most probable class is their label."""
        return float(self.right.mean())

    @property
    def log_loss(self) -> float:
        """Mean of -ln p(label | document), the NCLL of the literature; nothing is clipped."""
        return float(-self.log_probabilities[np.arange(self.n_documents), self.labels].mean())

    @property
    def brier(self) -> float:
        """Mean over documents of the squared distance of probabilities from the truth, summed over classes: 0 to 2."""
        return float(brier_scores(self.probabilities, self.labels).mean())

    @cached_property
    def reliability(self) -> Reliability:
        """Accuracy beside confidence."""
        return reliability(bin_sums(self.confidence, self.right))

    @property
    def ece(self) -> float:
        """Expected calibration error, over 15 equal bins."""
        return self.reliability.ece

    @cached_property
    def confusion(self) -> np.ndarray:
        """Documents by class and prediction, shape (n_classes, n_classes), int64."""
        return self.confusion_among(np.arange(len(self.classes)))

    def confusion_among(self, chosen: np.ndarray) -> np.ndarray:
        """Return documents by class and prediction of classes at some positions, shape (n_chosen, n_chosen), int64."""
        n, place = len(chosen), np.full(len(self.classes), -1)
        place[chosen] = np.arange(n)
        rows, columns_ = place[self.labels], place[self.predictions]
        both = (rows >= 0) & (columns_ >= 0)
        return np.bincount(rows[both] * n + columns_[both], minlength=n * n).reshape(n, n)

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each class: documents that are found, all its documents, and documents that are taken for it."""
        n = len(self.classes)
        hits, labels, predictions = self.labels[self.right], self.labels, self.predictions
        return np.bincount(hits, minlength=n), np.bincount(labels, minlength=n), np.bincount(predictions, minlength=n)

    @property
    def worst(self) -> np.ndarray:
        """Positions of the classes with most errors, ``MOST`` of ``sdem_dist/reports/worst.py`` of them, ascending."""
        hits, support, predicted = self._counts
        return worst(support + predicted - 2 * hits, support)

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and support; 0 where there is nothing to divide by."""
        hits, support, predicted = self._counts
        of = ((hits, predicted), (hits, support), (2 * hits, predicted + support))
        return *(part / np.maximum(whole, 1) for part, whole in of), support

    @property
    def precision(self) -> np.ndarray:
        """Share of the predictions of each class that are right; 0 where it was never predicted."""
        return self._by_class[0]

    @property
    def recall(self) -> np.ndarray:
        """Share of the documents of each class that were found; 0 where it has none."""
        return self._by_class[1]

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of each class."""
        return self._by_class[2]

    @property
    def support(self) -> np.ndarray:
        """Documents of each class, int64."""
        return self._by_class[3]

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or were predicted."""
        hits, support, predicted = self._counts
        return macro_f1(np.concatenate([support, predicted, hits]))

    @property
    def roc_auc(self) -> float | None:
        """Area under the ROC curve, of two classes that both occur, for the second one; else None."""
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.labels, self._log_odds)) if self._of_two else None

    @property
    def pr_auc(self) -> float | None:
        """Average precision, of two classes that both occur, for the second one; else None."""
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(self.labels, self._log_odds)) if self._of_two else None

    @property
    def _of_two(self) -> bool:
        return len(self.classes) == 2 and len(np.unique(self.labels)) == 2

    @property
    def _log_odds(self) -> np.ndarray:
        """Log-odds, by which documents of two classes are ranked: probabilities near 1 would be ties."""
        finite = np.clip(self.log_probabilities, -1e300, 0.0)
        return np.asarray(finite[:, 1] - finite[:, 0])

    @property
    def errors(self) -> np.ndarray:
        """Rows of the wrong predictions, the most confident first; `positions` says which documents they are."""
        wrong = np.flatnonzero(~self.right)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    def confusions(self, n: int = 10) -> list[Confusion]:
        """Return the most frequent pairs of a class and what it was taken for."""
        wrong, names, support = ~self.right, self.classes.tolist(), self.support
        pairs = self.labels[wrong].astype(np.int64) * len(names) + self.predictions[wrong]
        places, times = np.unique(pairs, return_counts=True)
        most = np.argsort(-times, kind="stable")[:n]
        found = [(*divmod(int(places[k]), len(names)), int(times[k])) for k in most]
        return [Confusion(names[i], names[j], times, float(times / support[i])) for i, j, times in found]

    @property
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name; the areas under curves of two classes only."""
        found = {name: getattr(self, name) for name in ("accuracy", "log_loss", "macro_f1", "brier", "ece")}
        areas = {"roc_auc": self.roc_auc, "pr_auc": self.pr_auc}
        return found | {name: area for name, area in areas.items() if area is not None}

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        by_class = zip(self.classes.tolist(), *(column.tolist() for column in self._by_class), strict=True)
        names = ("label", "precision", "recall", "f1", "support")
        return {
            "documents": self.n_documents,
            **self.figures,
            "classes": [dict(zip(names, row, strict=True)) for row in by_class],
            "confusions": [confusion._asdict() for confusion in self.confusions()],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return precision, recall, F1 and support by class, as a pandas table, in the order of `classes`."""
        import pandas as pd

        names = ("precision", "recall", "f1", "support")
        return pd.DataFrame(dict(zip(names, self._by_class, strict=True)), index=pd.Index(self.classes, name="class"))

    def confusion_frame(self) -> pd.DataFrame:
        """Return `confusion` as a pandas table: a row for each class, a column for each prediction."""
        import pandas as pd

        return pd.DataFrame(
            self.confusion,
            index=pd.Index(self.classes, name="class"),
            columns=pd.Index(self.classes, name="prediction"),
        )

    def errors_frame(self) -> pd.DataFrame:
        """Return the wrong predictions as a pandas table, the most confident first; its index is `positions`.

        Columns of the words that spoke for the prediction and for the label follow where the model has an explanation,
        and the texts where they are there.
        """
        import pandas as pd

        rows, beside = self.errors, self.beside_errors
        labels = self.classes[self.labels[rows]]
        more = {} if beside is None else beside(self.positions[rows], labels.tolist())
        return pd.DataFrame(
            {
                "label": labels,
                "prediction": self.classes[self.predictions[rows]],
                "probability": self.confidence[rows],
                "probability_of_label": self.probabilities[rows, self.labels[rows]],
                **more,
            },
            index=pd.Index(self.positions[rows], name="document"),
        )

    @property
    def _unseen(self) -> str:
        """Name the classes without documents, if there are any, and say what that does to macro-F1."""
        seen = set(np.flatnonzero(self._seen).tolist())
        unseen = [one_line(c, NAME_WIDTH) for k, c in enumerate(self.classes.tolist()) if k not in seen]
        if not unseen:
            return ""
        more = f" and {len(unseen) - NAMED:,} more" if len(unseen) > NAMED else ""
        return (
            f"No documents, and never predicted: {', '.join(unseen[:NAMED])}{more}. Macro-F1 is the mean of the other "
            f"{counted(len(seen), 'class', 'classes')}."
        )

    @property
    def _seen(self) -> np.ndarray:
        """Which classes occur or were predicted, bool of shape (n_classes,)."""
        _, support, predicted = self._counts
        return np.asarray(support + predicted > 0)

    def _weakest_first(self) -> list[int]:
        """Return the classes that tables show, the lowest F1 first, then those of most documents."""
        shown = self.worst[self._seen[self.worst]]
        return list(shown[np.lexsort((-self.support[shown], self.f1[shown]))].tolist())

    @property
    def _title(self) -> str:
        return title("class", int(self._seen.sum()), self.support, self._weakest_first())

    def _rows(self) -> list[tuple[object, str, str, str, str]]:
        p, r, f, n = self._by_class
        return [
            (self.classes[k], f"{p[k]:.3f}", f"{r[k]:.3f}", f"{f[k]:.3f}", f"{n[k]:,}") for k in self._weakest_first()
        ]

    def __str__(self) -> str:
        n_errors = int(self.n_documents - self.right.sum())
        head = f"{counted(self.n_documents, 'document')}, {counted(n_errors, 'error')}"
        return "\n\n".join([head, figures_shown(self.figures), self.details()])

    __repr__ = __str__

    def details(self) -> str:
        """Return the tables by class and of confusions for a terminal."""
        rows = [(one_line(name, NAME_WIDTH), *numbers) for name, *numbers in self._rows()]
        parts = [
            f"{self._title}:",
            columns(("class", "precision", "recall", "F1", "documents"), rows),
            *([self._unseen] if self._unseen else []),
        ]
        if len(self.classes) <= MATRIX and (matrix := self._matrix()):
            parts += ["Documents by class (rows) and prediction (columns):", matrix]
        if confusions := self.confusions():
            shown = [
                (
                    one_line(c.label, NAME_WIDTH),
                    one_line(c.prediction, NAME_WIDTH),
                    f"{c.documents:,}",
                    f"{c.share:.1%}",
                )
                for c in confusions
            ]
            heads = ("class", "taken for", "documents", "of the class")
            parts += ["Most frequent confusions:", columns(heads, shown, left=2)]
        return "\n\n".join(parts)

    def _matrix(self) -> str:
        """Return the confusion matrix as a table, its predictions numbered; nothing where a line would be too wide."""
        named = [one_line(name, NAME_WIDTH - 4) for name in self.classes.tolist()]
        names = [f"{k:>2} {name}" for k, name in enumerate(named)]
        rows = [[name, *(f"{n:,}" if n else "." for n in row)] for name, row in zip(names, self.confusion, strict=True)]
        found = columns(["class", *map(str, range(len(names)))], rows)
        return found if max(map(len, found.splitlines())) <= LINE else ""

    def _repr_html_(self) -> str:
        figures = html_table(("", ""), [(name, f"{value:.4f}") for name, value in named(self.figures).items()])
        return f'<div class="sdem">{figures}{self.table_of_classes()}{self.table_of_confusions()}</div>'

    def table_of_classes(self) -> str:
        """Return the table by class as HTML, with bars of F1."""
        rows = [
            (name_cell(self.classes[k]), *numbers[:2], meter(float(self.f1[k])), numbers[3])
            for k, (_, *numbers) in zip(self._weakest_first(), self._rows(), strict=True)
        ]
        note = f"<p>{cell(self._unseen)}</p>" if self._unseen else ""
        heads = ("class", "precision", "recall", "F1", "documents")
        return html_table(heads, rows, caption=self._title, raw=(0, 3)) + note

    def table_of_confusions(self, n: int = 10) -> str:
        """Return the most frequent confusions as an HTML table; nothing where there are none."""
        rows = [
            (name_cell(c.label), name_cell(c.prediction), f"{c.documents:,}", f"{c.share:.1%}")
            for c in self.confusions(n)
        ]
        heads = ("class", "taken for", "documents", "of the class")
        return html_table(heads, rows, caption="Most frequent confusions", left=2, raw=(0, 1)) if rows else ""


def figures_shown(figures: dict[str, float]) -> str:
    """Return figures as lines for people."""
    return columns(("", ""), [(name, f"{value:.4f}") for name, value in named(figures).items()]).strip("\n")


def classification_report(
    classes: np.ndarray, labels: np.ndarray, log_probabilities: np.ndarray
) -> ClassificationReport:
    """Return the report of documents, those without a label left out.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`; -1 where there is none.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64

    Raises
    ------
    ValueError
        No document has a label.
    """
    known = np.flatnonzero(labels >= 0)
    return ClassificationReport(classes, labels[known], log_probabilities[known], known)
