"""From sources to a corpus, which appears whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sdem_dist.counted import is_count
from sdem_dist.text.counting import Counting, Progress, silent
from sdem_dist.text.pipeline import IngestRun
from sdem_dist.text.plan import (
    IngestConfig,
    IngestReport,
    check_destinations,
    new_plan,
    paths_of,
    plan_from_corpus,
    workspace,
)
from sdem_dist.text.sources import BLOCK_DOCUMENTS, Reading, numeric_format
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client


def ingest(
    sources: str | Path | Sequence[str | Path],
    path: str | Path,
    settings: VectorizerSettings | None = None,
    *,
    reading: Reading | None = None,
    held_out: float = 0.0,
    held_out_path: str | Path | None = None,
    vocabulary_from: str | Path | None = None,
    targets: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    n_jobs: int | None = None,
    block_documents: int = BLOCK_DOCUMENTS,
    random_state: int = 0,
    shard_documents: int | None = None,
    overwrite: bool = False,
    keep_text: bool = False,
    progress: Progress | None = None,
    client: Client | None = None,
) -> IngestReport:
    """Read sources and write them as a corpus.

    Memory holds some blocks of documents and the distinct words, however large the sources. Counted documents wait in a
    hidden folder beside `path`, which is removed at the end, also after a failure. The next ingest to the same `path`
    removes what a killed process left. The corpus is the same for every `n_jobs` and `block_documents`.

    Parameters
    ----------
    sources : str, Path, or sequence of them
        Files and folders, or URLs of them, in order; all of text, or all of numbers of one format.
    path : str or Path
        The corpus to write.
    settings : VectorizerSettings, optional
        How text becomes counts; not for sources of numbers. Default: counts of words.
    reading : Reading, optional
        How sources are read.
    held_out : float, default 0.0
        Fraction of documents, below 1, that go to `held_out_path` instead, in the order of the source. They have no
        part in choosing words.
    held_out_path : str or Path, optional
        By default `path` with ``-held-out`` after it.
    vocabulary_from : str or Path, optional
        For test sets: a corpus whose settings, vocabulary and classes are taken. Then `settings` must not be given, and
        documents keep the order of the source. Words outside the vocabulary are left out; other labels are bad lines.
    targets : bool, default False
        Labels are real numbers to be predicted, see `write_corpus`; as they are where the corpus of
        `vocabulary_from` has targets.
    on_error : {"raise", "skip"}
        Whether a bad line ends the ingest or is left out and counted.
    n_jobs : int, optional
        Threads that count words. Default: one per core.
    block_documents : int, default 32768
        Documents counted at a time.
    random_state : int, default 0
        Decides the order of documents in the corpus, and which are held out.
    shard_documents : int, optional
        Documents in a shard of the corpus.
    overwrite : bool, default False
        Replace what is at `path` and `held_out_path`.
    keep_text : bool, default False
        Store the texts too, compressed, for `sdem_dist.corpus.Corpus.text`; of sources of text.
    progress : callable, optional
        Called with (stage, documents done, documents in all or None).
    client : distributed.Client, optional
        Its workers read, count and write, each source in stretches; all see the sources and the folder of `path`. The
        corpus is the same. What a killed process had done is kept beside `path`, and the same call goes on from there.

    Returns
    -------
    IngestReport

    Raises
    ------
    IngestError
        A source cannot be read (the message names file and line), holds no document or word.
    CorpusError
        `path` is taken, or the device is full.
    ValueError
        Arguments contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sdem_dist import ingest, open_corpus
    >>> folder = Path(tempfile.mkdtemp())
    >>> for label, text in (("sport", "a late goal"), ("money", "the bank")):
    ...     (folder / "news" / label).mkdir(parents=True)
    ...     _ = (folder / "news" / label / "1.txt").write_text(text, encoding="utf-8")
    >>> _ = ingest(folder / "news", folder / "news.zarr")
    >>> len(open_corpus(folder / "news.zarr"))
    2
    """
    started = time.monotonic()
    files, reading = paths_of(sources), reading or Reading()
    if held_out_path is None and held_out:
        held_out_path = f"{str(path).rstrip('/')}-held-out"
    if isinstance(held_out, bool) or not 0 <= held_out < 1:
        raise ValueError(f"held_out is a fraction from 0 and below 1, not {held_out!r}")
    if (held_out > 0) != (held_out_path is not None):
        raise ValueError("held_out_path is for what held_out holds out: give a fraction above 0")
    if vocabulary_from is not None and (settings is not None or held_out > 0):
        raise ValueError("with vocabulary_from, the settings are those of that corpus and nothing is held out")
    counts = {"block_documents": block_documents, "n_jobs": n_jobs, "shard_documents": shard_documents}
    for name, value in counts.items():
        if value is not None and not is_count(value):
            raise ValueError(f"{name} is a whole number from 1, not {value!r}")
    if not is_count(random_state, -(2**63)):
        raise ValueError(f"random_state is an integer, not {random_state!r}")
    destinations = [str(p) for p in (path, held_out_path) if p is not None]
    check_destinations(destinations, overwrite)
    form = numeric_format(files, reading)
    beside = {"id": reading.id, "group": reading.group, "weight": reading.weight}
    for_text = ["keep_text"] * keep_text + [name for name, column in beside.items() if column is not None]
    if for_text and form is not None:
        raise ValueError(f"{for_text[0]} is for sources of text, and these are {form}")
    if vocabulary_from is None:
        plan = new_plan(settings or VectorizerSettings(), form, reading)
    else:
        plan = plan_from_corpus(vocabulary_from, form, reading)
    if plan.reference is not None and reading.label_separator is None and plan.label_sets:
        reading = replace(reading, label_separator=plan.reference.header.label_separator or ",")
    targets = targets or plan.targets
    single = targets or (plan.reference is not None and not plan.label_sets)
    if single and reading.label_separator is not None:
        raise ValueError("label_separator is for documents with several labels, and these have one, or a number")
    if targets and reading.missing_label is not None:
        raise ValueError("unlabelled is for classes, and these are targets: leave documents without a number out")
    local = ["keep_text"] * keep_text + ["n_jobs"] * (n_jobs is not None)
    if client is not None and local:
        raise ValueError(f"{local[0]} is for an ingest by this process: leave client out, or leave {local[0]} out")
    reference = plan.reference
    counting = Counting(
        plan.settings,
        reading,
        form is not None,
        on_error,
        plan.known_classes,
        targets,
        None if reference is None else reference.path,
        None if reference is None else reference.header.uid,
        block_documents,
        held_out,
        random_state,
    )
    config = IngestConfig(
        files,
        destinations,
        counting,
        plan,
        counting.gate(),
        vocabulary_from,
        n_jobs,
        shard_documents,
        overwrite,
        keep_text,
        progress or silent,
    )
    report = IngestReport(str(path), held_out_path=None if held_out_path is None else str(held_out_path))
    executor = None
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
    with workspace(config, by_tasks=client is not None) as (scratch, here):
        corpus_plan = IngestRun(config, scratch, here, executor).run(report)
    if form == "svmlight" and plan.zero_based == "auto":
        report.first_column = 0 if corpus_plan.zero_based else 1
    report.n_skipped, report.skipped_examples = config.gate.skipped, config.gate.examples
    report.seconds = time.monotonic() - started
    return report
