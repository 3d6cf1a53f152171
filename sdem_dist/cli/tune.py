"""``sdem tune`` and ``sdem suspects``: hyperparameters and suspected labels by cross-validation."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sdem_dist
from sdem_dist.cli import console
from sdem_dist.cli.cluster import ClusterOptions, cluster_options
from sdem_dist.cli.ingest import documents_of, is_source, refuse_far_sources, training_documents
from sdem_dist.cli.options import WORDS, LocalPath, Place, Source, SourceCommand, option, typed_flags, word_options
from sdem_dist.cli.train import estimator_of, parse_setting, set_option, take_documents
from sdem_dist.counted import counted, visible
from sdem_dist.errors import IngestError
from sdem_dist.storage.buckets import place

if TYPE_CHECKING:
    from sdem_dist.corpus import Corpus
    from sdem_dist.estimators.base import EngineEstimator
    from sdem_dist.selection.search import SearchEvent
    from sdem_dist.text import VectorizerSettings

EPILOG = """\b
Examples:
  sdem tune posts.zarr posts.model
  sdem tune posts.csv posts.model --label topic --text body --metric accuracy
  sdem tune posts.zarr posts.model --space loss=hinge,ncll --space step=0.1,0.2,0.5
  sdem tune posts.zarr posts.model --space space.json --trials 50 --workers 4
  sdem tune posts.zarr posts.model --curve curve.png
  sdem tune posts.zarr posts.model --sampler optuna --nested
"""
METRICS = ["log-loss", "accuracy", "micro-F1", "macro-F1", "Hamming-loss", "R2", "perplexity", "distance"]
LETTERS = 60  # of a text to show
_METRIC = """Metric that selects the best setting.  [default: log-loss for classifiers, micro-F1 for several labels per
document, R2 for regressors, distance for k-means, otherwise perplexity]"""
_SPACE = """Values to try for a parameter, or a JSON file with an object {name: [values]} or a list of such objects.
[default: the estimator's own space; may be repeated]"""


@click.command(cls=SourceCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.argument("model", type=Place())
@option("--metric", METRICS, _METRIC)
@option("--folds", 2, "Number of folds.", default=5, metavar="K")
@option("--validation", "CORPUS", "Score settings on this corpus or source, not on folds.")
@option("--trials n_trials", 1, "Maximum number of settings.", default=17)
@option("--seconds", click.FloatRange(0, min_open=True), "Time limit; at least one score is computed.", metavar="S")
@option("--space spaces", "FILE|NAME=A,B,C", _SPACE, multiple=True)
@option("--halving", ["yes", "no"], "Drop the worse half of the settings after each fold.", "yes")
@option("--sampler", ["random", "optuna"], "How to sample settings; Optuna uses previous scores.", default="random")
@option("--nested", None, "For each fold, search on the other folds, for an unbiased score (takes K times as long).")
@option("--estimator", "NAME", "Estimator to tune.", default="MultinomialNB")
@set_option
@option("--curve", LocalPath(), "Plot the learning curve of the best setting.", metavar="FILE.png")
@option("--table", LocalPath(), "Write all settings and scores to a table.", metavar="FILE.csv")
@option("--checkpoint", Place(), "Folder for checkpoints.", metavar="FOLDER")
@option("--resume", None, "Resume the search in FOLDER, if there is one.")
@option("--overwrite", None, "Replace existing output; not needed to resume.")
@option("--seed", 0, "Random seed.  [default: 0]")
@option("--quiet", None, "Do not show progress.")
@word_options
@cluster_options
def tune(corpora: tuple[str, ...], model: Path, source: Source, cluster: ClusterOptions, **options: Any) -> None:
    """Search for the best hyperparameters by cross-validation, train with them on all of CORPUS, and save MODEL.

    CORPUS is a corpus or a source, as in sdem train. After each fold, the worse half of the settings is dropped. The
    command prints all scores, the best score for each parameter value, and a comparison with the default setting.
    Parameters set with --set are not tuned unless --space names them. Folds keep groups together (sdem ingest --group).
    The same corpus, settings and seed give the same model for any number of workers.
    """
    folder, held_out, resume = options["checkpoint"], options["validation"], options["resume"]
    quiet, seed, table, curve, overwrite = (options[n] for n in ("quiet", "seed", "table", "curve", "overwrite"))
    if resume and folder is None:
        raise click.UsageError("--resume needs --checkpoint FOLDER")
    overwrite |= resume and folder.is_dir() and any(path.suffix == ".sdem" for path in folder.iterdir())
    if options["nested"] and held_out is not None:
        raise click.UsageError("--nested needs folds: remove --validation")
    refuse_far_sources((*corpora, held_out), cluster.remote_address)
    from numpy import ma

    from sdem_dist.reports.table_files import SUFFIXES, part_of, write_table
    from sdem_dist.selection.trials import described

    console.check_output(model, (), overwrite, kind="model")
    for path, suffixes in ((curve, (".png", ".svg", ".pdf")), (table, SUFFIXES)):
        if path is not None:
            console.check_output(path, (model, *corpora), overwrite, suffixes)
    estimator = estimator_of(options["estimator"], {"settings": options["settings"]}, source.reading.label_separator)
    if seed is not None and "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    how = {name: options[name] for name in ("metric", "n_trials", "seconds", "sampler", "nested")}
    how |= {"halving": options["halving"] == "yes", "random_state": seed or 0}
    how |= {} if quiet else {"callbacks": [lambda event: click.echo(line(event, folder), err=True)]}
    # The corpus to validate on is opened below.
    search = sdem_dist.CorpusSearchCV(estimator, space_of(options["spaces"]), cv=held_out or options["folds"], **how)
    click.get_current_context().meta["remains"] = console.RESUME if folder else console.NO_CHECKPOINT
    both = training_documents(corpora, held_out, source, estimator, words=options["words"], beside=model, quiet=quiet)
    search.check()  # before a source is read
    if folder is not None:
        search.checkpoints(folder, resume=resume)
    with both as (documents, validation), ExitStack() as others, cluster.client() as client:
        take_documents(estimator, documents, options)
        if search.space is None and validation is None and not options["nested"]:
            how = {"beside": model, "quiet": True}
            with suppress(IngestError):  # with few documents, the limits of other settings may leave no word
                search._counted = {
                    settings: others.enter_context(documents_of(corpora, source, estimator, words=settings, **how))
                    for settings in other_settings(corpora, documents, estimator)
                }
        if validation is not None:
            search.set_params(cv=validation)
        search.fit(documents, client=client, checkpoint=folder, resume=resume)
        search.best_estimator_.save(model)
        if table is not None:  # before a program such as head closes the pipe
            results = dict(search.cv_results_)
            columns: dict[str, list[Any]] = {"setting": [described(params) for params in results.pop("params")]}
            # A cell is empty if a setting lacks the parameter, or has no standard error.
            columns |= {name: [None if v is ma.masked else v for v in column] for name, column in results.items()}
            write_table(table, [part_of(table.suffix.lower(), columns)])
        console.say(search.summary())
        console.say(f"{model}: {type(search.best_estimator_).__name__}, trained with the best setting")
        if table is not None:
            console.say(f"{table}: {counted(len(search.trials_), 'setting')}")
        if curve is not None:
            from matplotlib.figure import Figure
            from sklearn.base import clone

            from sdem_dist import plots

            best = clone(search.estimator).set_params(**search.best_params_)
            documents = search._counted.get(search.best_params_.get("vectorizer"), documents)
            scored = sdem_dist.learning_curve(best, documents, random_state=seed or 0)
            key = "accuracy" if scored.micro_f1 is None else "micro_f1"
            figure, of_folds = Figure(figsize=(6, 4), layout="constrained"), {"held-out folds": getattr(scored, key)}
            plots.learning_curve(scored.n_documents, of_folds, figure.subplots(), metric=key)
            figure.savefig(curve)
            console.say(f"{scored}\n{curve}: learning curve")


def other_settings(paths: Sequence[str], documents: Corpus, estimator: EngineEstimator) -> list[VectorizerSettings]:
    """Return more vectorizer settings to try, if sources of text are read and no option sets the tokenization."""
    from sdem_dist.selection.spaces import default_space

    words = documents.header.vectorizer or {}
    of_text = words.get("kind") == "count" and "features" not in words and not typed_flags(WORDS)
    tried = dict.fromkeys(v for part in default_space(estimator, raw=of_text) for v in part.get("vectorizer", ()))
    if tried and not is_source(paths[0]):
        click.echo(f"{visible(paths[0])} contains only words; to try words+characters, pass its source", err=True)
    return list(tried) if is_source(paths[0]) else []


def line(event: SearchEvent, folder: object) -> str:
    """Return the line of an event for logs; `folder`: of the checkpoints of the search."""
    from sdem_dist.selection.search import FOLD, LAST, NESTED, RESUMED
    from sdem_dist.selection.trials import described, name_of, ranked

    best, name = ranked(event.trials, event.metric)[0], name_of(event.metric)
    score = f"{name} {best.scores[name].mean():.4f}" if name in best.scores else "no score yet"
    n_left, settings = sum(trial.goes_on for trial in event.trials), counted(len(event.trials), "setting")
    what = {
        LAST: LAST,
        RESUMED: f"resuming the search in {folder} after {counted(event.done, 'fit')}",
        NESTED: f"{NESTED} {event.done} of {event.n_folds}",
        FOLD: f"{FOLD} {event.done} of {event.n_folds}: {n_left} of {settings} continue",
    }.get(event.what, f"{event.what} {event.done}")
    return visible(f"{what}; best {score} ({described(best.params)}); {event.seconds:.1f} s")


def space_of(spaces: tuple[str, ...]) -> Any:
    """Return the search space of the options; None if there is none."""
    named: dict[str, list[object]] = {}
    files: list[dict[str, Any]] = []
    for text in spaces:
        name, equals, values = text.partition("=")
        if not equals:
            try:
                read = json.loads(Path(text).read_text("utf-8"))  # with lists where parameters need tuples
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise click.UsageError(f"--space {text}: expected NAME=A,B,C or a JSON file ({reason})") from error
            read = read if isinstance(read, list) else [read]
            if not read or not all(isinstance(s, dict) and all(isinstance(v, list) for v in s.values()) for s in read):
                raise click.UsageError(f"--space {text}: expected {{name: [values]}}, or a list of such objects")
            files += [{k: [tuple(v) if isinstance(v, list) else v for v in vs] for k, vs in s.items()} for s in read]
            continue
        problem = f"{name} is set twice" if name in named else ""
        if not any(mark in values for mark in "([{\"'"):
            named[name] = [parse_setting(name, part.strip()) for part in values.split(",") if part.strip()]
        else:
            try:
                named[name] = list(ast.literal_eval(f"[{values}]"))
            except (ValueError, SyntaxError):
                problem = "if values contain brackets or quotes, use Python syntax, such as (1,1),(1,2)"
        if problem or not named[name]:
            raise click.UsageError(f"--space {text}: {problem or 'expected NAME=A,B,C'}")
    return [{**space, **named} for space in files or ([{}] if named else [])] or None


@click.command(cls=SourceCommand, no_args_is_help=True)
@click.argument("corpus")
@option("-n --number", 1, "Number of documents to list.", default=20, metavar="INTEGER")
@option("--folds", 2, "Number of folds.", default=5, metavar="K")
@option("--estimator", "NAME", "Classifier.  [default: MultinomialNB or MultiLabelNB, which minimize NCLL]")
@set_option
@option("--seed", 0, "Random seed.", default=0)
@option("--json as_json", None, "Print one JSON object per document.")
@word_options
@cluster_options
def suspects(corpus: str, source: Source, words: VectorizerSettings, cluster: ClusterOptions, **options: Any) -> None:
    """List the documents of CORPUS that are most likely mislabelled.

    CORPUS is a corpus or a source, as in sdem train. It is split into folds; each document is scored by a model that
    was not trained on it. Doubt is 1 - p(label). With several labels per document, each label is checked separately;
    the doubt of an absent label is p(label). Check the documents: rare but correct labels may also have high doubt.
    """

    def classifier(name: str) -> EngineEstimator:
        """Return the named classifier; its loss is not hinge, which suffers more from wrong labels."""
        estimator = estimator_of(name, {"settings": options["settings"]})
        if estimator.spec.target != "labels":
            raise click.UsageError(f"--estimator must be a classifier, and {name} is not one")
        usual: dict[str, object] = {"random_state": options["seed"]}
        if name in ("MultinomialNB", "MultiLabelNB"):
            usual["loss"] = "ncll"
        typed = {setting.partition("=")[0] for setting in options["settings"]}
        params = estimator.get_params(deep=False)
        return estimator.set_params(**{k: v for k, v in usual.items() if k in params and k not in typed})

    name, n = options["estimator"], options["number"]
    if name is not None:
        classifier(name)  # before a source is read
    beside = place(corpus if is_source(corpus) else "suspects")
    refuse_far_sources([corpus], cluster.remote_address)
    how: dict[str, Any] = {"words": words, "beside": beside, "keep_text": True, "quiet": False}
    with documents_of([corpus], source, None, **how) as documents, cluster.client() as client:
        several = documents.header.label_sets is not None
        estimator = classifier(name or ("MultiLabelNB" if several else "MultinomialNB"))
        take_documents(estimator, documents, options)
        folds: dict[str, Any] = {"cv": options["folds"], "random_state": options["seed"], "client": client}
        doubted = sdem_dist.label_suspects(documents, estimator=estimator, n=None, **folds)
        texts = documents.texts_at(doubted.positions[:n].tolist()) if documents.has_texts else None
    if options["as_json"]:
        listed = {"document": doubted.documents, "label": doubted.labels.astype(str), "present": doubted.present}
        listed |= {"other": None if doubted.others is None else doubted.others.astype(str), "doubt": doubted.doubt}
        listed |= {"p_label": doubted.label_proba, "p_other": doubted.other_proba}
        rows = {name: column[:n].tolist() for name, column in listed.items() if column is not None}
        rows |= {} if texts is None else {"text": texts}
        for row in zip(*rows.values(), strict=True):
            click.echo(json.dumps(dict(zip(rows, row, strict=True))))
        return
    columns, n_documents = doubted.cells(n), f"{doubted.n_documents:,} documents"
    title = f"{(doubted.doubt > 0.5).sum():,} labels in {n_documents} may be missing or wrong"
    if doubted.other_proba is not None:
        title = f"{(doubted.other_proba > doubted.label_proba).sum():,} of {n_documents} may be mislabelled"
    if texts is not None:
        columns["text"] = [" ".join(text[: 4 * LETTERS].split())[:LETTERS] for text in texts]
    by_place = doubted.documents.dtype.kind == "i"
    counted_from = "; documents are numbered from 0, as in the source" if by_place else ""
    lines = [list(columns), *zip(*columns.values(), strict=True)]
    click.echo(console.table(f"{corpus}: {title}{counted_from}", lines), nl=False)
    if texts is None:
        console.say(f"{'' if by_place else 'Documents are listed by ID. '}To see texts, ingest with --keep-text.")
