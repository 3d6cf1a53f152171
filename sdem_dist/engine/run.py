"""Stub."""
from sdem_dist.engine.scoring import evaluate, groups_of
from sdem_dist.engine.stages import Scoring, StageResult
from sdem_dist.engine.tasks import Source as Feed, Timed
from sdem_dist.engine.trainer import Monitoring, train
def run_stage(stage, corpus, executor):
    return train(stage.learner, corpus, stage.plan, executor, monitoring=Monitoring(every=0), initial=stage.initial).state
def run_stages(stages, corpus, executor, *, monitoring, checkpoints, settings, resume, callbacks):
    result = None
    while True:
        try:
            stage = stages.send(result)
        except StopIteration as done:
            return done.value
        if isinstance(stage, Scoring):
            result = evaluate(Feed(stage.learner, corpus, 1 << 28), groups_of(corpus.header.n_documents), executor, [executor.put(Timed(stage.state))])
            continue
        initial = stage.initial() if callable(stage.initial) else stage.initial
        r = train(stage.learner, stage.corpus or corpus, stage.plan, executor, monitoring=monitoring if stage.monitored else Monitoring(every=0), initial=initial, checkpoints=checkpoints if stage.monitored else None, run=settings, resume=resume, callbacks=callbacks if stage.monitored else ())
        result = StageResult(r.state, r.history)
