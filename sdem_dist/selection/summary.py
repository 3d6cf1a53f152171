"""What a search found, for people: what was tried, what mattered, the winner against the default."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sdem_dist.counted import counted
from sdem_dist.reports.table import Table, cell
from sdem_dist.selection.metrics import greater_is_better, name_of
from sdem_dist.selection.shares import SHARED
from sdem_dist.selection.trials import LATE, MONITOR, Trial, accuracy_lost, by_document, mean_and_error, ranked, used

if TYPE_CHECKING:
    from sdem_dist.selection.settings import Searched

WIDTH = 80
"""Columns of a terminal that a report fits into."""
NORMAL = 1.96
"""Standard errors on either side of a mean that enclose 95 %."""
OPTIMISTIC = (
    "The best score of many settings is optimistic, since it was chosen by the same {}. An honest one comes from "
    "documents that took no part (sdem evaluate){}."
)
DISTANCES = "Distances fall with more clusters, in the folds as well: they do not tell how many there are."
"""The note about k-means."""
OR_NESTED = ", or from a nested search (nested=True, --nested)"
"""The note that needs folds."""

NESTED = (
    "Expect the nested score on new documents. The best score above is optimistic, since the folds that it is of chose it. "
    "The nested one is of searches on fewer documents, whose winners may differ."
)


class Effect(NamedTuple):
    """How much a parameter mattered."""

    name: str
    change: float
    """Mean difference in score between two settings that differ in it alone; NaN: no two do."""
    best: list[tuple[object, float]]
    """Of each value the best score of the settings that name it, and of the default; the best first."""
    loss: str = ""
    """Of all these settings, where settings have several; empty: of any."""

    @property
    def title(self) -> str:
        """The parameter, and with which loss."""
        return f"{self.name} ({self.loss})" if self.loss else self.name


class Difference(NamedTuple):
    """How much better the winner is than the default: a lower loss, or a higher accuracy."""

    metric: str
    default: float
    winner: float
    low: float
    """The difference in favour of the winner is with 95 % between this and `high`, over documents or folds."""
    high: float
    n_folds: int = 0
    """Whose differences the interval is of; 0: of documents'."""


def described(params: dict[str, object]) -> str:
    """Return a setting in words."""
    return ", ".join(f"{name}={_short(value)}" for name, value in params.items()) or "the default"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def settled_loss(search: Searched) -> str | None:
    """Return what ``loss="auto"`` of the tuned estimator stands for on these documents; None where it has a loss."""
    before, after = (of.get_params().get("loss") for of in (search.estimator, search.tuned_))
    return after if before == "auto" and isinstance(after, str) and after != before else None


def effects(search: Searched) -> list[Effect]:
    """Return parameters by how much they mattered: what changes where nothing else does, and the best of each value.

    A parameter has an effect of its own with each loss.
    """
    metric, tuned = name_of(search.metric_), search.tuned_.get_params(deep=False)
    scored, found = ranked([trial for trial in search.trials_ if metric in trial.scores], search.metric_), []
    of_loss: defaultdict[str, list[Trial]] = defaultdict(list)
    for trial in scored:
        of_loss[_short({**tuned, **trial.params}.get("loss"))].append(trial)
    for name in dict.fromkeys(name for trial in scored for name in trial.params):
        for loss, trials in {"": scored}.items() if name == "loss" else of_loss.items():
            effect = _effect(name, trials, tuned, metric)
            if len(effect.best) > 1 or not np.isnan(effect.change):
                found.append(effect._replace(loss=loss if len(of_loss) > 1 else ""))
    return sorted(found, key=lambda effect: -np.nan_to_num(effect.change))


def _effect(name: str, trials: list[Trial], tuned: dict[str, object], metric: str) -> Effect:
    """Return how much a parameter mattered to these settings, the best of which comes first."""
    best: dict[str, tuple[object, float]] = {}
    alike: defaultdict[str, list[tuple[str, Trial]]] = defaultdict(list)
    for trial in trials:
        if name in trial.params or not trial.number:  # spaces need not have all parameters
            value = {**tuned, **trial.params}[name]
            best.setdefault(repr(value), (value, float(trial.scores[metric].mean())))
        whole = {**tuned, **trial.params}
        own = repr(whole.pop(name))
        alike[repr(whole)].append((own, trial))
    pairs = [(a, b) for of in alike.values() for (u, a), (v, b) in combinations(of, 2) if u != v]
    changes = [abs(x - y) for x, y in (_after_as_long(a, b, metric) for a, b in pairs)]
    return Effect(name, float(np.mean(changes)) if changes else np.nan, list(best.values()))


def _after_as_long(a: Trial, b: Trial, metric: str) -> list[float]:
    """Return the scores of two settings; if one was dropped early, both after as many epochs as that one had."""
    dropped = [trial.dropped for trial in (a, b) if trial.dropped is not None]
    if not dropped:
        return [float(trial.scores[metric].mean()) for trial in (a, b)]
    return [_after(trial, min(*dropped, trial.n_epochs))[metric] for trial in (a, b)]


def _after(trial: Trial, epoch: int) -> dict[str, float]:
    """Return the metrics after an epoch, or after the last one before it that was scored, or else after the first."""
    return next((of for of in reversed(trial.epochs) if of["epoch"] <= epoch), trial.epochs[0])


def differences(search: Searched) -> list[Difference]:
    """Return how the winner compares with the estimator as it is; empty where they are one.

    Document by document where a metric allows that; other metrics that decide fold by fold.
    """
    winner, default = search.trials_[search.best_index_], search.trials_[0]
    decides, found = name_of(search.metric_), list[Difference]()
    if winner is default:
        return found
    weights = np.empty(0)
    if winner.found is not None and default.found is not None:
        weights = winner.found.weights[used(winner.found)]
    by_documents = (
        list(dict.fromkeys([decides] * (decides in SHARED) + ["log-loss", "accuracy"])) if len(weights) else []
    )
    if decides not in by_documents and search.n_splits_ > 1 and decides in default.scores:
        found.append(_by_folds(decides, default.scores[decides], winner.scores[decides], search))
    for metric in by_documents:
        before, after = (by_document(trial, metric) for trial in (default, winner))
        gain = after - before if greater_is_better(metric) else before - after
        mean, error = mean_and_error(gain, weights, ddof=1)
        low, high = mean - NORMAL * error, mean + NORMAL * error
        default_mean, winner_mean = (float(np.average(values, weights=weights)) for values in (before, after))
        found.append(Difference(metric, default_mean, winner_mean, low, high))
    return found


def _by_folds(name: str, before: np.ndarray, after: np.ndarray, search: Searched) -> Difference:
    """Return the difference with an interval by Student's t of the folds' differences, as of a paired test."""
    gains = after - before if greater_is_better(search.metric_) else before - after
    half = stdtrit(len(gains) - 1, 0.975) * gains.std(ddof=1) / len(gains) ** 0.5
    low, high = gains.mean() - half, gains.mean() + half
    return Difference(name, float(before.mean()), float(after.mean()), float(low), float(high), len(gains))


def lines(search: Searched, most: int = 10) -> list[str]:
    """Return a report of a search, line by line.

    `most`: settings that are shown; the default is shown in any case.
    """
    shown = _shown(search, most)
    heads, rows = _table(shown, name_of(search.metric_))
    widths = [max(8, len(head)) for head in heads[:-2]] + [6]
    said = [_tried(search), _aligned(heads[:-1], widths) + f"  {heads[-1]}"]
    for row in rows:
        said += _wrapped(_aligned(row[:-1], widths) + "  ", row[-1])
    return said + _after_the_table(search, len(shown))


def html(search: Searched, most: int = 10) -> str:
    """Return the report of `lines` for a notebook, with the settings as a table."""
    shown = _shown(search, most)
    heads, rows = _table(shown, name_of(search.metric_))
    after = "\n".join(_after_the_table(search, len(shown)))
    table = Table([heads[-1], *heads[:-1]], [[row[-1], *row[:-1]] for row in rows]).html()
    return f"<p>{cell(_tried(search))}</p>{table}<pre>{cell(after)}</pre>"


def _shown(search: Searched, most: int) -> list[Trial]:
    """Return the best settings, and the default."""
    in_order = ranked(search.trials_, search.metric_)
    return [trial for i, trial in enumerate(in_order) if i < most or trial.number == 0]


def _in_folds(search: Searched) -> bool:
    return isinstance(search.cv, int | np.integer)


def _tried(search: Searched) -> str:
    """Return what was tried, on what."""
    dropped = sum(map(_was_dropped, search.trials_))
    on = counted(search.n_splits_, "fold") if _in_folds(search) else "the held-out documents"
    early = f"; {dropped} {'was' if dropped == 1 else 'were'} dropped early (*)" if dropped else ""
    others = "; the default space has no other" if _exhausted(search) else ""
    return f"Tried {counted(len(search.trials_), 'setting')}, each on {on}{early}{others}:"


def _was_dropped(trial: Trial) -> bool:
    """Whether others were better; the default goes on, and only a budget cuts it."""
    return trial.number > 0 and trial.dropped is not None


def _exhausted(search: Searched) -> bool:
    """Whether fewer settings were tried than were asked for, since the estimator's own space has no more."""
    asked = search.n_trials
    return search.space is None and asked is not None and len(search.trials_) == search.n_settings_ < asked


def _after_the_table(search: Searched, n_shown: int) -> list[str]:
    """Return what is said after the table of settings, line by line."""
    metric, best, said = name_of(search.metric_), search.trials_[search.best_index_], list[str]()
    in_order, in_folds = ranked(search.trials_, search.metric_), _in_folds(search)
    of_all = "folds" if in_folds else "held-out documents"
    if n_shown < len(in_order):
        said.append(f"  and {len(in_order) - n_shown} more (cv_results_ in Python, --table here)")
    if (loss := settled_loss(search)) is not None:
        why = f'"auto" chooses that by these {of_all}.'
        if search._ncll_left_out:
            why = "the budget left nothing to try NCLL, which a fit would."
        said += ["", *_wrapped("", f'The default has loss="{loss}" here: {why}')]
    said += _of_budget(search)
    said += _mattered(search)
    said += ["", *_wrapped("Best: ", _winner(search))]
    if in_order[0] is not best:
        said += _wrapped("  Passed over: ", _passed_over(search, in_order[0]))
    compared = differences(search)
    if in_folds and any(not of.n_folds for of in compared):
        said.append("  Over all documents at once, where the table has means of folds:")
    for of in compared:
        clear = f", by the {of.n_folds} folds" if of.n_folds else ""
        clear += "" if of.low > 0 or of.high < 0 else ", which may be chance"
        gain = 0.5 * (of.low + of.high)
        word = "higher" if of.winner >= of.default else "lower"
        low, high = sorted((of.low, of.high)) if gain >= 0 else sorted((-of.low, -of.high))
        apart = abs(round(of.winner, 4) - round(of.default, 4))  # of the figures as they are shown
        by = f"{apart:.4f} {word}" if apart else "the same"
        said.append(f"  {of.metric} {of.winner:.4f}, the default's {of.default:.4f}: {by}")
        said.append(f"    (95 % interval {_bound(low)} to {_bound(high)}{clear})")
    if best.number == 0:
        said.append(
            "  No setting was better than the default." if len(in_order) > 1 else "  No other setting was tried."
        )
    if metric == "distance":
        said += _wrapped("  ", DISTANCES)
    if search.nested:
        sign = 1.0 if greater_is_better(search.metric_) else -1.0
        mean, spread = sign * search.nested_score_, float(search.nested_scores_.std())
        said.append(f"  Of a search that has not seen the fold (nested): {metric} {mean:.4f}")
        said.append(f"    (+- {spread:.4f}, the standard deviation over {counted(search.n_splits_, 'fold')})")
        return [*said, *_wrapped("", NESTED)]
    return [*said, *_wrapped("", OPTIMISTIC.format(of_all, OR_NESTED if in_folds else ""))]


def _of_budget(search: Searched) -> list[str]:
    """Return what a budget of epochs (total_epochs, --epochs) or of time (seconds, --seconds) left out."""
    said, default = list[str](), search.trials_[0]
    if default.dropped is not None:
        said.append(f"The budget of epochs is used up: the default was cut after {counted(default.trained, 'epoch')}.")
    if search._untried:
        were, them = ("was", "it") if search._untried == 1 else ("were", "them")
        said.append(
            f"{counted(search._untried, 'setting')} {were} not tried: the budget of epochs has no room for {them}."
        )
    if search.seconds is not None:
        over, left_out = list[str](), search.n_settings_ - len(search.trials_) - search._untried
        late = left_out + sum(trial.error == LATE for trial in search.trials_)  # brackets leave some in the midst
        if default.alive:
            over.append(f"the default was cut after {counted(default.trained, 'epoch')}")
        if late > 0:
            over.append(f"{counted(late, 'setting')} {'was' if late == 1 else 'were'} not tried")
        said += [f"The time was over: {', and '.join(over)}."] if over else []
    return ["", *_wrapped("", " ".join(said))] if said else []


def _mattered(search: Searched) -> list[str]:
    """Return how much each parameter mattered, under each other."""
    if not (found := effects(search)):
        return []
    metric = name_of(search.metric_)
    what = (
        f"What mattered. Change: of {metric}, between two settings that differ in nothing else, after as many epochs (-: no "
        f"two differ so). Best: the best {metric} with each value, after all epochs."
    )
    width = max(14, *(len(effect.title) for effect in found))
    said = ["", *_wrapped("", what), f"  {'parameter':<{width}} change  value: best"]
    for effect in found:
        named = [("not set" if value is None else _short(value), score) for value, score in effect.best]
        values = ", ".join(f"{value}: {score:.4f}" for value, score in named)
        change = "-" if np.isnan(effect.change) else f"{effect.change:.4f}"
        said += _wrapped(f"  {effect.title:<{width}} {change:>6}  ", values)
    return said


def _bound(value: float) -> str:
    """Return a bound of an interval with four digits, or with as many as show its sign."""
    return f"{value:.0e}" if 0 < abs(value) < 0.00005 else f"{value:.4f}"


def _winner(search: Searched) -> str:
    """Return the winner in words, with the epochs that a search counted."""
    if search.trials_[search.best_index_].params:
        return described(search.best_params_)
    return f"the default, with {described(search.best_params_)}" if search.best_params_ else "the default"


def _passed_over(search: Searched, trial: Trial) -> str:
    """Return why the setting with the lowest log-loss did not win."""
    trials = search.trials_
    lost, least = accuracy_lost(trial, trials[0], len(trials))
    return (
        f"{described(trial.params)}. Its log-loss is {trial.scores[MONITOR].mean():.4f}, but its accuracy is {lost:.4f} lower "
        f"than the default's: by more than {max(least, 0.0):.4f} with 95 %, with regard to {counted(len(trials), 'setting')}. "
        "To have it anyway, train it with sdem train."
    )


def _table(trials: list[Trial], metric: str) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the rows of a table of scores and settings."""
    scored = [name for trial in trials for name in trial.scores]
    names = list(dict.fromkeys([metric, *[name for name in ("log-loss", "accuracy") if name in scored]]))
    rows = []
    for trial in trials:
        scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
        epochs = f"{trial.n_epochs}{'*' if _was_dropped(trial) else ' '}"
        setting = described(trial.params) + (f": {_stopped(trial)}, {trial.error}" if trial.error else "")
        rows.append([*scores, epochs, setting])
    return [*names, "epochs", "setting"], rows


def _stopped(trial: Trial) -> str:
    """Return how far a setting with an error came."""
    return f"trained no further than {counted(trial.n_epochs, 'epoch')}" if trial.epochs else "not trained"


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "".join(f"  {text:>{width}}" for text, width in zip(cells, widths, strict=True))


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns, under each other after what stands before it."""
    return textwrap.wrap(
        before + text,
        WIDTH,
        subsequent_indent=" " * len(before),
        break_on_hyphens=False,
        drop_whitespace=True,
    )
