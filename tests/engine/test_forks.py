"""A process that has trained may fork, and its children train."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import multiprocessing
import threading

import numpy as np

from sdem_dist import MultinomialNB
from sdem_dist.byte_cache import prepared_cache

X, y = np.random.default_rng(0).integers(0, 5, (400, 30)), np.arange(400) % 3


def fit():
    return MultinomialNB(n_epochs=2, n_lanes=8, rounds_per_epoch=2).fit(X, y)


def child(expected):
    assert np.array_equal(fit().state_.words, expected)


def busy():
    while not stopped.is_set():
        prepared_cache.discard(lambda key: False)


if __name__ == "__main__":
    expected = fit().state_.words
    stopped = threading.Event()
    thread = threading.Thread(target=busy)  # which nearly always holds the lock of a cache
    thread.start()
    children = [multiprocessing.get_context("fork").Process(target=child, args=(expected,)) for _ in range(3)]
    for process in children:
        process.start()
    stopped.set()
    thread.join()
    for process in children:
        process.join(30)
        if process.is_alive():
            process.kill()
        print(process.exitcode)
"""


def test_a_forked_child_trains_with_the_same_bits(tmp_path):
    (tmp_path / "forks.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "forks.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout.split() == ["0"] * 3, ended.stderr
