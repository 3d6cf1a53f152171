"""Parameters made when they are asked for: once, by one thread."""

import threading

from sdem_dist.fitting.scoring import LazyParameters


class Slow:
    """A learner whose parameters take until another thread begins with them, too, or gives up."""

    def __init__(self) -> None:
        self.begun, self.inside, self.most = 0, 0, 0
        self.second = threading.Event()

    def parameters(self, state: float) -> float:
        self.begun, self.inside = self.begun + 1, self.inside + 1
        self.most = max(self.most, self.inside)
        if self.inside == 2:
            self.second.set()
        self.second.wait(0.5)
        self.inside -= 1
        return state


def test_one_thread_at_a_time_limits_blas():
    learner = Slow()
    models = [LazyParameters(learner, 1.0), LazyParameters(learner, 2.0)]
    threads = [threading.Thread(target=lambda m=m: m.value) for m in [*models, models[0]]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert learner.most == 1, "or the first would restore what the second needs, and the second restore the limit"
    assert learner.begun == 2, "each model's once"
