"""What benchmarks share: options from parameters, clocks, runs in turns, measures of classifiers, tables."""

import inspect
import re
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import log_loss
from sklearn.pipeline import Pipeline, make_pipeline


def run(doc: str | None, *parts: Callable[..., None]) -> None:
    """Run one of the functions with the options of the command line.

    The first word names the part; without it, the first part runs. Options are the function's parameters: tuples are
    lists with commas (semicolons, if a comma has a space behind it), and `names` stand without an option before them.
    """
    by_name = {part.__name__.removeprefix("print_"): part for part in parts}
    arguments = sys.argv[1:]
    part = by_name[arguments.pop(0)] if arguments and arguments[0] in by_name else parts[0]
    usage = f"parts: {', '.join(by_name)} (the first, if none is named)" if len(parts) > 1 else None
    parser = ArgumentParser(description=doc, epilog=usage, formatter_class=RawDescriptionHelpFormatter)
    parameters = inspect.signature(part).parameters
    for name, parameter in parameters.items():
        default, flag = parameter.default, name if name == "names" else f"--{name.replace('_', '-')}"
        kind = next((kind for kind in (Path, float, int) if kind.__name__ in str(parameter.annotation)), str)
        how = {"action": "store_true"} if default is False else {"type": kind, "default": default}
        how |= {"required": True} if default is inspect.Parameter.empty else {}
        parser.add_argument(flag, **({"nargs": "*"} if isinstance(default, tuple) else how))
    options = vars(parser.parse_args(arguments))
    for name, value in options.items():
        if isinstance(default := parameters[name].default, tuple):
            words = [word for each in value or () for word in re.split(r";|,(?! )", each)]
            options[name] = tuple(map(type(default[0]) if default else str, words)) or default
    part(**options)


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the time of a call; what it returns is forgotten before the next clock starts."""
    started = clock()
    result = call()
    duration = clock() - started
    del result
    return duration


def in_turns(
    calls: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the times of all calls, which take turns: a busy machine harms all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call, clock))
    return times


def median_ratio(a: list[float], b: list[float]) -> float:
    return median(x / y for x, y in zip(a, b, strict=True))


def on_tfidf(model: Any) -> Pipeline:
    return make_pipeline(TfidfTransformer(sublinear_tf=True), model)


def scores_of(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return accuracy, and the log-loss of documents of classes that the model knows (nan without probabilities)."""
    if not hasattr(model, "predict_proba"):
        return float(model.score(X, y)), np.nan
    p, known = model.predict_proba(X), np.isin(y, model.classes_)
    accuracy = float((model.classes_[p.argmax(axis=1)] == y).mean())
    return accuracy, float(log_loss(y[known], np.clip(p[known], 1e-15, 1.0), labels=model.classes_))


def row(*cells: object) -> None:
    """Print a row of a table: numbers with four digits after the point."""
    print("| " + " | ".join(f"{c:.4f}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def head(*cells: str) -> None:
    row(*cells)
    print("|" + " --- |" * len(cells))
