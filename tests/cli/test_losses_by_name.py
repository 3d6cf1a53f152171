"""Losses by name in the shell, and what the line of a training says of them."""

from __future__ import annotations

import click
import pytest
from commands import ok, refused

from sdem_dist import load_model
from sdem_dist.cli.train import parse_loss, parse_setting
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll

LOSSES = {
    "hinge": "hinge",
    "perceptron": Hinge(0.0),
    "hinge:2": Hinge(2.0),
    "blend:.1": Blend(Ncll(), 0.1),
    "blend:.1:hinge:2": Blend(Hinge(2.0), 0.1),
}
REFUSED = [
    "Hinge(0)",
    "hinge:x",
    "hinge:-1",
    "hinge:nan",
    "blend",
    "blend:2",
    "blend:.1:auto",
    "blend:.1:blend:.2",
    "ncll:2",
    "",
    "perceptron:1",
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "s.tsv"
    path.write_text("pos\tgood film\nneg\tbad film\npos\tnice good\nneg\tawful bad\n" * 5)
    return path


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_has_its_numbers_in_its_name(source, name):
    for option in (["--loss", name], ["--set", f"loss={name}"]):
        ok("train", source, str(source.with_name("m")), "--overwrite", "--quiet", *option)
        assert load_model(source.with_name("m")).loss == LOSSES[name]


@pytest.mark.parametrize("name", REFUSED)
def test_another_name_is_refused_with_a_list(name):
    with pytest.raises(click.BadParameter, match="perceptron, hinge:MARGIN"):
        parse_loss(name)


def test_costs_are_of_classes_by_name(source):
    costs, model = source.with_name("costs.csv"), source.with_name("m")
    costs.write_text(",pos,neg\nneg,3,0\npos,0,1\n")
    ok("train", source, str(model), "--quiet", "--costs", str(costs))
    assert load_model(model).loss == CostSensitiveHinge(((0.0, 3.0), (1.0, 0.0)))
    contents = [",pos,pos\nneg,3,0\npos,0,1\n", ",pos,neg\nneg,3,0\nneg,3,0\npos,0,1\n"]
    for content in (
        *contents,
        "",
        "pos,neg\n",
        ",pos,neg\nneg,3\npos,0,1\n",
        ",pos,neg\nneg,x,0\npos,0,1\n",
        ",a\na,0\n",
    ):
        costs.write_text(content)
        refused("train", source, str(model), "--overwrite", "--quiet", "--costs", str(costs), code=2)
    refused("train", source, str(model), "--quiet", "--costs", str(costs), "--loss", "hinge", code=2)
    refused(
        "train", source, str(model), "--overwrite", "--quiet", "--costs", str(costs), "--estimator", "KMeans", code=2
    )
    refused("train", source, str(model), "--overwrite", "--quiet", "--costs", str(costs), "--set", "loss=hinge", code=2)


def test_the_line_of_a_training_names_the_loss_that_was_chosen(source):
    line = ok("train", source, str(source.with_name("m")), "--quiet")
    assert f"loss {load_model(source.with_name('m')).learner_.loss}" in line


def test_values_of_parameters_are_read_as_json_or_python():
    texts = ["False", "false", "None", "null", "[.5,.5]", "0.5", "gibbs"]
    assert [parse_setting("name", text) for text in texts] == [False, False, None, None, [0.5, 0.5], 0.5, "gibbs"]
