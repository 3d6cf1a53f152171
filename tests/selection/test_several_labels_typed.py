"""Searches and suspects of several labels per document, as they are typed."""

import json

import pytest
from cli.commands import ok, refused
from selection.test_several_labels import lists_of, made

from sdem_dist import load_model


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    words, members = made(300)
    path = tmp_path_factory.mktemp("posts") / "posts.tsv"
    rows = zip(lists_of(members), words, strict=True)
    path.write_text("".join(f"{','.join(labels)}\t{' '.join(f'w{w}' for w in row.indices)}\n" for labels, row in rows))
    return path


def test_the_command_tunes_a_source(posts, tmp_path):
    more = ["--label-separator", ",", "--folds", "3", "--estimator"]
    said = ok("tune", str(posts), str(tmp_path / "m"), *more, "MultiLabelNB", "--space", "norm=5,10", "--curve",
              str(tmp_path / "curve.png"))  # fmt: skip
    assert "micro-F1  log-loss  accuracy" in said and "Micro-F1 by number of documents" in said
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert load_model(tmp_path / "m").predict(["w1 w2"]).shape == (1, 3)
    ok("tune", str(posts), str(tmp_path / "t"), *more, "SupervisedLDAClassifier", "--space", "n_components=2,4",
       "--set", "n_epochs=2", "--metric", "Hamming-loss", "--checkpoint", str(tmp_path / "run"))  # fmt: skip
    assert (tmp_path / "run").exists()
    said = refused("tune", str(posts), str(tmp_path / "n"), *more, "MultinomialNB", code=2)
    assert "MultinomialNB learns one: add --estimator MultiLabelNB or --estimator SupervisedLDAClassifier" in said


def test_the_command_lists_suspects(posts):
    said = ok("suspects", str(posts), "--label-separator", ",", "-n", "4")
    assert "labels would be added or taken away" in said and "p(label)" in said
    rows = [json.loads(line) for line in ok("suspects", str(posts), "--label-separator", ",", "--json").splitlines()]
    assert len(rows) == 20 and {type(row["present"]) for row in rows} == {bool}
