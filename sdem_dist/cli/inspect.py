"""``sdem inspect``: what is in a corpus, and whether it is sound."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from sdem_dist.corpus import Corpus, Description

CLASSES_SHOWN = 30


@click.command("inspect", no_args_is_help=True)
@click.argument("corpus", metavar="CORPUS|MODEL")
@click.option("--no-check", is_flag=True, help="Only read the manifest: leave out the checksums of every shard.")
def inspect_command(corpus: str, no_check: bool) -> None:
    """Show what is in CORPUS, and check every shard of it; or show what a MODEL file is and which words it goes by.

    Exits with 1 if a shard or the model is damaged, and names it.
    """
    from rich.console import Console

    from sdem_dist.corpus import check_corpus, describe, open_corpus

    console = Console(highlight=False, soft_wrap=True)
    if Path(corpus).is_file():
        from sdem_dist.cli.inspect_model import show_model

        show_model(console, Path(corpus))
        return
    opened = open_corpus(corpus)
    description = describe(opened)
    console.print(facts(opened, description))
    if description.class_shares:
        console.print(classes(opened))
    problems = [] if no_check else list(check_corpus(opened))
    for problem in problems:
        click.echo(f"damaged: {problem.message}", err=True)
    if problems:
        raise click.ClickException(f"{corpus} is damaged ({len(problems)} problems); make it again from its sources")
    if not no_check:
        click.echo(
            "The one shard is sound." if description.n_shards == 1 else f"All {description.n_shards} shards are sound."
        )


def facts(corpus: Corpus, description: Description) -> Table:
    """Return a table of what a corpus is and how it was made."""
    shards = corpus.header.shards
    sizes = sorted({s.n_documents for s in shards})
    documents = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    kind = "weights" if description.weighted else "counts"
    rows = [
        ("documents", f"{description.n_documents:,}"),
        ("features", f"{description.n_features:,}{', with a vocabulary' if description.has_vocabulary else ''}"),
        *([("targets", f"{corpus.header.n_targets}")] if corpus.header.n_targets else []),
        ("nonzeros", f"{description.n_nonzeros:,}, {kind} ({', '.join(description.data_dtypes)})"),
        ("on disk", f"{description.bytes_on_disk / 1e6:,.1f} MB, {description.bytes_per_nonzero:.2f} bytes a nonzero"),
        ("shards", f"{description.n_shards}, of {documents} documents"),
        ("text to words", _listed(_without_defaults(corpus.header.vectorizer))),
        ("made by", _listed(corpus.header.made_by)),
        ("uid", description.uid),
    ]
    return _table(rows, title=str(corpus.path))


def classes(corpus: Corpus) -> Table:
    """Return a table of the classes with their numbers and shares, the largest first."""
    header = corpus.header
    counted = sorted(zip(header.class_counts, header.classes, strict=True), key=lambda pair: -pair[0])
    rows = [(str(name), f"{n:,}", f"{n / header.n_documents:.1%}") for n, name in counted[:CLASSES_SHOWN]]
    if len(counted) > CLASSES_SHOWN:
        rest = sum(n for n, _ in counted[CLASSES_SHOWN:])
        rows.append((f"{len(counted) - CLASSES_SHOWN} more", f"{rest:,}", f"{rest / header.n_documents:.1%}"))
    return _table(rows, title=f"{len(counted)} classes")


def _table(rows: Iterable[tuple[str, ...]], title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), box=box.SIMPLE, show_header=False, title_justify="left")
    rows = list(rows)
    for _ in rows[0]:
        table.add_column(overflow="fold")
    for row in rows:
        # names come from data: shown as they are, not as markup
        table.add_row(*map(Text, row))
    return table


def _without_defaults(vectorizer: dict[str, Any] | None) -> dict[str, Any]:
    """Return the settings that say something: those unlike the defaults, and the kind."""
    from sdem_dist.text import VectorizerSettings

    if vectorizer is None:
        return {}
    usual = VectorizerSettings().to_json()
    return {k: v for k, v in vectorizer.items() if k == "kind" or v != usual.get(k)}


def _listed(values: dict[str, Any]) -> str:
    said = (f"{key}: {value}" for key, value in values.items() if value not in (None, [], 0.0, False, ""))
    return ", ".join(said) or "not recorded"
