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


def points(history: History, name: str) -> list[tuple[float, float]]:
    """Return the epochs and values of a metric, by its name in the history."""
    return [(h["epoch"], h[name]) for h in history if np.isfinite(h.get(name, np.nan))]


def history(
    histories: History | Mapping[str, History],
    metric: str = "accuracy",
    axes: Axes | None = None,
    *,
    prefix: str | None = None,
) -> Axes:
    """Draw a metric by epoch: a line for each training, or of one training a line for each kind of documents.

    Parameters
    ----------
    histories : ``history_`` of a model, or dict of name to such
    metric : str, default="accuracy"
        As the history has it, without its prefix.
    axes : matplotlib Axes, default=None
        None: those of a new figure.
    prefix : str, default=None
        ``""`` draws the values of training documents, ``"validation_"`` of held-out documents that it was given,
        ``"held_out_"`` of those that it held out itself. None: of one history all of these, of several the first that
        one has.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        No history has the metric.
    """
    from matplotlib.ticker import MaxNLocator

    refuse_model(histories, "its history: clf.history_")
    trainings = histories if isinstance(histories, Mapping) else {"": histories}
    names = {name for one in trainings.values() for entry in one for name in entry}
    title, unit = glossary.metric(metric, prefix or "")
    colors = dict(zip(DOCUMENTS.values(), COLORS, strict=False))
    if not isinstance(histories, Mapping) and prefix is None:
        lines = {kind: points(histories, start + metric) for start, kind in DOCUMENTS.items()}
        lines = {kind: line for kind, line in lines.items() if line}
    else:
        if prefix is None:
            prefix = next((start for start in glossary.PREFIXES if start + metric in names), "")
        title = f"{title}, {glossary.PREFIXES.get(prefix, prefix)} documents"
        lines = {name: points(one, prefix + metric) for name, one in trainings.items()}
    if not any(lines.values()):
        known = ", ".join(sorted(names - {"epoch", "seconds"}))
        raise ValueError(f"no history has {(prefix or '') + metric!r}; they have {known or 'nothing'}")
    axes = axes_or_new(axes)
    for i, (name, line) in enumerate(lines.items()):
        color, label = colors.get(name, COLORS[i % len(COLORS)]), plain(name) if name else None
        if len(line) == 1:  # a single pass: drawn as a level to compare with
            axes.axhline(line[0][1], color=color, linestyle="--", label=label)
        elif line:
            marker = MARKERS[i % len(MARKERS)]
            axes.plot(*zip(*line, strict=True), color=color, marker=marker, markersize=4, label=label)
    axes.set(title=title, xlabel="epoch", ylabel=unit)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    if metric == "perplexity":
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if any(lines):
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

    names = {name for one in trainings.values() for entry in one for name in entry}
    drawn = [metric for metric in metrics if prefix + metric in names]
    columns = 1 if len(drawn) < 2 else 2
    rows = max(-(-len(drawn) // columns), 1)
    figure = Figure(figsize=(5.5 * columns, 3.5 * rows), layout="constrained")
    for i, metric in enumerate(drawn):
        history(trainings, metric, figure.add_subplot(rows, columns, i + 1), prefix=prefix)
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
        repeats = np.asarray(values, np.float64).reshape(len(x), -1)
        mean, deviation, color = repeats.mean(axis=1), repeats.std(axis=1), COLORS[i % len(COLORS)]
        axes.plot(x, mean, color=color, marker=MARKERS[i % len(MARKERS)], markersize=4, label=plain(name))
        if repeats.shape[1] > 1:
            axes.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.2, linewidth=0)
    title, unit = glossary.metric(metric)
    label = f"{title}, {unit}" if unit else title
    axes.set(title=f"{title} by number of documents", xlabel="training documents", ylabel=label, xscale="log")
    axes.set_xticks(x, [f"{n:,}" for n in x.tolist()])  # sizes, not powers of ten
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    return axes
