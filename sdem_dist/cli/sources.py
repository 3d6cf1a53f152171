"""Files and folders of documents where a command takes a corpus."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from sdem_dist.cli.ingest_report import shown_progress, warn_of_single_labels
from sdem_dist.cli.outputs import say_left_out
from sdem_dist.cli.reading import (
    READING,
    WORDS,
    option_errors,
    pop_reading,
    pop_words,
    reading_options,
    typed_options,
)
from sdem_dist.counted import counted
from sdem_dist.storage.kept import kept_folder
from sdem_dist.storage.publish import hidden_folder, set_aside
from sdem_dist.storage.urls import is_url, place

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text import Reading

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class SourceOptions:
    """How a source is read where a command takes a corpus or a source."""

    reading: Reading
    on_error: Literal["raise", "skip"]


def source_options(command: Command) -> Command:
    """Add the options of a source; the command gets them as `source`."""

    @wraps(command)
    def with_source(*arguments: Any, on_error: Literal["raise", "skip"], **options: Any) -> Any:
        reading = pop_reading(options)
        if reading.weight is not None:
            raise click.UsageError("--weight is for sdem ingest and for training: ingest these documents with it first")
        return command(*arguments, source=SourceOptions(reading, on_error), **options)

    return reading_options(with_source)  # type: ignore[return-value]


def refuse_for_a_corpus(names: tuple[str, ...]) -> None:
    """Raise UsageError where options of a source are given beside a corpus."""
    if typed := typed_options(names):
        raise click.UsageError(f"{', '.join(typed)}: only for a source; a corpus has been read and counted already")


def is_source(path: str) -> bool:
    """Whether a path is that of a file or a folder of documents, not of a corpus.

    Raises click.ClickException: there is nothing.
    """
    location = place(path)
    if not location.exists() and not is_url(path):
        hint = "".join(f"; {old} was there before a process died: rename that" for old in set_aside(location)[-1:])
        raise click.ClickException(f"{path}: there is no such file or folder{hint}")
    return location.exists() and not (location / "zarr.json").exists()


def refuse_no_model(corpora: Sequence[str], model: Path) -> None:
    """Raise UsageError where one path stands for the corpus and the model: click takes it for the model."""
    if corpora:
        return
    missing = "" if model.exists() or is_url(model) else f"{model}: there is no such file or folder; and "
    name = model.name.split(".")[0] or "NAME"
    command = click.get_current_context().info_name
    raise click.UsageError(f"{missing}MODEL is missing, the file to write: sdem {command} {model} {name}.model")


def refuse_far_sources(paths: Sequence[str | None], where: str | None) -> None:
    """Raise UsageError if workers are on other machines and a path is a source, whose corpus would be on this one."""
    for path in paths:
        if path is not None and is_source(path) and where is not None:
            raise click.UsageError(f"{path} is not a corpus, and workers elsewhere need one: make it with sdem ingest")


@contextmanager
def corpus_of(
    paths: Sequence[str],
    beside: Path,
    options: Mapping[str, Any],
    estimator: EngineEstimator | None = None,
    *,
    keep_text: bool = False,
) -> Iterator[Corpus]:
    """Yield corpora as one, or the documents of sources as one that lies in a hidden folder beside the model meanwhile.

    `paths`: all of corpora, or all of sources.
    `beside`: the model.
    `options`: those of `reading_options` and `text_options`, and perhaps ``quiet`` and ``validation``, see
    `validation_of`.
    `estimator`: what is to learn from them; None: one that needs labels.
    `keep_text`: keep the texts of sources.
    Raises click.UsageError: options of a source are given, and `paths` are corpora; or they do not fit; or `paths` are
    of both.
    """
    from sdem_dist import concat, open_corpus
    from sdem_dist.text.sources import numeric_format

    if not any(map(is_source, paths)):
        held_out = options.get("validation")
        read = () if held_out is not None and is_source(held_out) else (*READING, "on_error")
        refuse_for_a_corpus((*read, *WORDS))
        yield concat([open_corpus(path) for path in paths])
        return
    if not all(map(is_source, paths)):
        source = next(filter(is_source, paths))
        raise click.UsageError(
            f"{source} is a source, and others are corpora: make a corpus of it with their vocabulary "
            f"(sdem ingest {source} NAME.zarr --vocabulary-from CORPUS), and give that"
        )
    # Of mixtures an option chooses whether they take counts.
    if estimator is not None and "sparse" not in estimator.layouts and not hasattr(estimator, "components"):
        raise click.UsageError(
            f"{type(estimator).__name__} learns from tables, and {paths[0]} is read as texts or counts. A table becomes a "
            'corpus in Python: write_corpus("table.zarr", X, y, dense=True), where X is a DataFrame or an array. This '
            "command takes that corpus"
        )
    with option_errors():
        of_text = numeric_format([place(path) for path in paths], pop_reading(dict(options))) is None
        settings = pop_words(dict(options))
    targets = estimator is not None and estimator.spec.target == "numbers"
    how = {"settings": settings, "targets": targets, "keep_text": keep_text and of_text}
    with _ingested(paths, beside, options, estimator, "corpus", **how) as corpus:
        warn_of_single_labels(corpus)
        yield corpus


@contextmanager
def validation_of(
    documents: Corpus, beside: Path, options: Mapping[str, Any], estimator: EngineEstimator
) -> Iterator[Corpus | None]:
    """Yield the corpus that ``validation`` of the options names, or that of a source, with the words of `documents`.

    It is as `corpus_of`: a source is read as the options say, and its corpus lies in a hidden folder meanwhile.
    """
    from sdem_dist import open_corpus

    path = options["validation"]
    if path is None or not is_source(path):
        yield None if path is None else open_corpus(path)
        return
    with _ingested([path], beside, options, estimator, "validation", vocabulary_from=documents.paths[0]) as validation:
        yield validation


@contextmanager
def _ingested(
    paths: Sequence[str],
    beside: Path,
    options: Mapping[str, Any],
    estimator: EngineEstimator | None,
    name: str,
    **how: Any,
) -> Iterator[Corpus]:
    """Yield the corpus of sources, which lies in a hidden folder meanwhile; errors name the sources."""
    from sdem_dist import open_corpus
    from sdem_dist.text import ingest

    with hidden_folder(beside.absolute(), name) as folder:
        target = folder / f"{name}.zarr"
        with option_errors(), shown_progress(quiet=options.get("quiet", False)) as progress:
            reading = pop_reading(dict(options))
            learns = "labels" if estimator is None else estimator.spec.target
            _check_labelled(reading, learns)
            if learns == "nothing" and not typed_options(("label", "label_separator", "unlabelled")):
                reading = replace(reading, labelled=False)
            ingest(list(paths), target, reading=reading, on_error=options["on_error"], progress=progress, **how)
        with _by_source(target, paths):
            yield open_corpus(target)


@contextmanager
def _by_source(hidden: Path, paths: Sequence[str]) -> Iterator[None]:
    """Name sources instead of the hidden corpus of them in the errors of what is done with it."""
    try:
        yield
    except (ValueError, click.ClickException) as error:
        if str(hidden) not in str(error):
            raise
        raise type(error)(str(error).replace(str(hidden), ", ".join(paths))) from error


def spool_stdin(paths: Sequence[str], form: str | None) -> list[str]:
    """Return paths with a temporary file in place of "-", of what standard input has; lines of label TAB text."""
    if "-" not in paths:
        return list(paths)
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="sdem-"))
    spool = Path(folder, f"stdin.{form or 'tsv'}")
    with spool.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return [str(spool) if path == "-" else path for path in paths]


def label_column(paths: Sequence[str], label: str | None, form: str | None) -> str | None:
    """Return the column of tables that labels are taken from; None of folders, corpora and matrices.

    `label`, `form`: the column and the format, where somebody named them.
    """
    from sdem_dist.text.files import plain_suffix
    from sdem_dist.text.sources import SUFFIXES

    if label is not None:
        return label
    forms = {form or SUFFIXES.get(plain_suffix(place(path))) for path in paths}
    return "0" if forms == {"tsv"} else "label" if forms <= {"csv", "jsonl", "parquet"} else None


@contextmanager
def documents_of(
    estimator: EngineEstimator,
    path: str,
    source: SourceOptions,
    *,
    beside: Path | None = None,
    client: Client | None = None,
    keep_texts: bool = True,
) -> Iterator[Corpus]:
    """Yield the documents that a model is examined on: a corpus, or a source, counted as the model counts texts.

    A source becomes a corpus in a temporary folder; with a client its workers write that corpus, without the texts.

    `beside`: the model, beside which the folder is that workers see.
    Raises ModelError, IngestError: the model was not trained on text, or a line of the source is not a document of one
    of its classes.
    Raises click.UsageError: options of a source are given, and `path` is a corpus.
    """
    from sdem_dist import open_corpus
    from sdem_dist.text import ingest
    from sdem_dist.text.sources import numeric_format
    from sdem_dist.text.validation import NoLabelError
    from sdem_dist.text.vectorizer import PatternError

    if not is_source(path):
        refuse_for_a_corpus((*READING, "on_error"))
        yield open_corpus(path)
        return
    if numeric_format([place(path)], source.reading) is not None:
        raise click.UsageError(
            f"{path} holds numbers: make a corpus of it (sdem ingest {path} NAME.zarr --vocabulary-from CORPUS, the one of "
            "the training), and give that"
        )
    _check_labels(estimator, source)
    estimator.vectorize([])  # says what is wrong with a model of numbers
    with _folder_for(client, beside) as folder:
        target = folder / "documents.zarr"
        try:
            report = ingest(
                path,
                target,
                reading=source.reading,
                on_error=source.on_error,
                vocabulary_from=_words_of(estimator, source, folder / "words.zarr"),
                keep_text=keep_texts and client is None,
                client=client,
                overwrite=True,
            )
        except NoLabelError as error:
            if error.first:
                unlabelled = f"; documents without labels are for sdem predict MODEL {path}"
                error.hint += f"{unlabelled} (of clusters and topics: --no-labels)"
            raise
        except PatternError as error:
            error.path = error.path or estimator._lazy_parameters.owner
            raise
        say_left_out(report.n_skipped, report.skipped_examples)
        if report.n_empty:
            click.echo(f"{counted(report.n_empty, 'document')} without a word that the model knows", err=True)
        with _by_source(target, [path]):
            yield open_corpus(target)


@contextmanager
def _folder_for(client: Client | None, beside: Path | None) -> Iterator[Path]:
    """Yield a folder that is removed at the end; with a client one beside the model, where workers see it."""
    if client is None or beside is None:
        with TemporaryDirectory(prefix="sdem-") as folder:
            yield Path(folder)
        return
    shared = kept_folder(beside, "corpus", "0" * 32) if is_url(beside) else hidden_folder(beside.absolute(), "corpus")
    with shared as folder:
        yield folder


def _words_of(estimator: EngineEstimator, source: SourceOptions, path: Path) -> str:
    """Write a corpus of one empty document with a model's words and classes, which new documents follow."""
    import scipy.sparse as sp

    from sdem_dist import write_corpus

    classes = estimator.classes_.tolist() if estimator.spec.target == "labels" else None
    several = estimator.several_labels
    separator = source.reading.label_separator or estimator.label_separator_ or ","
    return write_corpus(
        path,
        sp.csr_matrix((1, estimator.n_features_in_), dtype="uint8"),
        None if classes is None else [classes] if several else classes[:1],
        classes=None if several else classes,
        targets=[0.0] if estimator.spec.target == "numbers" else None,
        vocabulary=estimator.vocabulary_,
        vectorizer=estimator.vectorizer_,
        made_by={"label_separator": separator} if several else None,
        overwrite=True,  # a killed command leaves the folder beside a URL
    ).path


def _check_labelled(reading: Reading, learns: str) -> None:
    if not reading.labelled and learns != "nothing":
        raise click.UsageError("--no-labels and --format lines are for clusters and topics, which learn from no labels")


def _check_labels(estimator: EngineEstimator, source: SourceOptions) -> None:
    _check_labelled(source.reading, estimator.spec.target)
    if not estimator.several_labels and source.reading.label_separator is not None:
        raise click.UsageError("--label-separator is for models of several labels, and this one learned one each")
    if estimator.several_labels and source.reading.unlabelled is not None:
        raise click.UsageError("--unlabelled is for documents of one label each, and this model learned several")
