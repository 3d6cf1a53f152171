"""Topics as panels of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sdem_dist.plots.style import axes_or_new, plain, refuse_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sdem_dist.inspection.topics import Topic


def topic(topic: Topic, axes: Axes | None = None, *, n_words: int = 8) -> Axes:
    """Write the most probable and the most telling words of a topic.

    Parameters
    ----------
    topic : Topic
        A member of ``model.topics()``.
    axes : matplotlib Axes, default=None
    n_words : int, default=8

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_or_new(axes)
    axes.set_axis_off()
    axes.set_title(f"{plain(f'topic {topic.title}', 40)}: {topic.share:.0%}", loc="left", fontsize=10)
    for x, heading, words in ((0.0, "most probable", topic.words), (0.5, "most telling", topic.telling)):
        axes.text(x, 1.0, heading, va="top", fontsize=8, color="0.5")
        for i, word in enumerate(words[:n_words]):
            axes.text(x, 1.0 - (i + 1) / (n_words + 1), plain(word, 20), va="top", fontsize=9)
    return axes


def topics(topics: Sequence[Topic], *, n_words: int = 8) -> Figure:
    """Write the words of topics, a panel each, and return the figure, which ``savefig`` writes.

    Parameters
    ----------
    topics : sequence of Topic
        Of classes: a row each. Others fill rows of four.
    n_words : int, default=8
    """
    from matplotlib.figure import Figure

    refuse_model(topics, "its topics: model.topics()")
    labels, of_classes = list(dict.fromkeys(t.label for t in topics)), len({t.number for t in topics}) < len(topics)
    places = [(labels.index(t.label), t.number) if of_classes else divmod(i, 4) for i, t in enumerate(topics)]
    rows, columns = (max(place) + 1 for place in zip(*places, strict=True))
    figure = Figure(figsize=(4.2 * columns, 0.6 + (0.25 * n_words + 0.5) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for one, place in zip(topics, places, strict=True):
        topic(one, panels[place], n_words=n_words)
    return figure
