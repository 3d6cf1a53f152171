"""A driver in a process of its own, which trains and can be killed.

``python -m faults.driver CORPUS CHECKPOINTS SABOTAGE WHERE`` goes on from checkpoints and prints a hash of what came out;
`WHERE` is ``threads-N``, ``cluster-N`` (N workers of its own) or a scheduler's address.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from faults.saboteur import sabotaged
from reference.trained_bits import bits, place

TESTS = Path(__file__).parent.parent


def start(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "faults.driver", *map(str, arguments)]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120, check=False)


def main(corpus: str, checkpoints: str, sabotage: str, where: str) -> None:
    from faults.clusters import model

    from sdem_dist import open_corpus
    from sdem_dist.cluster import connected
    from sdem_dist.engine import rounds

    rounds.SHORT_TASK = 0.0  # however short they are, they go to all workers
    Path(sabotage, "driver.pid").write_text(str(os.getpid()))
    cluster: contextlib.AbstractContextManager[Any] = place(where)
    if "://" in where:
        cluster = connected(where)
    with cluster as found, sabotaged(Path(sabotage)):
        client, n_jobs = found if isinstance(found, tuple) else (found, None)
        kept: dict[str, Any] = {"checkpoint": checkpoints, "checkpoint_rounds": 1, "resume": True}
        fitted = model(n_jobs=n_jobs).fit(open_corpus(corpus), client=client, **kept)
    print(bits(fitted))


if __name__ == "__main__":
    main(*sys.argv[1:])
