"""``sdem predict``: labels with probabilities, numbers or clusters for raw texts, streaming."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sdem_dist.cli.parameters import ColumnNumber, LocalPath

BLOCK = 1 << 14
"""Most documents predicted at a time."""


@click.command(no_args_is_help=True)
@click.argument("model", type=LocalPath())
@click.argument("texts", type=LocalPath(allow_dash=True))
@click.option("--text-column", type=ColumnNumber(), metavar="N", help="Take column N (from 0) of TAB-separated lines.")
@click.option("--no-proba", is_flag=True, help="Print the label or the cluster only.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the texts.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: all cores]")
def predict(model: Path, texts: Path, text_column: int | None, no_proba: bool, encoding: str, jobs: int | None) -> None:
    """Predict TEXTS, one document a line (plain, .gz, .xz or .zst; - for standard input), with MODEL.

    TEXTS is raw text and MODEL one that was trained on text; numbers and tables are predicted in Python, by
    load_model(MODEL).predict(X). A LatentDirichletAllocation has no predict, but transform.

    Writes one line a document: the label, then TAB and CLASS=PROBABILITY for every class, in the model's order of
    classes; of a regressor the numbers alone, of a mixture the clusters by number. Nothing is held in memory but a few blocks.
    """
    from sdem_dist.cli.streaming import predict_lines
    from sdem_dist.estimators.saving import KIND
    from sdem_dist.storage.archive import is_archive
    from sdem_dist.text.formats.plain_lines import read_plain_lines

    if texts.is_file() and is_archive(texts, KIND) and not is_archive(model, KIND):
        raise click.UsageError(f"the model comes first: sdem predict {texts} {model}")
    _refuse_tables(texts, text_column)
    blocks = read_plain_lines(texts, encoding, text_column, BLOCK)
    for block in predict_lines(model, blocks, probabilities=not no_proba, n_jobs=jobs):
        sys.stdout.write(block)


def _refuse_tables(path: Path, column: int | None) -> None:
    """Refuse files whose lines are no documents: their header and their labels would be classified, too."""
    from sdem_dist.text.compressed import plain_suffix
    from sdem_dist.text.sources import SUFFIXES

    suffix = plain_suffix(path)
    form = "json" if suffix == ".json" else SUFFIXES.get(suffix)
    if suffix == ".tsv" and column is None:
        raise click.ClickException(
            f"{path} is a table of columns: name the one that holds the texts with --text-column N, from 0; its first line "
            "must be no header"
        )
    if form not in (None, "tsv"):
        raise click.ClickException(
            f"{path} is {form}, and predict reads text, one document a line: write the texts alone into a .txt file; or "
            f"make a corpus of it (sdem ingest {path} NAME.zarr --vocabulary-from CORPUS, the one of the training) and "
            "predict it in Python: load_model(MODEL).predict(corpus.read(0, n).to_csr())"
        )
