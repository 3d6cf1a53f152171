"""The report of a search: what was tried, how much each parameter mattered, the winner beside the default."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sdem_dist.counted import counted
from sdem_dist.reports.report import Table, cell
from sdem_dist.selection.metrics import Metric, mean_and_error, name_of, per_document, sign_of
from sdem_dist.selection.trials import Trial, accuracy_lost, described, paired, ranked, shortened

if TYPE_CHECKING:
    from sdem_dist.selection.search import CorpusSearchCV

WIDTH = 80
"""Columns of a terminal that a report fits into."""
NORMAL = 1.96
"""Standard errors on either side of a mean that enclose 95 %."""
PER_DOCUMENT = ("micro-F1", "macro-F1", "Hamming-loss", "log-loss", "accuracy")
DISTANCES = "Distances fall with more clusters, in the folds as well: they do not tell how many there are."
NESTED = (
    "Expect the nested score on new documents. The best score above is optimistic, since the folds that it is of chose it. "
    "The nested one is of searches on fewer documents, whose winners may differ."
)


class Effect(NamedTuple):
    """How much a parameter mattered, among settings of one loss (empty: of any)."""

    name: str
    change: float
    """Mean difference in score between two settings that differ in it alone; NaN: no two do."""
    best: list[tuple[object, float]]
    """Of each value the best score of the settings that name it, and of the default; the best first."""
    loss: str = ""

    @property
    def title(self) -> str:
        """The parameter, and with which loss."""
        return f"{self.name} ({self.loss})" if self.loss else self.name


class Difference(NamedTuple):
    """How the winner compares with the default: `low` to `high` holds the gain with 95 %, over documents or folds."""

    metric: str
    default: float
    winner: float
    low: float
    high: float
    n_folds: int = 0
    """Whose differences the interval is of; 0: of documents'."""


def effects(search: CorpusSearchCV) -> list[Effect]:
    """Return parameters by how much they mattered: what changes where nothing else does, and the best of each value.

    A parameter has an effect of its own with each loss.
    """
    metric, default = name_of(search.metric_), search.estimator.get_params(deep=False)
    scored = [trial for trial in ranked(search.trials_, search.metric_) if metric in trial.scores]
    of_loss: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in scored:
        of_loss[shortened({**default, **trial.params}.get("loss"))].append(trial)
    found = []
    for name in dict.fromkeys(name for trial in scored for name in trial.params):
        for loss, trials in {"": scored}.items() if name == "loss" else of_loss.items():
            effect = _effect(name, trials, default, search.metric_)
            if len(effect.best) > 1 or not np.isnan(effect.change):
                found.append(effect._replace(loss=loss if len(of_loss) > 1 else ""))
    return sorted(found, key=lambda effect: -np.nan_to_num(effect.change))


def _effect(name: str, trials: list[Trial], default: dict[str, object], deciding: Metric) -> Effect:
    best: dict[str, tuple[object, float]] = {}
    metric, n_common = name_of(deciding), min(len(trial.folds) for trial in trials)
    trials = sorted(trials, key=lambda trial: -trial.score(deciding, n_common))
    alike: defaultdict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for trial in trials:
        params = {**default, **trial.params}
        if name in trial.params or not trial.number:  # spaces need not have all parameters
            best.setdefault(repr(params[name]), (params[name], float(trial.scores[metric][:n_common].mean())))
        value = repr(params.pop(name, None))
        alike[repr(params)].append((value, trial.scores[metric]))
    changes = [
        abs(float(np.mean(a[: len(b)]) - np.mean(b[: len(a)])))  # over the folds that both have
        for settings in alike.values()
        for (u, a), (v, b) in combinations(settings, 2)
        if u != v
    ]
    return Effect(name, float(np.mean(changes)) if changes else np.nan, list(best.values()))


def differences(search: CorpusSearchCV) -> list[Difference]:
    """Return how the winner compares with the default; empty where they are one.

    Document by document where a metric allows that; another metric that decides, fold by fold.
    """
    winner, default = search.trials_[search.best_index_], search.trials_[0]
    if winner is default:
        return []
    metric, both, compared = name_of(search.metric_), paired(winner, default), list[Difference]()
    if metric not in PER_DOCUMENT and search.n_splits_ > 1 and metric in default.scores:
        before, after = default.scores[metric], winner.scores[metric]
        gains = sign_of(search.metric_) * (after - before)
        half = stdtrit(len(gains) - 1, 0.975) * gains.std(ddof=1) / len(gains) ** 0.5
        bounds = float(gains.mean() - half), float(gains.mean() + half)
        compared.append(Difference(metric, float(before.mean()), float(after.mean()), *bounds, len(gains)))
    if both is None:
        return compared
    weights = both[0].weights
    for name in dict.fromkeys([metric, "log-loss", "accuracy"] if metric in PER_DOCUMENT else ["log-loss", "accuracy"]):
        after, before = (per_document(name, predictions) for predictions in both)
        mean, error = mean_and_error(sign_of(name) * (after - before), weights)
        was, now = (float(np.average(values, weights=weights)) for values in (before, after))
        compared.append(Difference(name, was, now, mean - NORMAL * error, mean + NORMAL * error))
    return compared


def lines(search: CorpusSearchCV, most: int = 10) -> list[str]:
    """Return a report of a search, line by line; `most`: settings that are shown, and the default in any case."""
    heads, rows, n_left = _table(search, most)
    widths = [max(8, len(head)) for head in heads[:-1]]

    def aligned(cells: list[str]) -> str:
        return "".join(f"  {text:>{width}}" for text, width in zip(cells, widths, strict=True)) + "  "

    report = [_tried(search), aligned(heads[:-1]) + heads[-1]]
    for row in rows:
        report += _wrapped(aligned(row[:-1]), row[-1])
    return report + _below_the_table(search, n_left)


def html(search: CorpusSearchCV, most: int = 10) -> str:
    """Return the report of `lines` for a notebook, with the settings as a table."""
    heads, rows, n_left = _table(search, most)
    table = Table([heads[-1], *heads[:-1]], [[row[-1], *row[:-1]] for row in rows]).html()
    below = "\n".join(_below_the_table(search, n_left))
    return f"<p>{cell(_tried(search))}</p>{table}<pre>{cell(below)}</pre>"


def _tried(search: CorpusSearchCV) -> str:
    n_dropped = sum(trial.dropped is not None for trial in search.trials_)
    on = counted(search.n_splits_, "fold") if _in_folds(search) else "the held-out documents"
    early = f"; {n_dropped} {'was' if n_dropped == 1 else 'were'} dropped early (*)" if n_dropped else ""
    asked = search.n_trials
    exhausted = search.space is None and asked is not None and search.n_settings_ < asked
    others = "; the default space has no other" if exhausted else ""
    return f"Tried {counted(len(search.trials_), 'setting')}, each on {on}{early}{others}:"


def _in_folds(search: CorpusSearchCV) -> bool:
    return isinstance(search.cv, int | np.integer)


def _table(search: CorpusSearchCV, most: int) -> tuple[list[str], list[list[str]], int]:
    """Return heads and rows of the best settings, and how many are left out."""
    in_order, metric = ranked(search.trials_, search.metric_), name_of(search.metric_)
    shown = [trial for i, trial in enumerate(in_order) if i < most or trial.number == 0]
    scored = {name for trial in shown for name in trial.scores}
    names = list(dict.fromkeys([metric, *(name for name in ("log-loss", "accuracy") if name in scored)]))
    rows = []
    for trial in shown:
        scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
        n_folds = f"{len(trial.folds)}{' ' if trial.dropped is None else '*'}"
        rows.append([*scores, n_folds, described(trial.params) + (f": {trial.error}" if trial.error else "")])
    return [*names, "folds", "setting"], rows, len(in_order) - len(shown)


def _below_the_table(search: CorpusSearchCV, n_left: int) -> list[str]:
    metric, best, report = name_of(search.metric_), search.trials_[search.best_index_], list[str]()
    in_order, in_folds = ranked(search.trials_, search.metric_), _in_folds(search)
    if n_left:
        report.append(f"  and {n_left} more (cv_results_ in Python, --table here)")
    n_late = search.n_settings_ - sum(bool(trial.folds or trial.dropped) for trial in search.trials_)
    n_late -= sum(bool(trial.error) and trial.error != "the time was over" for trial in search.trials_)
    if search.seconds is not None and n_late > 0:
        report += ["", f"The time was over: {counted(n_late, 'setting')} {'was' if n_late == 1 else 'were'} not tried."]
    report += _mattered(search)
    report += ["", *_wrapped("Best: ", described(best.params))]
    if in_order[0] is not best:
        report += _wrapped("  Passed over: ", _passed_over(search, in_order[0]))
    compared = differences(search)
    if in_folds and any(not of.n_folds for of in compared):
        report.append("  Over all documents at once, where the table has means of folds:")
    for of in compared:
        report += _compared(of)
    if best.number == 0:
        report.append(
            "  No setting was better than the default." if len(in_order) > 1 else "  No other setting was tried."
        )
    if metric == "distance":
        report += _wrapped("  ", DISTANCES)
    if search.nested:
        mean, spread = sign_of(search.metric_) * search.nested_score_, float(search.nested_scores_.std())
        report.append(f"  Of a search that has not seen the fold (nested): {metric} {mean:.4f}")
        report.append(f"    (+- {spread:.4f}, the standard deviation over {counted(search.n_splits_, 'fold')})")
        return [*report, *_wrapped("", NESTED)]
    optimistic = (
        f"The best score of many settings is optimistic, since it was chosen by the same "
        f"{'folds' if in_folds else 'held-out documents'}. An honest one comes from documents that took no part "
        f"(sdem evaluate){', or from a nested search (nested=True, --nested)' if in_folds else ''}."
    )
    return [*report, *_wrapped("", optimistic)]


def _mattered(search: CorpusSearchCV) -> list[str]:
    """Return how much each parameter mattered, under each other."""
    if not (of_all := effects(search)):
        return []
    metric = name_of(search.metric_)
    what = (
        f"What mattered. Change: of {metric}, between two settings that differ in nothing else, on the folds of both (-: "
        f"no two differ so). Best: the best {metric} with each value, on the folds of all."
    )
    width = max(14, *(len(effect.title) for effect in of_all))
    report = ["", *_wrapped("", what), f"  {'parameter':<{width}} change  value: best"]
    for effect in of_all:
        named = [("not set" if value is None else shortened(value), score) for value, score in effect.best]
        change = "-" if np.isnan(effect.change) else f"{effect.change:.4f}"
        values = ", ".join(f"{value}: {score:.4f}" for value, score in named)
        report += _wrapped(f"  {effect.title:<{width}} {change:>6}  ", values)
    return report


def _compared(of: Difference) -> list[str]:
    """Return a difference between the winner and the default in two lines."""
    clear = f", by the {of.n_folds} folds" if of.n_folds else ""
    clear += "" if of.low > 0 or of.high < 0 else ", which may be chance"
    low, high = sorted((of.low, of.high)) if of.low + of.high >= 0 else sorted((-of.low, -of.high))
    apart = abs(round(of.winner, 4) - round(of.default, 4))  # of the figures as they are shown
    by = f"{apart:.4f} {'higher' if of.winner >= of.default else 'lower'}" if apart else "the same"
    return [
        f"  {of.metric} {of.winner:.4f}, the default's {of.default:.4f}: {by}",
        f"    (95 % interval {_bound(low)} to {_bound(high)}{clear})",
    ]


def _bound(value: float) -> str:
    """Return a bound of an interval with four digits, or with as many as show its sign."""
    return f"{value:.0e}" if 0 < abs(value) < 0.00005 else f"{value:.4f}"


def _passed_over(search: CorpusSearchCV, trial: Trial) -> str:
    """Return why the setting with the lowest log-loss did not win."""
    trials = search.trials_
    lost, least = accuracy_lost(trial, trials[0], len(trials))
    return (
        f"{described(trial.params)}. Its log-loss is {trial.scores['log-loss'].mean():.4f}, but its accuracy is {lost:.4f} "
        f"lower than the default's: by more than {max(least, 0.0):.4f} with 95 %, with regard to "
        f"{counted(len(trials), 'setting')}. To have it anyway, train it with sdem train."
    )


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns, under each other after what stands before it."""
    return textwrap.wrap(before + text, WIDTH, subsequent_indent=" " * len(before), break_on_hyphens=False)
