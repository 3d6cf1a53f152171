"""Which words speak for which class, and how a training went, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

PANELS = (
    ("accuracy", "accuracy"),
    ("ncll", "NCLL a document"),
    ("hinge", "hinge loss a document"),
    ("perplexity", "perplexity a word"),
)

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by colour-blind people too (Okabe and Ito)."""


def speaking_words(estimator: EngineEstimator, n_words: int = 10) -> dict[Any, list[str]]:
    """Return the words that speak most for each class of a fitted naive Bayes, or each cluster of a mixture.

    A word's say is ``p(w | c) * (ln p(w | c) - ln mean of p(w | other classes))``: what it adds, on average over the
    words of a document of the class, to the evidence against the others.

    Parameters
    ----------
    estimator : fitted classifier
    n_words : int

    Returns
    -------
    dict of class to list of str
        The loudest first; a model without vocabulary names words by their numbers. Empty for models of other things
        than counts of words.
    """
    from scipy.special import rel_entr

    if estimator.spec.words is None:
        return {}
    p = np.exp(getattr(estimator, estimator.spec.words))
    classes = estimator.classes_.tolist() if estimator.spec.predicts == "class" else list(range(len(p)))
    if len(p) < 2:
        return {}
    others = (p.sum(axis=0) - p) / (len(p) - 1)
    say = rel_entr(p, others)  # p ln(p / others), 0 where p is
    names = estimator.vocabulary_ or [f"#{i}" for i in range(p.shape[1])]
    return {c: [names[w] for w in np.argsort(-s, kind="stable")[:n_words]] for c, s in zip(classes, say, strict=True)}


def plot_histories(histories: Mapping[str, Sequence[Mapping[str, float]]], path: str | Path, prefix: str = "") -> None:
    """Draw accuracy, NCLL, hinge loss and perplexity by epoch, a line for each training, into a picture file.

    Parameters
    ----------
    histories : dict of name to ``history_``
        At most six.
    path : path
        PNG, SVG or PDF, by its suffix.
    prefix : str
        ``"validation_"`` draws the validation documents' values.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, title) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        for color, (label, history) in zip(COLORS, histories.items(), strict=False):
            shown = [(h["epoch"], h[prefix + name]) for h in history if prefix + name in h]
            if len(shown) == 1:  # one pass and done: a level to compare with
                axes.axhline(shown[0][1], color=color, linestyle="--", label=label)
            else:
                axes.plot(*zip(*shown, strict=True), color=color, marker="o", markersize=4, label=label)
        axes.set_title(title)
        if name == "perplexity":
            axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.suptitle("On the held-out documents" if prefix else "On the training documents")
    figure.savefig(path, dpi=110)
