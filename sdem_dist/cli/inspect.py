"""``sdem inspect``, ``log`` and ``export``: contents of a corpus, a model or a log, and models for other programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal

import sdem_dist
from sdem_dist.cli.console import check_output, overwrite_option, say, table, without_label
from sdem_dist.cli.ingest import documents_of
from sdem_dist.cli.options import READING, LocalPath, Place, Source, SourceCommand, option, source_options, typed_flags
from sdem_dist.counted import counted, visible
from sdem_dist.errors import CorpusError
from sdem_dist.storage.buckets import place
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.table import Table

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus

CLASSES_SHOWN, COLUMNS_SHOWN = 30, 5
KINDS = {"count": "counts of terms", "hashing": "counts of hashed terms", "matrix": "unchanged numbers"}
"""Contents of a corpus, by the kind of its vectorizer."""


@click.command("inspect", cls=SourceCommand, no_args_is_help=True)
@click.argument("corpus", metavar="CORPUS|MODEL")
@option("--no-check", None, "Do not verify shards: read only the metadata.")
@option("--card", None, "Print a model card as Markdown.")
@option("--on measured", "CORPUS", "With --card: also evaluate the model on this corpus or source.")
@source_options
def inspect_command(corpus: str, no_check: bool, card: bool, measured: str | None, source: Source) -> None:
    """Describe CORPUS and verify its shards, or describe MODEL and list its most indicative words.

    Reader options apply to the source passed to --on.

    The exit code is 1 if a shard or the model is damaged.
    """
    if measured is not None and not card:
        raise click.UsageError("--on needs --card")
    if measured is None and (typed := typed_flags(READING)):
        raise click.UsageError(f"{typed} applies only to a source passed with --card --on")
    from sdem_dist.corpus import check_corpus, open_corpus

    if (path := place(corpus)).is_file():
        from sdem_dist.reports.page import model_card, model_facts
        from sdem_dist.reports.top_words import word_weights

        model = sdem_dist.load_model(path)
        if measured is not None:
            with documents_of([measured], source, model) as documents:
                click.echo(model_card(model, path.name, model.report(documents), measured))
        elif card:
            click.echo(model_card(model, path.name))
        else:
            click.echo(table(str(path), {**model_facts(model), "on disk": decimal(path.stat().st_size)}.items()))
            what, words = model.spec.predicts, {str(c): list(of_c) for c, of_c in word_weights(model).items()}
            if model.spec.topics:
                what, words = "topic", {f"topic {t.title}: {t.share:.0%}": t.distinctive for t in model.topics()}
            if spoken := [(name, " ".join(of_name)) for name, of_name in words.items()]:
                click.echo(table(f"Most indicative words of each {what}", spoken))
        return
    if card:
        raise click.UsageError(f"--card needs a model; {corpus} is not one")
    opened = open_corpus(corpus)
    header, n_shards = opened.header, len(opened.header.shards)
    click.echo(_facts(opened, values=not no_check))
    if header.classes:  # the largest first
        sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
        rows = [(str(name), f"{n:,}", f"{n / header.n_documents:.1%}") for name, n in sizes[:CLASSES_SHOWN]]
        title = counted(len(sizes), "class", "classes")
        if header.label_sets is not None:
            title = f"{counted(len(sizes), 'label')} in {counted(len(header.classes), 'label set')}"
        more = f" (the {CLASSES_SHOWN} largest)" if len(sizes) > CLASSES_SHOWN else ""
        click.echo(table(f"{title}{more}", rows))
    if no_check:
        return
    problems = list(check_corpus(opened))
    for problem in problems:
        click.echo(f"damaged: {visible(problem.message)}", err=True)
    if problems:
        raise click.ClickException(f"{corpus} is damaged: ingest its sources again")
    click.echo("The shard is intact." if n_shards == 1 else f"All {n_shards} shards are intact.")


def _columns(corpus: Corpus, positions: Iterable[int]) -> list[str]:
    vocabulary = None
    with suppress(CorpusError):  # the check of the corpus names it
        vocabulary = corpus.vocabulary()
    return [f"column {i}" if vocabulary is None else vocabulary[i] for i in positions]


def _missing(corpus: Corpus) -> str:
    """Return the number of missing values in a table, and the columns with most; reads all documents."""
    from sdem_dist.corpus.reader import missing_values

    of_columns, n = missing_values(corpus), corpus.header.n_documents
    most = [i for i in (-of_columns).argsort(kind="stable")[:COLUMNS_SHOWN].tolist() if of_columns[i]]
    shares = [f"{name} ({of_columns[i] / n:.1%})" for i, name in zip(most, _columns(corpus, most), strict=True)]
    total, n_missing = n * len(of_columns), of_columns.sum()
    whole = f"{n_missing:,} of {total:,} values, {n_missing / total:.1%}; most in {', '.join(shares)}"
    return whole if n_missing else "none"


def _categories(corpus: Corpus) -> str:
    from sdem_dist.corpus.labels import numbering

    categories, cells = numbering(corpus.header.vectorizer) or {}, []
    for name, of_column in zip(_columns(corpus, categories), categories.values(), strict=True):
        more = f" and {len(of_column) - COLUMNS_SHOWN:,} more" if len(of_column) > COLUMNS_SHOWN else ""
        cells.append(f"{name}: {', '.join(map(str, of_column.tolist()[:COLUMNS_SHOWN]))}{more}")
    return "; ".join(cells)


def _facts(corpus: Corpus, *, values: bool) -> str:
    """Return a table of the properties of a corpus; `values`: also of missing values, which takes a full read."""
    from sdem_dist.text import VectorizerSettings

    def listed(facts: Mapping[str, object]) -> str:
        recorded = {k: v for k, v in facts.items() if v not in (None, [], 0.0, False, "")}
        texts = {k: " ".join(map(str, v)) if isinstance(v, list | tuple) else v for k, v in recorded.items()}
        return ", ".join(f"{k}: {text}" for k, text in texts.items()) or "not recorded"

    header, n_bytes, settings = corpus.header, corpus.bytes_on_disk(), corpus.header.vectorizer or {}
    text, defaults = dict[str, object](), json.loads(json.dumps(VectorizerSettings().to_json()))
    if settings:
        text["values"] = KINDS.get(str(settings.get("kind")), "not known")
    text |= {k: v for k, v in settings.items() if k != "kind" and v != defaults.get(k)}  # without the defaults
    sizes, unlabelled = sorted({s.n_documents for s in header.shards}), without_label(corpus)
    is_table = header.layout == "dense"
    named, entry = ("names", "value") if is_table else ("a vocabulary", "nonzero")
    kind = "" if is_table else ", weights" if header.weighted else ", counts"
    documents = ("" if len(sizes) == 1 else f"{sizes[0]:,} to ") + counted(sizes[-1], "document")
    dtypes = sorted({shard.data_dtype for shard in header.shards}, key=lambda dtype: (len(dtype), dtype))
    rows = {
        "documents": f"{header.n_documents:,}{f', {unlabelled:,} without a label' if unlabelled else ''}",
        "features": f"{header.n_features:,}{f', with {named}' if header.has_vocabulary else ''}",
        "targets": f"{header.n_targets or ''}",
        "weights of documents": f"{corpus.weight:,.6g} in total" if header.has_weights else "",
        f"{entry}s": f"{header.n_nonzeros:,}{kind} ({', '.join(dtypes)})",
        "missing": _missing(corpus) if is_table and values else "",
        "on disk": f"{decimal(n_bytes)}, {n_bytes / max(header.n_nonzeros, 1):.2f} bytes per {entry}",
        "shards": f"{len(header.shards)}, of {documents}",
        "categories": _categories(corpus),
        "tokenization": "" if is_table else listed(text),
        "made by": listed(header.made_by),
        "uid": header.uid,
    }
    return table(str(corpus.path), [row for row in rows.items() if row[1]])


PARTS = ("read", "prepare", "map", "merge", "wait")
SUMS = ("documents", "wall", "worker_seconds", *PARTS)
BEGINNING = '{"event": "'  # the first characters of each line of a log
EVENTS = {
    "TaskRetried": ("task retried", "tasks retried"),
    "WorkerLost": ("worker lost", "workers lost"),
    "CheckpointWritten": ("checkpoint", "checkpoints"),
    "Scored": ("scoring pass", "scoring passes"),
}


@click.command(no_args_is_help=True)
@click.argument("log", type=Place())
def log(log: Path) -> None:
    """Show a timing breakdown of a run, from the LOG of sdem train --log.

    Prints one line per epoch, and one per stage before training. Columns show the time of all workers, in seconds, for
    reading shards (read), preparing documents (prepare), computing statistics (map), merging them (merge), and the rest
    (wait: network, scheduler, driver). Reading overlaps with mapping, so columns may add up to more than the total.
    """
    events = read_events(log)
    rows, times = epochs(events), Counter(event["event"] for event in events)
    if not rows:
        raise click.ClickException(f"{log} contains no completed epoch yet")
    cells = []
    for row in rows:
        name = f"{row['stage']} {row['first']}" + (f" to {row['epoch']}" if row["epoch"] > row["first"] else "")
        speed = f"{row['documents'] / max(row['wall'], 1e-9):,.0f}"
        cells.append((name, f"{row['wall']:.2f}", speed, *(f"{row[part]:.2f}" for part in PARTS)))
    click.echo(Table(("epoch", "wall", "documents/s", *PARTS), cells, left=(0,)).text())
    total = {name: sum(row[name] for row in rows) for name in ("worker_seconds", *PARTS)}
    shares = ", ".join(f"{part} {total[part] / max(total['worker_seconds'], 1e-9):.0%}" for part in PARTS)
    click.echo(f"{total['worker_seconds']:.1f} seconds of all workers: {shares}")
    for name, words in EVENTS.items():
        if times[name]:
            click.echo(counted(times[name], *words))


def read_events(path: Path) -> list[JsonObject]:
    """Return the events of a log, without lines that are cut short: a killed run may leave one."""
    events = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not (line.startswith(BEGINNING) or BEGINNING.startswith(line)):
            raise click.ClickException(f"{path}, line {number}: not an event (expected a log from sdem train --log)")
        with suppress(ValueError):  # it was cut short, and a resumed run may follow
            events.append(json.loads(line))
    return events


def epochs(events: list[JsonObject]) -> list[JsonObject]:
    """Return the cost of each epoch: seconds of wall time, and seconds of all workers for each activity.

    The epochs of a stage that is not monitored are one row, from the epoch ``first`` to the epoch ``epoch``.
    """
    rows: list[JsonObject] = []
    spent: Any = Counter()
    new_row = monitored = True
    for event in events:
        kind = event["event"]
        if kind == "StageStarted":
            spent, new_row, monitored = Counter(), True, event["monitored"]
        elif kind == "LanesEnded":
            spent.update({part: event[part] for part in PARTS[:-1]})
            spent["documents"] += event["n_documents"]
        elif kind == "RoundEnded":
            seconds = event["seconds"]
            spent.update(merge=event["merge"], wall=seconds, worker_seconds=seconds * event["n_workers"])
        elif kind == "EpochEnded":
            spent["wait"] = max(0.0, spent["worker_seconds"] - sum(spent[part] for part in PARTS[:-1]))
            epoch = event["epoch"] + 1
            if new_row or monitored:
                rows.append({"stage": event["stage"], "first": epoch, **dict.fromkeys(SUMS, 0.0)})
            rows[-1] |= {"epoch": epoch, **{name: rows[-1][name] + spent[name] for name in SUMS}}
            spent, new_row = Counter(), False
    return rows


@click.command(no_args_is_help=True)
@click.argument("model", type=Place())
@click.argument("file", type=LocalPath())
@click.option("--onnx", "form", flag_value=".onnx", help="Write an ONNX file, with text input if possible.")
@click.option("--sklearn", "form", flag_value=".skops", help="Write a scikit-learn pipeline as a skops file.")
@click.option("--from-counts", is_flag=True, help="Use word counts as input, not text.")
@overwrite_option
def export(model: Path, file: Path, form: str | None, from_counts: bool, overwrite: bool) -> None:
    """Export MODEL to FILE; by default the suffix selects the format (.onnx or .skops).

    A scikit-learn pipeline predicts from text and is loaded with skops.io.load(FILE, trusted=...). An ONNX file
    predicts from text if onnxruntime can tokenize like MODEL. Otherwise it accepts word counts, and the command
    explains why. The metadata of the file contain the vocabulary and the tokenization.
    """
    from sdem_dist.export import save_onnx, save_skops, why_from_counts

    form = form or file.suffix.lower()
    if form not in (".onnx", ".skops"):
        raise click.UsageError(f"the suffix of {file} is unknown: use --onnx or --sklearn")
    check_output(file, (model,), overwrite)
    estimator = sdem_dist.load_model(model)
    if form == ".onnx":
        save_onnx(estimator, file, from_counts=from_counts)
        why = "" if from_counts else why_from_counts(estimator)
        takes = f"counts of {estimator.n_features_in_:,} words (double)" if from_counts or why else "texts"
        say(f"{file}: ONNX; input: {takes}; output: label and probabilities{f' ({why})' if why else ''}")
    else:
        save_skops(estimator, file, from_counts=from_counts)
        of_text = not from_counts and (estimator.vectorizer_ or {"kind": "matrix"})["kind"] != "matrix"
        say(f"{file}: scikit-learn pipeline (skops); input: {'texts' if of_text else 'numbers'}")
