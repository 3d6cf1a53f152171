"""Sources in which labels are missing become half-labelled corpora: the same one, whatever the format and whoever counts."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import sdem_dist as sd
from sdem_dist.cli import main
from sdem_dist.errors import IngestError
from sdem_dist.text import Reading, ingest

WORDS = {"sport": "goal match club", "money": "bank rate share"}
RNG = np.random.default_rng(0)
LABELS = [str(label) for label in RNG.choice(list(WORDS), 60)]
TEXTS = [" ".join([*RNG.choice(WORDS[label].split(), 4), f"w{i % 7}"]) for i, label in enumerate(LABELS)]
GIVEN = [label if i % 3 == 0 else None for i, label in enumerate(LABELS)]


def write(folder, form, missing=""):
    path, rows = folder / f"posts.{form}", list(zip(GIVEN, TEXTS, strict=True))
    if form == "tsv":
        path.write_text("".join(f"{label or missing}\t{text}\n" for label, text in rows))
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in rows))
    elif form == "csv":
        path.write_text("label,text\n" + "".join(f"{label or missing},{text}\n" for label, text in rows))
    else:
        pd.DataFrame(rows, columns=["label", "text"]).to_parquet(path)
    return path


def test_every_format_and_name_of_none_gives_the_same_corpus(tmp_path, client):
    uids = set()
    for form, missing, workers in (
        *((form, "", None) for form in ("tsv", "jsonl", "csv", "parquet")),
        ("tsv", "?", client),
    ):
        reading = Reading(unlabelled=missing)
        ingest(write(tmp_path, form, missing), tmp_path / "a.zarr", reading=reading, overwrite=True, client=workers)
        corpus = sd.open_corpus(tmp_path / "a.zarr")
        uids.add(corpus.header.uid)
    assert len(uids) == 1 and corpus.header.classes == ("money", "sport")
    assert sum(corpus.header.class_counts) == sum(label is not None for label in GIVEN)
    assert (corpus.labels() < 0).sum() == sum(label is None for label in GIVEN)
    with pytest.raises(IngestError, match="--unlabelled ''"):
        ingest(write(tmp_path, "tsv"), tmp_path / "c.zarr")


def test_a_missing_field_of_json_is_no_label(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"label": "a", "text": "one"}\n{"text": "two"}\n{"label": "b", "text": "two"}\n')
    ingest(path, tmp_path / "x.zarr", reading=Reading(unlabelled=""), overwrite=True)
    assert sd.open_corpus(tmp_path / "x.zarr").header.class_counts == (1, 1)
    with pytest.raises(IngestError, match="no field 'label'"):
        ingest(path, tmp_path / "y.zarr")


def test_several_labels_and_targets_have_no_use_for_it(tmp_path):
    with pytest.raises(ValueError, match="unlabelled is for documents of one label"):
        Reading(unlabelled="", label_separator=",")
    with pytest.raises(ValueError, match="unlabelled is for classes"):
        ingest(write(tmp_path, "tsv"), tmp_path / "c.zarr", reading=Reading(unlabelled=""), targets=True)


def typed(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_take_them(tmp_path):
    source, corpus, model = write(tmp_path, "csv"), tmp_path / "a.zarr", tmp_path / "a.model"
    n_hidden = sum(label is None for label in GIVEN)
    assert f"{n_hidden} documents without a label" in typed("ingest", source, corpus, "--unlabelled", "")
    assert f"60, {n_hidden} without a label" in typed("inspect", corpus)
    trained = typed("train", corpus, model)
    assert f"{n_hidden} documents without a label" in trained
    last = trained.splitlines()[-1]
    assert last.startswith(
        f"{n_hidden} documents had no label: the model learned from them, too, with unlabelled_weight 0."
    )
    for place, options in ((corpus, ()), (source, ("--unlabelled", ""))):
        said = typed("evaluate", model, place, *options)
        assert f"{n_hidden} documents without a label left out" in said
        assert f"{60 - n_hidden} documents of {place}" in said
    assert len(typed("predict", model, corpus).splitlines()) == 60
    for said in (typed("suspects", source, "--unlabelled", ""), typed("suspects", corpus, "--set", "n_epochs=1")):
        assert f"{n_hidden} documents without a label\n" in said
        assert f"of {60 - n_hidden} documents" in said
    other = tmp_path / "b.model"
    typed("train", source, other, "--unlabelled", "", "--quiet")
    np.testing.assert_array_equal(sd.load_model(other).state_.words, sd.load_model(model).state_.words)


@pytest.mark.parametrize(
    ("settings", "came_of_it"),
    [
        (["--set", "unlabelled_weight=0.01"], "the model learned from them, too, with unlabelled_weight 0.01"),
        (["--set", "unlabelled_weight=0"], "the model is of the 20 labelled documents alone"),
        (["--loss", "nll"], "the model learned from them, too"),
        (["--set", "loss=hinge"], "the model learned from them, too, with unlabelled_weight 0[.].*"),
    ],
)
def test_what_came_of_them_is_said(tmp_path, settings, came_of_it):
    said = typed("train", write(tmp_path, "tsv"), tmp_path / "model", "--unlabelled", "", "--quiet", *settings)
    assert re.fullmatch(f"40 documents had no label: {came_of_it}", said.splitlines()[-1])
