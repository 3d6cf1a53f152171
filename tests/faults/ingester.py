"""Ingesting in a process that can be killed.

``python -m faults.ingester SOURCE CORPUS SABOTAGE`` ingests in one process, of which every fsync is a point.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from faults.saboteur import reach

from sdem_dist.text import counting
from sdem_dist.text.counting import CountedBlock

N_BLOCKS, BLOCK = 30, 20
save_block = counting.save_block


def save_disturbed(path: Path, block: CountedBlock) -> None:
    """Save a block, and be killed at it if the plan, in ``sabotage`` beside the corpus, says so."""
    reach(str(path.parents[2] / "sabotage"), f"count {int(path.name.rpartition('-')[2])}")
    save_block(path, block)


def run(source: Path, corpus: Path, **more: Any):
    from sdem_dist import ingest

    return ingest([source], corpus, block_documents=BLOCK, **more)


def main(source: str, corpus: str, sabotage: str) -> None:
    from faults.driver import watch_system_calls

    counting.save_block = save_disturbed
    watch_system_calls(sabotage)
    run(Path(source), Path(corpus), n_jobs=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
