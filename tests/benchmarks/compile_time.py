"""What a first fit compiles: functions, how often, and seconds of the processor.

Run: python tests/benchmarks/compile_time.py [--documents N] [--rows N]        (in a fresh folder of compiled kernels)

Seconds are of a function alone, without those that it calls and that are compiled meanwhile.
"""

import os
import random
import tempfile
import time

import harness
from numba.core import event


def seconds_alone(recorded: list) -> dict[str, list[float]]:
    """Return the seconds of each compilation by function, of events in their order; one lies within another."""
    running, functions = list[float](), dict[str, list[float]]()
    for at, compilation in recorded:
        if compilation.is_start:
            running.append(at)  # later by what those within it took
            continue
        alone, function = at - running.pop(), compilation.data["dispatcher"].py_func
        running = [start + alone for start in running]
        functions.setdefault(f"{function.__module__.rpartition('.')[2]}.{function.__name__}", []).append(alone)
    return functions


def first_fit(documents: int = 200, rows: int = 40) -> None:
    draw = random.Random(0)
    y = [draw.choice("abcd") for _ in range(documents)]
    texts = [" ".join(f"word{draw.randrange(750) * 4 + ord(label)}" for _ in range(60)) for label in y]
    harness.head("step", "compilations", "seconds of the processor")
    with tempfile.TemporaryDirectory() as folder, event.install_recorder("numba:compile") as recorder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # on two cores another process would compile a part
        from sdem_dist import MultinomialNB

        model = MultinomialNB()
        for name, step in (("first fit", lambda: model.fit(texts, y)), ("first predict", lambda: model.predict(texts))):
            started, before = time.process_time(), len(recorder.buffer)
            step()
            harness.row(name, (len(recorder.buffer) - before) // 2, time.process_time() - started)
    print()
    harness.head("function", "compilations", "seconds")
    for name, seconds in sorted(seconds_alone(recorder.buffer).items(), key=lambda item: -sum(item[1]))[:rows]:
        harness.row(name, len(seconds), sum(seconds))


if __name__ == "__main__":
    harness.run(__doc__, first_fit)
