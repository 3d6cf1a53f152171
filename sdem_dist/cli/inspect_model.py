"""What ``sdem inspect`` shows of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sdem_dist.cli.shown import table

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator


def model_shown(path: Path) -> str:
    """Return what a model is, how its training went, and the words that speak most for each class.

    Raises
    ------
    ModelError
        The file is damaged or no model.
    """
    from sdem_dist.estimators.persistence import load_model
    from sdem_dist.inspection.words import speaking_words

    model = load_model(path)
    defaults = type(model)().get_params()
    given = {k: v for k, v in model.get_params().items() if v != defaults[k]}
    kept = model.kept_
    which = "last epoch" if kept.get("epoch", model.n_iter_) == model.n_iter_ else f"kept: epoch {kept['epoch']}"
    how = f", loss {model.loss}" if "loss" in model.get_params() else ""
    metrics = {name: value for name, value in kept.items() if name != "epoch" and not name.endswith("seconds")}
    facts = {
        "model": type(model).__name__ + how,
        "settings": ", ".join(f"{k} {v}" for k, v in given.items() if k not in ("loss", "verbose", "n_jobs"))
        or "defaults",
        **_parts(model),
        **_inputs(model),
        **_weighting(model),
        "epochs": f"{model.n_iter_}",
        which: ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()) or "not evaluated",
        "left out": "; ".join(model.damaged_shards_) or "nothing",
        "on disk": f"{path.stat().st_size / 1e6:,.1f} MB",
    }
    what, said = model.spec.predicts, speaking_words(model)
    if model.spec.topics:
        what, said = "topic", _topics(model)
    shown = table(str(path), facts.items())
    if not said:
        return shown
    words = [(str(name), " ".join(spoken)) for name, spoken in said.items()]
    return f"{shown}\n{table(f'The words that speak most for each {what}', words)}"


def _topics(model: EngineEstimator) -> dict[str, list[str]]:
    """Return the words that tell each topic apart."""
    from sdem_dist.inspection.topics import topic_title

    return {topic_title(t): t.telling for t in model.topics()}


def _inputs(model: EngineEstimator) -> dict[str, str]:
    """Return what a model takes."""
    n, named = f"{model.n_features_in_:,}", model.vocabulary_ is not None
    if model._layout == "sparse":
        text = "predicts on raw text" if model.vectorizer_ else "takes counts only"
        return {"features": f"{n}{', with a vocabulary' if named else ''}", "raw text": text}
    return {"features": f"{n}, columns of a table{' with names' if named else ''}"}


def _weighting(model: EngineEstimator) -> dict[str, str]:
    """Return what becomes of counts, and what probabilities are divided by, where training chose them."""
    found, w = {}, model.weighting_
    if w is not None:
        length = f"documents of length {w.norm:g}" if w.norm else f"entries times {w.scale:.4g}"
        rare = f", words of {w.min_df} documents or more" if w.min_df > 1 else ""
        grams = f", {w.orders[0]}- to {w.orders[1]}-grams" if w.orders else ""
        found["weighting"] = f"{w.form}, {length}{rare}{grams}"
    temperature = getattr(model.learner_, "temperature", 1.0)
    return found if temperature == 1.0 else {**found, "temperature": f"{temperature:.3g}"}


def _parts(model: EngineEstimator) -> dict[str, str]:
    """Return what a model tells apart; nothing, if it predicts numbers from a table."""
    if model.spec.predicts == "class":
        return {"classes": f"{len(model.classes_)}"}
    if model.spec.topics:
        return {"topics": f"{model.n_components}"}
    return {"clusters": f"{model.n_components}"} if model.spec.predicts == "cluster" else {}
