"""The report of a search: what was tried, how much each parameter mattered, the winner beside the default."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from sdem_dist.counted import counted
from sdem_dist.reports.report import Table, cell
from sdem_dist.selection.metrics import LABEL_METRICS, mean_and_error, name_of, per_document, sign_of
from sdem_dist.selection.search_run import Search
from sdem_dist.selection.trials import LATE, Trial, accuracy_lost, described, paired, ranked, shortened

WIDTH = 80
"""Columns of a terminal that a report fits into."""
MAX_ROWS = 10
"""Settings of the report's table, the default besides."""
NORMAL = 1.96
"""Standard errors on either side of a mean that enclose 95 %."""


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


def effects(search: Search) -> list[Effect]:
    """Return parameters by how much they mattered: what changes where nothing else does, and the best of each value.

    A parameter has an effect of its own with each loss.
    """
    metric, default = name_of(search.metric_), search.estimator.get_params(deep=False)
    scored = [trial for trial in ranked(search.trials_, search.metric_) if metric in trial.scores]
    by_loss: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in scored:
        by_loss[shortened({**default, **trial.params}.get("loss"))].append(trial)
    result = []
    for name in dict.fromkeys(name for trial in scored for name in trial.params):
        for loss, trials in {"": scored}.items() if name == "loss" else by_loss.items():
            effect = _effect(name, loss if len(by_loss) > 1 else "", trials, default, search)
            if len(effect.best) > 1 or not np.isnan(effect.change):
                result.append(effect)
    return sorted(result, key=lambda effect: -np.nan_to_num(effect.change))


def _effect(name: str, loss: str, trials: list[Trial], default: dict[str, object], search: Search) -> Effect:
    best: dict[str, tuple[object, float]] = {}
    metric, n_common = name_of(search.metric_), min(len(trial.folds) for trial in trials)
    alike: defaultdict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for trial in sorted(trials, key=lambda trial: -trial.score(search.metric_, n_common)):
        params, scores = {**default, **trial.params}, trial.scores[metric]
        if name in trial.params or not trial.number:  # spaces need not have all parameters
            best.setdefault(repr(params[name]), (params[name], float(scores[:n_common].mean())))
        value = repr(params.pop(name, None))
        alike[repr(params)].append((value, scores))
    changes = [
        abs(float(np.mean(a[: len(b)]) - np.mean(b[: len(a)])))  # over the folds that both have
        for settings in alike.values()
        for (u, a), (v, b) in combinations(settings, 2)
        if u != v
    ]
    return Effect(name, float(np.mean(changes)) if changes else np.nan, list(best.values()), loss)


def differences(search: Search) -> list[Difference]:
    """Return how the winner compares with the default; empty where they are one.

    Document by document where a metric allows that; another metric that decides, fold by fold.
    """
    winner, default = search.trials_[search.best_index_], search.trials_[0]
    if winner is default:
        return []
    metric, both, compared = name_of(search.metric_), paired(winner, default), list[Difference]()
    if metric not in LABEL_METRICS and search.n_splits_ > 1 and metric in default.scores:
        before, after = default.scores[metric], winner.scores[metric]
        gains = sign_of(search.metric_) * (after - before)
        half = stdtrit(len(gains) - 1, 0.975) * gains.std(ddof=1) / len(gains) ** 0.5
        bounds = float(gains.mean() - half), float(gains.mean() + half)
        compared.append(Difference(metric, float(before.mean()), float(after.mean()), *bounds, len(gains)))
    if both is None:
        return compared
    weights = both[0].weights
    names = [metric] if metric in LABEL_METRICS else []
    for name in dict.fromkeys([*names, "log-loss", "accuracy"]):
        after, before = (per_document(name, predictions) for predictions in both)
        mean, error = mean_and_error(sign_of(name) * (after - before), weights)
        was, now = (float(np.average(values, weights=weights)) for values in (before, after))
        compared.append(Difference(name, was, now, mean - NORMAL * error, mean + NORMAL * error))
    return compared


def lines(search: Search) -> list[str]:
    heads, rows = _settings(search)
    report = [_tried(search)]
    for *cells, setting in [heads, *rows]:
        before = "".join(f"  {text:>{max(8, len(head))}}" for text, head in zip(cells, heads, strict=False)) + "  "
        report += [before + setting] if cells == heads[:-1] else _wrapped(before, setting)
    return report + _below_the_table(search)


def html(search: Search) -> str:
    """Return the report of `lines` for a notebook, with the settings as a table."""
    heads, rows = _settings(search)
    table = Table([heads[-1], *heads[:-1]], [[row[-1], *row[:-1]] for row in rows]).html()
    below = cell("\n".join(_below_the_table(search)))
    return f"<p>{cell(_tried(search))}</p>{table}<pre>{below}</pre>"


def _tried(search: Search) -> str:
    n_dropped = sum(trial.dropped is not None for trial in search.trials_)
    parts = counted(search.n_splits_, "fold") if search.n_splits_ > 1 else "the held-out documents"
    early = f"; {n_dropped} {'was' if n_dropped == 1 else 'were'} dropped early (*)" if n_dropped else ""
    exhausted = search.space is None and search.n_trials is not None and search.n_settings_ < search.n_trials
    others = "; the default space has no other" if exhausted else ""
    return f"Tried {counted(len(search.trials_), 'setting')}, each on {parts}{early}{others}:"


def _settings(search: Search) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of the best settings, and of the default."""
    trials = [t for i, t in enumerate(ranked(search.trials_, search.metric_)) if i < MAX_ROWS or t.number == 0]
    scored = {name for trial in trials for name in trial.scores}
    names = list(dict.fromkeys([name_of(search.metric_), *(n for n in ("log-loss", "accuracy") if n in scored)]))
    rows = []
    for trial in trials:
        scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
        n_folds = f"{len(trial.folds)}{' ' if trial.dropped is None else '*'}"
        rows.append([*scores, n_folds, described(trial.params) + (f": {trial.error}" if trial.error else "")])
    return [*names, "folds", "setting"], rows


def _below_the_table(search: Search) -> list[str]:
    metric, trials, best, report = name_of(search.metric_), search.trials_, search.trials_[search.best_index_], []
    leader, in_folds = ranked(trials, search.metric_)[0], search.n_splits_ > 1
    if (n_more := len(trials) - len(_settings(search)[1])) > 0:
        report.append(f"  and {n_more} more (cv_results_ in Python, --table here)")
    n_done = sum(bool(trial.folds or trial.dropped or (trial.error and trial.error != LATE)) for trial in trials)
    if search.seconds is not None and (n_late := search.n_settings_ - n_done) > 0:
        report += ["", f"The time was over: {counted(n_late, 'setting')} {'was' if n_late == 1 else 'were'} not tried."]
    report += [*mattered(search), "", *_wrapped("Best: ", described(best.params))]
    if leader is not best:
        lost, least = accuracy_lost(leader, trials[0], len(trials))
        report += _wrapped(
            "  Passed over: ",
            f"{described(leader.params)}. Its log-loss is {leader.scores['log-loss'].mean():.4f}, but its accuracy is "
            f"{lost:.4f} lower than the default's: by more than {max(least, 0.0):.4f} with 95 %, with regard to "
            f"{counted(len(trials), 'setting')}. To have it anyway, train it with sdem train.",
        )
    compared = differences(search)
    if in_folds and any(not of.n_folds for of in compared):
        report.append("  Over all documents at once, where the table has means of folds:")
    report += [line for of in compared for line in _compared(of)]
    if best.number == 0:
        report.append(
            "  No setting was better than the default." if len(trials) > 1 else "  No other setting was tried."
        )
    if metric == "distance":
        no_number = "Distances fall with more clusters, in the folds as well: they do not tell how many there are."
        report += _wrapped("  ", no_number)
    if search.nested:
        mean, spread = sign_of(search.metric_) * search.nested_score_, float(search.nested_scores_.std())
        report.append(f"  Of a search that has not seen the fold (nested): {metric} {mean:.4f}")
        report.append(f"    (+- {spread:.4f}, the standard deviation over {counted(search.n_splits_, 'fold')})")
        advice = (
            "Expect the nested score on new documents. The best score above is optimistic, since the folds that it is of "
            "chose it. The nested one is of searches on fewer documents, whose winners may differ."
        )
    else:
        advice = (
            f"The best score of many settings is optimistic, since it was chosen by the same "
            f"{'folds' if in_folds else 'held-out documents'}. An honest one comes from documents that took no part "
            f"(sdem evaluate){', or from a nested search (nested=True, --nested)' if in_folds else ''}."
        )
    return [*report, *_wrapped("", advice)]


def mattered(search: Search) -> list[str]:
    if not (of_all := effects(search)):
        return []
    metric, width = name_of(search.metric_), max(14, *(len(effect.title) for effect in of_all))
    legend = (
        f"What mattered. Change: of {metric}, between two settings that differ in nothing else, on the folds of both (-: "
        f"no two differ so). Best: the best {metric} with each value, on the folds of all."
    )
    report = ["", *_wrapped("", legend), f"  {'parameter':<{width}} change  value: best"]
    for effect in of_all:
        change = "-" if np.isnan(effect.change) else f"{effect.change:.4f}"
        named = (("not set" if value is None else shortened(value), score) for value, score in effect.best)
        values = ", ".join(f"{value}: {score:.4f}" for value, score in named)
        report += _wrapped(f"  {effect.title:<{width}} {change:>6}  ", values)
    return report


def _compared(of: Difference) -> list[str]:
    """Return a difference between the winner and the default in two lines."""
    clear = f", by the {of.n_folds} folds" if of.n_folds else ""
    clear += "" if of.low > 0 or of.high < 0 else ", which may be chance"
    bounds = sorted((of.low, of.high) if of.low + of.high >= 0 else (-of.low, -of.high))
    # With four digits, or with as many as show the sign.
    low, high = (f"{bound:.0e}" if 0 < abs(bound) < 0.00005 else f"{bound:.4f}" for bound in bounds)
    apart = abs(round(of.winner, 4) - round(of.default, 4))  # of the figures as they are shown
    by = f"{apart:.4f} {'higher' if of.winner >= of.default else 'lower'}" if apart else "the same"
    return [
        f"  {of.metric} {of.winner:.4f}, the default's {of.default:.4f}: {by}",
        f"    (95 % interval {low} to {high}{clear})",
    ]


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns, under each other after what stands before it."""
    return textwrap.wrap(before + text, WIDTH, subsequent_indent=" " * len(before), break_on_hyphens=False)
