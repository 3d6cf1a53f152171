"""What ``sdem inspect`` shows of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def show_model(console: Console, path: Path) -> None:
    """Print what a model is, how its training went, and the words that speak most for each class.

    Raises
    ------
    ModelError
        The file is damaged or no model.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from sdem_dist.estimators.persistence import load_model
    from sdem_dist.estimators.words import speaking_words

    model = load_model(path)
    defaults = type(model)().get_params()
    given = {k: v for k, v in model.get_params().items() if v != defaults[k]}
    kept = model._kept
    which = "last epoch" if kept.get("epoch", model.n_iter_) == model.n_iter_ else f"kept: epoch {kept['epoch']}"
    trained = getattr(model, "training", None)  # mixtures have several trainings, and not all of them a loss
    how = f", training {trained}" if trained else ""
    if hasattr(model, "loss") and trained in (None, "sdem"):
        how = f", loss {model.loss}"
    facts = {
        "model": type(model).__name__ + how,
        "settings": ", ".join(
            f"{k} {v}" for k, v in given.items() if k not in ("loss", "training", "verbose", "n_jobs")
        )
        or "defaults",
        **_parts(model),
        **_inputs(model),
        "epochs": f"{model.n_iter_}",
        which: ", ".join(f"{k} {v:.4g}" for k, v in kept.items() if k not in ("epoch", "seconds")) or "not evaluated",
        "left out": "; ".join(model.damaged_shards_) or "nothing",
        "on disk": f"{path.stat().st_size / 1e6:,.1f} MB",
    }
    table = Table(title=Text(str(path)), box=box.SIMPLE, show_header=False, title_justify="left")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table)
    what, said = "class" if hasattr(model, "classes_") else "cluster", speaking_words(model)
    if hasattr(model, "topics"):
        what, said = "topic", _topics(model)
    if not said:
        return
    words = Table(
        title=f"The words that speak most for each {what}", box=box.SIMPLE, show_header=False, title_justify="left"
    )
    for name, spoken in said.items():
        words.add_row(Text(str(name)), Text(" ".join(spoken)))
    console.print(words)


def _topics(model: Any) -> dict[str, list[str]]:
    """Return the words that tell each topic apart."""
    from sdem_dist.estimators.topics import topic_title

    return {topic_title(t): t.telling for t in model.topics()}


def _inputs(model: Any) -> dict[str, str]:
    """Return what a model takes."""
    n, named = f"{model.n_features_in_:,}", model.vocabulary_ is not None
    if model._sparse:
        text = "predicts on raw text" if model.vectorizer_ else "takes counts only"
        return {"features": f"{n}{', with a vocabulary' if named else ''}", "raw text": text}
    return {"features": f"{n}, columns of a table{' with names' if named else ''}"}


def _parts(model: Any) -> dict[str, str]:
    """Return what a model tells apart; nothing, if it predicts numbers."""
    from sklearn.base import is_regressor

    if is_regressor(model) and not hasattr(model, "topics"):
        return {}
    if hasattr(model, "classes_"):
        return {"classes": f"{len(model.classes_)}"}
    if hasattr(model, "topics"):
        return {"topics": f"{model.n_components}"}
    return {"clusters": f"{model.n_components}"}
