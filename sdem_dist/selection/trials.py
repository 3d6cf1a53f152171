"""The settings of a search: their scores on folds, the metrics, halving, the choice of the best, and the report."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.metrics import f1_score

from sdem_dist.counted import counted
from sdem_dist.evaluation import probabilities
from sdem_dist.table import Table, cell
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

Metric: TypeAlias = "str | Callable[[np.ndarray, np.ndarray], float]"
"""A name, or a function of labels and probabilities; higher values are better."""
CLASS_METRICS = ("log-loss", "accuracy", "macro-F1", "perplexity")
LABEL_METRICS = ("micro-F1", "macro-F1", "accuracy", "Hamming-loss", "log-loss")  # for several labels per document
BY_MODEL = ("R2", "perplexity", "distance")  # metrics that need the model, not only its predictions
LOW_IS_GOOD = ("log-loss", "Hamming-loss", "perplexity", "distance")
PER_DOCUMENT = ("log-loss", "accuracy", "Hamming-loss")  # means over documents, compared document by document
METRICS = tuple(dict.fromkeys([*CLASS_METRICS, *LABEL_METRICS, *BY_MODEL]))
LARGEST_LOSS = 1e3  # bound of a document's log-loss, so that a probability of 0 does not make a mean infinite
FINALISTS = 3  # halving keeps at least this many settings: few cost little, and scores of one fold are noisy
LATE = "the time limit was reached"  # error of settings that were not trained before the time limit
WIDTH = 80  # columns of a report
MAX_ROWS = 10  # settings in the report's table, besides the default
NORMAL = 1.96  # standard errors on either side of the mean, for an interval of 95 %
EQUAL = 1e-9  # scores are equal up to this relative difference


class Predictions(NamedTuple):
    """Predictions for documents by models that were not trained on them."""

    rows: np.ndarray  # shape (n_documents,): positions in the corpus
    scores: np.ndarray  # shape (n_documents, n_classes), float32: ln p(y | d), or the log-odds of each label
    labels: np.ndarray  # shape (n_documents,): numbers of classes, or of sets of labels; -1 without a label
    weights: np.ndarray  # shape (n_documents,)
    members: np.ndarray | None = None  # shape (n_documents, n_labels), bool: true labels, with several per document
    chosen: np.ndarray | None = None  # same shape: predicted labels

    @property
    def proba(self) -> np.ndarray:
        scores = self.scores.astype(np.float64)
        return np.exp(scores) if self.members is None else probabilities(scores)

    def taken(self, positions: np.ndarray) -> Predictions:
        return Predictions(*(column if column is None else column[positions] for column in self))  # type: ignore[arg-type]

    def counted(self) -> Predictions:
        """Return the predictions of documents with a label and a positive weight."""
        return self.taken(np.flatnonzero((self.labels >= 0) & (self.weights > 0)))


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of several folds, in the order of their documents."""
    columns: Any = (None if of[0] is None else np.concatenate(of) for of in zip(*parts, strict=True))
    predictions = Predictions(*columns)
    return predictions.taken(np.argsort(predictions.rows, kind="stable"))


def measure(metric: Metric, predictions: Predictions) -> float:
    """Return a metric of predictions; NaN without counted documents, TypeError if a custom metric returns no number."""
    p = predictions.counted()
    if not len(p.rows):
        return float("nan")
    if callable(metric):
        value = np.asarray(metric(p.labels if p.members is None else p.members.astype(np.int64), p.proba))
        if value.ndim or value.dtype.kind not in "biuf":
            raise TypeError(f"the metric {name_of(metric)} must return a number, got {brief(value[()])}")
        return float(value)
    if metric in PER_DOCUMENT:
        return float(np.average(per_document(metric, p), weights=p.weights))
    y, predicted = (p.labels, p.scores.argmax(axis=1)) if p.members is None else (p.members, p.chosen)
    options = {"average": metric.removesuffix("-F1"), "sample_weight": p.weights}
    # Classes that are neither present nor predicted are ignored.
    return float(np.nan_to_num(f1_score(y, predicted, zero_division=np.nan, **options)))


def per_document(metric: str, predictions: Predictions) -> np.ndarray:
    """Return one number per document; their weighted mean is the metric, one of `PER_DOCUMENT`."""
    _, scores, labels, _, present, chosen = predictions
    if metric == "accuracy":
        right = scores.argmax(axis=1) == labels if present is None else np.all(chosen == present, axis=1)
        return right.astype(np.float64)
    if metric == "Hamming-loss":
        return np.mean(present != chosen, axis=1)
    scores = scores.astype(np.float64)
    if present is not None:
        return np.mean(np.logaddexp(0.0, np.where(present, -scores, scores)), axis=1)
    own = scores[np.arange(len(labels)), labels]
    return np.minimum(-np.nan_to_num(own, nan=-LARGEST_LOSS), LARGEST_LOSS)


def metric_of(estimator: EngineEstimator, metric: Metric | None, several: bool = False) -> Metric:
    """Return the metric, or the default; ValueError if the estimator, with `several` labels, does not support it."""
    target = estimator.spec.target
    names: tuple[str, ...] = ("distance",) if "distance" in estimator.spec.shown else ("perplexity",)
    if target in ("labels", "numbers"):
        names = ("R2",) if target == "numbers" else LABEL_METRICS if several else CLASS_METRICS
    if callable(metric) and target != "labels":
        raise ValueError("custom metrics need labels and probabilities, which only classifiers have")
    if isinstance(metric, str) and metric not in names:
        what = " for several labels" if several else ""
        raise ValueError(f"{type(estimator).__name__} has no metric {metric}{what}: use {', '.join(names)}")
    return names[0] if metric is None else metric


def sign_of(metric: Metric) -> float:
    """Return 1 if large values of a metric are good, otherwise -1."""
    return -1.0 if metric in LOW_IS_GOOD else 1.0


def name_of(metric: Metric) -> str:
    name = metric if isinstance(metric, str) else str(getattr(metric, "__name__", "score"))
    return "score" if name == "<lambda>" else name


class FoldScores(NamedTuple):
    scores: dict[str, float]
    predictions: Predictions | None  # of classifiers only
    seconds: float
    error: str = ""  # message if the model cannot be trained


@dataclass
class Trial:
    """One setting, and its scores on the folds."""

    number: int  # 0 is the default
    params: dict[str, Any]  # parameters that differ from the tuned estimator
    folds: list[FoldScores] = field(default_factory=list, repr=False)  # scores on each fold, in order
    dropped: int | None = None  # number of folds after which halving dropped it; None: not dropped
    error: str = ""  # message if it cannot be trained
    n_fits: int = 0

    def add(self, scores: FoldScores) -> None:
        self.n_fits += 1
        self.error = scores.error
        if not self.error:
            self.folds.append(scores)

    @property
    def goes_on(self) -> bool:
        return self.dropped is None and not self.error

    @property
    def scores(self) -> dict[str, np.ndarray]:
        names = self.folds[0].scores if self.folds else ()
        return {name: np.array([fold.scores[name] for fold in self.folds]) for name in names}

    @property
    def seconds(self) -> float:
        return sum(fold.seconds for fold in self.folds)

    @property
    def predictions(self) -> Predictions | None:
        """Out-of-fold predictions of all scored documents; None if there are none."""
        parts = [fold.predictions for fold in self.folds if fold.predictions is not None]
        return joined(parts) if parts and len(parts) == len(self.folds) else None

    def score(self, metric: Metric, n_folds: int | None = None) -> float:
        """Return the mean over the first `n_folds`, with the sign for which larger is better; -inf without a score."""
        values = [fold.scores.get(name_of(metric), np.nan) for fold in self.folds[:n_folds]]
        mean = float(np.mean(values)) if values else np.nan
        return sign_of(metric) * mean if np.isfinite(mean) else -np.inf


def drop_worse_half(trials: Sequence[Trial], metric: Metric) -> None:
    """Drop the worse half of settings (successive halving by folds), except the default and ties with the last kept."""
    candidates = sorted((trial for trial in trials if trial.goes_on), key=lambda trial: -trial.score(metric))
    n_stay = max(FINALISTS, (len(candidates) + 1) // 2)
    for trial in candidates[n_stay:]:
        if trial.number and not math.isclose(trial.score(metric), candidates[n_stay - 1].score(metric), rel_tol=EQUAL):
            trial.dropped = len(trial.folds)
            trial.folds = [fold._replace(predictions=None) for fold in trial.folds]  # frees memory


def ranked(trials: Sequence[Trial], metric: Metric) -> list[Trial]:
    """Return settings, best first: by number of folds, then by the mean over the folds that all remaining ones have."""
    n_common = min((len(trial.folds) for trial in trials if trial.goes_on and trial.folds), default=0)

    def key(trial: Trial) -> tuple[float, ...]:
        n = min(n_common, len(trial.folds))  # ties: the default first, then the lowest log-loss
        return -n, -trial.score(metric, n), trial.number > 0, -trial.score("log-loss", n), trial.number

    return sorted(trials, key=key)


def best_of(trials: Sequence[Trial], metric: Metric) -> Trial:
    """Return the best setting: the default unless another has no `weakness`; ValueError if all settings failed."""
    default, in_order = trials[0], ranked(trials, metric)
    if in_order[0].score(metric) == -np.inf:
        raise ValueError(f"all settings failed; the first error: {default.error or 'the score is not finite'}")
    return next((trial for trial in in_order if trial is default or not weakness(trial, default, metric)), default)


def weakness(trial: Trial, default: Trial, metric: Metric) -> str:
    """Return why a setting does not replace the default; empty if it does."""
    if default.score(metric) == -np.inf:
        return "" if trial.score(metric) > -np.inf else "It has no score"
    gain, error = gain_of(trial, default, metric)
    if not gain > np.nan_to_num(error):
        return "It is better than the default by at most one standard error"
    # A few documents, such as those of rare classes, can dominate a log-loss.
    if metric == "log-loss" and trial.predictions is not None and gain_of(trial, default, "accuracy")[0] < 0.0:
        return "It is less accurate than the default"
    return ""


def gain_of(trial: Trial, default: Trial, metric: Metric) -> tuple[float, float]:
    """Return the gain of a setting and its standard error, over documents for means over documents, else over folds."""
    first, second = trial.predictions, default.predictions
    if metric in PER_DOCUMENT and first is not None and second is not None:
        first, second = first.counted(), second.counted()
        _, *rows = np.intersect1d(first.rows, second.rows, assume_unique=True, return_indices=True)
        if len(rows[0]):
            first, second = first.taken(rows[0]), second.taken(rows[1])
            difference = per_document(str(metric), first) - per_document(str(metric), second)
            return mean_and_error(sign_of(metric) * difference, first.weights)
    n = min(len(trial.folds), len(default.folds))
    after, before = (of.scores.get(name_of(metric), np.full(n, np.nan))[:n] for of in (trial, default))
    return mean_and_error(sign_of(metric) * (after - before), np.ones(n)) if n else (np.nan, np.nan)


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean and its standard error, for ``sum(w)^2 / sum(w^2)`` documents (Kish); NaN for one."""
    shares = weights / weights.sum()
    mean, n = float(shares @ values), 1.0 / float(shares @ shares)
    if n - 1.0 < 1e-9:
        return mean, float("nan")
    return mean, float(np.sqrt(shares @ (values - mean) ** 2 / (n - 1.0)))


def results_of(trials: Sequence[Trial], metric: Metric, n_splits: int) -> dict[str, Any]:
    """Return scikit-learn's `cv_results_`: columns with an entry per setting; larger scores are better."""
    n, name = len(trials), name_of(metric)
    scores = np.full((n, n_splits), np.nan)
    for row, trial in zip(scores, trials, strict=True):
        row[: len(trial.folds)] = sign_of(metric) * trial.scores.get(name, np.nan)
    columns: dict[str, Any] = {"params": [dict(trial.params) for trial in trials]}
    for param in dict.fromkeys(param for trial in trials for param in trial.params):
        values = np.empty(n, object)
        values[:] = [trial.params.get(param) for trial in trials]
        columns[f"param_{param}"] = np.ma.MaskedArray(values, mask=[param not in trial.params for trial in trials])
    columns |= {f"split{i}_test_score": scores[:, i] for i in range(n_splits)}
    finite = np.ma.masked_invalid(scores)
    columns |= {
        "mean_test_score": finite.mean(axis=1).filled(np.nan),
        "std_test_score": finite.std(axis=1).filled(np.nan),
    }
    columns["rank_test_score"] = np.argsort([trial.number for trial in ranked(trials, metric)]).astype(np.int32) + 1
    for other in dict.fromkeys(other for trial in trials for other in trial.scores):
        means = [trial.scores[other].mean() if other in trial.scores else np.nan for trial in trials]
        columns[f"mean_{other}"] = np.array(means)
    return columns | {
        "n_folds": np.array([len(trial.folds) for trial in trials]),
        "seconds": np.array([trial.seconds for trial in trials]),
        "dropped_after": [trial.dropped for trial in trials],
        "error": [trial.error for trial in trials],
    }


def described(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={shortened(value)}" for name, value in params.items()) or "the default"


def shortened(value: object) -> str:
    if isinstance(value, VectorizerSettings) and value == VectorizerSettings(features=value.features):
        return value.features
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def summary_of(search: Any, *, html: bool = False) -> str:
    """Return the report of a fitted search, as lines of at most 80 columns or for a notebook."""
    trials, metric, n_splits = search.trials_, search.metric_, search.n_splits_
    default, best, in_order = trials[0], trials[search.best_index_], ranked(trials, metric)
    parts = counted(n_splits, "fold") if n_splits > 1 else "the held-out documents"
    n_dropped = sum(trial.dropped is not None for trial in trials)
    early = f"; {n_dropped} {'was' if n_dropped == 1 else 'were'} dropped early (*)" if n_dropped else ""
    small = search.space is None and (search.n_trials or 0) > search.n_settings_
    others = "; the default space has no other settings" if small else ""
    title = f"Tried {counted(len(trials), 'setting')}, each on {parts}{early}{others}:"

    # The settings tried: the best ones and the default.
    shown, rows = [trial for i, trial in enumerate(in_order) if i < MAX_ROWS or trial is default], []
    scored = {name for trial in shown for name in trial.scores}
    names = list(dict.fromkeys([name_of(metric), *(n for n in ("log-loss", "accuracy") if n in scored)]))
    for trial in shown:
        scores = [f"{trial.scores[name].mean():.4f}" if name in trial.scores else "-" for name in names]
        n_folds = f"{len(trial.folds)}{'*' if trial.dropped else ''}"
        rows.append([*scores, n_folds, described(trial.params) + (f": {trial.error}" if trial.error else "")])
    table = Table([*names, "folds", "setting"], rows, left=(len(names) + 1,))
    lines = [f"  and {len(trials) - len(rows)} more (see --table or cv_results_)"] * (len(trials) > len(rows))
    if (n_late := search.n_settings_ - sum(trial.n_fits > 0 for trial in trials)) > 0:
        lines += ["", f"Time limit reached: {counted(n_late, 'setting')} {'was' if n_late == 1 else 'were'} not tried."]

    # The best setting, compared to the default.
    tried = "" if len(trials) > 1 else " (no other setting was tried)"
    lines += [*best_by_value(search), "", *_wrapped("Best: ", described(best.params) + tried)]
    if in_order[0] is not best and (reason := weakness(in_order[0], default, metric)):
        advice = f"{described(in_order[0].params)}. {reason}. To use it anyway, train with these parameters."
        lines += _wrapped("  Not chosen: ", advice)
    for compared in dict.fromkeys([metric, "log-loss", "accuracy"]) if best is not default else ():
        name = name_of(compared)
        if name not in default.scores or name not in best.scores:
            continue
        gain, error = gain_of(best, default, compared)
        was, now = (float(trial.scores[name].mean()) for trial in (default, best))
        apart = abs(round(now, 4) - round(was, 4))  # difference of the rounded figures
        by = f"{apart:.4f} {'higher' if now >= was else 'lower'}" if apart else "the same"
        lines.append(f"  {name} {now:.4f}, default {was:.4f}: {by}")
        if np.isfinite(error):
            over = "documents" if compared in PER_DOCUMENT else f"the {n_splits} folds"
            low, high = (f"{gain + sign * NORMAL * error:+.4f}" for sign in (-1.0, 1.0))
            chance = "; it may be due to chance" if abs(gain) < NORMAL * error else ""
            lines.append(f"    (95 % interval of the gain: {low} to {high}, over {over}{chance})")

    # The uncertainty of its score.
    if metric == "distance":
        fall = "Distances shrink with more clusters, so they cannot choose the number of clusters."
        lines += _wrapped("  ", fall)
    if search.nested:
        mean, spread = sign_of(metric) * search.nested_score_, float(search.nested_scores_.std())
        lines.append(f"  Nested score (each fold is scored by a search without it): {name_of(metric)} {mean:.4f}")
        lines.append(f"    (+- {spread:.4f}, the standard deviation over {counted(n_splits, 'fold')})")
        advice = (
            "Expect the nested score on new documents. The best score above is optimistic, since it was selected "
            "on the same folds. The nested score comes from searches on fewer documents, which may choose other settings."
        )
    else:
        nested = ", or a nested search (nested=True, --nested)" if n_splits > 1 else ""
        advice = (
            "The best of many scores is optimistic, since it was selected on these documents. For an "
            f"unbiased score, use other documents (sdem evaluate){nested}."
        )
    lines += _wrapped("", advice)
    if html:
        return f"<p>{cell(title)}</p>{table.html()}<pre>{cell(chr(10).join(lines))}</pre>"
    of_table = table.text().splitlines()
    start = of_table[0].index("setting")
    of_table = [part for line in of_table for part in _wrapped(line[:start], line[start:])]
    return "\n".join([title, *of_table, *lines])


def best_by_value(search: Any) -> list[str]:
    """Return lines with the best score for each value of each parameter, separately for each loss."""
    metric, defaults = name_of(search.metric_), search.estimator.get_params(deep=False)
    scored = [trial for trial in ranked(search.trials_, search.metric_) if metric in trial.scores]
    n_common = min((len(trial.folds) for trial in scored), default=0)
    best: dict[str, dict[str, float]] = {}
    losses = {shortened((defaults | trial.params).get("loss")) for trial in scored}
    for trial in sorted(scored, key=lambda trial: -trial.score(search.metric_, n_common)):
        params = defaults | trial.params
        of_loss = f" (loss {shortened(params.get('loss'))})" if len(losses) > 1 else ""
        for name in dict.fromkeys(name for other in scored for name in other.params):
            if name in trial.params or not trial.number:  # a space may lack the parameter
                value = "not set" if params[name] is None else shortened(params[name])
                row = best.setdefault(f"{name}{of_loss if name != 'loss' else ''}", {})
                row.setdefault(value, float(trial.scores[metric][:n_common].mean()))
    rows = {title: values for title, values in best.items() if len(values) > 1}
    width = max([14, *map(len, rows)])
    shared = "fold 1" if n_common == 1 else f"folds 1 to {n_common}"
    lines = ["", f"Best {metric} among settings with each value ({shared}):"] if rows else []
    for title, values in rows.items():
        lines += _wrapped(f"  {title:<{width}}  ", ", ".join(f"{v}: {score:.4f}" for v, score in values.items()))
    return lines


def _wrapped(before: str, text: str) -> list[str]:
    """Return a text after a first part, in lines of at most 80 columns, indented by the width of that part."""
    return textwrap.wrap(before + text, WIDTH, subsequent_indent=" " * len(before), break_on_hyphens=False)
