"""``sdem suspects``: documents whose label is probably wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.outputs import handle_errors, say, table
from sdem_dist.cli.parameters import option
from sdem_dist.cli.reading import SourceCommand, reading_options, text_options
from sdem_dist.cli.settings import estimator_of, set_option, take_documents
from sdem_dist.cli.sources import corpus_of, is_source, refuse_far_sources
from sdem_dist.cli.where import Where, where_options
from sdem_dist.storage.urls import place

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.selection.suspects import Suspects

TEXT = 60  # letters of a text that are shown


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("corpus")
@option("-n --number", 1, "Documents to list.", default=20, metavar="INTEGER")
@option("--folds", 2, "Parts of CORPUS.", default=5, metavar="K")
@option(
    "--estimator",
    "NAME",
    "The classifier; naive Bayes with the loss ncll, if --set does not name another.  [default: MultinomialNB, of several "
    "labels MultiLabelNB]",
)
@set_option
@option("--seed", 0, "Decides folds and draws.", default=0)
@option("--json as_json", None, "Print one JSON object per document.")
@reading_options
@text_options
@where_options
def suspects(corpus: str, where: Where, **options: Any) -> None:
    """List the documents of CORPUS whose label is doubted most by models that have not seen them.

    CORPUS is cut into folds; each is judged by a model of the others. Doubt is 1 - p(label). Where documents may have
    several labels, each label is looked at by itself; the doubt of a missing one is p(label). Look at
    the documents before you change a label: rare but right ones are doubted, too.

    CORPUS may be a source, too, as in sdem train.
    """
    from sdem_dist import label_suspects

    if options["estimator"] is not None:
        _classifier(options["estimator"], options)  # before a source is read
    refuse_far_sources([corpus], where.far)
    beside = place(corpus if is_source(corpus) else "suspects")
    with handle_errors(), corpus_of([corpus], beside, options, keep_text=True) as documents, where.client() as client:
        several = documents.header.label_sets is not None
        estimator = _classifier(options["estimator"] or ("MultiLabelNB" if several else "MultinomialNB"), options)
        take_documents(estimator, documents, options)
        how: dict[str, Any] = {"cv": options["folds"], "random_state": options["seed"], "client": client}
        result = label_suspects(documents, estimator=estimator, n=None, **how)
        show(result, documents, corpus, options["number"], options["as_json"])


def show(found: Suspects, documents: Corpus, name: str, number: int, as_json: bool) -> None:
    """Print the first suspects, with their texts where they were kept."""
    rows = []
    for i in range(min(number, len(found))):
        text = documents.text(int(found.positions[i])) if documents.has_texts else None
        named: dict[str, object] = {"document": found.documents[i].item(), "label": str(found.labels[i])}
        numbers = {"doubt": float(found.doubt[i]), "p_label": float(found.label_proba[i])}
        if found.present is not None:
            named["present"] = bool(found.present[i])
            third = "is there" if found.present[i] else "is missing"
        elif found.others is not None and found.other_proba is not None:
            named["other"] = third = str(found.others[i])
            numbers["p_other"] = float(found.other_proba[i])
        if as_json:
            click.echo(json.dumps({**named, **numbers, **({} if text is None else {"text": text})}))
            continue
        short = "" if text is None else " ".join(text[: 4 * TEXT].split())[:TEXT]
        rows.append(
            (str(named["document"]), str(named["label"]), third, *(f"{n:.3f}" for n in numbers.values()), short)
        )
    if as_json:
        return
    text_column = "text" if documents.has_texts else ""
    if found.other_proba is None:
        head: tuple[str, ...] = ("document", "label", "given", "doubt", "p(label)", text_column)
        doubted = (
            f"in {found.n_documents:,} documents {int((found.doubt > 0.5).sum()):,} labels would be added or taken away"
        )
    else:
        head = ("document", "label", "rather", "doubt", "p(label)", "p(other)", text_column)
        n_doubted = int((found.other_proba > found.label_proba).sum())
        doubted = f"of {found.n_documents:,} documents {n_doubted:,} would get another label"
    by_place = found.documents.dtype.kind == "i"
    title = f"{name}: {doubted}; the most doubtful"
    title += ", documents counted from 0" if by_place else ""
    click.echo(table(title, [head, *rows]), nl=False)
    if not documents.has_texts:
        by_id = "" if by_place else "Documents are named by their ids. "
        say(f"{by_id}With sdem ingest --keep-text texts are shown, too.")


def _classifier(name: str, options: dict[str, Any]) -> EngineEstimator:
    """Return the classifier of a name; the hinge loss of naive Bayes suffers more from wrong labels than NCLL."""
    estimator = estimator_of({**options, "estimator": name, "quiet": True, "seed": None}, target="labels")
    if estimator.spec.target != "labels":
        raise click.UsageError(f"--estimator {name}: suspects are found by classifiers")
    usual: dict[str, object] = {"random_state": options["seed"]}
    if name in ("MultinomialNB", "MultiLabelNB"):
        usual["loss"] = "ncll"
    chosen = {setting.partition("=")[0] for setting in options["settings"]}
    params = estimator.get_params(deep=False)
    return estimator.set_params(**{k: v for k, v in usual.items() if k in params and k not in chosen})
