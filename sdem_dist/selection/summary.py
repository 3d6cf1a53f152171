"""The report of a search: what was tried, the best score with each value, and the winner beside the default."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.selection.metrics import PER_DOCUMENT, Metric, name_of, sign_of
from sdem_dist.selection.trials import LATE, Trial, described, gain_of, is_better, ranked, shortened
from sdem_dist.table import Table, cell

WIDTH = 80
"""Columns of a terminal that a report fits into."""
MAX_ROWS = 10
"""Settings of the report's table, the default besides."""
NORMAL = 1.96
"""Standard errors on either side of a mean that enclose 95 %."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    `defaults`: values of the parameters of the default.
    `n_settings`: that were to be tried; of them `trials` were.
    `n_missing`: how many fewer the default space has than were asked for.
    `nested`: the scores of nested searches; None: there were none.
    """

    trials: Sequence[Trial]
    best: Trial
    metric: Metric
    defaults: dict[str, Any]
    n_splits: int
    n_settings: int
    n_missing: int
    nested: np.ndarray | None = None

    @property
    def settings(self) -> Table:
        """The best settings, and the default."""
        trials = [t for i, t in enumerate(ranked(self.trials, self.metric)) if i < MAX_ROWS or t.number == 0]
        scored = {name for trial in trials for name in trial.scores}
        names = list(dict.fromkeys([name_of(self.metric), *(n for n in ("log-loss", "accuracy") if n in scored)]))
        rows = []
        for trial in trials:
            scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
            n_folds = f"{len(trial.folds)}{' ' if trial.dropped is None else '*'}"
            setting = described(trial.params) + (f": {trial.error}" if trial.error else "")
            rows.append([*scores, n_folds, setting])
        return Table([*names, "folds", "setting"], rows)

    @property
    def title(self) -> str:
        n_dropped = sum(trial.dropped is not None for trial in self.trials)
        parts = counted(self.n_splits, "fold") if self.n_splits > 1 else "the held-out documents"
        early = f"; {n_dropped} {'was' if n_dropped == 1 else 'were'} dropped early (*)" if n_dropped else ""
        others = "; the default space has no other" if self.n_missing > 0 else ""
        return f"Tried {counted(len(self.trials), 'setting')}, each on {parts}{early}{others}:"

    def lines(self) -> list[str]:
        """Return a report, line by line."""
        table, report = self.settings, [self.title]
        for *cells, setting in [table.heads, *table.rows]:
            before = "".join(f"  {text:>{max(8, len(head))}}" for text, head in zip(cells, table.heads, strict=False))
            report += _wrapped(f"{before}  ", str(setting))
        return report + self._below_the_table()

    def html(self) -> str:
        """Return the same for a notebook."""
        return (
            f"<p>{cell(self.title)}</p>{self.settings.html()}<pre>{cell(chr(10).join(self._below_the_table()))}</pre>"
        )

    def _below_the_table(self) -> list[str]:
        metric, trials, report = self.metric, self.trials, list[str]()
        if (n_more := len(trials) - len(self.settings.rows)) > 0:
            report.append(f"  and {n_more} more (cv_results_ in Python, --table here)")
        n_done = sum(bool(trial.folds or (trial.error and trial.error != LATE)) for trial in trials)
        if (n_late := self.n_settings - n_done) > 0:
            report += [
                "",
                f"The time was over: {counted(n_late, 'setting')} {'was' if n_late == 1 else 'were'} not tried.",
            ]
        report += [*self.best_by_value(), "", *_wrapped("Best: ", described(self.best.params))]
        leader = ranked(trials, metric)[0]
        if leader is not self.best and not is_better(leader, trials[0], metric):
            report += _wrapped(
                "  Passed over: ",
                f"{described(leader.params)}. It is not clearly better than the default: by less than a standard error, or "
                "it is less accurate. To have it anyway, train it with sdem train.",
            )
        for name in dict.fromkeys([name_of(metric), "log-loss", "accuracy"]):
            report += self._compared(metric if name == name_of(metric) else name)
        if self.best.number == 0:
            report.append("  The default wins." if len(trials) > 1 else "  No other setting was tried.")
        if metric == "distance":
            text = "Distances fall with more clusters, in the folds as well: they do not tell how many there are."
            report += _wrapped("  ", text)
        if self.nested is not None:
            mean, spread = sign_of(metric) * self.nested.mean(), float(self.nested.std())
            report.append(f"  Of a search that has not seen the fold (nested): {name_of(metric)} {mean:.4f}")
            report.append(f"    (+- {spread:.4f}, the standard deviation over {counted(self.n_splits, 'fold')})")
            advice = (
                "Expect the nested score on new documents. The best score above is optimistic, since the folds that it is "
                "of chose it. The nested one is of searches on fewer documents, whose winners may differ."
            )
        else:
            nested = ", or from a nested search (nested=True, --nested)" if self.n_splits > 1 else ""
            advice = (
                "The best score of many settings is optimistic, since it was chosen by the same documents. An honest one "
                f"comes from documents that took no part (sdem evaluate){nested}."
            )
        return [*report, *_wrapped("", advice)]

    def best_by_value(self) -> list[str]:
        """Return lines with the best score of each value of each parameter, with each loss by itself."""
        metric = name_of(self.metric)
        scored = [trial for trial in ranked(self.trials, self.metric) if metric in trial.scores]
        n_common = min((len(trial.folds) for trial in scored), default=0)
        best: dict[str, dict[str, float]] = {}
        losses = {shortened((self.defaults | trial.params).get("loss")) for trial in scored}
        for trial in sorted(scored, key=lambda trial: -trial.score(self.metric, n_common)):
            params = self.defaults | trial.params
            for name in dict.fromkeys(name for other in scored for name in other.params):
                if name in trial.params or not trial.number:  # spaces need not have all parameters
                    of_loss = (
                        f"{name} ({shortened(params.get('loss'))})" if len(losses) > 1 and name != "loss" else name
                    )
                    value = "not set" if params[name] is None else shortened(params[name])
                    best.setdefault(of_loss, {}).setdefault(value, float(trial.scores[metric][:n_common].mean()))
        rows = {title: values for title, values in best.items() if len(values) > 1}
        if not rows:
            return []
        width = max(14, *map(len, rows))
        report = ["", f"The best {metric} with each value, on the folds that all settings have:"]
        for title, values in rows.items():
            report += _wrapped(f"  {title:<{width}}  ", ", ".join(f"{v}: {score:.4f}" for v, score in values.items()))
        return report

    def _compared(self, metric: Metric) -> list[str]:
        """Return the difference between the winner and the default in two lines; none where there is none to show."""
        name, default = name_of(metric), self.trials[0]
        if self.best is default or name not in default.scores or name not in self.best.scores:
            return []
        gain, error = gain_of(self.best, default, metric)
        was, now = (float(trial.scores[name].mean()) for trial in (default, self.best))
        apart = abs(round(now, 4) - round(was, 4))  # of the figures as they are shown
        by = f"{apart:.4f} {'higher' if now >= was else 'lower'}" if apart else "the same"
        report = [f"  {name} {now:.4f}, the default's {was:.4f}: {by}"]
        if np.isfinite(error):
            over = "documents" if metric in PER_DOCUMENT else f"the {self.n_splits} folds"
            low, high = (f"{gain + sign * NORMAL * error:+.4f}" for sign in (-1.0, 1.0))
            chance = ", which may be chance" if abs(gain) < NORMAL * error else ""
            report.append(f"    (95 % interval of the gain {low} to {high}, over {over}{chance})")
        return report


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text in lines of at most 80 columns, under each other after what stands before it."""
    return textwrap.wrap(before + text, WIDTH, subsequent_indent=" " * len(before), break_on_hyphens=False)
