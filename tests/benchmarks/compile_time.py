"""What a first fit compiles: functions, how often, and seconds of the processor.

Run: python tests/benchmarks/compile_time.py [--documents N] [--rows N]        (in a fresh folder of compiled kernels)

Seconds are of a function alone, without those that it calls and that are compiled meanwhile.
"""

import os
import random
import tempfile
import time
from collections import defaultdict

import harness
from numba.core import event


class Clock(event.Listener):
    """Seconds of the thread that compiles, and calls, by function; numba compiles one at a time, within others."""

    def __init__(self) -> None:
        self.functions: dict[str, list[float]] = defaultdict(list)
        self._running: list[float] = []  # start of each that is compiled now, later by what those within it took

    def on_start(self, event: event.Event) -> None:
        self._running.append(time.thread_time())

    def on_end(self, event: event.Event) -> None:
        now, function = time.thread_time(), event.data["dispatcher"].py_func
        alone = now - self._running.pop()
        self._running = [start + alone for start in self._running]
        self.functions[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"].append(alone)


def first_fit(documents: int = 200, rows: int = 40) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        started, clock, draw = time.process_time(), Clock(), random.Random(0)
        event.register("numba:compile", clock)
        from sdem_dist import MultinomialNB

        imported = time.process_time()
        words = [f"word{i}" for i in range(3_000)]
        y = [draw.choice("abcd") for _ in range(documents)]
        texts = [" ".join(draw.choices(words[ord(label) - 97 :: 2], k=60)) for label in y]
        model = MultinomialNB().fit(texts, y)
        fitted, n = time.process_time(), sum(map(len, clock.functions.values()))
        model.predict(texts[:10])
        predicted = time.process_time()
    harness.head("step", "compilations", "seconds of the processor")
    harness.row("import", 0, imported - started)
    harness.row("first fit", n, fitted - imported)
    harness.row("first predict", sum(map(len, clock.functions.values())) - n, predicted - fitted)
    print()
    harness.head("function", "compilations", "seconds")
    for name, seconds in sorted(clock.functions.items(), key=lambda item: -sum(item[1]))[:rows]:
        harness.row(name, len(seconds), sum(seconds))


if __name__ == "__main__":
    harness.run(__doc__, first_fit)
