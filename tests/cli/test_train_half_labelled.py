"""Commands on sources where only some documents have a label, or none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cli.commands import ok, refused

from sdem_dist.fitting.holdout import Draws, gain_of


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    rng = np.random.default_rng(0)
    words = {"sport": ["goal", "match", "team", "score"], "money": ["bank", "share", "profit", "price"]}
    both = [*words["sport"], *words["money"]]
    lines = []
    for i in range(400):
        topic = ("sport", "money")[i % 2]
        text = " ".join([*rng.choice(words[topic], 2), *rng.choice(both, 4)])
        lines.append(f"{topic if i < 200 else ''}\t{text}\n")
    path = tmp_path_factory.mktemp("half") / "half.tsv"
    path.write_text("".join(lines))
    return path


def test_both_ways_are_told_in_two_lines_and_the_model_says_its_setting(half, tmp_path):
    said = ok("train", half, tmp_path / "m", "--unlabelled", "")
    figures = r"held-out accuracy [.\d]+, log-loss [.\d]+\n"
    assert re.search(rf"had no label: .*\n  with them    {figures}  without them {figures}", said), said
    assert "held-out log-loss with" not in said and len(said.splitlines()) < 30
    shown = ok("inspect", tmp_path / "m")
    assert "unlabelled ''" in shown and "held-out accuracy without them" in shown


def test_a_tie_is_no_gain(tmp_path):
    rng, words = np.random.default_rng(0), {"sport": ["goal", "match"], "money": ["bank", "share"]}
    names = ["sport", "money"] * 300
    lines = [f"{name if i < 300 else ''}\t{' '.join(rng.choice(words[name], 5))}\n" for i, name in enumerate(names)]
    (tmp_path / "easy.tsv").write_text("".join(lines))
    said = ok("train", tmp_path / "easy.tsv", tmp_path / "m", "--unlabelled", "", "--quiet")
    assert "\n  no clear difference: log-loss falls by 0.0000, and the standard error of that is 0.0000\n" in said


@pytest.mark.parametrize(("gain", "clear"), [([0.1, 0.2, 0.3], True), ([-0.1, 0.2, -0.3], False)])
def test_a_gain_is_more_than_its_standard_error(gain, clear):
    alone = Draws(np.ones(3), np.ones(3), np.ones(3))
    mean, error = gain_of(alone, alone._replace(log_loss=1.0 - np.array(gain)))
    assert mean == pytest.approx(np.mean(gain)) and error == pytest.approx(np.std(gain, ddof=1) / 3**0.5)
    assert (abs(mean) > error) == clear


@pytest.mark.parametrize("workers", [[], ["--workers", "1"]])
def test_a_source_without_any_label_is_named(tmp_path, workers):
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"\tgoal match {i}\n" for i in range(20)))
    said = refused("ingest", path, tmp_path / "c.zarr", "--unlabelled", "", *workers)
    assert f"{path}: no document has a label" in said
    assert not (tmp_path / "c.zarr").exists()


def test_several_labels_and_unlabelled_do_not_go_together(half, tmp_path):
    path, model = tmp_path / "several.tsv", str(tmp_path / "m")
    path.write_text("".join(f"{('a,b', 'b', 'a', '')[i % 4]}\tgoal match {i % 4}\n" for i in range(40)))
    said = refused("train", path, model, "--estimator", "MultiLabelNB")
    assert "--label-separator ," in said
    ok("train", path, model, "--estimator", "MultiLabelNB", "--label-separator", ",", "--quiet")
    assert "--unlabelled is for documents of one label each" in refused(
        "evaluate", model, path, "--unlabelled", "", code=2
    )


def test_inspect_says_what_became_of_documents_without_a_label(half, tmp_path):
    ok("train", half, tmp_path / "m", "--unlabelled", "", "--quiet")
    shown = ok("inspect", tmp_path / "m")
    assert re.search(r"settings +unlabelled ''$", shown, re.MULTILINE), shown
    assert re.search(r"without a label +(learned from, with unlabelled_weight [\d.e-]+|not learned from)$", shown, re.M)
    assert "unlabelled_weight" not in next(line for line in shown.splitlines() if "held-out" in line)
