"""From sources to a corpus, which appears whole or not at all."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from sdem_dist.corpus import write_corpus
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.publish import free_space, hidden_folder
from sdem_dist.storage.threads import n_cores
from sdem_dist.storage.urls import is_url, place
from sdem_dist.text.counters import Vocabulary
from sdem_dist.text.counting import Batch, Progress, SecondPass, Tally, TextSpool, count_matrices, count_text, silent
from sdem_dist.text.plan import (
    CorpusPlan,
    IngestConfig,
    IngestPlan,
    IngestReport,
    check_arguments,
    check_destinations,
    check_numbers,
    new_plan,
    paths_of,
    plan_from_corpus,
)
from sdem_dist.text.runs import Runs, choose
from sdem_dist.text.sources import BLOCK_DOCUMENTS, MATRIX_DOCUMENTS, Reading, numeric_format
from sdem_dist.text.splits import matrix_blocks, text_blocks
from sdem_dist.text.validation import NONE, RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client


Found = TypeVar("Found")


def ingest_here(config: IngestConfig, report: IngestReport) -> CorpusPlan:
    """Read, count and write; `report` learns of what is written."""
    reading, settings, targets = config.reading, config.plan.settings, config.targets
    with _temporary_folder(config.destinations[0]) as folder:
        texts = TextSpool(folder / "texts") if config.keep_text else None
        ids = None if reading.id is None else TextSpool(folder / "ids")
        groups: list[np.ndarray] | None = None if reading.group is None else []
        runs = None
        if config.plan.vocabulary is None and settings.kind == "count":
            runs = Runs(folder, settings, config.n_jobs or n_cores(), held_out=config.held_out > 0)
        tally = _counted(config, folder, runs, texts, ids, groups)
        config.check(tally)
        plan = config.plan.settled(tally, None if runs is None else choose(runs, settings, tally.n_training))
        classes = np.array(list(tally.classes), np.float64) if targets else plan.classes_of_codes(tally.classes)
        how = config.held_out, config.random_state, config.n_jobs
        second = SecondPass(folder, tally.n_blocks, plan.columns, classes, tally.whole, *how, ids)
        common: JsonObject = {
            "classes": None if targets else plan.classes or None,
            "unlabelled": NONE,
            "vocabulary": plan.vocabulary,
            "vectorizer": settings.to_json(),
            "made_by": config.made_by(plan),
            "weighted": not tally.whole or None,
            "random_state": config.random_state,
            "shard_documents": config.shard_documents,
            "overwrite": config.overwrite,
            "n_jobs": config.n_jobs,
            "texts": None if texts is None else _by_id(texts.at, ids),
            "groups": None if groups is None else _by_id(np.concatenate(groups).__getitem__, ids),
        }
        _write_all(config, second, report, tally.n_documents, common)
    report.take(tally, plan, targets)
    return plan


def _counted(
    config: IngestConfig,
    folder: Path,
    runs: Runs | None,
    texts: TextSpool | None,
    ids: TextSpool | None,
    groups: list[np.ndarray] | None,
) -> Tally:
    """Count all sources into files in `folder`; the last three arguments take what is kept beside counts."""
    how = config.held_out, config.random_state
    if config.form is not None:
        size = min(config.block_documents, MATRIX_DOCUMENTS)
        return count_matrices(matrix_blocks(config.sources, config.gate, size), folder, *how, config.progress)
    settings, words = config.plan.settings, config.plan.vocabulary
    blocks = text_blocks(config.sources, config.reading, config.gate, config.block_documents)
    terms = runs if words is None else Vocabulary(settings, words)
    return count_text(blocks, folder, settings, terms, *how, config.n_jobs, config.progress, texts, ids, groups)


def _by_id(at: Callable[[np.ndarray], Found], kept_ids: TextSpool | None) -> Callable[[np.ndarray | list[str]], Found]:
    """Return what finds by ids what `at` finds by places in the sources."""
    if kept_ids is None:
        return lambda ids: at(np.asarray(ids))
    places = kept_ids.places()
    return lambda ids: at(np.array([places[str(name)] for name in ids], np.int64))


def _write_all(
    config: IngestConfig, second: SecondPass, report: IngestReport, n_documents: int, common: JsonObject
) -> None:
    """Write the corpus and that of held-out documents; neither appears or replaces another before both are written."""
    path, *held_out_path = config.destinations
    done = 0

    def wrote(batch: Batch) -> None:
        nonlocal done
        done += len(batch[0].indptr) - 1
        config.progress("writing", done, n_documents)

    def wrote_training(batch: Batch) -> None:
        report.add(batch)
        wrote(batch)

    def write_held_out() -> None:
        for held_out in held_out_path:
            made = {**common["made_by"], "part": "held out"}
            write_corpus(held_out, second.batches(True, wrote), **{**common, "made_by": made}, shuffle=False)

    training = second.batches(False, wrote_training)
    write_corpus(path, training, **common, shuffle=config.plan.shuffle, before_publishing=write_held_out)


@contextmanager
def _temporary_folder(path: str | Path) -> Iterator[Path]:
    """Yield a hidden folder beside `path`, removed in the end."""
    beside = place(path).absolute()
    try:
        with hidden_folder(beside, "ingest") as folder:
            folder.chmod(0o700)  # the folder may be shared with others
            yield folder
    except SdemError:
        raise
    except OSError as error:
        if is_url(str(error.filename)):
            raise IngestError(f"{error.filename}: {error.strerror}; nothing was written") from error
        folder = Path(tempfile.gettempdir()) if is_url(beside) else beside.parent
        raise IngestError(
            f"cannot keep the counted documents in {folder} meanwhile: {error.strerror or error}"
            f"{free_space(folder)}; nothing was written"
        ) from error


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
    check_arguments(settings, held_out, held_out_path, vocabulary_from)
    check_numbers(random_state, block_documents=block_documents, n_jobs=n_jobs, shard_documents=shard_documents)
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
    gate = _gate(on_error, plan, targets, reading)
    local = ["keep_text"] * keep_text + ["n_jobs"] * (n_jobs is not None)
    if client is not None and local:
        raise ValueError(f"{local[0]} is for an ingest by this process: leave client out, or leave {local[0]} out")
    config = IngestConfig(
        sources=files,
        destinations=destinations,
        reading=reading,
        form=form,
        plan=plan,
        gate=gate,
        targets=targets,
        held_out=held_out,
        vocabulary_from=vocabulary_from,
        n_jobs=n_jobs,
        block_documents=block_documents,
        random_state=random_state,
        shard_documents=shard_documents,
        overwrite=overwrite,
        keep_text=keep_text,
        progress=progress or silent,
    )
    report = IngestReport(str(path), held_out_path=None if held_out_path is None else str(held_out_path))
    if client is None:
        corpus_plan = ingest_here(config, report)
    else:
        from sdem_dist.text.by_tasks import ingest_by_tasks

        corpus_plan = ingest_by_tasks(client, config, report)
    if form == "svmlight" and plan.zero_based == "auto":
        report.first_column = 0 if corpus_plan.zero_based else 1
    report.n_skipped, report.skipped_examples = gate.skipped, gate.examples
    report.seconds = time.monotonic() - started
    return report


def _gate(on_error: Literal["raise", "skip"], plan: IngestPlan, targets: bool, reading: Reading) -> RowValidator:
    """Return what decides about lines; ValueError where labels are read in a way that does not fit them."""
    single = targets or (plan.reference is not None and not plan.label_sets)
    if single and reading.label_separator is not None:
        raise ValueError("label_separator is for documents with several labels, and these have one, or a number")
    if targets and reading.missing_label is not None:
        raise ValueError("unlabelled is for classes, and these are targets: leave documents without a number out")
    separator = reading.label_separator
    return RowValidator(on_error, plan.known_classes, targets, separator=separator, unlabelled=reading.missing_label)
