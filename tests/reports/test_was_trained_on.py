"""Documents that a model was trained on are known again, also where only some have a label."""

import warnings

import numpy as np
import pytest
from cli.commands import ok, run

from sdem_dist import MultinomialNB, load_model, open_corpus
from sdem_dist.reports.reporting import was_trained_on


def lines(rng: np.random.Generator, n: int, n_labelled: int) -> list[str]:
    """Return lines whose words are partly their own, so that documents without a label have words that no other has."""
    topics = {"sport": ["goal", "match"], "money": ["bank", "share"]}
    names = ["sport", "money"] * (n // 2)
    return [
        f"{name if i < n_labelled else ''}\t{' '.join([*rng.choice(topics[name], 3), *rng.choice(ODD, 3)])}\n"
        for i, name in enumerate(names)
    ]


ODD = [f"word{i}" for i in range(400)]


@pytest.fixture(scope="module", params=[30, 250], ids=["few labels", "held-out labels decide"])
def half(tmp_path_factory, request):
    folder, rng = tmp_path_factory.mktemp("taught"), np.random.default_rng(0)
    (folder / "half.tsv").write_text("".join(lines(rng, 400, request.param)))
    (folder / "new.tsv").write_text("".join(lines(rng, 400, 400)))
    ok(f"ingest {folder}/half.tsv {folder}/half.zarr --unlabelled ''")
    ok(f"ingest {folder}/new.tsv {folder}/new.zarr --vocabulary-from {folder}/half.zarr")
    ok(f"train {folder}/half.zarr {folder}/m --quiet")
    return folder


@pytest.mark.parametrize("name", ["half.tsv", "half.zarr", "new.tsv", "new.zarr"])
def test_evaluate_knows_half_labelled_documents_again(half, name):
    how = ["--unlabelled", ""] if name == "half.tsv" else []
    said = run("evaluate", str(half / "m"), str(half / name), *how)
    assert said.exit_code == 0, said.output
    assert ("was trained on" in said.stderr) == name.startswith("half"), said.stderr


def test_sets_of_classes_are_doubted_in_python_too(half):
    model = load_model(half / "m")
    with pytest.warns(UserWarning, match="the model was trained on these documents"):
        model.calibrate_sets(open_corpus(half / "half.zarr"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.calibrate_sets(open_corpus(half / "new.zarr"))
    texts, labels = ["goal match", "bank share", "goal goal"] * 5, ["sport", "money", "sport"] * 5
    of_texts = MultinomialNB(n_epochs=1).fit(texts, labels)
    with pytest.warns(UserWarning, match="the model was trained on these documents"):
        of_texts.calibrate_sets(texts, labels)


def test_another_part_of_a_corpus_is_new(half):
    corpus = open_corpus(half / "new.zarr")
    inside = np.random.default_rng(1).random(corpus.n_documents) < 0.5
    model = MultinomialNB(n_epochs=1).fit(corpus.subset(inside))
    assert not was_trained_on(model, corpus.subset(~inside))
