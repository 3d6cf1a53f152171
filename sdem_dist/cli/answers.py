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

    def columns(self, documents: Any) -> dict[str, Any]:
        rows = self.rows(documents)
        if self.names is None:
            rows = rows.reshape(len(rows), -1)
            heads = [self.what] if rows.shape[1] == 1 else [f"{self.what}_{k}" for k in range(rows.shape[1])]
            return dict(zip(heads, map(_numbers, rows.T), strict=True))
        table = {self.what: _column(*self._labels(rows))}
        if self.sets is not None:
            table["set"] = _column(self.names, self.sets(rows))
        if self.best_only:
            return table
        best = self._best(rows)
        shares = np.take_along_axis(rows, best, axis=1).T
        table[self.share] = _numbers(shares[0])
        if self.top is None:
            return table | {f"{self.share}_{name}": _numbers(of) for name, of in zip(self.names, rows.T, strict=True)}
        for rank in range(1, len(shares)):
            table[f"{self.what}_{rank + 1}"] = _column(self.names, best[:, rank])
            table[f"{self.share}_{rank + 1}"] = _numbers(shares[rank])
        return table

    def lines(self, documents: Any, ids: Sequence[object] | None = None) -> str:
        """Return a line for each document: its id, where there is one, its label, and NAME=SHARE pairs."""
        rows = self.rows(documents)
        if self.names is None:
            numbers = rows.astype(np.float64).reshape(len(rows), -1).tolist()
            lines = ["\t".join(f"{value:.6g}" for value in row) for row in numbers]
        else:
            names = [on_a_line(name) for name in self.names]
            lines = _cells(*self._labels(rows))
            if self.sets is not None:
                sets = _cells(names, self.sets(rows))
                lines = [f"{line}\tset={members}" for line, members in zip(lines, sets, strict=True)]
            if self.top is None and not self.best_only:
                pairs = "".join(f"\t{name.replace('%', '%%')}=%.6g" for name in names)
                lines = [line + pairs % tuple(row) for line, row in zip(lines, rows.tolist(), strict=True)]
            elif not self.best_only:
                best = self._best(rows)
                shares = np.take_along_axis(rows, best, axis=1).tolist()
                lines = [
                    line + "".join(f"\t{names[k]}={p:.6g}" for k, p in zip(ranks, row, strict=True))
                    for line, ranks, row in zip(lines, best.tolist(), shares, strict=True)
                ]
        if ids is not None:
            lines = [f"{on_a_line(id_)}\t{line}" for id_, line in zip(ids, lines, strict=True)]
        return "".join([f"{line}\n" for line in lines])

    def _best(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of each row that are shown, the best first."""
        if self.top in (None, 1):
            return np.asarray(rows.argmax(axis=1)[:, None])
        return np.argsort(-rows, axis=1, kind="stable")[:, : self.top]

    def _labels(self, rows: np.ndarray) -> tuple[Sequence[Any], np.ndarray]:
        """Return names, and which of them each row gets: positions, or booleans where it may get several."""
        assert self.names is not None
        if self.label_thresholds is not None:
            return self.names, rows >= (self.threshold or self.label_thresholds)
        best = rows.argmax(axis=1)
        if not self.threshold:
            return self.names, best
        sure = rows.max(axis=1, initial=0.0) >= self.threshold
        return [*map(str, self.names), UNSURE], np.where(sure, best, len(self.names))


def _numbers(values: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64))


def _column(names: Sequence[Any], which: np.ndarray) -> Any:
    """Return the name of each row, or its names, as an Arrow array; as a list where Arrow has no type for them."""
    import pyarrow as pa

    if which.dtype == bool:
        members = [[names[k] for k in np.flatnonzero(row).tolist()] for row in which]
        return pa.array(members, pa.list_(pa.array(list(names)).type))
    try:
        return pa.array(list(names)).take(pa.array(which))
    except (pa.ArrowException, UnicodeEncodeError):
        return [names[k] for k in which.tolist()]


def _cells(names: Sequence[Any], which: np.ndarray) -> list[str]:
    """Return the name of each row, or its names, for a line."""
    cells = list(map(on_a_line, names))
    if which.dtype == bool:
        return [joined(cells[k] for k in np.flatnonzero(row)) for row in which]
    return [cells[k] for k in which.tolist()]


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
    kind, predicts, sets = type(estimator).__name__, estimator.spec.predicts, None
    if coverage is not None:
        if not isinstance(estimator, EngineClassifier):
            raise ModelError(f"--coverage is for classifiers, and this is a {kind}")
        most = estimator.set_thresholds(coverage)

        def sets(rows: np.ndarray) -> np.ndarray:
            return conformal_sets(rows, most)

    if predicts is None:
        raise ModelError(f"{name} is a {kind}, which predicts nothing: sdem transform gives the topics of documents")
    if predicts == "number":
        return Answers(model.predict, None)
    if estimator.several_labels:
        labels = estimator.classes_.tolist()
        return Answers(model.predict_proba, labels, what="labels", label_thresholds=model.thresholds_, sets=sets)
    if predicts == "class":
        top = 1 if len(estimator.classes_) > MANY else None
        return Answers(model.predict_proba, estimator.classes_.tolist(), top=top, sets=sets)
    if not hasattr(model, "predict_proba"):
        return Answers(model.predict, None, what="cluster")
    return Answers(model.predict_proba, range(len(model.component_log_prior_)), what="cluster")


def topics_of(estimator: EngineEstimator, name: object) -> Answers:
    """Return a model's topics of documents; ModelError: it has none."""
    model: Any = estimator
    if model.spec.topics is None:
        raise ModelError(f"{name} is a {type(estimator).__name__}, which has no topics: sdem predict is for it")
    n_topics = int(model._n_features_out)
    names: Sequence[Any] = range(n_topics)
    if model.spec.topics == "classes":
        n_each = n_topics // len(estimator.classes_)
        names = [f"{label} {number}" for label in estimator.classes_.tolist() for number in range(n_each)]
    return Answers(model.transform, names, what="topic", share="share")


def chosen_answers(answers: Answers, top: int | None, best_only: bool, threshold: float | None) -> Answers:
    """Return answers in the form that options ask for; UsageError: these do not fit the answers, or each other."""
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
