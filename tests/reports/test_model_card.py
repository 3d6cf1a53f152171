"""Model cards, and what notebooks show."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cli.commands import ok, refused

from sdem_dist import GaussianRegressor, MultinomialMixture, MultinomialNB, write_corpus
from sdem_dist.reports.model_card import model_card

RNG = np.random.default_rng(0)
Y = np.array(["<script>", "a|b*c"])[RNG.integers(0, 2, 300)]
X = sp.csr_matrix(RNG.poisson(0.4 + 2 * ((np.arange(6) % 2 == 0) == (Y == "a|b*c")[:, None])))
WORDS = ["[x](y)", "`b`", "\x1b[1mc", "d\te", "<i>", "f_g"]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "c", X, Y, vocabulary=WORDS)


def test_the_card_says_what_was_trained_and_measured(corpus, tmp_path):
    model = MultinomialNB(min_df=2).fit(corpus)
    model.save(tmp_path / "my_model")
    plain = ok("inspect", str(tmp_path / "my_model"), "--card")
    assert plain.startswith("# my\\_model\n") and "| min\\_df | 2 |" in plain and "300 documents" in plain
    assert "held-out part of the training documents: accuracy" in plain and "one temperature" in plain
    measured = ok("inspect", str(tmp_path / "my_model"), "--card", "--on", corpus.path)
    assert f"| accuracy | {model.score(corpus):.4f} |" in measured
    assert "not known from training" in plain and "not known from training" not in measured
    assert "--card is for a model" in refused("inspect", corpus.path, "--card", code=2)
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
    assert ("p(document) of this model means little" in card) == (loss == "ncll")
    assert "were not calibrated" in card


def test_the_card_claims_no_held_out_documents_where_none_were():
    few = MultinomialNB(n_epochs=2, validation_fraction=0.0).fit(X[:30], Y[:30])
    few.learner_ = replace(few.learner_, temperature=0.3)
    assert "were not calibrated" in model_card(few, "m")


def test_the_card_reads_sources_as_evaluate_does(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.csv"
    train.write_text("a\tgoal match\nb\tbank share\n" * 20)
    test.write_text("kind,body\na,goal\nb,share\nodd,bank\n")
    ok("train", str(train), str(tmp_path / "m"), "--quiet")
    reading = ("--label", "kind", "--text", "body")
    measured = ok("inspect", str(tmp_path / "m"), "--card", "--on", str(test), *reading, "--on-error", "skip")
    assert "On the 2 documents" in measured and "| accuracy | 1.0000 |" in measured
    assert "--text: only for a source" in refused("inspect", str(tmp_path / "m"), "--text", "body", code=2)


def test_other_models_have_cards(corpus):
    table = RNG.normal(size=(50, 2))
    for model in (MultinomialMixture(2).fit(corpus), GaussianRegressor().fit(table, table @ [1.0, 2.0])):
        assert "## Limits" in model_card(model, "m")
