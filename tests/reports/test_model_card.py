"""Model cards; documents that a model was trained on are known again."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok, refused, run

from sdem_dist import GaussianRegressor, MultinomialMixture, MultinomialNB, load_model, open_corpus, write_corpus
from sdem_dist.reports.page import model_card
from sdem_dist.reports.reporting import was_trained_on

RNG = np.random.default_rng(0)
Y = np.array(["<script>", "a|b*c"])[RNG.integers(0, 2, 300)]
X = sp.csr_matrix(RNG.poisson(0.4 + 2 * ((np.arange(6) % 2 == 0) == (Y == "a|b*c")[:, None])))
WORDS = ["[x](y)", "`b`", "\x1b[1mc", "d\te", "<i>", "f_g"]
ODD = [f"word{i}" for i in range(400)]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS)


def test_the_card_says_what_was_trained_and_measured(corpus, tmp_path):
    model = MultinomialNB(min_df=2).fit(corpus)
    model.save(tmp_path / "my_model")
    plain = ok("inspect", str(tmp_path / "my_model"), "--card")
    assert plain.startswith("# my\\_model\n") and "| min\\_df | 2 |" in plain and "300 documents" in plain
    assert "held-out folds: accuracy" in plain and "were calibrated on held-out" in plain
    measured = ok("inspect", str(tmp_path / "my_model"), "--card", "--on", corpus.path)
    assert f"| accuracy | {model.score(corpus):.4f} |" in measured
    assert "For metrics by class" in plain and "For metrics by class" not in measured
    assert "--card needs a model" in refused("inspect", corpus.path, "--card", code=2)
    assert "--on needs --card" in refused("inspect", str(tmp_path / "my_model"), "--on", corpus.path, code=2)


def test_nothing_of_the_data_is_markup(corpus):
    card = model_card(MultinomialNB().fit(corpus), "<b>", MultinomialNB().fit(corpus).report(corpus), "a|b\n# c")
    assert "<" not in card and "\x1b" not in card
    assert "&lt;script&gt;" in card and r"a\|b\*c" in card and r"\[x\](y)" in card and r"\`b\`" in card
    rows = [line for line in card.splitlines() if line.startswith("| ")]
    assert {line.replace(r"\|", "").count("|") for line in rows} <= {3, 6}
    assert "\n# c" not in card


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_limits_are_those_of_the_model(corpus, loss):
    card = model_card(MultinomialNB(loss=loss, n_epochs=1, validation_fraction=0.0).fit(corpus), "m")
    assert ("p(document) is not reliable" in card) == (loss == "ncll")
    assert "were not calibrated" in card


def test_the_card_reads_sources_as_evaluate_does(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.csv"
    train.write_text("a\tgoal match\nb\tbank share\n" * 20)
    test.write_text("kind,body\na,goal\nb,share\nodd,bank\n")
    ok("train", str(train), str(tmp_path / "m"), "--quiet")
    reading = ("--label", "kind", "--text", "body")
    measured = ok("inspect", str(tmp_path / "m"), "--card", "--on", str(test), *reading, "--on-error", "skip")
    assert "On the 2 documents" in measured and "| accuracy | 1.0000 |" in measured
    assert "--text applies only to a source" in refused("inspect", str(tmp_path / "m"), "--text", "body", code=2)


def test_other_models_have_cards(corpus):
    table = RNG.normal(size=(50, 2))
    for model in (MultinomialMixture(2).fit(corpus), GaussianRegressor().fit(table, table @ [1.0, 2.0])):
        assert "## Limits" in model_card(model, "m")


def lines(rng: np.random.Generator, n: int, n_labelled: int) -> list[str]:
    """Return lines whose words are partly their own, so that documents without a label have words that no other has."""
    topics = {"sport": ["goal", "match"], "money": ["bank", "share"]}
    names = ["sport", "money"] * (n // 2)
    texts = [" ".join([*rng.choice(topics[name], 3), *rng.choice(ODD, 3)]) for name in names]
    return [f"{name if i < n_labelled else ''}\t{texts[i]}\n" for i, name in enumerate(names)]


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
    with pytest.warns(UserWarning, match="trained on these documents"):
        model.calibrate_sets(open_corpus(half / "half.zarr"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.calibrate_sets(open_corpus(half / "new.zarr"))


def test_another_part_of_a_corpus_is_new(half):
    corpus = open_corpus(half / "new.zarr")
    inside = np.random.default_rng(1).random(corpus.n_documents) < 0.5
    assert not was_trained_on(MultinomialNB(n_epochs=1).fit(corpus.subset(inside)), corpus.subset(~inside))
