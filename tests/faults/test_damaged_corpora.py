"""Damage to a corpus is named before its data is used; where that is allowed, a run goes on without it, to the bit."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused, run
from corpus.test_damage import damage
from faults.clusters import SETTINGS, is_end_of, local_cluster, model
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import CorpusError, load_model, open_corpus, write_corpus
from sdem_dist.engine.events import ShardsLeftOut

seeds = itertools.count(100)


@pytest.fixture
def sound(tmp_path):
    """A corpus that no other test has trained: what a process has read and verified, it need not read again."""
    return write_corpus(tmp_path / "sound.zarr", *random_counts(600, 50, 3, seed=next(seeds)), shard_documents=64)


@pytest.fixture
def copy(sound, tmp_path) -> Path:
    """A corpus that may be damaged."""
    return Path(shutil.copytree(sound.path, tmp_path / "copy.zarr"))


def chunk(corpus: Path, shard: int, array: str = "data") -> Path:
    return corpus / "shards" / f"{shard:05d}" / array / "c" / "0"


def fit(copy, **more):
    return model(n_jobs=1).fit(open_corpus(copy), **more)


def test_a_manifest_of_another_corpus_or_altered(copy, tmp_path):
    root = json.loads((copy / "zarr.json").read_text())
    root["attributes"]["sdem_corpus"]["shards"][2]["checksums"]["data"] ^= 1
    other = write_corpus(tmp_path / "other", *random_counts(600, 50, 3, seed=8), shard_documents=64)
    (copy / "zarr.json").write_text(json.dumps(root))
    for more in ({}, {"skip_damaged": True}):
        with pytest.raises(CorpusError, match="manifest was altered"):
            fit(copy, **more)
    shutil.copy(Path(other.path, "zarr.json"), copy / "zarr.json")
    with pytest.raises(CorpusError, match="array '.*(has shape|does not match its checksum|is u)"):
        fit(copy)
    with pytest.raises(CorpusError, match="every shard is damaged"):
        fit(copy, skip_damaged=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_on_a_cluster_damage_is_named_at_once_or_left_out_with_the_same_bits(copy):
    damage(chunk(copy, 5), "flipped")
    here = fit(copy, skip_damaged=True)
    with local_cluster(2) as (_, client):
        with pytest.raises(CorpusError, match="shard 5: .*data'"):
            model().fit(open_corpus(copy), client=client)
        assert len(client.nthreads()) == 2
        there = model().fit(open_corpus(copy), skip_damaged=True, client=client)
    assert bits(here) == bits(there) and here.damaged_shards_ == there.damaged_shards_


def without(corpus, shards: set[int], path: Path):
    """Write the documents of all other shards, in their order, as a corpus with the same borders."""
    kept = [corpus.read_shard(i) for i in range(len(corpus.header.shards)) if i not in shards]
    batches = [(d.to_csr(), np.array(corpus.header.classes)[d.labels]) for d in kept]
    return write_corpus(path, batches, shuffle=False, shard_documents=64)


def test_training_goes_on_without_damaged_shards(sound, copy, tmp_path):
    damage(chunk(copy, 0, "labels"), "truncated")
    damage(chunk(copy, 4, "indices"), "missing")
    events: list = []
    counts = {"steps": "paper", "weighting": "counts"}  # else document frequencies are those of the whole corpus
    said = r"2 of 10 shards are damaged, and .* 120 documents of 600: .*shard 0.*shard 4"
    with pytest.warns(UserWarning, match=said):
        fitted = model(n_jobs=1, **counts).fit(open_corpus(copy), skip_damaged=True, callbacks=[events.append])
    assert events[0] == ShardsLeftOut(2, 120, tuple(fitted.damaged_shards_))
    assert bits(fitted) == bits(model(n_jobs=1, **counts).fit(without(sound, {0, 4}, tmp_path / "without")))
    fitted.save(tmp_path / "model")
    assert load_model(tmp_path / "model").damaged_shards_ == fitted.damaged_shards_


def test_a_sound_corpus_is_trained_whole(corpus, undisturbed, recwarn):
    fitted = model(n_jobs=1).fit(corpus, skip_damaged=True)
    assert bits(fitted) == undisturbed and fitted.damaged_shards_ == []
    assert not [found for found in recwarn.list if "damaged" in str(found.message)]


@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_resuming_needs_the_same_damage(copy, tmp_path):
    class Stop(Exception):
        pass

    def stop(event):
        if is_end_of(event, 1, 0):
            raise Stop

    damage(chunk(copy, 7), "flipped")
    kept = {"skip_damaged": True, "checkpoint": tmp_path / "kept", "resume": True}
    with pytest.raises(Stop):
        fit(copy, callbacks=[stop], **kept)
    assert bits(fit(copy, **kept)) == bits(fit(copy, skip_damaged=True))
    damage(chunk(copy, 8), "flipped")
    with pytest.raises(ValueError, match="another corpus"):
        fit(copy, **kept)


def test_the_command_leaves_out_what_it_is_allowed_to(copy, tmp_path):
    damage(chunk(copy, 3), "flipped")
    command = f"train {copy} {tmp_path / 'model'} --epochs 1 --quiet --lanes {SETTINGS['n_lanes']}"
    assert "shard 3" in refused(command) and not (tmp_path / "model").exists()
    allowed = run(f"{command} --skip-damaged --log {tmp_path / 'log'}")
    assert allowed.exit_code == 0, allowed.output
    assert allowed.output.startswith("Warning: ") and "1 of 10 shards are damaged" in allowed.output
    assert "shard 3" in " ".join(ok("inspect", tmp_path / "model").split())
    assert '"ShardsLeftOut"' in (tmp_path / "log").read_text() and ok("log", tmp_path / "log")
