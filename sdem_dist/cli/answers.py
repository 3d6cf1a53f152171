"""What a model says of documents, as columns of a table or as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from sdem_dist.counted import joined, visible
from sdem_dist.errors import ModelError

if TYPE_CHECKING:
    import pyarrow

    from sdem_dist.estimators.base import EngineEstimator


MANY = 1_000
"""Up to this many classes, all are shown with their probabilities unless options say otherwise; else the best one."""
UNSURE = "unsure"  # the label of documents whose best class is less probable than the threshold


@dataclass(frozen=True)
class Answers:
    """How a model's rows of numbers are shown."""

    rows: Callable[[Any], np.ndarray]
    """From documents to an array with a row for each: shares of `names`, or numbers that stand for themselves."""
    names: Sequence[Any] | None  # classes, clusters or topics, in the order of the columns; None: the rows are numbers
    what: str = "prediction"
    share: str = "probability"  # `what` and `share`: what the best name and its share are called
    top: int | None = None  # how many of the best names are shown, the best first; None: all, in the model's order
    best_only: bool = False  # the best name without its share
    threshold: float = 0.0  # a smaller best share makes the name `UNSURE`
    sets: Callable[[np.ndarray], np.ndarray] | None = None
    """From rows of shares to booleans: which names are in the set of each document."""
    label_thresholds: np.ndarray | None = None
    """Shape (n_names,): a document gets every name whose share is at least this, perhaps none. None: the best one."""

    def columns(self, documents: Any) -> dict[str, pyarrow.Array | list[Any]]:
        rows = self.rows(documents)
        if self.names is None:
            rows = rows.reshape(len(rows), -1)
            names = [self.what] if rows.shape[1] == 1 else [f"{self.what}_{k}" for k in range(rows.shape[1])]
            return dict(zip(names, map(_numbers, rows.T), strict=True))
        best = self._best(rows)
        if self.label_thresholds is not None:
            table = {self.what: _sets(self.names, rows >= (self.threshold or self.label_thresholds))}
        else:
            table = {self.what: _named(*self._labels(rows, best[:, 0]))}
        if self.sets is not None:
            table["set"] = _sets(self.names, self.sets(rows))
        if self.best_only:
            return table
        shares = np.take_along_axis(rows, best, axis=1).T
        table[self.share] = _numbers(shares[0])
        if self.top is None:
            return table | {f"{self.share}_{name}": _numbers(of) for name, of in zip(self.names, rows.T, strict=True)}
        for rank in range(1, len(shares)):
            table[f"{self.what}_{rank + 1}"] = _named(self.names, best[:, rank])
            table[f"{self.share}_{rank + 1}"] = _numbers(shares[rank])
        return table

    def lines(self, documents: Any, ids: Sequence[object] | None = None) -> str:
        """Return a line for each document: its id, where there is one, its label, and NAME=SHARE pairs."""
        rows = self.rows(documents)
        if self.names is None:
            numbers = rows.astype(np.float64).reshape(len(rows), -1).tolist()
            lines = ["\t".join(f"{value:.6g}" for value in row) for row in numbers]
        else:
            lines = self._named_lines(rows, [on_a_line(name) for name in self.names])
        if ids is not None:
            lines = [f"{on_a_line(id_)}\t{line}" for id_, line in zip(ids, lines, strict=True)]
        return "".join([f"{line}\n" for line in lines])

    def _named_lines(self, rows: np.ndarray, names: list[str]) -> list[str]:
        best = self._best(rows)
        if self.label_thresholds is not None:
            inside = rows >= (self.threshold or self.label_thresholds)
            lines = [joined(names[k] for k in np.flatnonzero(row)) for row in inside]
        else:
            labels, which = self._labels(rows, best[:, 0])
            cells = list(map(on_a_line, labels))
            lines = [cells[k] for k in which.tolist()]
        if self.sets is not None:
            sets = [joined(names[k] for k in np.flatnonzero(row)) for row in self.sets(rows)]
            lines = [f"{line}\tset={members}" for line, members in zip(lines, sets, strict=True)]
        if self.best_only:
            return lines
        if self.top is None:
            pairs = "".join(f"\t{name.replace('%', '%%')}=%.6g" for name in names)
            return [line + pairs % tuple(row) for line, row in zip(lines, rows.tolist(), strict=True)]
        shares = np.take_along_axis(rows, best, axis=1).tolist()
        return [
            line + "".join(f"\t{names[k]}={p:.6g}" for k, p in zip(ranks, row, strict=True))
            for line, ranks, row in zip(lines, best.tolist(), shares, strict=True)
        ]

    def _best(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of each row that are shown, the best first."""
        if self.top in (None, 1):
            return np.asarray(rows.argmax(axis=1)[:, None])
        return np.argsort(-rows, axis=1, kind="stable")[:, : self.top]

    def _labels(self, rows: np.ndarray, best: np.ndarray) -> tuple[Sequence[Any], np.ndarray]:
        """Return labels, and which of them each row gets."""
        assert self.names is not None
        if not self.threshold:
            return self.names, best
        sure = rows.max(axis=1, initial=0.0) >= self.threshold
        return [*map(str, self.names), UNSURE], np.where(sure, best, len(self.names))


def _numbers(values: np.ndarray) -> pyarrow.Array:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64))


def _named(names: Sequence[Any], which: np.ndarray) -> pyarrow.Array | list[Any]:
    """Return the name of each row as an Arrow array, or as a list where Arrow has no type for such names."""
    import pyarrow as pa

    try:
        return pa.array(list(names)).take(pa.array(which))
    except (pa.ArrowException, UnicodeEncodeError):
        return [names[k] for k in which.tolist()]


def _sets(names: Sequence[Any], inside: np.ndarray) -> pyarrow.Array:
    import pyarrow as pa

    members = [[names[k] for k in np.flatnonzero(row).tolist()] for row in inside]
    return pa.array(members, pa.list_(pa.array(list(names)).type))


def on_a_line(value: object) -> str:
    """Return a value as one field of a line: without TABs and line ends, and with control characters written out."""
    return visible(value).replace("\t", " ").replace("\n", " ")


def predictions_of(estimator: EngineEstimator, name: object, coverage: float | None = None) -> Answers:
    """Return what a model predicts; with `coverage` also sets of classes, of which `sdem calibrate` knows the limits.

    Raises ModelError: it predicts nothing; or it has no sets.
    """
    from sdem_dist.calibration import conformal_sets
    from sdem_dist.estimators.classifier import EngineClassifier

    model: Any = estimator
    kind = type(estimator).__name__
    sets = None
    if coverage is not None:
        if not isinstance(estimator, EngineClassifier):
            raise ModelError(f"--coverage is for classifiers, and this is a {kind}")
        most = estimator.set_thresholds(coverage)

        def sets(rows: np.ndarray) -> np.ndarray:
            return conformal_sets(rows, most)

    if estimator.spec.predicts is None:
        raise ModelError(f"{name} is a {kind}, which predicts nothing: sdem transform gives the topics of documents")
    if estimator.spec.predicts == "number":
        return Answers(model.predict, None)
    if estimator.several_labels:
        labels = estimator.classes_.tolist()
        return Answers(model.predict_proba, labels, what="labels", label_thresholds=model.thresholds_, sets=sets)
    if estimator.spec.predicts == "class":
        top = 1 if len(estimator.classes_) > MANY else None
        return Answers(model.predict_proba, estimator.classes_.tolist(), top=top, sets=sets)
    if not hasattr(model, "predict_proba"):
        return Answers(model.predict, None, what="cluster")
    return Answers(model.predict_proba, range(len(model.component_log_prior_)), what="cluster")


def topics_of(estimator: EngineEstimator, name: object) -> Answers:
    """Return a model's topics of documents.

    Raises ModelError: it has none.
    """
    model: Any = estimator
    kind = estimator.spec.topics
    if kind is None:
        raise ModelError(f"{name} is a {type(estimator).__name__}, which has no topics: sdem predict is for it")
    n_topics = int(model._n_features_out)
    names: Sequence[Any] = range(n_topics)
    if kind == "classes":
        each = n_topics // len(estimator.classes_)
        names = [f"{label} {number}" for label in estimator.classes_.tolist() for number in range(each)]
    return Answers(model.transform, names, what="topic", share="share")


def chosen_answers(answers: Answers, top: int | None, best_only: bool, threshold: float | None) -> Answers:
    """Return answers in the form that options ask for.

    Raises click.UsageError: the options mean nothing for numbers, or a class is named `UNSURE`.
    """
    if best_only and top is not None:
        raise click.UsageError("--no-proba gives the best one alone, and --top several with their numbers: choose one")
    if answers.names is None:
        if best_only or top is not None or threshold is not None:
            raise click.UsageError(
                "--no-proba, --top and --threshold are for classes, clusters and topics, and this model predicts numbers"
            )
        return answers
    if threshold and answers.label_thresholds is None and UNSURE in map(str, answers.names):
        raise click.UsageError(f"--threshold labels documents {UNSURE!r}, which is the name of a class here")
    top = answers.top if top is None and not best_only else top
    return replace(answers, top=top, best_only=best_only, threshold=threshold or 0.0)
