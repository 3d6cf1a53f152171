"""How trainings went: metrics by epoch, and by the number of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist import glossary
from sdem_dist.plots.answers import COLORS, MARKERS, axes_or_new, plain, refuse_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

History = Sequence[Mapping[str, float]]
FOUR = ("accuracy", "ncll", "hinge", "perplexity")
DOCUMENTS = {"": "training", "validation_": "held-out", "held_out_": "held-out part"}
"""What the documents of a metric are called, by what its name begins with: `held-out part` is of the training data."""


def history(
    histories: History | Mapping[str, History],
    metric: str = "accuracy",
    axes: Axes | None = None,
    *,
    prefix: str | None = None,
) -> Axes:
    """Draw a metric by epoch, a line for each training.

    Parameters
    ----------
    histories : ``history_`` of a model, or dict of name to such
    metric : str, default="accuracy"
        As the history has it, without its prefix.
    axes : matplotlib Axes, default=None
        None: those of a new figure.
    prefix : str, default=None
        ``""`` draws the values of training documents, ``"validation_"`` of held-out documents that it was given,
        ``"held_out_"`` of those that it held out itself. None: the first of these that a history has.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        No history has the metric.
    """
    refuse_model(histories, "its history: clf.history_")
    named = histories if isinstance(histories, Mapping) else {"": histories}
    if prefix is None:
        there = {key for one in named.values() for entry in one for key in entry}
        prefix = next((prefix for prefix in glossary.PREFIXES if prefix + metric in there), "")
    points = {n: [(h["epoch"], h[prefix + metric]) for h in one if prefix + metric in h] for n, one in named.items()}
    if not any(points.values()):
        known = sorted({key for one in named.values() for h in one for key in h} - {"epoch", "seconds"})
        raise ValueError(f"no history has {prefix + metric!r}; they have {', '.join(known) or 'nothing'}")
    from matplotlib.ticker import MaxNLocator

    axes = axes_or_new(axes)
    for i, (name, shown) in enumerate(points.items()):
        color, label = COLORS[i % len(COLORS)], plain(name) if name else None
        if len(shown) == 1:  # a single pass: drawn as a level to compare with
            axes.axhline(shown[0][1], color=color, linestyle="--", label=label)
        elif shown:
            marker = MARKERS[i % len(MARKERS)]
            axes.plot(*zip(*shown, strict=True), color=color, marker=marker, markersize=4, label=label)
    title, unit = glossary.metric(metric, prefix)
    axes.set(title=f"{title}, {glossary.PREFIXES.get(prefix, prefix)} documents", xlabel="epoch", ylabel=unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if metric == "perplexity":
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if any(points):
        axes.legend()
    return axes


def lines_by_documents(one: History, metric: str) -> dict[str, list[tuple[float, float]]]:
    """Return the epochs and values of a metric for each kind of documents.

    Lines of one epoch, and those that begin after half of the epochs, are left out: they do not tell how training went.
    """
    lines = {
        kind: [(h["epoch"], h[prefix + metric]) for h in one if np.isfinite(h.get(prefix + metric, np.nan))]
        for prefix, kind in DOCUMENTS.items()
    }
    return {kind: line for kind, line in lines.items() if len(line) > 1 and 2 * line[0][0] <= line[-1][0]}


def by_documents(one: History, metric: str = "accuracy", axes: Axes | None = None) -> Axes:
    """Draw a metric of one training by epoch, a line for each kind of documents, always in the same colour.

    Parameters
    ----------
    one : ``history_`` of a model
    metric : str, default="accuracy"
        As the history has it, without its prefix.
    axes : matplotlib Axes, default=None

    Returns
    -------
    matplotlib Axes
    """
    refuse_model(one, "its history: clf.history_")
    axes, colors = axes_or_new(axes), dict(zip(DOCUMENTS.values(), COLORS, strict=False))
    for kind, points in lines_by_documents(one, metric).items():
        axes.plot(*zip(*points, strict=True), color=colors[kind], marker="o", markersize=3, label=kind)
    title, unit = glossary.metric(metric)
    axes.set(title=title, xlabel="epoch", ylabel=unit)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def histories(trainings: Mapping[str, History], *, prefix: str = "", metrics: Sequence[str] = FOUR) -> Figure:
    """Draw several metrics by epoch, a panel each, and return the figure, which ``savefig`` writes.

    Parameters
    ----------
    trainings : dict of name to ``history_``
    prefix : str, default=""
        As for `history`.
    metrics : sequence of str
        Those that no history has are left out.
    """
    from matplotlib.figure import Figure

    there = {key for one in trainings.values() for entry in one for key in entry}
    shown = [metric for metric in metrics if prefix + metric in there]
    columns = min(2, max(len(shown), 1))
    rows = -(-max(len(shown), 1) // columns)
    figure = Figure(figsize=(5.5 * columns, 3.5 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set_axis_off()
    for axes, metric in zip(panels, shown, strict=False):
        axes.set_axis_on()
        history(trainings, metric, axes, prefix=prefix)
    return figure


def learning_curve(
    sizes: ArrayLike, scores: Mapping[str, ArrayLike], axes: Axes | None = None, *, metric: str = "accuracy"
) -> Axes:
    """Draw scores by the number of training documents, a line each; of repeats the mean with a band of one deviation.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        As ``sklearn.model_selection.learning_curve`` returns them.
    scores : dict of name to array-like of shape (n_sizes,) or (n_sizes, n_repeats)
    axes : matplotlib Axes, default=None
    metric : str, default="accuracy"

    Returns
    -------
    matplotlib Axes
    """
    axes, x = axes_or_new(axes), np.asarray(sizes)
    for i, (name, values) in enumerate(scores.items()):
        found = np.asarray(values, np.float64).reshape(len(x), -1)
        mean, deviation = found.mean(axis=1), found.std(axis=1)
        color = COLORS[i % len(COLORS)]
        axes.plot(x, mean, color=color, marker=MARKERS[i % len(MARKERS)], markersize=4, label=plain(name))
        if found.shape[1] > 1:
            axes.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.2, linewidth=0)
    title, unit = glossary.metric(metric)
    named = f"{title}, {unit}" if unit else title
    axes.set(title=f"{title} by number of documents", xlabel="training documents", ylabel=named, xscale="log")
    axes.set_xticks(x, [f"{n:,}" for n in x.tolist()])  # sizes, not powers of ten
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    return axes
