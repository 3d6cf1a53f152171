"""The report of a search: what was tried, the best score with each value, and the winner beside the default."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.selection.trials import (
    LATE,
    PER_DOCUMENT,
    described,
    gain_of,
    is_better,
    name_of,
    ranked,
    shortened,
    sign_of,
)
from sdem_dist.table import Table, cell

WIDTH = 80  # columns of a terminal that a report fits into
MAX_ROWS = 10  # settings of the report's table, the default besides
NORMAL = 1.96  # standard errors on either side of a mean that enclose 95 %


def summary_of(search: Any, *, html: bool = False) -> str:
    """Return the report of a fitted search, as lines of at most 80 columns or for a notebook."""
    trials, metric = search.trials_, search.metric_
    n_dropped, n_trials = sum(trial.dropped is not None for trial in trials), len(trials)
    parts = counted(search.n_splits_, "fold") if search.n_splits_ > 1 else "the held-out documents"
    early = f"; {n_dropped} {'was' if n_dropped == 1 else 'were'} dropped early (*)" if n_dropped else ""
    small = search.space is None and (search.n_trials or 0) > search.n_settings_
    others = "; the default space has no other" if small else ""
    title = f"Tried {counted(n_trials, 'setting')}, each on {parts}{early}{others}:"

    best, rows = [t for i, t in enumerate(ranked(trials, metric)) if i < MAX_ROWS or t.number == 0], []
    scored = {name for trial in best for name in trial.scores}
    names = list(dict.fromkeys([name_of(metric), *(n for n in ("log-loss", "accuracy") if n in scored)]))
    for trial in best:
        scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
        n_folds = f"{len(trial.folds)}{' ' if trial.dropped is None else '*'}"
        rows.append([*scores, n_folds, described(trial.params) + (f": {trial.error}" if trial.error else "")])
    table = Table([*names, "folds", "setting"], rows)
    below = [f"  and {n_trials - len(rows)} more (cv_results_ in Python, --table here)"] * (n_trials > len(rows))
    below += _winner(search)
    if html:
        return f"<p>{cell(title)}</p>{table.html()}<pre>{cell(chr(10).join(below))}</pre>"
    lines = [title]
    for *cells, setting in [table.heads, *table.rows]:
        before = "".join(f"  {text:>{max(8, len(head))}}" for text, head in zip(cells, table.heads, strict=False))
        lines += _wrapped(f"{before}  ", str(setting))
    return "\n".join([*lines, *below])


def _winner(search: Any) -> list[str]:
    """Return lines about the best setting: beside the default, and how far its score can be trusted."""
    metric, trials, best = search.metric_, search.trials_, search.trials_[search.best_index_]
    lines = list[str]()
    n_done = sum(bool(trial.folds or (trial.error and trial.error != LATE)) for trial in trials)
    if (n_late := search.n_settings_ - n_done) > 0:
        lines += ["", f"The time was over: {counted(n_late, 'setting')} {'was' if n_late == 1 else 'were'} not tried."]
    lines += [*best_by_value(search), "", *_wrapped("Best: ", described(best.params))]
    leader = ranked(trials, metric)[0]
    if leader is not best and not is_better(leader, trials[0], metric):
        lines += _wrapped(
            "  Passed over: ",
            f"{described(leader.params)}. It is not clearly better than the default: by less than a standard error, or "
            "it is less accurate. To have it anyway, train it with sdem train.",
        )
    if best.number == 0:
        lines.append("  The default wins." if len(trials) > 1 else "  No other setting was tried.")
    for compared in dict.fromkeys([metric, "log-loss", "accuracy"]) if best.number else ():
        name = name_of(compared)
        if name not in trials[0].scores or name not in best.scores:
            continue
        gain, error = gain_of(best, trials[0], compared)
        was, now = (float(trial.scores[name].mean()) for trial in (trials[0], best))
        apart = abs(round(now, 4) - round(was, 4))  # of the figures as they are shown
        by = f"{apart:.4f} {'higher' if now >= was else 'lower'}" if apart else "the same"
        lines.append(f"  {name} {now:.4f}, the default's {was:.4f}: {by}")
        if np.isfinite(error):
            over = "documents" if compared in PER_DOCUMENT else f"the {search.n_splits_} folds"
            low, high = (f"{gain + sign * NORMAL * error:+.4f}" for sign in (-1.0, 1.0))
            chance = ", which may be chance" if abs(gain) < NORMAL * error else ""
            lines.append(f"    (95 % interval of the gain {low} to {high}, over {over}{chance})")
    if metric == "distance":
        text = "Distances fall with more clusters, in the folds as well: they do not tell how many there are."
        lines += _wrapped("  ", text)
    if search.nested:
        mean, spread = sign_of(metric) * search.nested_score_, float(search.nested_scores_.std())
        lines.append(f"  Of a search that has not seen the fold (nested): {name_of(metric)} {mean:.4f}")
        lines.append(f"    (+- {spread:.4f}, the standard deviation over {counted(search.n_splits_, 'fold')})")
        advice = (
            "Expect the nested score on new documents. The best score above is optimistic, since the folds that it is "
            "of chose it. The nested one is of searches on fewer documents, whose winners may differ."
        )
    else:
        nested = ", or from a nested search (nested=True, --nested)" if search.n_splits_ > 1 else ""
        advice = (
            "The best score of many settings is optimistic, since it was chosen by the same documents. An honest one "
            f"comes from documents that took no part (sdem evaluate){nested}."
        )
    return [*lines, *_wrapped("", advice)]


def best_by_value(search: Any) -> list[str]:
    """Return lines with the best score of each value of each parameter, with each loss by itself."""
    metric, defaults = name_of(search.metric_), search.estimator.get_params(deep=False)
    scored = [trial for trial in ranked(search.trials_, search.metric_) if metric in trial.scores]
    n_common = min((len(trial.folds) for trial in scored), default=0)
    best: dict[str, dict[str, float]] = {}
    losses = {shortened((defaults | trial.params).get("loss")) for trial in scored}
    for trial in sorted(scored, key=lambda trial: -trial.score(search.metric_, n_common)):
        params = defaults | trial.params
        of_loss = f" ({shortened(params.get('loss'))})" if len(losses) > 1 else ""
        for name in dict.fromkeys(name for other in scored for name in other.params):
            if name in trial.params or not trial.number:  # spaces need not have all parameters
                value = "not set" if params[name] is None else shortened(params[name])
                row = best.setdefault(f"{name}{of_loss if name != 'loss' else ''}", {})
                row.setdefault(value, float(trial.scores[metric][:n_common].mean()))
    rows = {title: values for title, values in best.items() if len(values) > 1}
    width = max([14, *map(len, rows)])
    lines = ["", f"The best {metric} with each value, on the folds that all settings have:"] if rows else []
    for title, values in rows.items():
        lines += _wrapped(f"  {title:<{width}}  ", ", ".join(f"{v}: {score:.4f}" for v, score in values.items()))
    return lines


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns, under each other after what stands before it."""
    return textwrap.wrap(before + text, WIDTH, subsequent_indent=" " * len(before), break_on_hyphens=False)
