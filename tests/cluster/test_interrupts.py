"""Interrupts wait until Dask's workers have begun, or ended."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from sdem_dist.cluster.client import held_back


def test_an_interrupt_waits_until_the_block_has_ended():
    done, before = [], signal.getsignal(signal.SIGINT)

    def begin():
        with held_back():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert done and signal.getsignal(signal.SIGINT) is before


def test_what_goes_wrong_in_the_block_is_told():
    with pytest.raises(OSError, match="full"), held_back():
        raise OSError("full")


def test_other_threads_and_processes_that_ignore_interrupts_are_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_back():
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=lambda: held_back().__enter__())
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
