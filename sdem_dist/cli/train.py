"""``sdem train``: from a corpus to a model file; estimators made from options."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sdem_dist
from sdem_dist import catalogue
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.ingest import refuse_far_sources, spool_stdin, training_documents
from sdem_dist.cli.inspect import read_events
from sdem_dist.cli.options import LocalPath, Place, Source, SourceCommand, option, parsed, word_options
from sdem_dist.counted import counted, nearest

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator

PARAMS = ("loss", "alpha", "merge", "batch_size", "patience", "n_epochs", "n_lanes", "rounds_per_epoch", "random_state")
"""Options that are parameters of estimators."""
MOST_LANES = 1 << 16  # more may not fit into memory
set_option = option("--set settings", "NAME=VALUE", "Set an estimator parameter.  [may be repeated]", multiple=True)


def parse_loss(text: str) -> object:
    """Return the loss of "hinge", "perceptron", "hinge:2", "blend:.1" (with ncll) or "blend:.1:hinge:2"."""
    from sdem_dist.losses import Blend, Hinge, named

    (name, _, rest), problem = text.partition(":"), ""
    names = "auto", "ncll", "hinge", "nll", "perceptron"
    number, _, other = rest.partition(":")
    try:
        if text in names:
            return Hinge(0.0) if text == "perceptron" else text
        if name == "hinge" and not other:
            return Hinge(float(number))
        if name == "blend" and not other.startswith("blend"):
            return Blend(named(parse_loss(other or "ncll")), float(number))  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError) as error:
        problem = f" ({error})"
    raise click.BadParameter(
        f"Unknown loss {text!r}{problem}. {nearest(text.strip(), names)}Valid: {', '.join(names)}, hinge:MARGIN, "
        "blend:SHARE or blend:SHARE:LOSS; for misclassification costs, use --costs FILE"
    )


def read_costs(path: Path, classes: Sequence[object]) -> object:
    """Return the loss of a CSV file of costs: rows are true classes, columns predicted ones, with their names."""
    import pandas as pd

    from sdem_dist.losses import CostSensitiveHinge

    names, form = list(map(str, classes)), {"dtype": str, "keep_default_na": False, "skipinitialspace": True}
    try:
        costs: Any = pd.read_csv(path, encoding="utf-8-sig", **form)  # type: ignore[call-overload]
        costs = costs.set_index(costs.columns[0])
        if not sorted(costs.index) == sorted(costs.columns) == sorted(names):
            raise ValueError(f"its first row and first column must contain each class once: {', '.join(names)}")
        if short := costs.index[(costs == "").any(axis=1)].tolist():
            raise ValueError(f"the row for class {short[0]!r} must have {len(names)} costs, one for each class")
        return CostSensitiveHinge(tuple(map(tuple, costs.loc[names, names].astype(float).to_numpy().tolist())))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--costs {path}: {error}") from error


def estimator_of(name: str, options: Mapping[str, Any], label_separator: str | None = None) -> EngineEstimator:
    """Return the named estimator with the parameters of the options."""
    if name not in catalogue.ESTIMATORS:
        hint = nearest(name, catalogue.ESTIMATORS)
        raise click.UsageError(f"Unknown estimator {name!r}. {hint}Valid: {', '.join(catalogue.ESTIMATORS)}")
    estimator = getattr(sdem_dist, name)()
    if label_separator is not None and estimator.spec.target == "labels" and not estimator.spec.label_sets:
        raise click.UsageError("--label-separator needs several labels per document: add --estimator MultiLabelNB")
    params = {name: options[name] for name in PARAMS if options.get(name) is not None}
    for setting in options["settings"]:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: expected NAME=VALUE")
        if key in params:
            raise click.UsageError(f"--set {setting}: {key} is set twice")
        params[key] = parse_setting(key, value)
    defaults = estimator.get_params(deep=False)
    for key in params.keys() - defaults.keys():
        raise click.UsageError(f"Unknown parameter {key!r}. {nearest(key, defaults)}Valid: {', '.join(defaults)}")
    return estimator.set_params(**{"verbose": not options.get("quiet", True), **params})


def parse_setting(name: str, text: str) -> object:
    """Return the value of a text in JSON or Python; the text itself if it is neither."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
        except (RecursionError, MemoryError):
            raise click.UsageError(f"--set {name}={text[:20]}...: too many nested brackets") from None
    return parse_loss(text) if name == "loss" else text


def take_documents(estimator: EngineEstimator, documents: Corpus, options: Mapping[str, Any]) -> None:
    """Let an estimator accept counts, and documents without a label, if a corpus has some and no option is set."""
    from sdem_dist.text.texts import NONE

    chosen = any(setting.startswith("components=") for setting in options["settings"])
    if documents.header.layout == "sparse" and hasattr(estimator, "components") and not chosen:
        estimator.set_params(components="multinomial")
        click.echo("The documents contain word counts: using components=multinomial", err=True)
    lanes = estimator.get_params().get("n_lanes")
    if isinstance(lanes, int) and lanes > max(documents.n_documents, MOST_LANES):
        raise click.UsageError(f"n_lanes is {lanes:,}, but there are only {documents.n_documents:,} documents")
    hidden = console.without_label(documents)
    if hidden and estimator.spec.unlabelled and estimator.unlabelled is None:
        estimator.set_params(unlabelled=NONE)
        click.echo(f"{counted(hidden, 'document')} without a label", err=True)


EPILOG = """\b
Examples:
  sdem train posts.zarr posts.model
  sdem train monday.zarr tuesday.zarr posts.model
  sdem train posts.zarr posts.model --loss hinge --workers 8
  sdem train posts.zarr posts.model --scheduler tcp://10.0.0.1:8786 --checkpoint run/ --resume
  sdem train posts.zarr posts.model --validation held-out.zarr --patience 3 --epochs 50
  sdem train posts.zarr posts.model --estimator LDAClassifier --loss nll --set n_components=4
"""

_LOSS = """Loss to minimize: ncll is -ln p(y|d); nll is -ln p(y,d), as in plain naive Bayes; hinge:2 is the hinge loss
with margin 2; blend:.1 is .1 nll + .9 ncll; blend:.1:hinge is .1 nll + .9 hinge; auto is hinge, or ncll if classes
overlap.  [default: auto for naive Bayes, otherwise ncll]"""
_COSTS = """Minimize the hinge loss with misclassification costs from a table: rows are true classes, columns are
predicted classes, and the first row and column contain the names of the classes."""
_EPOCHS = "Number of epochs.  [naive Bayes: chosen on held-out documents, or 6 with fewer than about 2,000 documents]"
_alpha = parsed(lambda t: t if t in ("laplace", "log") else float(t), "is not laplace, log or a number")


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.argument("model", type=Place())
@option("--loss", parse_loss, _LOSS, metavar="LOSS")
@option("--costs", LocalPath(exists=True, dir_okay=False), _COSTS, metavar="FILE.csv")
@option("--alpha", _alpha, "Pseudo-count of each word; laplace is 1.  [default: laplace]", metavar="laplace|log|NUMBER")
@option("--epochs n_epochs", 1, _EPOCHS)
@option("--merge", ["mean", "sum"], "Average the lanes' models (mean), or step once per round (sum).  [default: mean]")
@option("--lanes n_lanes", 1, "Lanes per round.  [default: depends on the number of documents]")
@option("--rounds rounds_per_epoch", 1, "Rounds per epoch, if there are several lanes.  [default: 4]")
@option("--batch-size", 1, "Documents per step, with --merge sum.  [default: 128]")
@option("--validation", "CORPUS", "Evaluate the model on this corpus or source after each epoch.")
@option("--patience", 1, "Stop after N epochs without improvement of the validation loss, and keep the best model.")
@option("--checkpoint", Place(), "Folder for checkpoints.", metavar="FOLDER")
@option("--checkpoint-rounds", 1, "Write a checkpoint every N rounds.  [default: every epoch]")
@option("--checkpoint-seconds", click.FloatRange(0, min_open=True), "Write a checkpoint every S seconds.", metavar="S")
@option("--resume", None, "Resume from the latest checkpoint in FOLDER, if there is one.")
@option("--overwrite", None, "Replace existing output; not needed to resume. --resume appends to the log.")
@option("--skip-damaged", None, "Skip damaged shards of CORPUS, and list them.")
@option("--seed random_state", 0, "Random seed.  [default: 0]")
@option("--estimator", "NAME", "Estimator to train.", default="MultinomialNB")
@set_option
@option("--log", Place(), "Write events as JSON Lines, for sdem log.", metavar="FILE")
@option("--quiet", None, "Do not show progress.")
@word_options
@cluster_options
@option("--dry-run", None, "With --cluster: print the job script and exit.")
@option("--lifetime", "TIME", "With --cluster: retire workers after about TIME, such as 55m, before their job ends.")
def train(corpora: tuple[str, ...], model: Path, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Train a model (by default, a naive Bayes classifier) on CORPUS, and save it as MODEL.

    CORPUS may be a source (file or folder), which is then read for this run only. Several corpora with the same
    vocabulary (sdem ingest --vocabulary-from), or several sources, are combined.

    The same corpus, settings and seed give a bit-identical model for any number of workers.
    """
    folder, held_out, log = options["checkpoint"], options["validation"], options["log"]
    if cluster.job_file is None and (options["dry_run"] or options["lifetime"] is not None):
        raise click.UsageError("--dry-run and --lifetime need --cluster FILE.yaml")
    if folder is None and (options["resume"] or options["checkpoint_rounds"] or options["checkpoint_seconds"]):
        raise click.UsageError("--resume, --checkpoint-rounds and --checkpoint-seconds need --checkpoint FOLDER")
    costs, typed = options["costs"], [setting.partition("=")[0] for setting in options["settings"]]
    if costs is not None and (options["loss"] is not None or "loss" in typed):
        raise click.UsageError("--costs replaces --loss and --set loss=: remove these")
    if options["patience"] is not None and held_out is None:
        raise click.UsageError("--patience needs --validation CORPUS")
    from sdem_dist.engine.callbacks import JsonLines

    if options["dry_run"] and cluster.job_file is not None:
        from sdem_dist.cluster import job_script  # Dask comes with it

        refuse_far_sources([p for p in (*corpora, held_out) if p and Path(p).exists()], cluster.job_file)
        click.echo(job_script(cluster.job_file, options["lifetime"], lambda line: click.echo(line, err=True)), nl=False)
        return
    paths = spool_stdin(corpora, source.reading.format)
    refuse_far_sources((*paths, held_out), cluster.remote_address)
    resumes = options["resume"] and folder.is_dir() and any(path.suffix == ".sdem" for path in folder.iterdir())
    console.check_output(model, (), options["overwrite"] or resumes, kind="model")  # before hours of training
    if log is not None:
        console.check_output(log, (model, *corpora), options["overwrite"] or options["resume"], kind="log")
    estimator = estimator_of(options["estimator"], options, source.reading.label_separator)
    if costs is not None and estimator.spec.target != "labels":
        raise click.UsageError(f"--costs needs a classifier, but {options['estimator']} is not one")
    click.get_current_context().meta["remains"] = console.RESUME if folder else console.NO_CHECKPOINT
    how: dict[str, Any] = {"words": options["words"], "beside": model, "quiet": options["quiet"]}
    try:
        with (
            training_documents(paths, held_out, source, estimator, **how) as (documents, validation),
            cluster.client(options["lifetime"]) as client,
        ):
            take_documents(estimator, documents, options)
            if costs is not None:
                estimator.set_params(loss=read_costs(costs, documents.header.classes))
            if estimator.spec.target == "labels":
                console.warn_of_many_classes(documents, source.reading.label)
            # An earlier log is replaced now, when only training can still fail; a resumed run appends to it.
            if log is not None and log.is_file():
                if options["resume"]:
                    read_events(log)  # raises if it is another file
                else:
                    log.unlink()
            run = ("checkpoint", "checkpoint_rounds", "checkpoint_seconds", "resume", "skip_damaged")
            how = {"client": client, "validation": validation, **{name: options[name] for name in run}}
            estimator.fit(documents, callbacks=[] if log is None else [JsonLines(log)], **how)
            hidden = console.without_label(documents) if estimator.unlabelled is not None else 0
            estimator.save(model)  # before the cluster ends, which may fail
    except sdem_dist.ClusterError as error:
        if folder is not None:
            error.hint = f"use --resume, with or without a cluster, to continue from a checkpoint in {folder}"
        raise
    _show(estimator, f"{model}: {options['estimator']}", hidden, documents.n_documents - hidden)


def _show(estimator: EngineEstimator, name: str, hidden: int, n_labelled: int) -> None:
    """Print the model, its quality, and whether documents without a label, if any, helped."""
    from sdem_dist.reports.report import by_documents

    entry, n_epochs, loss = estimator.best_entry_, estimator.n_iter_, getattr(estimator, "loss", None)
    if loss is not None:
        name += f", loss {estimator.learner_.loss if loss == 'auto' else loss}"
    epochs = counted(n_epochs, "epoch") + ("" if entry["epoch"] == n_epochs else f", best epoch {entry['epoch']}")
    metrics = {k: v for k, v in entry.items() if "_unlabelled_" not in k}
    figures = by_documents(metrics, console.unshown_metrics(estimator), ".4f")
    console.say("; ".join([f"{name}, {epochs}", *(f"{documents}: {text}" for documents, text in figures.items())]))
    if not hidden:
        return
    weight, gain = entry.get("unlabelled_weight"), entry.get("with_unlabelled_gain")
    use = "the model also learned from them" + (f", with unlabelled_weight {weight:g}" if weight else "")
    if weight == 0:
        use = f"the model was trained only on {counted(n_labelled, 'labelled document')}"
    console.say(f"{counted(hidden, 'document')} had no label: {use}")
    if gain is None:
        return
    for how in ("with", "without"):
        accuracy, log_loss = (entry[f"{how}_unlabelled_{name}"] for name in ("accuracy", "log_loss"))
        console.say(f"  {how + ' them':<13}held-out accuracy {accuracy:.4f}, log-loss {log_loss:.4f}")
    if abs(gain) <= (error := entry["with_unlabelled_gain_error"]):
        console.say(f"  no clear difference: log-loss changed by {-gain:+z.4f} (standard error {error:.4f})")
