"""Predictions of documents, as columns of a table or as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from sdem_dist.cli.outputs import visible
from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.counted import joined
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import IngestError, ModelError
from sdem_dist.fitting.scoring import check_columns, ranges_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.sources import Reading, source_format
from sdem_dist.text.splits import InputSplit, predict_splits
from sdem_dist.text.texts import Records, Texts
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.validation import RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import pyarrow
    from distributed import Client

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
    top: int | None = None
    """How many of the best names are shown, with their shares. None: all, in the model's order."""
    alone: bool = False  # the best name only
    threshold: float = 0.0  # a smaller best share makes the name `UNSURE`
    sets: Callable[[np.ndarray], np.ndarray] | None = None
    """From rows of shares to booleans: which names are in the set of each document."""
    given: np.ndarray | None = None
    """Shape (n_names,): a document gets every name whose share is at least this, and perhaps none. None: it gets the
    best one."""

    def columns(self, documents: Any) -> dict[str, pyarrow.Array | list[Any]]:
        rows = self.rows(documents)
        if self.names is None:
            rows = rows.reshape(len(rows), -1)
            names = [self.what] if rows.shape[1] == 1 else [f"{self.what}_{k}" for k in range(rows.shape[1])]
            return dict(zip(names, map(_numbers, rows.T), strict=True))
        labels, which, ordered = self._ranked(rows)
        table = {self.what: _named(labels, which)}
        if self.given is not None:
            table = {self.what: _typed_sets(self.names, self._given(rows))}
        if self.sets is not None:
            table["set"] = _typed_sets(self.names, self.sets(rows))
        if self.alone:
            return table
        shares = np.take_along_axis(rows, ordered, axis=1).T
        table[self.share] = _numbers(shares[0])
        for rank in range(1, len(shares) if self.top is not None else 0):
            table[f"{self.what}_{rank + 1}"] = _named(self.names, ordered[:, rank])
            table[f"{self.share}_{rank + 1}"] = _numbers(shares[rank])
        if self.top is None:
            table |= {f"{self.share}_{name}": _numbers(column) for name, column in zip(self.names, rows.T, strict=True)}
        return table

    def lines(self, documents: Any, ids: Sequence[object] | None = None) -> str:
        """Return a line for each document: its id, where there is one, its label, and NAME=SHARE pairs."""
        rows = self.rows(documents)
        if self.names is None:
            numbers = rows.astype(np.float64).reshape(len(rows), -1).tolist()
            written = ["\t".join(f"{value:.6g}" for value in row) + "\n" for row in numbers]
            return _with_ids(written, ids)
        names = [on_a_line(name) for name in self.names]
        ranked, which, ordered = self._ranked(rows)
        cells = list(map(on_a_line, ranked))
        labels = [cells[k] for k in which.tolist()]
        if self.given is not None:
            labels = [joined(names[k] for k in np.flatnonzero(row)) for row in self._given(rows)]
        if self.sets is not None:
            sets = [joined(names[k] for k in np.flatnonzero(row)) for row in self.sets(rows)]
            labels = [f"{label}\tset={members}" for label, members in zip(labels, sets, strict=True)]
        if self.alone:
            return _with_ids([f"{label}\n" for label in labels], ids)
        if self.top is None:
            numbers_of = "".join(f"\t{name.replace('%', '%%')}=%.6g" for name in names) + "\n"
            return _with_ids([a + numbers_of % tuple(row) for a, row in zip(labels, rows.tolist(), strict=True)], ids)
        shares = np.take_along_axis(rows, ordered, axis=1).tolist()
        pairs = zip(labels, ordered.tolist(), shares, strict=True)
        return _with_ids(
            [a + "".join(f"\t{names[k]}={p:.6g}" for k, p in zip(ks, ps, strict=True)) + "\n" for a, ks, ps in pairs],
            ids,
        )

    def _given(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows >= (self.threshold or self.given))

    def _ranked(self, rows: np.ndarray) -> tuple[Sequence[Any], np.ndarray, np.ndarray]:
        """Return labels, which of them each row gets, and the best columns of each row, the best first."""
        assert self.names is not None
        if self.top in (None, 1):
            ordered = rows.argmax(axis=1)[:, None]
        else:
            ordered = np.argsort(-rows, axis=1, kind="stable")[:, : self.top]
        if not self.threshold:
            return self.names, ordered[:, 0], ordered
        which = ordered[:, 0]
        if self.given is None:
            which = np.where(rows.max(axis=1, initial=0.0) >= self.threshold, which, len(self.names))
        return [*map(str, self.names), UNSURE], which, ordered


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


def _typed_sets(names: Sequence[Any], inside: np.ndarray) -> pyarrow.Array:
    import pyarrow as pa

    members = [[names[k] for k in np.flatnonzero(row).tolist()] for row in inside]
    return pa.array(members, pa.list_(pa.array(list(names)).type))


def on_a_line(value: object) -> str:
    """Return a value as one field of a line: without TABs and line ends, and with control characters written out."""
    return visible(value).replace("\t", " ").replace("\n", " ")


def _with_ids(lines: list[str], ids: Sequence[object] | None) -> str:
    if ids is None:
        return "".join(lines)
    return "".join([f"{on_a_line(id_)}\t{line}" for id_, line in zip(ids, lines, strict=True)])


def predictions_of(estimator: EngineEstimator, name: object) -> Answers:
    """Return what a model predicts.

    Raises ModelError: it predicts nothing.
    """
    predicts = estimator.spec.predicts
    model: Any = estimator
    if predicts is None:
        raise ModelError(
            f"{name} is a {type(estimator).__name__}, which predicts nothing: sdem transform gives the topics of documents"
        )
    if predicts == "number":
        return Answers(model.predict, None)
    if estimator.several_labels:
        return Answers(model.predict_proba, estimator.classes_.tolist(), what="labels", given=model.thresholds_)
    if predicts == "class":
        top = 1 if len(estimator.classes_) > MANY else None
        return Answers(model.predict_proba, estimator.classes_.tolist(), top=top)
    if not hasattr(model, "predict_proba"):
        return Answers(model.predict, None, what="cluster")
    return Answers(model.predict_proba, range(len(model.component_log_prior_)), what="cluster")


def with_sets(answers: Answers, estimator: EngineEstimator, coverage: float) -> Answers:
    """Return answers with a set of classes that holds the right one with probability `coverage`.

    Raises ModelError: the model is not a classifier, or `sdem calibrate` has not shown it documents.
    """
    from sdem_dist.calibration import conformal_sets
    from sdem_dist.estimators.classifier import EngineClassifier

    if not isinstance(estimator, EngineClassifier):
        raise ModelError(f"--coverage is for classifiers, and this is a {type(estimator).__name__}")
    most = estimator.set_thresholds(coverage)
    return replace(answers, sets=lambda rows: conformal_sets(rows, most))


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


def chosen(answers: Answers, top: int | None, alone: bool, threshold: float | None) -> Answers:
    """Return answers in the form that options ask for.

    Raises ValueError: the options mean nothing for numbers, or a class is named `UNSURE`.
    """
    if alone and top is not None:
        raise ValueError("--no-proba gives the best one alone, and --top several with their numbers: choose one")
    if answers.names is None:
        if alone:
            raise ValueError("--no-proba is for classes and clusters, and this model predicts numbers")
        if top is not None or threshold is not None:
            raise ValueError(
                "--top and --threshold are for classes, clusters and topics, and this model predicts numbers"
            )
        return answers
    if threshold and answers.given is None and UNSURE in map(str, answers.names):
        raise ValueError(f"--threshold labels documents {UNSURE!r}, which is the name of a class here")
    top = answers.top if top is None and not alone else top
    return replace(answers, top=top, alone=alone, threshold=threshold or 0.0)


Made = TypeVar("Made")
NUMBERS = 1 << 24  # most numbers that the answers to a block of documents are made of


@dataclass(frozen=True)
class Counted:
    """Consecutive documents of a corpus, and their ids."""

    documents: Documents | DenseDocuments
    ids: list[object]

    @property
    def columns(self) -> dict[str, list[object]]:
        return {"id": self.ids}


@dataclass(frozen=True)
class CorpusRange:
    """Consecutive documents of a corpus, to be read."""

    corpus: Corpus
    start: int
    stop: int

    def read(self) -> Counted:
        """Return the documents; corpora have ids in any case."""
        return Counted(self.corpus.read(self.start, self.stop), self.corpus.ids_of(self.start, self.stop))


Block = Records | Counted
Job = InputSplit | Records | CorpusRange


def transformer_of(estimator: EngineEstimator) -> TextTransformer:
    """Return what counts texts as a model does.

    Raises ModelError: the model was not trained on text.
    """
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    return TextTransformer(
        VectorizerSettings.from_json(estimator.vectorizer_ or {}),
        estimator.vocabulary_,
        owner=estimator._lazy_parameters.owner,
    )


@dataclass(frozen=True)
class Sources:
    """Files, folders and corpora, read in order."""

    paths: tuple[Path, ...]
    reading: Reading
    gate: RowValidator
    block_documents: int  # most documents of a block
    keep: bool  # keep all columns that stand beside the texts

    def __post_init__(self) -> None:
        for path, of_corpus in zip(self.paths, self.corpora, strict=True):
            if not of_corpus:
                source_format(path, self.reading, predicted=True)  # says what is no source of text

    @property
    def corpora(self) -> list[bool]:
        return [(path / "zarr.json").exists() for path in self.paths]

    def blocks(self, estimator: EngineEstimator) -> Iterator[Records | CorpusRange]:
        """Yield the documents of all sources; those of corpora are not read yet."""
        for job in self.jobs(estimator):
            if isinstance(job, InputSplit):
                yield from job.read(self.gate)
            else:
                yield job

    def jobs(self, estimator: EngineEstimator) -> Iterator[InputSplit | CorpusRange]:
        # What a block becomes has a column for each class.
        most = max(1, NUMBERS // max(1, len(getattr(estimator, "classes_", ()))))
        for path, counted in zip(self.paths, self.corpora, strict=True):
            if counted:
                corpus = open_corpus(path)
                check_columns(estimator, corpus)
                yield from (CorpusRange(corpus, *part) for part in ranges_of(corpus, most))
            else:
                yield from predict_splits(path, self.reading, min(self.block_documents, most), keep=self.keep)

    def for_workers(self, estimator: EngineEstimator) -> Iterator[Job]:
        """Yield the documents of all sources, to be read by workers where they can share the work.

        This process reads a single file that cannot be cut, a large one of several, standard input, and pipes.
        """
        for job in self.jobs(estimator):
            if not isinstance(job, InputSplit):
                yield job
            elif job.much or (job.whole and len(self.paths) == 1):
                yield from (replace(block, texts=block.texts.alone()) for block in job.read(self.gate))
            else:
                yield job.elsewhere()


Answer = Callable[[Any, Block], Made]  # makes something of counted documents and of the block that they came in


def answered(
    blocks: Iterable[Records | CorpusRange],
    transformer: TextTransformer | None,
    answer: Answer[Made],
    n_jobs: int | None,
) -> Iterator[Made]:
    """Yield what `answer` makes of blocks of documents, in their order.

    `transformer`: needed for records of text.
    `n_jobs`: threads; None: one per core.
    """

    def worker() -> Callable[[Records | CorpusRange], Made]:
        return partial(_answer, None if transformer is None else transformer.counter(), answer)

    with closing(in_threads(blocks, worker, n_jobs)) as results:
        yield from results


def answered_by_workers(
    jobs: Iterable[Job],
    transformer: TextTransformer | None,
    answer: Answer[Made],
    client: Client,
    gate: RowValidator,
) -> Iterator[Made]:
    """Yield as `answered` does; the workers of a client read, count and answer."""
    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    shared = executor.put((transformer, answer, gate.on_error))  # once a worker
    for made, skipped, examples in in_order(executor, answers_task, ((shared, job) for job in jobs)):
        gate.merge(skipped, examples)
        yield from made


def _answer(count: Callable[[Texts], Any] | None, answer: Answer[Made], block: Records | CorpusRange) -> Made:
    if isinstance(block, CorpusRange):
        read = block.read()
        return answer(read.documents, read)
    assert count is not None
    return answer(count(block.texts), block)


Shared = tuple[TextTransformer | None, Answer[Made], Literal["raise", "skip"]]
"""What all tasks of a command need: what counts texts, what answers, and what to do with bad lines."""


def answers_task(shared: Shared[Made], job: Job) -> tuple[list[Made], int, list[str]] | IngestError:
    """Return the answers, how many lines were left out, and examples of these: a task of workers.

    A mistake in the source is returned, too.
    """
    transformer, answer, on_error = shared
    gate, count = RowValidator(on_error), None if transformer is None else transformer.counts
    try:
        outputs = [
            _answer(count, answer, block) for block in (job.read(gate) if isinstance(job, InputSplit) else [job])
        ]
    except IngestError as error:
        return error
    return outputs, gate.skipped, gate.examples


def lines_of(answers: Answers, *, with_ids: bool = False) -> Callable[[Any, Block], str]:
    """Return what makes lines of documents; those of a corpus have ids in any case, since it is shuffled."""
    return lambda documents, block: answers.lines(
        documents, block.ids if with_ids or isinstance(block, Counted) else None
    )
