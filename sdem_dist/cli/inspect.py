"""``sdem inspect``: what is in a corpus, and whether it is sound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sdem_dist
from sdem_dist.cli.outputs import table
from sdem_dist.cli.parameters import option
from sdem_dist.cli.reading import READING, Source, SourceCommand, source_options, typed_options
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
        click.echo(_model(place(corpus), card, measured, source))
        return
    if card:
        raise click.UsageError(f"--card is for a model, and {corpus} is not one")
    opened = open_corpus(corpus)
    n_shards = len(opened.header.shards)
    click.echo(facts(opened, values=not no_check))
    if opened.header.classes:
        click.echo(classes(opened))
    problems = [] if no_check else list(check_corpus(opened))
    for problem in problems:
        click.echo(f"damaged: {visible(problem.message)}", err=True)
    if problems:
        raise click.ClickException(
            f"{corpus} is damaged ({counted(len(problems), 'problem')}); make it again from its sources"
        )
    if not no_check:
        click.echo("The one shard is sound." if n_shards == 1 else f"All {n_shards} shards are sound.")


def _model(path: Path, card: bool, measured: str | None, source: Source) -> str:
    """Return what a model is, how its training went, and the words that speak most for each class; or its card.

    Raises ModelError: the file is damaged or no model.
    """
    from sdem_dist.reports.model_card import model_card, model_facts
    from sdem_dist.reports.top_words import top_words

    model = sdem_dist.load_model(path)
    if measured is not None:
        with documents_of([measured], source, model) as documents:
            return model_card(model, path.name, model.report(documents), measured)
    if card:
        return model_card(model, path.name)
    shown = table(str(path), {**model_facts(model), "on disk": sized(path.stat().st_size)}.items())
    what, words = model.spec.predicts, top_words(model)
    if model.spec.topics:
        what, words = "topic", {f"topic {t.title}: {t.share:.0%}": t.distinctive for t in model.topics()}
    if not words:
        return shown
    rows = [(str(name), " ".join(spoken)) for name, spoken in words.items()]
    return f"{shown}\n{table(f'The words that speak most for each {what}', rows)}"


def facts(corpus: Corpus, *, values: bool) -> str:
    """Return a table of what a corpus is and how it was made; with `values` of what tables miss, which reads them."""
    header, n_bytes = corpus.header, corpus.bytes_on_disk()
    sizes = sorted({s.n_documents for s in header.shards})
    documents = ("" if len(sizes) == 1 else f"{sizes[0]:,} to ") + counted(sizes[-1], "document")
    unlabelled = header.n_documents - sum(header.class_counts) if header.classes else 0
    dense = header.layout == "dense"
    named, entry = ("names", "value") if dense else ("a vocabulary", "nonzero")
    kind = "" if dense else ", weights" if header.weighted else ", counts"
    rows = {
        "documents": f"{header.n_documents:,}{f', {unlabelled:,} without a label' if unlabelled else ''}",
        "features": f"{header.n_features:,}{f', with {named}' if header.has_vocabulary else ''}",
        "targets": f"{header.n_targets or ''}",
        "weights of documents": f"{corpus.weight:,.6g} in all" if header.has_weights else "",
        f"{entry}s": f"{header.n_nonzeros:,}{kind} ({', '.join(header.data_dtypes)})",
        "missing": _missing(corpus) if dense and values else "",
        "on disk": f"{sized(n_bytes)}, {n_bytes / max(header.n_nonzeros, 1):.2f} bytes a {entry}",
        "shards": f"{len(header.shards)}, of {documents}",
        "categories": _categories(corpus),
        "text to words": "" if dense else _vectorizer(header.vectorizer or {}),
        "made by": _listed(header.made_by),
        "uid": header.uid,
    }
    return table(str(corpus.path), [row for row in rows.items() if row[1]])


def _missing(corpus: Corpus) -> str:
    """Return how many values of a dense corpus are missing, and which columns miss most."""
    from sdem_dist.corpus.skip_damaged import missing_values

    missing, n = missing_values(corpus), corpus.header.n_documents
    if not missing.any():
        return "none"
    most = [i for i in (-missing).argsort(kind="stable")[:COLUMNS_SHOWN] if missing[i]]
    listed = ", ".join(f"{name} {missing[i] / n:.1%}" for i, name in zip(most, _columns(corpus, most), strict=True))
    total = n * len(missing)
    return f"{missing.sum():,} of {total:,} values, {missing.sum() / total:.1%}; most in {listed}"


def _columns(corpus: Corpus, positions: Iterable[int]) -> list[str]:
    try:
        vocabulary = corpus.vocabulary()
    except CorpusError:  # the check of the corpus names it
        vocabulary = None
    return [f"column {i}" if vocabulary is None else str(vocabulary[i]) for i in positions]


def _categories(corpus: Corpus) -> str:
    from sdem_dist.corpus.tables import numbering

    categories, cells = numbering(corpus.header.vectorizer) or {}, []
    for name, values in zip(_columns(corpus, categories), categories.values(), strict=True):
        more = f" and {len(values) - COLUMNS_SHOWN:,} more" if len(values) > COLUMNS_SHOWN else ""
        cells.append(f"{name}: {', '.join(map(str, values.tolist()[:COLUMNS_SHOWN]))}{more}")
    return "; ".join(cells)


def _vectorizer(settings: Mapping[str, object]) -> str:
    """Return what the numbers are, and the settings of text that are not the defaults."""
    from sdem_dist.text import VectorizerSettings

    defaults = VectorizerSettings().to_json()
    kind = {"values": KINDS.get(str(settings.get("kind")), "not known")} if settings else {}
    return _listed(kind | {k: v for k, v in settings.items() if k != "kind" and v != defaults.get(k)})


def classes(corpus: Corpus) -> str:
    """Return a table of the classes with their numbers and shares, the largest first."""
    header = corpus.header
    sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
    rows = [(str(name), f"{n:,}", f"{n / header.n_documents:.1%}") for name, n in sizes[:CLASSES_SHOWN]]
    more = f", {len(sizes) - CLASSES_SHOWN} more" if len(sizes) > CLASSES_SHOWN else ""
    if header.label_sets is not None:
        return table(f"{counted(len(sizes), 'label')}, in {counted(len(header.classes), 'set')}{more}", rows)
    return table(f"{counted(len(sizes), 'class', 'classes')}{more}", rows)


def _listed(values: Mapping[str, object]) -> str:
    parts = [
        f"{key}: {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for key, value in values.items()
        if value not in (None, [], 0.0, False, "")
    ]
    return ", ".join(parts) or "not recorded"
