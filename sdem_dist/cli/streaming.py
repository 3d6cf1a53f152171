"""Answering a stream of documents in parallel, in order, with a few blocks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sdem_dist.cli.answers import Answers
from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import IngestError
from sdem_dist.fitting.scoring import check_columns, ranges_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.sources import Reading, records_format
from sdem_dist.text.splits import InputSplit, predict_splits
from sdem_dist.text.texts import Records, Texts
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.validation import RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator

Made = TypeVar("Made")
NUMBERS = 1 << 24  # most numbers that the answers to a block of documents are made of


@dataclass(frozen=True)
class Counted:
    """Consecutive documents of a corpus, and their ids."""

    documents: Documents | DenseDocuments
    ids: list[object]

    @property
    def columns(self) -> dict[str, list[object]]:
        """The other columns of the documents' table."""
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


def transformer_of(estimator: EngineEstimator, model: str | Path = "") -> TextTransformer:
    """Return what counts texts as a model does; `model` is where it is, for messages.

    Raises ModelError: the model was not trained on text.
    """
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    return TextTransformer(
        VectorizerSettings.from_json(estimator.vectorizer_ or {}), estimator.vocabulary_, None, str(model)
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
                records_format(path, self.reading)  # says what is no source of text

    @property
    def corpora(self) -> list[bool]:
        """Whether each of them is a corpus."""
        return [(path / "zarr.json").exists() for path in self.paths]

    def blocks(self, estimator: EngineEstimator) -> Iterator[Records | CorpusRange]:
        """Yield the documents of all sources; those of corpora are not read yet."""
        for job in self.jobs(estimator):
            if isinstance(job, InputSplit):
                yield from job.read(self.gate)
            else:
                yield job

    def jobs(self, estimator: EngineEstimator) -> Iterator[InputSplit | CorpusRange]:
        """Yield the documents of all sources, to be read."""
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

    with closing(in_threads(blocks, worker, n_jobs)) as found:
        yield from found


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
        made = [_answer(count, answer, block) for block in (job.read(gate) if isinstance(job, InputSplit) else [job])]
    except IngestError as error:
        return error
    return made, gate.skipped, gate.examples


def lines_of(answers: Answers, *, with_ids: bool = False) -> Callable[[Any, Block], str]:
    """Return what makes lines of documents; those of a corpus have ids in any case, since it is shuffled."""
    return lambda documents, block: answers.lines(
        documents, block.ids if with_ids or isinstance(block, Counted) else None
    )
