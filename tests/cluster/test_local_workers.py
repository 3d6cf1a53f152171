"""Workers of this machine: their memory, their start, interrupts, and what they compile for."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import dask
import numpy as np
import pytest

from sdem_dist import ClusterError, MultinomialNB, compat
from sdem_dist.cluster import client, connected
from sdem_dist.cluster.client import held_back, worker_memory
from sdem_dist.engine.executor import LOADED, InProcess


@pytest.mark.parametrize("n_workers", [1, 2, 7, 64])
@pytest.mark.parametrize("memory", [1 << 30, 1_200 << 20, 16 << 30, 1 << 40])
def test_workers_and_this_process_together_keep_to_what_it_may_use(memory, n_workers, monkeypatch):
    monkeypatch.setattr(client, "of_this_process", lambda: memory)
    try:
        share = worker_memory(n_workers)
    except ClusterError as error:
        assert memory < (n_workers + 2) * LOADED and "fewer workers" in str(error)
    else:
        assert share >= LOADED and n_workers * share <= memory - min(memory // (n_workers + 1), 350 << 20)


@pytest.mark.parametrize("always", [False, True])
def test_a_worker_that_dies_while_it_starts_is_started_again_and_one_that_always_dies_is_named(always, tmp_path):
    marker, preload = tmp_path / "died", tmp_path / "preload.py"
    mark = "" if always else f"open({str(marker)!r}, 'w').close()\n    "
    preload.write_text(f"import os\nif not os.path.exists({str(marker)!r}):\n    {mark}os.kill(os.getpid(), 9)\n")
    with dask.config.set({"distributed.worker.preload": [str(preload)]}):
        if not always:
            with connected(n_workers=1) as connection:
                assert connection.submit(int).result() == 0
            return
        with pytest.raises(ClusterError, match="ended while they started") as error, connected(n_workers=1):
            pass
        assert "__main__" not in str(error.value), "it is no fault of the script"


INTERRUPTED = """
from sdem_dist.cluster import connected
if __name__ == "__main__":
    try:
        with connected(n_workers=2):
            pass
    except KeyboardInterrupt:
        raise SystemExit("interrupted")
"""


def test_an_interrupt_while_workers_start_is_told_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, script], start_new_session=True, **pipes)
    children = f"/proc/{process.pid}/task/{process.pid}/children"

    def n_children() -> int:
        threads = os.listdir(os.path.dirname(os.path.dirname(children)))
        return sum(len(open(children.replace(f"task/{process.pid}", f"task/{t}")).read().split()) for t in threads)

    while process.poll() is None and n_children() < 3:  # two workers, and what cleans up after them
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors == "interrupted\n"


@dataclass
class Elsewhere(InProcess):
    """Threads of this process, and the answer of a process that compiles for another processor."""

    target: str

    def __post_init__(self) -> None:
        super().__init__(1)

    def run_on_all_workers(self, function, *args):
        answers = super().run_on_all_workers(function, *args)
        return [*answers, self.target] if isinstance(answers[0], str) else answers


@pytest.mark.parametrize(("target", "warns"), [("generic", True), (compat.compile_target(), False)])
def test_a_run_warns_of_workers_that_compile_for_other_processors(target, warns, monkeypatch, recwarn):
    from sdem_dist.fitting import running

    monkeypatch.setattr(running, "InProcess", lambda *_: Elsewhere(target))
    MultinomialNB(n_epochs=1).fit(np.eye(6, dtype=int), [0, 1] * 3)
    assert warns == any("compiles its kernels for another processor" in str(w.message) for w in recwarn)


def test_a_system_without_threads_says_what_to_do(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with InProcess(2) as executor:
        monkeypatch.setattr("threading.Thread.start", refuse)
        with pytest.raises(MemoryError, match="ulimit"):
            executor.submit(int)


@pytest.mark.parametrize(("memory", "pauses"), [(1_200_000_000, False), (1 << 34, True)])
def test_kernels_pause_no_worker_of_a_small_job(memory, pauses, monkeypatch):
    """A worker with compiled kernels has over 300 MB; 80 % of a small share would stop it for good."""
    monkeypatch.setattr(client, "of_this_process", lambda: memory)
    with connected(n_workers=2) as connection:
        paused = connection.run(lambda dask_worker: bool(dask_worker.memory_manager.memory_pause_fraction)).values()
        limits = {w["memory_limit"] for w in connection.scheduler_info(n_workers=-1)["workers"].values()}
    assert (set(paused), limits) == ({pauses}, {worker_memory(2)})


def test_an_interrupt_waits_until_the_block_has_ended_where_it_is_not_ignored():
    done, before = [], signal.getsignal(signal.SIGINT)

    def begin():
        with held_back():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert done and signal.getsignal(signal.SIGINT) is before
    with pytest.raises(OSError, match="full"), held_back():
        raise OSError("full")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begin()
        thread = threading.Thread(target=lambda: held_back().__enter__())
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "of other threads, too"
    finally:
        signal.signal(signal.SIGINT, before)
