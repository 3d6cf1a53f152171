"""Training without the damaged shards of a corpus, where the user allows it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.sound import look_at, without_damaged
from sdem_dist.engine.events import Callback, ShardsLeftOut
from sdem_dist.estimators.fitting import executor_for


def sound_part(X: Any, client: Any, n_jobs: int | None, callbacks: Sequence[Callback]) -> tuple[Any, list[str]]:
    """Read a whole corpus once, in parallel; return it without its damaged shards, and what is wrong with those.

    All of it is looked at before training begins, so that what is left out depends on the corpus alone.  Documents in
    memory are returned as they are.

    Raises
    ------
    CorpusError
        No shard is sound, or the storage cannot be read.
    """
    if not isinstance(X, Corpus):
        return X, []
    header = X.header
    with executor_for(client, n_jobs, header.n_nonzeros) as executor:
        n = len(header.shards)
        looks = [executor.submit(look_at, X, shard, affinity=shard / n) for shard in range(n)]
        findings = [executor.result(look) for look in looks]
    problems = [f.problem for f in findings if f.problem]
    corpus = without_damaged(X, findings)
    if problems:
        event = ShardsLeftOut(len(problems), header.n_documents - corpus.n_documents, tuple(problems))
        for callback in callbacks:
            callback(event)
        warnings.warn(
            f"{X.path}: {event.n_shards} of {len(header.shards)} shards are damaged, and training leaves out their "
            f"{event.n_documents:,} documents of {header.n_documents:,}: " + "; ".join(problems),
            stacklevel=3,
        )
    return corpus, problems
