"""Ingest: convert sources to a corpus, which appears only when it is complete."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.corpus.writer import refuse_taken
from sdem_dist.counted import is_count
from sdem_dist.errors import IngestError
from sdem_dist.storage.buckets import is_url, place, split
from sdem_dist.text.counting import Counting, Progress
from sdem_dist.text.pipeline import IngestReport, IngestRun
from sdem_dist.text.sources import BLOCK_DOCUMENTS, Reading, numeric_format
from sdem_dist.text.texts import class_name
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
    r"""Read sources and write them as a corpus; the result does not depend on `n_jobs`, `block_documents` or `client`.

    Memory holds a few blocks of documents and the distinct words. A hidden folder next to `path` stores counts. It is
    removed at the end or, if ingest was interrupted, by the next ingest.

    Parameters
    ----------
    sources : str, Path, or sequence of them
        Files, folders or URLs, in order; all with text, or all with numbers in one format.
    path : str or Path
        The corpus to write.
    settings : VectorizerSettings, optional
        Tokenization, for text sources. Default: words, numbers and symbols.
    reading : Reading, optional
        Reader options.
    held_out : float
        Fraction of documents to write to `held_out_path`, in source order. They do not affect the vocabulary.
    held_out_path : str or Path, optional
        Default: `path` followed by ``-held-out``.
    vocabulary_from : str or Path, optional
        For test sets: use the settings, vocabulary and classes of this corpus, and keep the order of the source. Words
        outside the vocabulary are ignored; unknown labels are errors.
    targets : bool
        Labels are numeric targets, see `write_corpus`. Implied if the corpus `vocabulary_from` has targets.
    on_error : {"raise", "skip"}
        Stop at a bad line, or skip and count it.
    n_jobs : int, optional
        Number of threads. Default: one per core.
    block_documents, shard_documents : int
        Number of documents counted at a time, and per shard of the corpus.
    random_state : int
        Seed for the order of documents, and for the choice of held-out documents.
    overwrite : bool
        Replace `path` and `held_out_path`.
    keep_text : bool
        Also store the texts, compressed, for `sdem_dist.corpus.Corpus.text`.
    progress : callable, optional
        Called with (stage, number of processed documents, total or None).
    client : distributed.Client, optional
        Dask client whose workers read, count and write. They need access to the sources and the folder of `path`. To
        continue after an interruption, repeat the call.

    Returns
    -------
    IngestReport

    Raises
    ------
    IngestError
        A source cannot be read (the message names file and line), or contains no documents or words.
    CorpusError
        `path` exists, or the disk is full.
    ValueError
        Arguments contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sdem_dist import ingest, open_corpus
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "news.tsv").write_text("sport\ta late goal\nmoney\tthe bank\n", encoding="utf-8")
    >>> _ = ingest(folder / "news.tsv", folder / "news.zarr")
    >>> len(open_corpus(folder / "news.zarr"))
    2
    """
    started, reading = time.monotonic(), reading or Reading()
    if held_out_path is None and held_out:
        held_out_path = f"{str(path).rstrip('/')}-held-out"
    if isinstance(held_out, bool) or not 0 <= held_out < 1:
        raise ValueError(f"held_out must be at least 0 and less than 1, got {held_out!r}")
    if (held_out > 0) != (held_out_path is not None):
        raise ValueError("held_out_path needs a held_out above 0")
    if vocabulary_from is not None and (settings is not None or held_out > 0):
        raise ValueError("vocabulary_from uses the settings of that corpus: remove held_out and settings")
    counts = {"block_documents": block_documents, "n_jobs": n_jobs, "shard_documents": shard_documents}
    for name, value in counts.items():
        if value is not None and not is_count(value):
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    if not is_count(random_state, -(2**63)):
        raise ValueError(f"random_state must be an integer, got {random_state!r}")
    destinations = [str(p) for p in (path, held_out_path) if p is not None]
    files = _checked_paths([sources] if isinstance(sources, str | Path) else sources, destinations, overwrite)
    form = numeric_format(files, reading)
    of_text = ["keep_text"] * keep_text + [n for n in ("id", "group", "weight") if getattr(reading, n) is not None]
    if form is not None and of_text:
        raise ValueError(f"{of_text[0]} applies to text sources only; these are {form}")
    if client is not None and (keep_text or n_jobs is not None):
        name = "keep_text" if keep_text else "n_jobs"
        raise ValueError(f"{name} cannot be combined with client")
    reference = None if vocabulary_from is None else open_corpus(vocabulary_from)
    settings = _checked_settings(settings or VectorizerSettings(), reference, form)
    several, known_classes, source, uid = reading.label_separator is not None, None, None, None
    if reference is not None:
        header, source = reference.header, reference.path
        several, targets, uid = header.label_sets is not None, targets or header.n_targets > 0, header.uid
        if several and reading.label_separator is None:
            reading = replace(reading, label_separator=header.label_separator or ",")
        recorded = header.made_by.get("zero_based")
        if reading.zero_based == "auto" and recorded is not None:  # a small test set may lack the first column
            reading = replace(reading, zero_based=recorded)
        if not targets and header.classes:
            known_classes = frozenset(map(class_name, header.documents_by_label))
    if reading.label_separator is not None and (targets or not several):
        raise ValueError("label_separator does not apply: these documents have one label or numeric target")
    if targets and reading.missing_label is not None:
        raise ValueError("unlabelled does not apply to targets: drop documents without a target")
    n_jobs, executor = n_jobs if client is None else 1, None
    corpus, how = (source, uid, block_documents, held_out), (random_state, keep_text, n_jobs)
    counting = Counting(settings, reading, on_error, known_classes, targets, *corpus, *how)
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
    show = progress or (lambda stage, done, total: None)
    run = IngestRun(files, destinations, counting, reference, shard_documents, overwrite, show, executor)
    report = run.run()
    report.seconds = time.monotonic() - started
    return report


def _checked_paths(sources: Sequence[str | Path], destinations: list[str], overwrite: bool) -> list[Path]:
    """Return the paths of sources; check all paths now, not after an hour of counting."""
    if hasattr(sources, "iloc") or not all(isinstance(source, str | Path) for source in sources):
        kind, advice = type(sources).__name__, "save a table first (to_parquet, to_csv), or use write_corpus for counts"
        raise ValueError(f"sources must be paths of files and folders, got a {kind} of other objects: {advice}")
    if not len(sources):
        raise ValueError("no sources to ingest")
    if len({str(place(t).absolute()) for t in destinations}) < len(destinations):
        raise ValueError("path and held_out_path are the same")
    for target in filter(is_url, destinations):
        split(target)
    on_disk = [target for target in destinations if not is_url(target)]
    refuse_taken(on_disk, overwrite)
    for target in on_disk:
        if not (folder := Path(target).absolute().parent).is_dir():
            raise IngestError(f"{target}: the folder {folder} does not exist; create it")
    return [place(source) for source in sources]


def _checked_settings(settings: VectorizerSettings, reference: Corpus | None, form: str | None) -> VectorizerSettings:
    if reference is None:
        if settings.kind == "matrix" and form is None:
            raise IngestError("settings of kind 'matrix' need numeric sources, but these contain text")
        return settings if form is None else replace(settings, kind="matrix")
    path, recorded = reference.path, reference.header.vectorizer
    if recorded is None and form is None:
        raise IngestError(f"{path} has no tokenization settings, so it cannot be used for new text")
    try:
        settings = VectorizerSettings.from_json(recorded or {"kind": "matrix"})
    except (TypeError, ValueError) as error:
        raise IngestError(f"this version cannot read the tokenization settings of {path}: {error}") from error
    if (settings.kind == "matrix") != (form is not None):
        kinds = ("text", "numbers") if form is None else ("numbers", "text")
        raise IngestError(f"the sources contain {kinds[0]}, but {path} was made from {kinds[1]}")
    return settings
