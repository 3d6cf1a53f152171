"""A run that stops and goes on gives the bits of the run that did not stop."""

import numpy as np
import pytest
from engine.conftest import killing
from reference.random_documents import random_counts
from reference.trained_bits import Stop, bits

from sdem_dist import ModelError, MultinomialNB, write_corpus
from sdem_dist.engine.checkpoint import Checkpoints
from sdem_dist.engine.events import CheckpointWritten, RoundEnded, RunEnded, StageStarted
from sdem_dist.errors import OtherRunError
from sdem_dist.storage import archive

X, Y = random_counts(300, 40, 3, seed=2)
HELD_OUT = random_counts(120, 40, 3, seed=3)
ONE_STAGE = {"validation_fraction": 0.0, "evaluate_every": 1}
SETTINGS = {
    "mean": {"n_lanes": 5, "rounds_per_epoch": 3, "n_epochs": 4, **ONE_STAGE},
    "patience": {"n_lanes": 2, "n_epochs": 40, "patience": 3, "rounds_per_epoch": 3, **ONE_STAGE},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("checkpoints") / "corpus", X, Y, shard_documents=64)


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("checkpoints") / "held-out", *HELD_OUT)


def after(rounds: int):
    """Return a callback that raises at the end of a round, as a lost machine would."""
    return killing((RoundEnded, "train", rounds))


def model(name: str, **more) -> MultinomialNB:
    return MultinomialNB(**{"random_state": 1, **SETTINGS[name], **more})


def fit(name: str, corpus, held_out=None, **more):
    n_jobs = more.pop("n_jobs", None)
    return model(name, n_jobs=n_jobs).fit(corpus, validation=held_out if name == "patience" else None, **more)


@pytest.mark.parametrize(("stop", "every"), [(5, 3), (8, None)])
def test_patience_goes_on_counting_with_the_bits_of_an_uninterrupted_run(stop, every, corpus, held_out, tmp_path):
    whole = fit("patience", corpus, held_out)
    assert 3 < whole.n_iter_ < 40
    with pytest.raises(Stop):
        fit("patience", corpus, held_out, checkpoint=tmp_path, checkpoint_rounds=every, callbacks=[after(stop)])
    resumed = fit("patience", corpus, held_out, checkpoint=tmp_path, checkpoint_rounds=every, resume=True, n_jobs=2)
    assert bits(resumed) == bits(whole)


def test_resuming_a_finished_run_trains_no_more(corpus, held_out, tmp_path):
    for name in ("mean", "patience"):
        folder, events = tmp_path / name, []
        whole = fit(name, corpus, held_out, checkpoint=folder)
        again = fit(name, corpus, held_out, checkpoint=folder, resume=True, callbacks=[events.append])
        assert bits(again) == bits(whole)
        assert not any(isinstance(e, RoundEnded) for e in events)
        (started,) = (event for event in events if isinstance(event, StageStarted))
        assert started.epoch == whole.n_iter_
        assert isinstance(events[-1], RunEnded)


@pytest.mark.parametrize(("change", "named"), [
    ({"loss": "ncll", "step": 0.2}, "learner.loss: 'ncll', was 'hinge'"),
    ({"n_lanes": 4}, "plan.n_lanes: 4, was 5"),
    ({"random_state": 2}, "learner.seed: 2, was 1; plan.seed: 2, was 1"),
    ({"step": 0.1}, "learner.rule.steps.class_start: .*, was .*; learner.rule.steps.start: .*, was .*"),
    ({"class_weight": "balanced"}, r"learner.class_weight: \[.*\], was None"),
    ({"alpha": 2.0, "loss": "ncll", "n_lanes": 4}, r"learner.*alpha.*; \.\.\."),
])  # fmt: skip
def test_other_settings_are_refused_by_name(change, named, corpus, tmp_path):
    fit("mean", corpus, checkpoint=tmp_path)
    with pytest.raises(OtherRunError, match=rf"other settings or another corpus \({named}\): restore"):
        model("mean", **change).fit(corpus, checkpoint=tmp_path, resume=True)


def test_other_documents_are_refused(corpus, held_out, tmp_path):
    fit("mean", corpus, checkpoint=tmp_path / "disk")
    with pytest.raises(ModelError, match=r"another corpus \(corpus: '.*', was '"):
        fit("mean", held_out, checkpoint=tmp_path / "disk", resume=True)
    model("mean").fit(X, Y, checkpoint=tmp_path / "memory")
    model("mean").fit(X.copy(), Y.copy(), checkpoint=tmp_path / "memory", resume=True)
    for documents in ((X[::-1], Y[::-1]), (X, (Y + 1) % 3), (X, Y, np.ones(300))):
        with pytest.raises(ModelError, match="another corpus"):
            model("mean").fit(*documents, checkpoint=tmp_path / "memory", resume=True)


def test_other_validation_documents_are_refused_where_they_decide(corpus, held_out, tmp_path):
    np.testing.assert_raises(Stop, fit, "patience", corpus, held_out, checkpoint=tmp_path, callbacks=[after(7)])
    with pytest.raises(ModelError, match="other settings"):
        fit("patience", corpus, corpus, checkpoint=tmp_path, resume=True)


def test_what_decides_nothing_may_change(corpus, held_out, tmp_path):
    np.testing.assert_raises(Stop, fit, "mean", corpus, checkpoint=tmp_path, callbacks=[after(7)])
    resumed = model("mean", evaluate_every=0, n_jobs=2)
    resumed.fit(corpus, validation=held_out, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.state_.words, fit("mean", corpus).state_.words)


def checkpoints_in(folder) -> list:
    return sorted(folder.glob("checkpoint-*.sdem"))


@pytest.mark.parametrize("lost", ["progress", "state_words", "state_t"])
def test_a_checkpoint_without_its_parts_is_an_error(lost, corpus, tmp_path):
    fit("mean", corpus, checkpoint=tmp_path)
    newest = checkpoints_in(tmp_path)[-1]
    arrays, metadata = archive.read_archive(newest, "sdem-checkpoint")
    arrays.pop(lost, None)
    metadata.pop(lost, None)
    archive.write_archive(newest, "sdem-checkpoint", arrays, metadata)
    np.testing.assert_raises_regex(ModelError, newest.name, fit, "mean", corpus, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("given", [{"resume": True}, {"checkpoint_rounds": 2}, {"checkpoint_seconds": 2.0}])
def test_settings_of_checkpoints_need_a_folder(given, corpus):
    np.testing.assert_raises_regex(ValueError, "need a folder: set checkpoint", fit, "mean", corpus, **given)


@pytest.mark.parametrize(("how_often", "expected"), [
    ({}, [(i, 0) for i in range(1, 5)]),
    ({"checkpoint_rounds": 1}, [(i // 3, i % 3) for i in range(1, 13)]),
    ({"checkpoint_rounds": 5}, [(1, 2), (3, 1)]),
    ({"checkpoint_seconds": 25}, [(1, 0), (2, 0), (3, 0), (4, 0)]),  # rounds take ten seconds
])  # fmt: skip
def test_when_checkpoints_are_written_and_which_are_kept(how_often, expected, monkeypatch, corpus, tmp_path):
    from sdem_dist.engine import checkpoint

    now, written = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def tick(event):
        now[0] += 10.0 * isinstance(event, RoundEnded)
        written.extend([event] * isinstance(event, CheckpointWritten))

    fit("mean", corpus, checkpoint=tmp_path, callbacks=[tick], **how_often)
    assert [(e.epoch, e.round) for e in written] == expected
    assert checkpoints_in(tmp_path) == sorted(e.path for e in written[-2:])
    np.testing.assert_raises_regex(ValueError, "not both", Checkpoints, tmp_path, every_rounds=1, every_seconds=1.0)


def test_a_damaged_newest_checkpoint_is_an_error_and_the_one_before_serves(corpus, tmp_path):
    fit("mean", corpus, checkpoint=tmp_path)
    newest = checkpoints_in(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(ModelError, match=f"{newest.name}.*; remove the damaged checkpoint"):
        fit("mean", corpus, checkpoint=tmp_path, resume=True)
    newest.unlink()
    assert bits(fit("mean", corpus, checkpoint=tmp_path, resume=True)) == bits(fit("mean", corpus))
