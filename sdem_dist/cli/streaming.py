"""Answering a stream of documents in parallel, in order, with a few blocks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sdem_dist.cli.answers import Answers
from sdem_dist.engine.ordered import in_order
from sdem_dist.fitting.scoring import check_columns, ranges_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.records import read_records
from sdem_dist.text.texts import Records, Texts
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.corpus import Corpus
    from sdem_dist.documents import DenseDocuments, Documents
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text.bad_lines import LineGate
    from sdem_dist.text.sources import Reading

Made = TypeVar("Made")


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


def transformer_of(estimator: EngineEstimator) -> TextTransformer:
    """Return what counts texts as a model does.

    Raises
    ------
    ModelError
        The model was not trained on text.
    """
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    return TextTransformer(VectorizerSettings.from_json(estimator.vectorizer_ or {}), estimator.vocabulary_)


@dataclass(frozen=True)
class Sources:
    """Files, folders and corpora, read in order.

    Attributes
    ----------
    paths : sequence of Path
    reading : Reading
    gate : LineGate
    block_documents : int
        Most documents of a block.
    keep : bool
        Keep all columns that stand beside the texts.
    """

    paths: tuple[Path, ...]
    reading: Reading
    gate: LineGate
    block_documents: int
    keep: bool

    @property
    def corpora(self) -> list[bool]:
        """Whether each of them is a corpus."""
        return [(path / "zarr.json").exists() for path in self.paths]

    def blocks(self, estimator: EngineEstimator) -> Iterator[Records | CorpusRange]:
        """Yield the documents of all sources; those of corpora are not read yet."""
        from sdem_dist.corpus import open_corpus

        for path, counted in zip(self.paths, self.corpora, strict=True):
            if counted:
                corpus = open_corpus(path)
                check_columns(estimator, corpus)
                yield from (CorpusRange(corpus, *part) for part in ranges_of(corpus))
            else:
                yield from read_records(path, self.reading, self.gate, self.block_documents, keep=self.keep)


Answer = Callable[[Any, Block], Made]
"""Makes something of counted documents and of the block that they came in."""


def answered(
    blocks: Iterable[Records | CorpusRange],
    transformer: TextTransformer | None,
    answer: Answer[Made],
    n_jobs: int | None,
) -> Iterator[Made]:
    """Yield what `answer` makes of blocks of documents, in their order.

    Parameters
    ----------
    blocks : iterable of Records or CorpusRange
    transformer : TextTransformer, optional
        Needed for records of text.
    answer : callable
    n_jobs : int, optional
        Threads; None: one a core.
    """

    def worker() -> Callable[[Records | CorpusRange], Made]:
        return partial(_answer, None if transformer is None else transformer.counter(), answer)

    with closing(in_threads(blocks, worker, n_jobs)) as found:
        yield from found


def answered_by_workers(
    blocks: Iterable[Records | CorpusRange],
    transformer: TextTransformer | None,
    answer: Answer[Made],
    client: Client,
) -> Iterator[Made]:
    """Yield as `answered` does; the workers of a client count and answer, and read the documents of corpora."""
    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    shared = executor.put((transformer, answer))  # once a worker
    yield from in_order(executor, answer_task, ((shared, sendable(block)) for block in blocks))


def _answer(count: Callable[[Texts], Any] | None, answer: Answer[Made], block: Records | CorpusRange) -> Made:
    if isinstance(block, CorpusRange):
        read = block.read()
        return answer(read.documents, read)
    assert count is not None
    return answer(count(block.texts), block)


def answer_task(shared: tuple[TextTransformer | None, Answer[Made]], block: Records | CorpusRange) -> Made:
    """Return what the answer of ``(transformer, answer)`` makes of a block: a task of workers."""
    transformer, answer = shared
    return _answer(None if transformer is None else transformer.counter(), answer, block)


def sendable(block: Records | CorpusRange) -> Records | CorpusRange:
    """Return a block with the bytes of its own texts only."""
    return block if isinstance(block, CorpusRange) else replace(block, texts=block.texts.alone())


def lines_of(answers: Answers, *, with_ids: bool = False) -> Callable[[Any, Block], str]:
    """Return what makes lines of documents; those of a corpus have ids in any case, since it is shuffled."""
    return lambda documents, block: answers.lines(
        documents, block.ids if with_ids or isinstance(block, Counted) else None
    )
