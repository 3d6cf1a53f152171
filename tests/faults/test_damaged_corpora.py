"""Damaged shards: a named error before their data is used, or training without them where that is allowed."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from faults.clusters import SETTINGS, is_end_of, local_cluster, model
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import CorpusError, load_model, open_corpus, write_corpus
from sdem_dist.cli import main
from sdem_dist.engine.events import ShardsLeftOut

ARRAYS = ["data", "indices", "indptr", "labels"]
KINDS = ["truncated", "flipped", "missing", "empty"]


def chunk(corpus: Path, shard: int, array: str) -> Path:
    return corpus / "shards" / f"{shard:05d}" / array / "c" / "0"


def damage(corpus: Path, shard: int, kind: str, array: str = "data") -> None:
    file = chunk(corpus, shard, array)
    content = bytearray(file.read_bytes())
    if kind == "missing":
        file.unlink()
        return
    if kind == "flipped":
        content[len(content) // 2] ^= 0x10
    file.write_bytes({"truncated": content[: len(content) // 2], "flipped": content, "empty": b""}[kind])


seeds = itertools.count(100)


@pytest.fixture
def sound(tmp_path):
    """A corpus that no other test has trained: what a process has read and verified, it need not read again."""
    return write_corpus(tmp_path / "sound.zarr", *random_counts(600, 50, 3, seed=next(seeds)), shard_documents=64)


@pytest.fixture
def copy(sound, tmp_path) -> Path:
    """A corpus that may be damaged."""
    return Path(shutil.copytree(sound.path, tmp_path / "copy.zarr"))


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_before_the_data_is_used(kind, array, copy):
    damage(copy, 5, kind, array)
    with pytest.raises(CorpusError, match=rf"shard 5: .*array '(shards/00005/)?{array}'"):
        model(n_jobs=1).fit(open_corpus(copy))


@pytest.mark.slow
def test_damage_is_named_on_a_cluster_at_once(copy):
    damage(copy, 5, "flipped")
    with local_cluster(2) as (_, client):
        with pytest.raises(CorpusError, match="shard 5: .*data'"):
            model().fit(open_corpus(copy), client=client)
        assert len(client.nthreads()) == 2


def test_a_manifest_of_another_corpus(copy, tmp_path):
    other = write_corpus(tmp_path / "other", *random_counts(600, 50, 3, seed=8), shard_documents=64)
    shutil.copy(Path(other.path, "zarr.json"), copy / "zarr.json")
    with pytest.raises(CorpusError, match="array '.*(has shape|does not match its checksum|is u)"):
        model(n_jobs=1).fit(open_corpus(copy))
    with pytest.raises(CorpusError, match="every shard is damaged"):
        model(n_jobs=1).fit(open_corpus(copy), skip_damaged=True)


def test_an_altered_manifest(copy):
    root = json.loads((copy / "zarr.json").read_text())
    root["attributes"]["sdem_corpus"]["shards"][2]["checksums"]["data"] ^= 1
    (copy / "zarr.json").write_text(json.dumps(root))
    for more in ({}, {"skip_damaged": True}):
        with pytest.raises(CorpusError, match="manifest was altered"):
            model(n_jobs=1).fit(open_corpus(copy), **more)


def without(corpus, shards: set[int], path: Path):
    """Write the documents of all other shards, in their order, as a corpus with the same borders."""
    kept = [corpus.read_shard(i) for i in range(len(corpus.header.shards)) if i not in shards]
    batches = [(d.to_csr(), np.array(corpus.header.classes)[d.labels]) for d in kept]
    return write_corpus(path, batches, shuffle=False, shard_documents=64)


def test_training_goes_on_without_damaged_shards(sound, copy, tmp_path):
    damage(copy, 0, "truncated", "labels")
    damage(copy, 4, "missing", "indices")
    events: list = []
    counts = {"steps": "paper", "weighting": "counts"}  # else document frequencies are those of the whole corpus
    with pytest.warns(
        UserWarning, match=r"2 of 10 shards are damaged, and .* 120 documents of 600: .*shard 0.*shard 4"
    ):
        fitted = model(n_jobs=1, **counts).fit(open_corpus(copy), skip_damaged=True, callbacks=[events.append])
    assert events[0] == ShardsLeftOut(2, 120, tuple(fitted.damaged_shards_))
    expected = model(n_jobs=1, **counts).fit(without(sound, {0, 4}, tmp_path / "without"))
    assert bits(fitted) == bits(expected)
    fitted.save(tmp_path / "model")
    assert load_model(tmp_path / "model").damaged_shards_ == fitted.damaged_shards_


def test_a_sound_corpus_is_trained_whole(corpus, undisturbed, recwarn):
    fitted = model(n_jobs=1).fit(corpus, skip_damaged=True)
    assert bits(fitted) == undisturbed
    assert fitted.damaged_shards_ == []
    assert not [found for found in recwarn.list if "damaged" in str(found.message)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_the_same_bits_wherever_the_damage_is_found(copy, tmp_path):
    damage(copy, 7, "flipped")
    here = model(n_jobs=1).fit(open_corpus(copy), skip_damaged=True)
    with local_cluster(2) as (_, client):
        there = model().fit(open_corpus(copy), skip_damaged=True, client=client)
    assert bits(here) == bits(there)
    assert here.damaged_shards_ == there.damaged_shards_


@pytest.mark.filterwarnings("ignore:.*shards are damaged")
def test_resuming_needs_the_same_damage(copy, tmp_path):
    class Stop(Exception):
        pass

    def stop(event):
        if is_end_of(event, 1, 0):
            raise Stop

    damage(copy, 7, "flipped")
    kept = {"skip_damaged": True, "checkpoint": tmp_path / "kept", "resume": True}
    with pytest.raises(Stop):
        model(n_jobs=1).fit(open_corpus(copy), callbacks=[stop], **kept)
    resumed = model(n_jobs=1).fit(open_corpus(copy), **kept)
    assert bits(resumed) == bits(model(n_jobs=1).fit(open_corpus(copy), skip_damaged=True))
    damage(copy, 8, "flipped")
    with pytest.raises(ValueError, match="another corpus"):
        model(n_jobs=1).fit(open_corpus(copy), **kept)


def test_the_command_leaves_out_what_it_is_allowed_to(copy, tmp_path):
    damage(copy, 3, "flipped")
    arguments = ["train", str(copy), str(tmp_path / "model"), "--epochs", "1", "--quiet"]
    arguments += ["--lanes", str(SETTINGS["n_lanes"])]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1 and "shard 3" in refused.output
    assert not (tmp_path / "model").exists()
    allowed = CliRunner().invoke(main, [*arguments, "--skip-damaged"])
    assert allowed.exit_code == 0, allowed.output
    assert allowed.output.startswith("Warning: ")
    assert "1 of 10 shards are damaged" in allowed.output
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "model")])
    assert "shard 3" in " ".join(shown.output.split())
