"""Running the engine for an estimator: executor, plan, validation, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.byte_cache import prepared_cache
from sdem_dist.corpus import DenseMemoryCorpus, MemoryCorpus
from sdem_dist.engine.callbacks import shown
from sdem_dist.engine.checkpoint import Checkpoints
from sdem_dist.engine.executor import Executor, InProcess
from sdem_dist.engine.identity import identity
from sdem_dist.engine.memory import cache_bytes, state_bytes
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.scoring import evaluate, groups_of
from sdem_dist.engine.tasks import Source, Timed
from sdem_dist.engine.trainer import Monitoring, train
from sdem_dist.estimators import inputs, settings
from sdem_dist.records import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sdem_dist.engine.events import Callback
    from sdem_dist.models.word_counts import SdemState

SMALL = 100_000
"""Entries under which threads cost more than they save."""


_FREE = ("n_epochs", "evaluate_every", "patience", "n_jobs", "random_state", "verbose")
"""Parameters that do not decide where a run starts; the seed is the plan's and the learner's."""


@contextmanager
def executor_for(client: Any, n_jobs: int | None, n_nonzeros: int) -> Iterator[Executor]:
    """Yield where to run: the client's cluster, or threads of this process."""
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        if isinstance(client, str):
            raise ValueError(f"client is the address {client!r}: pass a distributed.Client of it")
        yield DaskExecutor(client)
        return
    with InProcess(n_jobs if n_nonzeros >= SMALL else 1) as executor:
        yield executor


@contextmanager
def _forgetting(*sources: inputs.Source) -> Iterator[None]:
    """Drop what the process has cached of documents in memory, which nobody can ask for again."""
    try:
        yield
    finally:
        names = {s.corpus.cache_key for s in sources if isinstance(s.corpus, MemoryCorpus | DenseMemoryCorpus)}
        prepared_cache.discard(lambda key: isinstance(key, tuple) and key[0] in names)


@dataclass(frozen=True)
class FitOptions:
    """What `EngineEstimator.fit` was told about the run itself; see there."""

    client: Any = None
    validation: Any = None
    checkpoint: Any = None
    checkpoint_rounds: int | None = None
    checkpoint_seconds: float | None = None
    resume: bool = False
    callbacks: Sequence[Callback] = ()


def fit_state(
    estimator: Any, learner: Any, plan: Plan, source: inputs.Source, options: FitOptions, initial: Any = None
) -> tuple[Any, list[dict[str, float]]]:
    """Run a whole training, from `initial` if given; return the last state and the history."""
    checkpoint, resume = options.checkpoint, options.resume
    if checkpoint is None and (resume or options.checkpoint_rounds or options.checkpoint_seconds):
        raise ValueError("resume, checkpoint_rounds and checkpoint_seconds need a checkpoint folder")
    if checkpoint is not None and (Path(checkpoint).is_file() or Path(checkpoint, "zarr.json").exists()):
        raise ValueError(
            f"{checkpoint} is a file or a corpus; checkpoints are kept in a folder of their own: name another"
        )
    if estimator.patience is not None and options.validation is None:
        raise ValueError("patience needs validation documents: pass validation=(X, y) or a corpus")
    monitor = estimator._monitor
    watch = Monitoring(every=estimator.evaluate_every, monitor=monitor, patience=estimator.patience)
    sources = [source]
    if options.validation is not None:
        held_out = _validation_source(estimator, options.validation, options.client)
        watch = Monitoring(watch.every, held_out.corpus, held_out.n_documents, watch.monitor, watch.patience)
        sources.append(held_out)
    stopping = None  # without patience, what is evaluated decides nothing
    if estimator.patience is not None:
        stopping = (estimator.patience, watch.every, held_out.identity)
    shape = {name: value for name, value in asdict(plan).items() if name != "n_epochs"}  # a resumed run may go further
    start = None if initial is None else {k: plain(v) for k, v in estimator.get_params(False).items() if k not in _FREE}
    run = identity(learner=asdict(learner), plan=shape, corpus=source.identity, stopping=stopping, start=start)
    checkpoints = Checkpoints(checkpoint, options.checkpoint_rounds, options.checkpoint_seconds) if checkpoint else None
    if checkpoints is not None and not resume:
        checkpoints.refuse_earlier_run()
    watching = shown(f"{monitor}  ") if estimator.verbose else nullcontext()
    with (
        executor_for(options.client, estimator.n_jobs, _nonzeros(source)) as executor,
        _forgetting(*sources),
        watching as callback,
    ):
        result = train(
            learner,
            source.corpus,
            plan,
            executor,
            monitoring=watch,
            initial=initial,
            checkpoints=checkpoints,
            run=run,
            resume=resume,
            callbacks=[*options.callbacks, *([callback] if callback is not None else [])],
        )
    return result.state, result.history


def run_quietly(
    learner: Any, plan: Plan, source: inputs.Source, client: Any, n_jobs: int | None, initial: Any = None
) -> Any:
    """Run a learner, from `initial` if given, without evaluation or checkpoints; return its last state."""
    with executor_for(client, n_jobs, _nonzeros(source)) as executor, _forgetting(source):
        return train(learner, source.corpus, plan, executor, monitoring=Monitoring(every=0), initial=initial).state


def one_pass(estimator: Any, learner: Any, source: inputs.Source, state: SdemState) -> SdemState:
    """Run one epoch from `state` over a source in memory."""
    plan = settings.plan(estimator, source.n_documents, learner.seed)
    plan = replace(plan, n_epochs=1)
    with executor_for(None, estimator.n_jobs, _nonzeros(source)) as executor, _forgetting(source):
        return train(learner, source.corpus, plan, executor, monitoring=Monitoring(every=0), initial=state).state


def evaluate_source(estimator: Any, learner: Any, state: Any, source: inputs.Source, client: Any) -> dict[str, float]:
    """Return the metrics of a state over a source."""
    with executor_for(client, estimator.n_jobs, _nonzeros(source)) as executor, _forgetting(source):
        handle = executor.put(Timed(state))
        tasks_source = Source(learner, source.corpus, cache_bytes(state_bytes(state), 1, executor.memory_bytes))
        return evaluate(tasks_source, groups_of(source.n_documents), executor, [handle])


def _validation_source(estimator: Any, validation: Any, client: Any) -> Any:
    X, y = validation if isinstance(validation, tuple) else (validation, None)
    return estimator._evaluation_source(X, y, client)


def _nonzeros(source: inputs.Source) -> int:
    return int(source.corpus.header.n_nonzeros)
