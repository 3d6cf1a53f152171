"""What tests of fits share."""

import pytest

from sdem_dist.engine.trainer import Trainer


@pytest.fixture
def trained_stages(monkeypatch):
    """The stages that trainers run, in order: each with its result."""
    stages, run = [], Trainer.run

    def run_and_note(self, stage):
        result = run(self, stage)
        stages.append((stage.name, result))
        return result

    monkeypatch.setattr(Trainer, "run", run_and_note)
    return stages
