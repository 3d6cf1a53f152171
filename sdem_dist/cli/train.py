"""``sdem train``: from a corpus to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.cluster import ClusterOptions, cluster_options, job_options
from sdem_dist.cli.console import (
    check_output,
    say,
    say_what_remains,
    unshown_metrics,
    warn_of_many_classes,
    without_label,
)
from sdem_dist.cli.log import written_log
from sdem_dist.cli.options import Place, Source, SourceCommand, option, parsed, source_options, words_options
from sdem_dist.cli.settings import estimator_of, parse_loss, read_costs, set_option, take_documents
from sdem_dist.cli.sources import refuse_far_sources, spool_stdin, training_documents
from sdem_dist.counted import counted
from sdem_dist.glossary import by_documents

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.text import VectorizerSettings

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

_alpha = parsed(
    lambda text: text if text in ("laplace", "log") else float(text), "is neither laplace nor log nor a number"
)


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.argument("model", type=Place())
@option(
    "--loss",
    parse_loss,
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
@option("--alpha", _alpha, "Pseudo-count of each word.  [default: laplace]", metavar="laplace|log|NUMBER")
@option("--epochs", 1, "Passes over the documents.  [default of naive Bayes: chosen on held-out documents]")
@option("--merge", ["mean", "sum"], "Average models of lanes, or add statistics for a step a round.  [default: mean]")
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
@source_options
@words_options
@cluster_options
@job_options
def train(
    corpora: tuple[str, ...],
    model: Path,
    source: Source,
    words: VectorizerSettings,
    cluster: ClusterOptions,
    **options: Any,
) -> None:
    """Train a model on CORPUS, a naive Bayes classifier by default, and save it as MODEL.

    CORPUS may be a source, too: a file or a folder as sdem ingest reads and counts them; what it counts serves this
    training only. Several corpora of one vocabulary (sdem ingest --vocabulary-from) are trained on as one, and so are
    several sources.

    The same corpus, settings and seed give the same bits on any number of workers, in this process or on a cluster.
    """
    folder, held_out, log = options["checkpoint"], options["validation"], options["log"]
    if cluster.job_file is None and (options["dry_run"] or options["lifetime"] is not None):
        raise click.UsageError("--dry-run and --lifetime need --cluster FILE.yaml")
    if folder is None and (options["resume"] or options["checkpoint_rounds"] or options["checkpoint_seconds"]):
        raise click.UsageError("--resume, --checkpoint-rounds and --checkpoint-seconds need --checkpoint FOLDER")
    other_loss = options["loss"] is not None or any(s.startswith("loss=") for s in options["settings"])
    if options["costs"] is not None and other_loss:
        raise click.UsageError("--costs is a loss of its own: leave --loss out, and --set loss=")
    if options["patience"] is not None and held_out is None:
        raise click.UsageError("--patience needs --validation CORPUS")
    from sdem_dist import ClusterError
    from sdem_dist.cluster import job_script

    if options["dry_run"] and cluster.job_file is not None:
        click.echo(job_script(cluster.job_file, options["lifetime"]), nl=False)
        return
    paths = spool_stdin(corpora, source.reading.format)
    refuse_far_sources((*paths, held_out), cluster.remote_address)
    overwrite = options["overwrite"] or options["resume"]
    check_output(model, (), overwrite, kind="model")  # not after hours of training
    if log is not None:
        check_output(log, (model, *corpora), overwrite, kind="log")
    estimator = estimator_of(options["estimator"], options, source.reading.label_separator)
    if options["costs"] is not None and estimator.spec.target != "labels":
        raise click.UsageError(f"--costs is for classifiers, and {options['estimator']} is none")
    remains = "nothing of the run was kept: --checkpoint FOLDER would have"
    if folder is not None:
        remains = f"the same command with --resume goes on from the newest checkpoint in {folder}, if there is one"
    how: dict[str, Any] = {"beside": model, "quiet": options["quiet"]}
    try:
        with (
            say_what_remains(remains),
            training_documents(paths, held_out, source, estimator, words, **how) as (documents, validation),
            cluster.client(options["lifetime"]) as client,
        ):
            take_documents(estimator, documents, options)
            if options["costs"] is not None:
                estimator.set_params(loss=read_costs(options["costs"], documents.header.classes))
            if estimator.spec.target == "labels":
                warn_of_many_classes(documents, source.reading.label)
            # An earlier log is replaced here, where nothing but training can go wrong.
            callbacks = [] if log is None else [written_log(log, options["resume"])]
            run = ("checkpoint", "checkpoint_rounds", "checkpoint_seconds", "resume", "skip_damaged")
            run_options = {name: options[name] for name in run}
            estimator.fit(documents, client=client, validation=validation, callbacks=callbacks, **run_options)
            hidden = without_label(documents) if estimator.unlabelled is not None else 0
            n_labelled = documents.n_documents - hidden
            estimator.save(model)  # before the cluster ends, which may fail
    except ClusterError as error:
        if folder is not None:
            error.hint = f"on another cluster, or without one, --resume goes on from {folder}"
        raise
    _show(estimator, f"{model}: {options['estimator']}", hidden, n_labelled)


def _show(estimator: EngineEstimator, name: str, hidden: int, n_labelled: int) -> None:
    """Print what was trained, how well it does, and whether documents without a label, if any, helped."""
    entry, n_epochs = estimator.best_entry_, estimator.n_iter_
    loss = getattr(estimator, "loss", None)
    loss = estimator.learner_.loss if loss == "auto" else loss
    name += "" if loss is None else f", loss {loss}"
    epochs = counted(n_epochs, "epoch") + ("" if entry["epoch"] == n_epochs else f", epoch {entry['epoch']} kept")
    figures = by_documents(
        {k: v for k, v in entry.items() if "_unlabelled_" not in k}, unshown_metrics(estimator), ".4f"
    )
    say("; ".join([f"{name}, {epochs}", *(f"{documents}: {text}" for documents, text in figures.items())]))
    if not hidden:
        return
    weight, gain = entry.get("unlabelled_weight"), entry.get("with_unlabelled_gain")
    use = "the model learned from them, too"
    if weight:
        use += f", with unlabelled_weight {weight:g}"
    elif weight is not None:
        use = f"the model is of the {counted(n_labelled, 'labelled document')} alone"
    say(f"{counted(hidden, 'document')} had no label: {use}")
    for how in ("with", "without"):
        if (log_loss := entry.get(f"{how}_unlabelled_log_loss")) is not None:
            accuracy = entry[f"{how}_unlabelled_accuracy"]
            say(f"  {how + ' them':<13}held-out accuracy {accuracy:.4f}, log-loss {log_loss:.4f}")
    if gain is not None and abs(gain) <= (error := entry["with_unlabelled_gain_error"]):
        say(f"  no clear difference: log-loss falls by {gain:.4f}, and the standard error of that is {error:.4f}")
