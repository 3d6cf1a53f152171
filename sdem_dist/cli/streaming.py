"""Documents of files, folders and corpora, answered a block at a time by threads of this process or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import IngestError
from sdem_dist.fitting.running import check_columns, ranges_of
from sdem_dist.storage.jobs import in_threads
from sdem_dist.text.sources import Reading
from sdem_dist.text.splits import PREDICT_BYTES, InputSplit, predict_splits
from sdem_dist.text.texts import Records, RowValidator, texts_of_bytes
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.estimators.base import EngineEstimator

MAX_NUMBERS = 1 << 24  # that the answers to a block of documents are made of
Result = TypeVar("Result")
Format = Callable[[Any, list[object] | None, dict[str, Any]], Result]
"""Makes something of documents, counted or of a corpus, of their ids and of the columns that stand beside them."""


class CorpusRange(NamedTuple):
    """Consecutive documents of a corpus, which have ids in any case, since they are shuffled."""

    corpus: Corpus
    start: int
    stop: int


Job = InputSplit | Records | CorpusRange


def transformer_of(estimator: EngineEstimator) -> TextTransformer:
    """Return what counts texts as a model does; ModelError: it was not trained on text."""
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # says what is wrong
    settings = VectorizerSettings.from_json(estimator.vectorizer_ or {})
    return TextTransformer(settings, estimator.vocabulary_, owner=estimator._lazy_parameters.owner)


def jobs_of(
    paths: Sequence[Path],
    reading: Reading,
    estimator: EngineEstimator,
    n_documents: int,
    gate: RowValidator | None = None,
    *,
    keep: bool,
) -> Iterator[Job]:
    """Yield the documents of sources and corpora, in order, of which nothing is read yet.

    `n_documents`: in a block, at most. `gate`: workers read the sources where they can share the work; a single file
    that cannot be cut, a large one of several, standard input, and pipes are read here. `keep`: so are columns beside
    texts.
    """
    most = max(1, MAX_NUMBERS // max(1, len(getattr(estimator, "classes_", ()))))  # answers have a column a class
    for path in paths:
        if (path / "zarr.json").exists():
            corpus = open_corpus(path)
            check_columns(estimator, corpus)
            yield from (CorpusRange(corpus, *part) for part in ranges_of(corpus, most))
            continue
        for split in predict_splits(path, reading, min(n_documents, most), keep=keep):
            if gate is None:
                yield split
            elif split.part is split.files is None and (
                len(paths) == 1 or split.size is None or split.size > PREDICT_BYTES
            ):
                yield from (replace(block, texts=texts_of_bytes(block.texts.encoded())) for block in split.read(gate))
            else:
                yield split.elsewhere()


def predictions(
    jobs: Iterable[Job],
    transformer: TextTransformer | None,
    render: Format[Result],
    gate: RowValidator,
    n_jobs: int | None,
    client: Client | None = None,
) -> Iterator[Result]:
    """Yield what `render` makes of blocks of documents, in their order.

    `n_jobs`: threads of this process, None: one per core. `client`: its workers do all of it instead.
    """
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
        shared = executor.put((transformer, render, gate.on_error))  # once a worker
        for results, skipped, examples in in_order(executor, predict_task, ((shared, task) for task in jobs)):
            gate.merge(skipped, examples)
            yield from results
        return

    def work(block: Records | CorpusRange) -> Result:
        return _rendered(None if transformer is None else transformer.counts, render, block)

    blocks = (block for job in jobs for block in (job.read(gate) if isinstance(job, InputSplit) else (job,)))
    with closing(in_threads(work, blocks, n_jobs)) as rendered:
        yield from rendered


def predict_task(
    shared: tuple[TextTransformer | None, Format[Result], Literal["raise", "skip"]], task: Job
) -> tuple[list[Result], int, list[str]] | IngestError:
    """Return the answers, how many records were left out, and examples of these; or a mistake in the source."""
    transformer, render, on_error = shared
    gate, count = RowValidator(on_error), None if transformer is None else transformer.counts
    try:
        blocks = task.read(gate) if isinstance(task, InputSplit) else (task,)
        results = [_rendered(count, render, block) for block in blocks]
    except IngestError as error:
        return error
    return results, gate.skipped, gate.examples


def _rendered(count: Callable[[Any], Any] | None, render: Format[Result], block: Records | CorpusRange) -> Result:
    if isinstance(block, CorpusRange):
        ids = block.corpus.ids_of(block.start, block.stop)
        return render(block.corpus.read(block.start, block.stop), ids, {"id": ids})
    assert count is not None
    return render(count(block.texts), block.ids, block.columns)
