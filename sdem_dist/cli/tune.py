"""``sdem tune``: settings are tried by cross-validation, and the best are trained."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.outputs import check_output, handle_errors, refuse_existing, say
from sdem_dist.cli.parameters import LocalPath, Place, option
from sdem_dist.cli.reading import SourceCommand, reading_options, text_options
from sdem_dist.cli.settings import estimator_of, parse_setting, take_documents
from sdem_dist.cli.sources import corpus_of, refuse_far_sources, refuse_no_model, validation_of
from sdem_dist.cli.where import Where, where_options
from sdem_dist.counted import counted, visible

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.selection.search import CorpusSearchCV
    from sdem_dist.selection.search_run import SearchEvent


def line(event: SearchEvent, folder: object = None) -> str:
    """Return an event as a line for logs; `folder` is where the search is kept."""
    from sdem_dist.selection.metrics import name_of
    from sdem_dist.selection.search_run import FOLD, LAST, NESTED, RESUMED
    from sdem_dist.selection.trials import described, ranked

    best, name = ranked(event.trials, event.metric)[0], name_of(event.metric)
    score = f"{name} {best.scores[name].mean():.4f}" if name in best.scores else "no score yet"
    what = f"{event.what} {event.done}"
    if event.what == LAST:
        what = LAST
    elif event.what in (FOLD, NESTED):
        what += f" of {event.n_folds}"
    elif event.what == RESUMED:
        what = f"going on after {counted(event.done, 'fit')} of {folder}"
    if event.what == FOLD:
        n_left = sum(trial.goes_on for trial in event.trials)
        what += f": {n_left} of {counted(len(event.trials), 'setting')} go on"
    return visible(f"{what}; best {score} ({described(best.params)}); {event.seconds:.1f} s")


METRICS = ["log-loss", "accuracy", "micro-F1", "macro-F1", "Hamming-loss", "R2", "perplexity", "distance"]
EPILOG = """\b
Examples:
  sdem tune posts.zarr posts.model
  sdem tune posts.csv posts.model --label topic --text body --metric accuracy
  sdem tune posts.zarr posts.model --space loss=hinge,ncll --space step=0.1,0.2,0.5
  sdem tune posts.zarr posts.model --space space.json --trials 50 --workers 4
  sdem tune posts.zarr posts.model --checkpoint run/ --resume
  sdem tune posts.tsv posts.model --estimator MultiLabelNB --label-separator ,
  sdem tune posts.zarr posts.model --curve curve.png
  sdem tune posts.zarr posts.model --sampler optuna --nested
"""


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("corpora", nargs=-1, metavar="CORPUS...")
@click.argument("model", type=Place())
@option(
    "--metric",
    METRICS,
    "What decides.  [default: log-loss; micro-F1 of several labels; R2 of numbers; distance of k-means; else perplexity]",
)
@option("--folds", 2, "Parts of CORPUS.", default=5, metavar="K")
@option("--validation", "CORPUS", "Score settings on this corpus, or source, instead of on folds.")
@option("--trials", 1, "Settings to try at most.", default=17)
@option(
    "--seconds",
    click.FloatRange(0, min_open=True),
    "End the search after this many seconds, once there is a first score.",
    metavar="S",
)
@option(
    "--space spaces",
    "FILE|NAME=A,B,C",
    "What to try: values of a parameter, or a file of JSON with {name: [values]} or a list of such.  "
    "[default: the estimator's own; may be repeated]",
    multiple=True,
)
@option(
    "--halving", ["yes", "no"], "yes: drop the worse half of the settings after each fold; no: none.", default="yes"
)
@option("--sampler", ["random", "optuna"], "What draws settings; Optuna by the scores so far.", default="random")
@option("--nested", None, "Repeat the search without each fold, for an honest score: K times the work.")
@option("--estimator", "NAME", "What to tune.", default="MultinomialNB")
@option(
    "--set settings",
    "NAME=VALUE",
    "A parameter of all settings, which is not tried unless --space names it or VALUE is its default.  [may be repeated]",
    multiple=True,
)
@option("--curve", LocalPath(), "Draw the winner's accuracy, or micro-F1, by number of documents.", metavar="FILE.png")
@option("--table", LocalPath(), "Write all settings and their scores.", metavar="FILE.csv")
@option("--checkpoint", Place(), "Keep the search here, after each fit.", metavar="FOLDER")
@option("--resume", None, "Go on from FOLDER, if it holds this search; a source is counted again first.")
@option("--overwrite", None, "Replace MODEL and FILEs that exist, as --resume does.")
@option("--seed", 0, "Decides folds and draws.  [default: 0]")
@option("--quiet", None, "No progress.")
@reading_options
@text_options
@where_options
def tune(corpora: tuple[str, ...], model: Path, where: Where, **options: Any) -> None:
    """Try settings on CORPUS by cross-validation, train the best on all of it, and save it as MODEL.

    CORPUS is read once for all settings. After each fold the worse half of them is dropped. At the end the command
    prints what was tried, the best score with each value, and the winner beside the default.
    Documents of one group are in one fold, where CORPUS was ingested with --group.

    CORPUS may be a source, too, as in sdem train. The same corpus, settings and seed give the same model on any number
    of workers.
    """
    refuse_no_model(corpora, model)
    if options["resume"] and options["checkpoint"] is None:
        raise click.UsageError("--resume needs --checkpoint FOLDER")
    if options["nested"] and options["validation"] is not None:
        raise click.UsageError("--nested needs folds: leave --validation out")
    from sklearn.base import clone

    from sdem_dist import CorpusSearchCV
    from sdem_dist.cli.tables import SUFFIXES
    from sdem_dist.saving import check_destination

    check_destination(model)
    overwrite = options["overwrite"] or options["resume"]
    refuse_existing(model, overwrite)
    for name, suffixes in (("curve", (".png", ".svg", ".pdf")), ("table", SUFFIXES)):
        if options[name] is not None:
            check_output(options[name], (model, *corpora), overwrite, suffixes)
    seed = options.pop("seed")
    estimator = estimator_of({**options, "epochs": None, "quiet": True})
    if seed is not None and "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    refuse_far_sources((*corpora, options["validation"]), where.far)
    search = CorpusSearchCV(
        estimator,
        space_of(options["spaces"]),
        cv=options["validation"] or options["folds"],  # the corpus is opened below
        metric=options["metric"],
        n_trials=options["trials"],
        seconds=options["seconds"],
        halving=options["halving"] == "yes",
        sampler=options["sampler"],
        nested=options["nested"],
        random_state=seed or 0,
    )
    folder = options["checkpoint"]
    with handle_errors(f"the same command with --resume goes on from {folder}" if folder else "nothing was kept"):
        search.check()  # before a source is read
        if folder is not None:
            search.checkpoints(folder, resume=options["resume"])
        with (
            corpus_of(corpora, model, options, estimator) as documents,
            validation_of(documents, model, options, estimator) as validation,
            where.client() as client,
        ):
            take_documents(estimator, documents, options)
            if validation is not None:
                search.set_params(cv=validation)
            if options["nested"] and not options["quiet"]:
                click.echo("--nested: after this search it is repeated without each fold", err=True)
            if not options["quiet"]:
                search.set_params(callbacks=[lambda event: click.echo(line(event, folder), err=True)])
            search.fit(documents, client=client, checkpoint=folder, resume=options["resume"])
            search.best_estimator_.save(model)
            if options["table"] is not None:  # before a reader such as head may close the pipe
                _write(search, options["table"])
            say(search.summary())
            say(f"{model}: {type(search.best_estimator_).__name__}, trained on all documents")
            if options["table"] is not None:
                say(f"{options['table']}: {counted(len(search.trials_), 'setting')}")
            if options["curve"] is not None:
                best = clone(search.estimator).set_params(**search.best_params_)
                _curve(best, documents, options["curve"], seed or 0)


def space_of(spaces: tuple[str, ...]) -> Any:
    """Return the space that options describe; None where there are none.

    Raises click.UsageError: a file cannot be read, or holds something else; or a parameter has no values, or is given
    twice.
    """
    named: dict[str, list[object]] = {}
    files: list[Any] = []
    for text in spaces:
        name, equals, values = text.partition("=")
        if not equals:
            files += _of_file(Path(text))
        elif name in named:
            raise click.UsageError(f"--space {text}: {name} is given twice")
        elif not (parsed := _values(name, values)):
            raise click.UsageError(f"--space {text}: write NAME=A,B,C")
        else:
            named[name] = parsed
    if not files:
        return [named] if named else None
    return [{**space, **named} for space in files]


def _values(name: str, text: str) -> list[object]:
    """Return the values of a text: of Python, such as (1,1),(1,2), or what stands between commas."""
    if any(mark in text for mark in "([{\"'"):
        try:
            return list(ast.literal_eval(f"[{text}]"))
        except (ValueError, SyntaxError):
            raise click.UsageError(
                f"--space {name}={text}: with brackets or quotes write all values as in Python, such as (1,1),(1,2)"
            ) from None
    return [parse_setting(name, part.strip()) for part in text.split(",") if part.strip()]


def _of_file(path: Path) -> list[dict[str, Any]]:
    try:
        space = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"--space {path}: it is neither NAME=A,B,C nor a file that can be read: {error}"
        ) from error
    except ValueError as error:
        raise click.UsageError(f"--space {path}: this is not JSON: {error}") from error
    spaces = space if isinstance(space, list) else [space]
    if not spaces or not all(isinstance(s, dict) and all(isinstance(v, list) for v in s.values()) for s in spaces):
        raise click.UsageError(f"--space {path}: write {{name: [values]}}, or a list of such")
    # JSON has lists where parameters have tuples, such as n-grams.
    return [{k: [tuple(v) if isinstance(v, list) else v for v in values] for k, values in s.items()} for s in spaces]


def _write(search: CorpusSearchCV, table: Path) -> None:
    """Write all settings and their scores; a cell is empty where a setting lacks a parameter, or has no error."""
    from numpy import ma

    from sdem_dist.cli.tables import write_table
    from sdem_dist.selection.trials import described

    results = dict(search.cv_results_)
    columns: dict[str, list[Any]] = {"setting": [described(params) for params in results.pop("params")]}
    columns |= {name: [None if v is ma.masked else v for v in column] for name, column in results.items()}
    write_table(table, [columns])


def _curve(estimator: EngineEstimator, documents: Corpus, path: Path, seed: int) -> None:
    """Draw and print how accuracy grows with documents."""
    import numpy as np
    from matplotlib.figure import Figure

    from sdem_dist import learning_curve, plots

    curve = learning_curve(estimator, documents, random_state=seed)
    named, scores = ("accuracy", curve.accuracy) if curve.micro_f1 is None else ("micro-F1", curve.micro_f1)
    say(f"{named[0].upper()}{named[1:]} by number of documents, means over folds (+-: standard deviation):")
    for n, of, losses in zip(curve.n_documents, scores, curve.log_loss, strict=True):
        loss = "" if np.isnan(losses).all() else f"  log-loss {losses.mean():.4f}"
        say(f"  {n:>12,}  {named} {of.mean():.4f} +- {of.std():.4f}{loss}")
    figure = Figure(figsize=(6, 4), layout="constrained")
    metric = "accuracy" if curve.micro_f1 is None else "micro_f1"
    plots.learning_curve(curve.n_documents, {"held-out folds": scores}, figure.subplots(), metric=metric)
    figure.savefig(path)
    say(f"{path}: picture")
