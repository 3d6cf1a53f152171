"""``sdem suspects``: documents whose label is probably wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.shown import say, table
from sdem_dist.cli.sources import corpus_of, is_source, refuse_far_sources, refuse_separator, take_unlabelled
from sdem_dist.cli.text_options import reading_options, text_options
from sdem_dist.cli.train import TrainCommand, estimator_of, take_counts
from sdem_dist.cli.where import check_where, client_of, cluster_option, where_options
from sdem_dist.storage.places import place

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.selection.suspects import Suspects

TEXT = 60
"""Letters of a text that are shown."""


@click.command(cls=TrainCommand, no_args_is_help=True)
@click.argument("corpus")
@click.option("-n", "--number", type=click.IntRange(1), default=20, show_default=True, help="Documents to list.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, metavar="K", help="Parts of CORPUS.")
@click.option("--estimator", default="MultinomialNB", show_default=True, metavar="NAME", help="The classifier.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of it.  [may be repeated]")
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="Decides the folds.  [default: 0]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a document.")
@reading_options
@text_options
@where_options
@cluster_option
def suspects(corpus: str, scheduler: str | None, workers: int | None, cluster: str | None, **options: Any) -> None:
    """List the documents of CORPUS whose label is doubted most by models that have not seen them.

    CORPUS is cut into folds; each is judged by a model of the others. Doubt is 1 - p(label). Look at
    the documents before you change a label: rare but right ones are doubted, too.

    CORPUS may be a source, too, as in sdem train.
    """
    check_where(scheduler, workers, cluster)
    from sdem_dist import MultinomialNB, SdemError, label_suspects

    estimator: EngineEstimator = MultinomialNB(loss="ncll")  # as label_suspects chooses
    if options["settings"] or options["estimator"] != "MultinomialNB":
        estimator = estimator_of({**options, "quiet": True})
        if estimator.spec.target != "labels":
            raise click.UsageError(f"--estimator {options['estimator']}: suspects are found by classifiers")
    refuse_separator(estimator, options)
    refuse_far_sources([corpus], scheduler or cluster)
    try:
        with (
            corpus_of(
                [corpus], place(corpus if is_source(corpus) else "suspects"), options, keep_text=True
            ) as documents,
            client_of(scheduler, workers, cluster) as client,
        ):
            take_counts(estimator, documents, options)
            take_unlabelled(estimator, documents)
            found = label_suspects(
                documents,
                estimator=estimator,
                n=None,
                cv=options["folds"],
                random_state=options["seed"],
                client=client,
            )
            show(found, documents, corpus, options["number"], options["as_json"])
    except SdemError:
        raise
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def show(found: Suspects, documents: Corpus, name: str, number: int, as_json: bool) -> None:
    """Print the first suspects, with their texts where they were kept."""
    rows = []
    for i in range(min(number, len(found))):
        position = int(found.documents[i])
        text = documents.text(position) if documents.has_texts else None
        of = {
            "document": documents.ids_of(position, position + 1)[0],
            "label": str(found.labels[i]),
            "other": str(found.others[i]),
            "p_label": float(found.label_proba[i]),
            "p_other": float(found.other_proba[i]),
            "doubt": float(found.doubt[i]),
            **({} if text is None else {"text": text}),
        }
        if as_json:
            click.echo(json.dumps(of))
            continue
        numbers = [f"{of[key]:.3f}" for key in ("doubt", "p_label", "p_other")]
        short = "" if text is None else " ".join(text[: 4 * TEXT].split())[:TEXT]
        rows.append((str(of["document"]), str(of["label"]), str(of["other"]), *numbers, short))
    if as_json:
        return
    doubted = int((found.other_proba > found.label_proba).sum())
    head = ("document", "label", "rather", "doubt", "p(label)", "p(other)", "text" if documents.has_texts else "")
    by_place = isinstance(documents.ids_of(0, 1)[0], int)
    title = f"{name}: of {found.n_documents:,} documents {doubted:,} would get another label; the most doubtful"
    title += ", documents counted from 0" if by_place else ""
    click.echo(table(title, [head, *rows]), nl=False)
    if not documents.has_texts:
        say("Documents are named by their ids; with sdem ingest --keep-text their texts are shown, too.")
