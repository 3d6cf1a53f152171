"""What ``sdem inspect`` shows of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    last = model.history_[-1] if model.history_ else {}
    facts = {
        "model": type(model).__name__ + (f", loss {model.loss}" if hasattr(model, "loss") else ""),
        "settings": ", ".join(f"{k} {v}" for k, v in given.items() if k != "loss") or "defaults",
        "classes": f"{len(getattr(model, 'classes_', ()))}",
        "features": f"{model.n_features_in_:,}{', with a vocabulary' if model.vocabulary_ else ''}",
        "raw text": "predicts on raw text" if model.vectorizer_ else "takes counts only",
        "epochs": f"{model.n_iter_}",
        "last epoch": ", ".join(f"{k} {v:.4g}" for k, v in last.items() if k not in ("epoch", "seconds"))
        or "not evaluated",
        "left out": "; ".join(model.damaged_shards_) or "nothing",
        "on disk": f"{path.stat().st_size / 1e6:,.1f} MB",
    }
    table = Table(title=Text(str(path)), box=box.SIMPLE, show_header=False, title_justify="left")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table)
    what, said = "class", speaking_words(model)
    if hasattr(model, "topics"):
        what, said = "topic", dict(enumerate(model.topics()))
    words = Table(
        title=f"The words that speak most for each {what}", box=box.SIMPLE, show_header=False, title_justify="left"
    )
    for name, spoken in said.items():
        words.add_row(Text(str(name)), Text(" ".join(spoken)))
    console.print(words)
