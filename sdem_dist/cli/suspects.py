"""``sdem suspects``: documents whose label is probably wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import sdem_dist
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.console import say, table
from sdem_dist.cli.options import Source, SourceCommand, option, source_options, words_options
from sdem_dist.cli.settings import estimator_of, set_option, take_documents
from sdem_dist.cli.sources import documents_of, is_source, refuse_far_sources
from sdem_dist.storage.urls import place

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text import VectorizerSettings

LETTERS = 60  # of a text that are shown


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("corpus")
@option("-n --number", 1, "Documents to list.", default=20, metavar="INTEGER")
@option("--folds", 2, "Parts of CORPUS.", default=5, metavar="K")
@option("--estimator", "NAME", "Classifier; naive Bayes has the loss ncll.  [default: MultinomialNB or MultiLabelNB]")
@set_option
@option("--seed", 0, "Decides folds and draws.", default=0)
@option("--json as_json", None, "Print one JSON object per document.")
@source_options
@words_options
@cluster_options
def suspects(corpus: str, source: Source, words: VectorizerSettings, cluster: ClusterOptions, **options: Any) -> None:
    """List the documents of CORPUS whose label is doubted most by models that have not seen them.

    CORPUS, which may be a source as in sdem train, is cut into folds; each is judged by a model of the others. Doubt is
    1 - p(label). Where documents may have several labels, each label is looked at by itself; the doubt of a missing one
    is p(label). Look at the documents before you change a label: rare but right ones are doubted, too.
    """
    if options["estimator"] is not None:
        _classifier(options["estimator"], options)  # before a source is read
    beside = place(corpus if is_source(corpus) else "suspects")
    refuse_far_sources([corpus], cluster.remote_address)
    how: dict[str, Any] = {"words": words, "beside": beside, "keep_text": True, "quiet": False}
    with documents_of([corpus], source, None, **how) as documents, cluster.client() as client:
        several = documents.header.label_sets is not None
        estimator = _classifier(options["estimator"] or ("MultiLabelNB" if several else "MultinomialNB"), options)
        take_documents(estimator, documents, options)
        folds: dict[str, Any] = {"cv": options["folds"], "random_state": options["seed"], "client": client}
        doubted = sdem_dist.label_suspects(documents, estimator=estimator, n=None, **folds)
        number, as_json = options["number"], options["as_json"]
        texts = None
        if documents.has_texts:
            texts = [documents.text(int(position)) for position in doubted.positions[:number]]
    columns: dict[str, Any] = {"document": doubted.documents, "label": doubted.labels.astype(str)}
    numbers = {"doubt": doubted.doubt, "p_label": doubted.label_proba}
    heads = ["document", "label", "given", "doubt", "p(label)"]
    if doubted.present is not None:
        columns["present"] = doubted.present if as_json else np.where(doubted.present, "is there", "is missing")
        n_doubted = int((doubted.doubt > 0.5).sum())
        title = f"in {doubted.n_documents:,} documents {n_doubted:,} labels would be added or taken away"
    elif doubted.others is not None and doubted.other_proba is not None:
        heads = ["document", "label", "rather", "doubt", "p(label)", "p(other)"]
        columns["other"] = doubted.others.astype(str)
        numbers["p_other"] = doubted.other_proba
        n_doubted = int((doubted.other_proba > doubted.label_proba).sum())
        title = f"of {doubted.n_documents:,} documents {n_doubted:,} would get another label"
    columns = {key: values[:number].tolist() for key, values in (columns | numbers).items()}
    if texts is not None:
        heads.append("text")
        columns["text"] = texts if as_json else [" ".join(text[: 4 * LETTERS].split())[:LETTERS] for text in texts]
    if as_json:
        for row in zip(*columns.values(), strict=True):
            click.echo(json.dumps(dict(zip(columns, row, strict=True))))
        return
    columns |= {key: [f"{value:.3f}" for value in columns[key]] for key in numbers}
    by_place = doubted.documents.dtype.kind == "i"
    counted = ", documents counted from 0" if by_place else ""
    rows = [[*map(str, row)] for row in zip(*columns.values(), strict=True)]
    click.echo(table(f"{corpus}: {title}; the most doubtful{counted}", [heads, *rows]), nl=False)
    if texts is None:
        by_id = "" if by_place else "Documents are named by their ids. "
        say(f"{by_id}With sdem ingest --keep-text texts are shown, too.")


def _classifier(name: str, options: dict[str, Any]) -> EngineEstimator:
    """Return the classifier of a name; the hinge loss of naive Bayes suffers more from wrong labels than NCLL."""
    estimator = estimator_of(name, {"settings": options["settings"]})
    if estimator.spec.target != "labels":
        raise click.UsageError(f"--estimator {name}: suspects are found by classifiers")
    usual: dict[str, object] = {"random_state": options["seed"]}
    if name in ("MultinomialNB", "MultiLabelNB"):
        usual["loss"] = "ncll"
    typed = {setting.partition("=")[0] for setting in options["settings"]}
    params = estimator.get_params(deep=False)
    return estimator.set_params(**{k: v for k, v in usual.items() if k in params and k not in typed})
