"""``sdem train``: from a corpus to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.ingest_report import warn_of_many_classes, without_label
from sdem_dist.cli.log import written_log
from sdem_dist.cli.outputs import check_output, handle_errors, refuse_existing, say
from sdem_dist.cli.parameters import ALPHA, LOSS, Place, option, read_costs
from sdem_dist.cli.reading import SourceCommand, reading_options, text_options
from sdem_dist.cli.settings import estimator_of, set_option, take_documents
from sdem_dist.cli.sources import (
    corpus_of,
    label_column,
    refuse_far_sources,
    refuse_no_model,
    spool_stdin,
    validation_of,
)
from sdem_dist.cli.where import Where, check_jobs, job_options, where_options
from sdem_dist.counted import counted
from sdem_dist.glossary import METRICS, UNSHOWN, called

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

EPILOG = """\b
Examples:
  sdem train posts.zarr posts.model
  sdem train posts.csv posts.model --label topic --text body
  sdem train monday.zarr tuesday.zarr posts.model
  sdem train posts.zarr posts.model --loss hinge --workers 8
  sdem train posts.zarr posts.model --scheduler tcp://10.0.0.1:8786 --checkpoint run/ --resume
  sdem train posts.zarr posts.model --cluster slurm.yaml --checkpoint run/ --resume
  sdem train posts.zarr posts.model --validation held-out.zarr --patience 3 --epochs 50
  sdem train posts.zarr posts.model --estimator LDAClassifier --loss nll --set n_components=4
"""


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("corpora", nargs=-1, metavar="CORPUS...")
@click.argument("model", type=Place())
@option(
    "--loss",
    LOSS,
    "Loss function to minimize: ncll is -ln p(y|d), nll is -ln p(y,d) (plain naive Bayes); hinge:2 has margin 2, blend:.1 "
    "is .1 nll + .9 ncll, blend:.1:hinge .1 nll + .9 hinge.  [default: auto for naive Bayes, else ncll]",
    metavar="LOSS",
)
@option(
    "--costs",
    click.Path(path_type=Path),
    "Minimize the hinge loss with these costs of confusions: a row for each true class, a column for each predicted one, "
    "with their names.",
    metavar="FILE.csv",
)
@option("--alpha", ALPHA, "Pseudo-count of each word.  [default: laplace]")
@option("--epochs", 1, "Passes over the documents.  [default of naive Bayes: chosen on held-out documents]")
@option(
    "--merge", ["mean", "sum"], "Average the lanes' models, or add statistics for one step a round.  [default: mean]"
)
@option("--lanes", 1, "Lanes of a round.  [default: by the number of documents]")
@option("--rounds", 1, "Merges per epoch, of several lanes.  [default: 4]")
@option("--batch-size", 1, "Documents of a step, with --merge sum.  [default: 128]")
@option("--validation", "CORPUS", "Held-out corpus, or source, to evaluate after each epoch.")
@option("--patience", 1, "Stop when the held-out loss has not fallen for N epochs; keep the best.")
@option("--checkpoint", Place(), "Keep checkpoints here.", metavar="FOLDER")
@option("--checkpoint-rounds", 1, "Write one after every N rounds.  [default: every epoch]")
@option("--checkpoint-seconds", click.FloatRange(0, min_open=True), "Write one every S seconds instead.", metavar="S")
@option("--resume", None, "Go on from the newest checkpoint in FOLDER, if there is one.")
@option("--overwrite", None, "Replace MODEL and FILEs that exist; so does --resume, which continues the log.")
@option("--skip-damaged", None, "Leave out damaged shards of CORPUS, and say which.")
@option("--seed", 0, "Decides every random choice.  [default: 0]")
@option("--estimator", "NAME", "What to train.", default="MultinomialNB")
@set_option
@option("--log", Place(), "Write events as JSON Lines; read by sdem log.", metavar="FILE")
@option("--quiet", None, "No progress.")
@reading_options
@text_options
@where_options
@job_options
def train(corpora: tuple[str, ...], model: Path, where: Where, **options: Any) -> None:
    """Train a model on CORPUS, a naive Bayes classifier by default, and save it as MODEL.

    CORPUS may be a source, too: a file or a folder as sdem ingest reads and counts them; what it counts serves this
    training only. Several corpora of one vocabulary (sdem ingest --vocabulary-from) are trained on as one, and so are
    several sources.

    The same corpus, settings and seed give the same bits on any number of workers, in this process or on a cluster.
    """
    refuse_no_model(corpora, model)
    corpora = tuple(spool_stdin(corpora, options["format"]))
    check_jobs(where, options["dry_run"], options["lifetime"])
    if options["checkpoint"] is None and (
        options["resume"] or options["checkpoint_rounds"] or options["checkpoint_seconds"]
    ):
        raise click.UsageError("--resume, --checkpoint-rounds and --checkpoint-seconds need --checkpoint FOLDER")
    if options["costs"] is not None and options["loss"] is not None:
        raise click.UsageError("--costs is a loss of its own: leave --loss out")
    if options["patience"] is not None and options["validation"] is None:
        raise click.UsageError("--patience needs --validation CORPUS")

    from sdem_dist import ClusterError
    from sdem_dist.cluster import job_script
    from sdem_dist.saving import check_destination

    if options["dry_run"] and where.cluster is not None:
        click.echo(job_script(where.cluster, options["lifetime"]), nl=False)
        return
    check_destination(model)  # not after hours of training
    overwrite = options["overwrite"] or options["resume"]
    refuse_existing(model, overwrite)
    if options["log"] is not None:
        check_output(options["log"], (model, *corpora), overwrite, folder_exists=False)
    estimator = estimator_of(options)
    refuse_far_sources((*corpora, options["validation"]), where.far)
    folder = options["checkpoint"]
    resume_hint = f"the same command with --resume goes on from the newest checkpoint in {folder}, if there is one"
    try:
        with (
            handle_errors(resume_hint if folder else "nothing of the run was kept: --checkpoint FOLDER would have"),
            corpus_of(corpora, model, options, estimator) as documents,
            validation_of(documents, model, options, estimator) as validation,
            where.client(options["lifetime"]) as client,
        ):
            take_documents(estimator, documents, options)
            if options["costs"] is not None:
                estimator.set_params(loss=read_costs(options["costs"], documents.header.classes))
            if estimator.spec.target == "labels":
                warn_of_many_classes(documents, label_column(corpora, options["label"], options["format"]))
            # An earlier log is replaced here, where nothing but training can go wrong.
            callbacks = [] if options["log"] is None else [written_log(options["log"], options["resume"])]
            estimator.fit(
                documents,
                client=client,
                validation=validation,
                checkpoint=folder,
                checkpoint_rounds=options["checkpoint_rounds"],
                checkpoint_seconds=options["checkpoint_seconds"],
                resume=options["resume"],
                skip_damaged=options["skip_damaged"],
                callbacks=callbacks,
            )
            hidden = without_label(documents) if estimator.unlabelled is not None else 0
            n_labelled = documents.n_documents - hidden
            estimator.save(model)  # before the cluster ends, which may fail
    except ClusterError as error:
        if folder is not None:
            error.hint = f"on another cluster, or without one, --resume goes on from {folder}"
        raise
    figures = _figures(estimator, options["validation"])
    n_epochs, best = estimator.n_iter_, estimator.best_entry_["epoch"]
    epochs = counted(n_epochs, "epoch") + ("" if best == n_epochs else f", epoch {best} kept")
    loss = getattr(estimator, "loss", None)
    loss = estimator.learner_.loss if loss == "auto" else loss
    of_loss = "" if loss is None else f", loss {loss}"
    say(f"{model}: {options['estimator']}{of_loss}, {epochs}{'; ' if figures else ''}{', '.join(figures)}")
    if hidden:
        _say_use_of_unlabelled(estimator, hidden, n_labelled)


def _say_use_of_unlabelled(estimator: EngineEstimator, hidden: int, n_labelled: int) -> None:
    """Say whether documents without a label helped, as documents that were held out have it."""
    entry, requested = estimator.best_entry_, estimator.get_params().get("unlabelled_weight")
    weight = entry.get("unlabelled_weight")
    use = "the model learned from them, too"
    if weight:
        use += f", with unlabelled_weight {weight:g}"
    elif weight is not None:
        use = "they did not help; " if requested == "auto" else ""
        use += f"the model is of the {counted(n_labelled, 'labelled document')} alone"
    say(f"{counted(hidden, 'document')} had no label: {use}")
    for how in ("with", "without"):
        if (loss := entry.get(f"{how}_unlabelled_log_loss")) is not None:
            accuracy = entry[f"{how}_unlabelled_accuracy"]
            say(f"  {how + ' them':<13}held-out accuracy {accuracy:.4f}, log-loss {loss:.4f}")
    gain, error = (entry.get(f"with_unlabelled_gain{of}", float("nan")) for of in ("", "_error"))
    if abs(gain) <= error:
        way = "rises" if gain < 0 else "falls"
        say(f"  no clear difference: log-loss {way} by {abs(gain):.4f}, and the standard error of that is {error:.4f}")


def _figures(estimator: EngineEstimator, validation: str | None) -> list[str]:
    from sdem_dist.cli.evaluate import OF_WORDS, explains_words

    entry, held_out = estimator.best_entry_, f"validation_{estimator.spec.shown[0]}"
    unshown = ("epoch", "unlabelled_weight", *UNSHOWN, *(() if explains_words(estimator) else OF_WORDS))
    names = [
        name for name in entry if name not in unshown and not name.endswith("seconds") and "_unlabelled_" not in name
    ]
    of_held_out = [name for name in names if name.startswith("held_out_")]
    own = [name for name in names if not name.startswith(("validation_", "held_out_"))] + of_held_out
    figures = [f"{called(name)} {entry[name]:.4f}" for name in own]
    if of_held_out:
        of = "a held-out part of the training documents" if held_out in entry else "the held-out documents"
        figures[-1] += f" (by a model that had not learned from {of})"
    if held_out in entry:
        figures.append(f"{called(held_out)} {entry[held_out]:.4f} on {validation}")
    if any(name in METRICS and not name.startswith("held_out_") for name in own):
        figures[0] = f"training {figures[0]}"
        if estimator.spec.target != "nothing" and len(own) == len(figures) and not of_held_out:
            figures[-1] += " (of the documents that it learned from; sdem evaluate measures it on others)"
    return figures
