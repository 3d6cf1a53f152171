"""What losing one of two workers costs: seconds of a training with and without a SIGKILL in its middle, and the same bits.

Run: ``SDEM_CORPORA=... python tests/benchmarks/recovery.py --folder FOLDER``.  The nanny's restart is the time from the
kill until the scheduler has two workers again; the killed worker's lanes and cached documents are lost with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from large import corpus_of
from scale import prepared

from sdem_dist import MultinomialNB
from sdem_dist.cluster import connected
from sdem_dist.engine.events import EpochEnded


def trained(corpus: Any, client: Any, n_epochs: int, kill_after: int | None) -> tuple[float, list[float], np.ndarray]:
    """Return the seconds of a training, of its epochs, and its parameters; kill a worker after an epoch."""
    epochs: list[float] = []

    def listen(event: Any) -> None:
        if isinstance(event, EpochEnded):
            epochs.append(event.seconds)
            if event.epoch == kill_after:
                worker, pid = next(iter(client.run(os.getpid).items()))
                threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()  # in the middle of the next epoch
                print(f"killing {worker}", flush=True)

    started = time.perf_counter()
    model = MultinomialNB(n_epochs=n_epochs, validation_fraction=0.0).fit(corpus, client=client, callbacks=[listen])
    return time.perf_counter() - started, epochs, model.feature_log_prob_


def restart_seconds(client: Any) -> float:
    """Return how long the nanny takes to replace a killed worker."""
    before = set(client.ncores())
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    started = time.perf_counter()
    while len(set(client.ncores()) - before) < 1:
        if time.perf_counter() - started > 60:
            raise TimeoutError("no new worker within 60 s")
        time.sleep(0.05)
    return time.perf_counter() - started


def main() -> None:
    """Print both trainings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=8)
    o = parser.parse_args()
    corpus = corpus_of(o.folder, o.documents)
    with connected(n_workers=2) as client:
        client.run(prepared)
        whole, epochs, undisturbed = trained(corpus, client, o.epochs, None)
        epoch = statistics.median(epochs[1:])
        disturbed, _, after = trained(corpus, client, o.epochs, 2)
        restart = restart_seconds(client)
    print(f"undisturbed {whole:.2f} s ({epoch:.2f} s an epoch), one worker of two killed {disturbed:.2f} s")
    print(f"the nanny takes {restart:.2f} s to replace a worker; same bits: {np.array_equal(undisturbed, after)}")


if __name__ == "__main__":
    main()
