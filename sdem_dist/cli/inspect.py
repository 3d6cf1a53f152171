"""``sdem inspect``: what is in a corpus, and whether it is sound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

import sdem_dist
from sdem_dist.cli.console import table, without_label
from sdem_dist.cli.options import READING, Source, SourceCommand, option, source_options, typed_options
from sdem_dist.cli.sources import documents_of
from sdem_dist.counted import counted, sized, visible
from sdem_dist.errors import CorpusError
from sdem_dist.storage.urls import place

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus

CLASSES_SHOWN, COLUMNS_SHOWN = 30, 5
KINDS = {"count": "counts of terms", "hashing": "counts of hashed terms", "matrix": "numbers as they were"}
"""What stands in a corpus, by the kind of its settings."""


@click.command("inspect", cls=SourceCommand, no_args_is_help=True)
@click.argument("corpus", metavar="CORPUS|MODEL")
@option("--no-check", None, "Only read the manifest: check no shard, count no missing values.")
@option("--card", None, "Print the card of a model as Markdown: data, settings, quality, limits.")
@option("--on measured", "CORPUS", "With --card: measure the model on this corpus or source, too.")
@source_options
def inspect_command(corpus: str, no_check: bool, card: bool, measured: str | None, source: Source) -> None:
    """Show what is in CORPUS, and check every shard of it; or show what a MODEL file is, and its words for each class.

    --format to --on-error say how a source after --on is read.

    Exits with 1 if a shard or the model is damaged, and names it.
    """
    if measured is not None and not card:
        raise click.UsageError("--on needs --card")
    if measured is None and (typed := typed_options(READING)):
        raise click.UsageError(f"{typed}: only for a source after --card --on")
    from sdem_dist.corpus import check_corpus, open_corpus

    if place(corpus).is_file():
        click.echo(_model(corpus, card, measured, source))
        return
    if card:
        raise click.UsageError(f"--card is for a model, and {corpus} is not one")
    opened = open_corpus(corpus)
    click.echo(_facts(opened, values=not no_check))
    header = opened.header
    if header.classes:  # the largest first
        sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
        rows = [(str(name), f"{n:,}", f"{n / header.n_documents:.1%}") for name, n in sizes[:CLASSES_SHOWN]]
        title = counted(len(sizes), "class", "classes")
        if header.label_sets is not None:
            title = f"{counted(len(sizes), 'label')}, in {counted(len(header.classes), 'set')}"
        more = f", {len(sizes) - CLASSES_SHOWN} more" if len(sizes) > CLASSES_SHOWN else ""
        click.echo(table(f"{title}{more}", rows))
    if no_check:
        return
    problems = list(check_corpus(opened))
    for problem in problems:
        click.echo(f"damaged: {visible(problem.message)}", err=True)
    if problems:
        raise click.ClickException(
            f"{corpus} is damaged ({counted(len(problems), 'problem')}); make it again from its sources"
        )
    n_shards = len(header.shards)
    click.echo("The one shard is sound." if n_shards == 1 else f"All {n_shards} shards are sound.")


def _model(name: str, card: bool, measured: str | None, source: Source) -> str:
    """Return what a model is, how its training went, and the words that speak most for each class; or its card."""
    from sdem_dist.reports.model_card import model_card, model_facts
    from sdem_dist.reports.top_words import top_words

    path = place(name)
    model = sdem_dist.load_model(path)
    if measured is not None:
        with documents_of([measured], source, model) as documents:
            return model_card(model, path.name, model.report(documents), measured)
    if card:
        return model_card(model, path.name)
    facts = table(str(path), {**model_facts(model), "on disk": sized(path.stat().st_size)}.items())
    what, words = model.spec.predicts, top_words(model)
    if model.spec.topics:
        what, words = "topic", {f"topic {t.title}: {t.share:.0%}": t.distinctive for t in model.topics()}
    if not words:
        return facts
    rows = [(str(key), " ".join(of_key)) for key, of_key in words.items()]
    return f"{facts}\n{table(f'The words that speak most for each {what}', rows)}"


def _facts(corpus: Corpus, *, values: bool) -> str:
    """Return a table of what a corpus is and how it was made; with `values` of what tables miss, which reads them."""
    from sdem_dist.corpus.reader import missing_values
    from sdem_dist.corpus.tables import numbering
    from sdem_dist.text import VectorizerSettings

    header, n_bytes = corpus.header, corpus.bytes_on_disk()
    is_table = header.layout == "dense"
    sizes = sorted({s.n_documents for s in header.shards})
    documents = ("" if len(sizes) == 1 else f"{sizes[0]:,} to ") + counted(sizes[-1], "document")
    unlabelled = without_label(corpus)
    named, entry = ("names", "value") if is_table else ("a vocabulary", "nonzero")
    kind = "" if is_table else ", weights" if header.weighted else ", counts"
    missing = ""
    if is_table and values:
        of_columns, n = missing_values(corpus), header.n_documents
        most = [i for i in (-of_columns).argsort(kind="stable")[:COLUMNS_SHOWN] if of_columns[i]]
        shares = [f"{name} {of_columns[i] / n:.1%}" for i, name in zip(most, _columns(corpus, most), strict=True)]
        total, n_missing = n * len(of_columns), of_columns.sum()
        missing = f"{n_missing:,} of {total:,} values, {n_missing / total:.1%}; most in {', '.join(shares)}"
        missing = missing if n_missing else "none"
    categories, cells = numbering(header.vectorizer) or {}, []
    for name, of_column in zip(_columns(corpus, categories), categories.values(), strict=True):
        more = f" and {len(of_column) - COLUMNS_SHOWN:,} more" if len(of_column) > COLUMNS_SHOWN else ""
        cells.append(f"{name}: {', '.join(map(str, of_column.tolist()[:COLUMNS_SHOWN]))}{more}")
    settings, defaults = header.vectorizer or {}, VectorizerSettings().to_json()
    text = {"values": KINDS.get(str(settings.get("kind")), "not known")} if settings else {}
    text |= {k: v for k, v in settings.items() if k != "kind" and v != defaults.get(k)}  # what is not the default
    rows = {
        "documents": f"{header.n_documents:,}{f', {unlabelled:,} without a label' if unlabelled else ''}",
        "features": f"{header.n_features:,}{f', with {named}' if header.has_vocabulary else ''}",
        "targets": f"{header.n_targets or ''}",
        "weights of documents": f"{corpus.weight:,.6g} in all" if header.has_weights else "",
        f"{entry}s": f"{header.n_nonzeros:,}{kind} ({', '.join(header.data_dtypes)})",
        "missing": missing,
        "on disk": f"{sized(n_bytes)}, {n_bytes / max(header.n_nonzeros, 1):.2f} bytes a {entry}",
        "shards": f"{len(header.shards)}, of {documents}",
        "categories": "; ".join(cells),
        "text to words": "" if is_table else _listed(text),
        "made by": _listed(header.made_by),
        "uid": header.uid,
    }
    return table(str(corpus.path), [row for row in rows.items() if row[1]])


def _columns(corpus: Corpus, positions: Iterable[int]) -> list[str]:
    try:
        vocabulary = corpus.vocabulary()
    except CorpusError:  # the check of the corpus names it
        vocabulary = None
    return [f"column {i}" if vocabulary is None else str(vocabulary[i]) for i in positions]


def _listed(values: Mapping[str, object]) -> str:
    parts = [
        f"{key}: {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for key, value in values.items()
        if value not in (None, [], 0.0, False, "")
    ]
    return ", ".join(parts) or "not recorded"
