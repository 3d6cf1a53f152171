"""What ``sdem inspect`` shows of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sdem_dist.cli.shown import table
from sdem_dist.counted import sized

if TYPE_CHECKING:
    from sdem_dist.cli.sources import SourceOptions
    from sdem_dist.estimators.base import EngineEstimator


def model_shown(path: Path) -> str:
    """Return what a model is, how its training went, and the words that speak most for each class.

    Raises ModelError: the file is damaged or no model.
    """
    from sdem_dist.inspection.model_card import model_facts
    from sdem_dist.inspection.top_words import top_words
    from sdem_dist.loading import load_model

    model = load_model(path)
    facts = {**model_facts(model), "on disk": sized(path.stat().st_size)}
    what, said = model.spec.predicts, top_words(model)
    if model.spec.topics:
        what, said = "topic", _topics(model)
    shown = table(str(path), facts.items())
    if not said:
        return shown
    words = [(str(name), " ".join(spoken)) for name, spoken in said.items()]
    return f"{shown}\n{table(f'The words that speak most for each {what}', words)}"


def card_shown(path: Path, measured: str | None, source: SourceOptions) -> str:
    """Return the card of a model, with its figures on a corpus or a source where one is named."""
    from sdem_dist.cli.sources import examined_documents
    from sdem_dist.inspection.model_card import model_card
    from sdem_dist.loading import load_model

    model = load_model(path)
    if measured is None:
        return model_card(model, path.name)
    examined = examined_documents(model, measured, source, keep_texts=False)
    return model_card(model, path.name, model.report(examined.documents, examined.labels), measured)


def _topics(model: EngineEstimator) -> dict[str, list[str]]:
    """Return the words that tell each topic apart."""
    return {f"topic {t.title}: {t.share:.0%}": t.distinctive for t in model.topics()}
