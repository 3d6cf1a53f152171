"""Predictions for files, folders and corpora, block by block, in threads of this process or on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.engine.executor import in_order
from sdem_dist.errors import IngestError
from sdem_dist.fitting.running import check_columns
from sdem_dist.storage.jobs import in_threads
from sdem_dist.text.sources import Reading
from sdem_dist.text.splits import PREDICT_BYTES, InputSplit, predict_splits
from sdem_dist.text.texts import Records, RowValidator, texts_of_bytes
from sdem_dist.text.transform import TextTransformer
from sdem_dist.text.vectorizer import VectorizerSettings

MAX_NUMBERS = 1 << 24  # in the predictions of one block
Render = Callable[[Any, list[object] | None, dict[str, Any]], Any]
"""Maps documents (counted, or of a corpus), their ids and their other columns to a result."""
Counter = TextTransformer | None
"""Counts the words of texts; None if all documents are from corpora."""
CorpusRange = tuple[Corpus, int, int]
"""Consecutive documents of a corpus, from the second to before the third."""
Job = InputSplit | Records | CorpusRange


def transformer_of(estimator: Any) -> TextTransformer:
    """Return the transformer that counts words as the model does; ModelError: it was not trained on text."""
    if estimator.vectorizer_ is None or estimator.vectorizer_["kind"] == "matrix":
        estimator.vectorize([])  # raises for other models
    settings = VectorizerSettings.from_json(estimator.vectorizer_ or {})
    return TextTransformer(settings, estimator.vocabulary_, owner=estimator._lazy_parameters.owner)


def jobs_of(
    paths: Sequence[Path], reading: Reading, estimator: Any, n_documents: int, gate: RowValidator | None, *, keep: bool
) -> Iterator[Job]:
    """Yield blocks of documents of sources and corpora, in order; they are read later.

    `n_documents`: in a block, at most. `gate`: workers read sources that they can share; this process reads a single
    file that cannot be split, a large one of several, standard input, and pipes. `keep`: the columns besides texts are
    read, too.
    """
    most = max(1, MAX_NUMBERS // max(1, len(getattr(estimator, "classes_", ()))))  # predictions have a column per class
    for path in paths:
        if (path / "zarr.json").exists():
            corpus = open_corpus(path)
            check_columns(estimator, corpus)
            yield from ((corpus, *part) for part in corpus.ranges(most))
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
    jobs: Iterable[Job], count: Counter, render: Render, gate: RowValidator, n_jobs: int | None, client: Any = None
) -> Iterator[Any]:
    """Yield the results of `render` for blocks of documents, in order.

    `n_jobs`: threads of this process, None: one per core. `client`: its workers are used instead.
    """
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
        shared = executor.put((count, render, gate.on_error))  # sent once to each worker
        for results, skipped, examples in in_order(executor, predict_task, ((shared, task) for task in jobs)):
            gate.merge(skipped, examples)
            yield from results
        return

    def work(block: Records | CorpusRange) -> Any:
        return _rendered(None if count is None else count.counts, render, block)

    blocks = (block for job in jobs for block in (job.read(gate) if isinstance(job, InputSplit) else (job,)))
    with closing(in_threads(work, blocks, n_jobs)) as rendered:
        yield from rendered


def predict_task(
    shared: tuple[Counter, Render, Literal["raise", "skip"]], task: Job
) -> tuple[list[Any], int, list[str]] | IngestError:
    """Return the result for documents, the number of skipped records, and examples; or an error in the source."""
    transformer, render, on_error = shared
    gate, count = RowValidator(on_error), None if transformer is None else transformer.counts
    try:
        blocks = task.read(gate) if isinstance(task, InputSplit) else (task,)
        return [_rendered(count, render, block) for block in blocks], gate.skipped, gate.examples
    except IngestError as error:
        return error


def _rendered(count: Callable[[Any], Any] | None, render: Render, block: Records | CorpusRange) -> Any:
    if isinstance(block, tuple):  # documents of a corpus are shuffled, so their ids are always shown
        corpus, *part = block
        ids = corpus.ids_of(*part)
        return render(corpus.read(*part), ids, {"id": ids})
    assert count is not None
    return render(count(block.texts), block.ids, block.columns)
