"""A driver in a process of its own, which can be killed: train, going on from checkpoints if there are any.

``python -m faults.driver CORPUS CHECKPOINTS SABOTAGE WHERE`` prints a hash of what came out; `WHERE` is ``threads-N``,
``cluster-N`` (N worker processes of its own) or the address of a scheduler.  Points at which it can be killed, besides
a `Saboteur`'s: ``fsync N``, ``rename N`` and ``renamed N``, the system calls that publish checkpoints.

``python -m faults.driver ingest SOURCE CORPUS SABOTAGE`` ingests in one process; ``count N`` is its block number N.
"""

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from faults.saboteur import reach, sabotaged
from reference.trained_bits import bits, place

TESTS = Path(__file__).parent.parent


def start(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run a driver until it ends or is killed."""
    command = [sys.executable, "-m", "faults.driver", *map(str, arguments)]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120, check=False)


def main(corpus: str, checkpoints: str, sabotage: str, where: str) -> None:
    """Train and print."""
    from faults.clusters import model

    from sdem_dist import open_corpus
    from sdem_dist.cluster import connected
    from sdem_dist.engine import rounds

    rounds.SHORT_TASK = 0.0  # however short they are, they go to all workers
    Path(sabotage, "driver.pid").write_text(str(os.getpid()))
    watch_system_calls(sabotage)
    cluster: contextlib.AbstractContextManager[Any] = place(where)
    if "://" in where:
        cluster = connected(where)
    with cluster as found, sabotaged(Path(sabotage)):
        client, n_jobs = found if isinstance(found, tuple) else (found, None)
        fitted = model(n_jobs=n_jobs).fit(
            open_corpus(corpus), client=client, checkpoint=checkpoints, checkpoint_rounds=1, resume=True
        )
    print(bits(fitted))


def ingest(source: str, corpus: str, sabotage: str) -> None:
    """Ingest in blocks of 20 documents."""
    import sdem_dist
    from sdem_dist.text import counting

    save_block = counting.save_block

    def save_disturbed(path: Path, block: Any) -> None:
        reach(sabotage, f"count {int(path.name.rpartition('-')[2])}")
        save_block(path, block)

    counting.save_block = save_disturbed
    watch_system_calls(sabotage)
    sdem_dist.ingest([source], corpus, block_documents=20, n_jobs=1)


def watch_system_calls(sabotage: str) -> None:
    """Make every fsync and rename of this process a point that can be reached."""
    fsync, replace = os.fsync, os.replace
    fsyncs, renames = itertools.count(), itertools.count()

    def watched_fsync(descriptor: int) -> None:
        reach(sabotage, f"fsync {next(fsyncs)}")
        fsync(descriptor)

    def watched_replace(*args: Any, **more: Any) -> None:
        number = next(renames)
        reach(sabotage, f"rename {number}")
        replace(*args, **more)
        reach(sabotage, f"renamed {number}")

    os.fsync, os.replace = watched_fsync, watched_replace


if __name__ == "__main__":
    ingest(*sys.argv[2:]) if sys.argv[1] == "ingest" else main(*sys.argv[1:])
