"""Text for display: counted nouns, similar names, metrics with units, and texts that are safe in a terminal."""

import json
import re
from collections.abc import Iterable
from numbers import Integral
from typing import NamedTuple


def counted(n: int, thing: str, things: str | None = None) -> str:
    """Return "1 epoch", "1,000 epochs"; `things` is an irregular plural."""
    return f"{n:,} {thing if n == 1 else things or thing + 's'}"


def is_count(value: object, least: int = 1) -> bool:
    """Return whether a value is an integer, at least `least`; True and 2.0 are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return "Did you mean ...? " with the candidates most similar to `name`; empty if none is similar."""
    from difflib import get_close_matches

    names = {k.lower(): k for k in candidates}
    holding = sorted((k for k in names if name.lower() in k), key=lambda k: k.index(name.lower()))
    matches = get_close_matches(name.lower(), names, n=1) or holding[:3]
    return f"Did you mean {' or '.join(repr(names[k]) for k in matches)}? " if matches and name else ""


UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: object) -> str:
    r"""Return a text with control characters of terminals escaped, as in ``\x1b``; line ends become ``\n``."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text).replace("\r\n", "\n"))


def one_line(text: object, width: int | None = None) -> str:
    """Return a text as one line without control characters, cut to `width` characters."""
    line = " ".join(visible(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def joined(names: Iterable[object]) -> str:
    """Return names joined by |; if a name contains |, return a JSON list instead, which is unambiguous."""
    texts = list(map(str, names))
    return json.dumps(texts, ensure_ascii=False) if any("|" in name for name in texts) else "|".join(texts)


class Metric(NamedTuple):
    name: str
    unit: str = ""


METRICS = {  # by the name in programs, in the order of display
    "accuracy": Metric("accuracy", "fraction of documents"),
    "ncll": Metric("log-loss (NCLL)", "nats per document"),
    "log_loss": Metric("log-loss (NCLL)", "nats per document"),
    "micro_f1": Metric("micro-F1", "F1 of all labels together"),
    "tempered_log_loss": Metric("calibrated log-loss", "nats per document"),
    **dict.fromkeys(("held_out_log_loss", "fold_log_loss"), Metric("calibrated log-loss", "nats per document")),
    "with_unlabelled_log_loss": Metric("held-out log-loss, trained on all documents", "nats per document"),
    "with_unlabelled_accuracy": Metric("held-out accuracy, trained on all documents", "fraction of documents"),
    "with_unlabelled_gain": Metric("reduction of held-out log-loss by unlabelled documents", "nats per document"),
    "with_unlabelled_gain_error": Metric("standard error of the reduction", "nats per document"),
    "without_unlabelled_log_loss": Metric("held-out log-loss, trained on labelled documents", "nats per document"),
    "without_unlabelled_accuracy": Metric("held-out accuracy, trained on labelled documents", "fraction of documents"),
    "macro_f1": Metric("macro-F1", "mean F1 of classes"),
    "precision_at_1": Metric("precision at 1", "fraction of documents"),
    "precision_at_3": Metric("precision at 3", "fraction correct among the 3 most probable labels"),
    "precision_at_5": Metric("precision at 5", "fraction correct among the 5 most probable labels"),
    "label_log_loss": Metric("log-loss per label", "nats per label and document"),
    "brier": Metric("Brier score", "per document"),
    "ece": Metric("calibration error (ECE)", "fraction of documents"),
    "roc_auc": Metric("ROC AUC", "area under the curve"),
    "pr_auc": Metric("PR AUC (average precision)", "area under the curve"),
    "hinge": Metric("hinge loss", "per document"),
    "nll": Metric("NLL", "nats per document"),
    "perplexity": Metric("perplexity", "per word"),
    "word_nll": Metric("NLL of words", "nats per word"),
    "plug_in_nll": Metric("plug-in NLL of words", "nats per word"),
    "distance": Metric("squared distance", "to the nearest centre"),
    "purity": Metric("purity", "fraction of documents"),
    "nmi": Metric("NMI"),
    "ari": Metric("adjusted Rand index"),
    "r2": Metric("R2", "fraction of the variance"),
    "mse": Metric("mean squared error", "squared units of the target"),
    "poisson_deviance": Metric("Poisson deviance", "units of the target"),
    "rmse": Metric("root mean squared error", "units of the target"),
    "mae": Metric("mean absolute error", "units of the target"),
    "bias": Metric("mean error", "units of the target"),
}
UNSHOWN = ("temperature", "tempered_log_loss")  # metrics that calibration uses, and that are not displayed
PREFIXES = {  # documents of a metric in a history, by the prefix of its name
    "": "training documents",
    "validation_": "validation documents",
    "held_out_": "held-out training documents",
    "fold_": "held-out folds",
}


def metric_of(name: str, prefix: str = "") -> Metric:
    """Return the display name and unit of a metric; a metric that is not in `METRICS` keeps its name."""
    return METRICS.get(prefix + name) or METRICS.get(name) or Metric(name)


def by_metric_name(figures: dict[str, float]) -> dict[str, float]:
    """Return metrics by display name, in the order of `METRICS`; all others follow."""
    order = [*(name for name in METRICS if name in figures), *(name for name in figures if name not in METRICS)]
    return {metric_of(name).name: figures[name] for name in order}
