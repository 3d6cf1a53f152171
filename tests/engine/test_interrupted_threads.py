"""Interrupts end threads between compiled calls, and are not taken for faults of documents."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from sdem_dist.engine.executor import InProcess
from sdem_dist.errors import reraise_interrupt
from sdem_dist.kernels import csr as documents


def test_threads_end_between_compiled_calls():
    began = threading.Event()

    def endless(_):
        for _ in documents.runs(np.full(10**5, documents.SECOND)):
            began.set()
            time.sleep(0.01)

    executor = InProcess(2)
    task = executor.submit(endless, 0)
    assert began.wait(30)
    started = time.monotonic()
    executor.close()
    assert time.monotonic() - started < 10
    with pytest.raises(KeyboardInterrupt):
        executor.result(task)


def within_a_call(cause):
    with reraise_interrupt():
        raise SystemError("returned a result with an exception set") from cause


def test_an_interrupt_within_a_compiled_call_is_one():
    with pytest.raises(KeyboardInterrupt):
        within_a_call(KeyboardInterrupt())
    with pytest.raises(SystemError, match="result"):
        within_a_call(ValueError())
