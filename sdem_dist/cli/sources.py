"""Files and folders of documents where a command takes a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sdem_dist.cli.ingest_report import shown_progress
from sdem_dist.storage.places import is_url

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.estimators.examined import Examined

Command = TypeVar("Command", bound=Callable[..., Any])


def source_options(command: Command) -> Command:
    """Add what says where a source has its labels and texts."""
    command = click.option("--text", metavar="COLUMN", help="Of a source: the column of the text, likewise.")(command)
    label = click.option("--label", metavar="COLUMN", help="Of a source: the column of the label, as in sdem ingest.")
    return label(command)


def is_source(path: str) -> bool:
    """Whether a path is that of a file or a folder of documents, and no corpus."""
    return not is_url(path) and Path(path).exists() and not Path(path, "zarr.json").exists()


@contextmanager
def corpus_of(path: str, beside: Path, label: str | None, text: str | None) -> Iterator[Corpus]:
    """Yield a corpus, or the documents of a source as one that lies in a hidden folder beside the model meanwhile.

    Raises
    ------
    click.UsageError
        Columns are named, and `path` is a corpus.
    """
    from sdem_dist import open_corpus
    from sdem_dist.storage.hidden import hidden_folder
    from sdem_dist.text import Reading, ingest

    if not is_source(path):
        if label is not None or text is not None:
            raise click.UsageError("--label and --text are of a source; a corpus has no columns of these names")
        yield open_corpus(path)
        return
    with hidden_folder(beside.absolute(), "corpus") as folder:
        with shown_progress() as progress:
            ingest([path], folder / "corpus.zarr", reading=Reading(label=label, text=text), progress=progress)
        yield open_corpus(folder / "corpus.zarr")


def examined_documents(estimator: EngineEstimator, path: str, label: str | None, text: str | None) -> Examined:
    """Return the documents that a model is examined on: a corpus, or a source as the model counts it, with its texts.

    Raises
    ------
    ModelError, IngestError
        The model was not trained on text, or a line of the source is no document of one of its classes.
    click.UsageError
        Columns are named, and `path` is a corpus.
    """
    import scipy.sparse as sp

    from sdem_dist import open_corpus
    from sdem_dist.estimators.examined import Examined
    from sdem_dist.text import Reading
    from sdem_dist.text.bad_lines import LineGate
    from sdem_dist.text.sources import text_blocks
    from sdem_dist.text.transform import TextTransformer
    from sdem_dist.text.vectorizer import VectorizerSettings

    if not is_source(path):
        if label is not None or text is not None:
            raise click.UsageError("--label and --text are of a source; a corpus has no columns of these names")
        return Examined(open_corpus(path))
    estimator.vectorize([])  # says what is wrong with a model of numbers
    count = TextTransformer(VectorizerSettings.from_json(estimator.vectorizer_ or {}), estimator.vocabulary_).counter()
    target = estimator.spec.target
    classes = {str(c): c for c in estimator.classes_.tolist()} if target == "labels" else {}
    gate = LineGate("raise", frozenset(classes) if classes else None, numeric=target == "numbers")
    counts, labels, texts = [], [], []
    for block in text_blocks([Path(path)], Reading(label=label, text=text), gate):
        counts.append(count(block.texts))
        labels += block.labels
        texts.append(block.texts)
    if not counts:
        raise click.ClickException(f"{path} holds no document")
    known: list[object] = [classes[name] for name in labels] if classes else list(labels)
    if target == "numbers":
        known = [float(name) for name in labels]
    return Examined(sp.vstack(counts, format="csr"), known, texts)
