"""Documents of files, folders and corpora, answered a block at a time by threads of this process or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import IngestError
from sdem_dist.fitting.scoring import check_columns, ranges_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.sources import Reading, source_format
from sdem_dist.text.splits import InputSplit, predict_splits
from sdem_dist.text.texts import Records
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.validation import RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator


MOST_NUMBERS = 1 << 24  # that the answers to a block of documents are made of
Result = TypeVar("Result")
Answer = Callable[[Any, list[object] | None, dict[str, Any]], Result]
"""Makes something of documents, counted or of a corpus, of their ids and of the columns that stand beside them."""


@dataclass(frozen=True)
class CorpusRange:
    """Consecutive documents of a corpus, which have ids in any case, since they are shuffled."""

    corpus: Corpus
    start: int
    stop: int


Job = InputSplit | Records | CorpusRange


def transformer_of(estimator: EngineEstimator) -> TextTransformer:
    """Return what counts texts as a model does.

    Raises ModelError: the model was not trained on text.
    """
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    settings = VectorizerSettings.from_json(estimator.vectorizer_ or {})
    return TextTransformer(settings, estimator.vocabulary_, owner=estimator._lazy_parameters.owner)


@dataclass(frozen=True)
class Sources:
    """Files, folders and corpora, read in order."""

    paths: tuple[Path, ...]
    reading: Reading
    gate: RowValidator
    block_documents: int  # most documents of a block
    all_columns: bool  # read all columns that stand beside the texts

    def __post_init__(self) -> None:
        for path, is_corpus in zip(self.paths, self.are_corpora, strict=True):
            if not is_corpus:
                source_format(path, self.reading, predicted=True)  # says what is no source of text

    @property
    def are_corpora(self) -> list[bool]:
        return [(path / "zarr.json").exists() for path in self.paths]

    def _jobs(self, estimator: EngineEstimator) -> Iterator[InputSplit | CorpusRange]:
        # What a block becomes has a column for each class.
        most = max(1, MOST_NUMBERS // max(1, len(getattr(estimator, "classes_", ()))))
        for path, is_corpus in zip(self.paths, self.are_corpora, strict=True):
            if is_corpus:
                corpus = open_corpus(path)
                check_columns(estimator, corpus)
                yield from (CorpusRange(corpus, *part) for part in ranges_of(corpus, most))
            else:
                size = min(self.block_documents, most)
                yield from predict_splits(path, self.reading, size, keep=self.all_columns)

    def for_threads(self, estimator: EngineEstimator) -> Iterator[Job]:
        """Yield the documents of all sources; those of corpora are not read yet."""
        for job in self._jobs(estimator):
            yield from job.read(self.gate) if isinstance(job, InputSplit) else (job,)

    def for_workers(self, estimator: EngineEstimator) -> Iterator[Job]:
        """Yield the documents of all sources, to be read by workers where they can share the work.

        This process reads a single file that cannot be cut, a large one of several, standard input, and pipes.
        """
        for job in self._jobs(estimator):
            if not isinstance(job, InputSplit):
                yield job
            elif job.belongs_to_driver(alone=len(self.paths) == 1):
                yield from (replace(block, texts=block.texts.alone()) for block in job.read(self.gate))
            else:
                yield job.elsewhere()


def answered(
    jobs: Iterable[Job], transformer: TextTransformer | None, answer: Answer[Result], n_jobs: int | None
) -> Iterator[Result]:
    """Yield what `answer` makes of blocks of documents, in their order; `n_jobs` threads, None: one per core.

    `transformer`: needed for records of text.
    """

    def worker() -> Callable[[Job], Result]:
        count = None if transformer is None else transformer.counter()
        return lambda job: _answer(count, answer, job)

    with closing(in_threads(jobs, worker, n_jobs)) as results:
        yield from results


def answered_by_workers(
    jobs: Iterable[Job],
    transformer: TextTransformer | None,
    answer: Answer[Result],
    client: Client,
    gate: RowValidator,
) -> Iterator[Result]:
    """Yield as `answered` does; the workers of a client read, count and answer."""
    from sdem_dist.engine.dask import DaskExecutor

    executor = DaskExecutor(client)
    shared = executor.put((transformer, answer, gate.on_error))  # once a worker
    for results, skipped, examples in in_order(executor, answer_task, ((shared, job) for job in jobs)):
        gate.merge(skipped, examples)
        yield from results


def _answer(count: Callable[[Any], Any] | None, answer: Answer[Result], job: Any) -> Result:
    if isinstance(job, CorpusRange):
        ids = job.corpus.ids_of(job.start, job.stop)
        return answer(job.corpus.read(job.start, job.stop), ids, {"id": ids})
    assert count is not None
    return answer(count(job.texts), job.ids, job.columns)


def answer_task(
    shared: tuple[TextTransformer | None, Answer[Result], Literal["raise", "skip"]], job: Job
) -> tuple[list[Result], int, list[str]] | IngestError:
    """Return the answers, how many lines were left out, and examples of these: a task of workers.

    A mistake in the source is returned, too.
    """
    transformer, answer, on_error = shared
    gate, count = RowValidator(on_error), None if transformer is None else transformer.counts
    try:
        blocks = job.read(gate) if isinstance(job, InputSplit) else (job,)
        results = [_answer(count, answer, block) for block in blocks]
    except IngestError as error:
        return error
    return results, gate.skipped, gate.examples
