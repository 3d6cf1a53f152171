"""``sdem tune`` and ``sdem suspects``, as a user types them."""

from __future__ import annotations

import csv
import json
import re

import click
import pytest
from cli.commands import run as invoke
from selection.conftest import made

import sdem_dist.cli.tune
from sdem_dist import MultiLabelNB, learning_curve, load_model, open_corpus, write_corpus
from sdem_dist.cli.tune import space_of


def run(arguments):
    return invoke(*arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune")
    X, y, _ = made(300)
    write_corpus(path / "c.zarr", X, y)
    rows = [f"{label}\t{' '.join(f'w{w}' for w in row.indices)}" for label, row in zip(y, X, strict=True)]
    (path / "posts.tsv").write_text("\n".join(rows) + "\n")
    return path


def test_a_model_and_a_report(folder):
    result = run(
        ["tune", folder / "c.zarr", folder / "m.model", "--folds", 3, "--space", "loss=hinge,ncll", "--space", "step=0.1,0.5",
         "--curve", folder / "curve.png", "--table", folder / "t.csv"]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for words in (
        "Tried 5 settings, each on 3 folds",
        "The best log-loss with each value",
        "Best: ",
        "the default",
        "is optimistic",
    ):
        assert words in result.output
    assert max(len(line) for line in result.stdout.splitlines() if str(folder) not in line) <= 80
    assert "fit 1;" in result.stderr and "fold 1 of 3: 3 of 5 settings go on" in result.stderr
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((folder / "t.csv").open()))
    assert len(rows) == 5 and rows[0]["setting"] == "the default"
    assert {row["param_loss"] for row in rows[1:]} == {"hinge", "ncll"} and {row["error"] for row in rows} == {""}
    assert rows[0]["param_loss"] == "" and {row["param_step"] for row in rows[1:]} == {"0.1", "0.5"}
    best = min(rows, key=lambda row: int(row["rank_test_score"]))
    model = load_model(folder / "m.model")
    assert f"loss={model.loss}" in best["setting"] or (best["setting"] == "the default" and model.loss == "auto")
    again = run(["tune", folder / "c.zarr", folder / "m.model"])
    assert again.exit_code == 1 and "--overwrite" in again.output


def test_a_source_and_another_estimator(folder):
    result = run(
        ["tune", folder / "posts.tsv", folder / "lda.model", "--estimator", "LDAClassifier", "--quiet", "--folds", 2,
         "--space", "n_components=1,2", "--set", "n_epochs=2", "--metric", "accuracy"]
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert load_model(folder / "lda.model").predict(["w1 w2 w3"]).shape == (1,)


def test_a_source_is_held_out(folder):
    assert run(["ingest", folder / "posts.tsv", folder / "p.zarr"]).exit_code == 0
    said = []
    for validation in (folder / "posts.tsv", folder / "p.zarr"):
        more = ["--validation", validation, "--space", "step=0.1,0.5", "--overwrite", "--quiet"]
        result = run(["tune", folder / "p.zarr", folder / "v.model", *more])
        assert result.exit_code == 0, result.output
        said.append(result.stdout)
    assert said[0] == said[1] and "each on the held-out documents" in said[0]
    assert "is optimistic" in said[0] and "nested" not in said[0]  # there it is refused
    nested = run(["tune", folder / "p.zarr", folder / "w.model", "--validation", folder / "p.zarr", "--nested"])
    assert nested.exit_code == 2 and "leave --validation out" in nested.output


def test_a_search_is_kept(folder):
    arguments = [
        "tune",
        folder / "c.zarr",
        folder / "kept.model",
        "--space",
        "step=0.1,0.5",
        "--checkpoint",
        folder / "run",
    ]
    assert run(arguments).exit_code == 0
    refused = run([*arguments, "--overwrite"])
    assert refused.exit_code == 1 and "--resume" in refused.output
    again = run([*arguments, "--resume"])
    assert again.exit_code == 0
    assert "fit 1;" not in again.stderr  # it had ended
    (folder / "run" / "setting-2-fold-0.sdem").unlink()
    again = run([*arguments, "--resume"])
    assert f"going on after 2 fits of {folder / 'run'}; best log-loss" in again.stderr
    assert run([*arguments, "--resume", "--metric", "log-loss"]).exit_code == 0  # what the metric was anyway
    other = run([*arguments, "--resume", "--trials", 2])
    assert other.exit_code == 1 and "(n_trials: 2, before 17)" in other.stderr
    other = run([*arguments, "--resume", "--folds", 4, "--set", "alpha=2"])
    assert "(folds: 4, before 5; parameters.alpha: 2, before 'laplace')" in other.stderr


@pytest.mark.parametrize(
    ("estimator", "values", "other", "message"),
    [
        ("EMMixtureClassifier", "n_components=1,2", "unlabelled=none", "parameters.unlabelled: 'none', before ''"),
        ("EMMixtureClassifier", "n_components=1,2", "components=gaussian", "takes dense ones"),
        ("MultinomialNB", "step=0.1", "unlabelled=none", "parameters.unlabelled: 'none', before ''"),
    ],
)
def test_a_search_whose_documents_settle_a_parameter_goes_on(folder, tmp_path, estimator, values, other, message):
    lines = (folder / "posts.tsv").read_text().splitlines()
    hidden = [f"\t{line.partition(chr(9))[2]}" for line in lines[:100]]
    (tmp_path / "half.tsv").write_text("\n".join([*hidden, *lines[100:]]) + "\n")
    arguments = ["tune", tmp_path / "half.tsv", tmp_path / "m", "--estimator", estimator, "--space", values,
                 "--folds", 2, "--unlabelled", "", "--checkpoint", tmp_path / "run"]  # fmt: skip
    first, again = run(arguments), run([*arguments, "--resume"])
    assert (first.exit_code, again.exit_code) == (0, 0), first.output + again.output
    assert again.stdout == first.stdout
    refused = run([*arguments, "--resume", "--set", other])
    usage = "takes dense ones" in message  # a mistake in the options, not in what was kept
    assert refused.exit_code == (2 if usage else 1) and message in refused.stderr, refused.output


def test_what_is_wrong_with_a_search_is_said_before_the_source_is_read(folder, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "search.sdem").touch()
    kept = [
        "tune",
        folder / "posts.tsv",
        tmp_path / "kept.model",
        "--space",
        "step=0.5",
        "--checkpoint",
        tmp_path / "kept",
    ]
    first = run(kept)
    assert first.exit_code == 0 and first.stderr.splitlines()[-1].startswith(
        "training the best on all documents; best "
    )
    again = run([*kept, "--resume", "--trials", 3])
    assert again.exit_code == 1 and "n_trials: 3, before 17" in again.stderr and len(again.stderr.splitlines()) < 4
    for more, message in (
        (["--checkpoint", tmp_path / "run"], "has an earlier search"),
        (["--space", "loss=hinge,foo"], "losses are auto"),
        (["--space", "losss=hinge"], "has no losss; did you mean loss?"),
    ):
        result = run(["tune", folder / "posts.tsv", tmp_path / "x.model", *more])
        assert result.exit_code in (1, 2) and message in result.stderr
        assert "documents" not in result.stderr  # nothing was counted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "stepp=1"], "has no stepp"),
        (["--space", "nowhere.json"], "neither NAME=A,B,C nor a file"),
        (["--space", "step="], "write NAME=A,B,C"),
        (["--resume"], "--checkpoint"),
        (["--metric", "R2"], "has no R2"),
        (["--curve", "c.txt"], ".png"),
        (["--estimator", "MultinomialNBB"], "MultinomialNB"),
    ],
)
def test_mistakes(folder, arguments, message, tmp_path):
    result = run(["tune", folder / "c.zarr", tmp_path / "x.model", *arguments])
    assert result.exit_code != 0 and message in result.output
    assert "Traceback" not in result.output


def test_the_winners_score_is_that_of_the_table(folder, tmp_path):
    counting = ["--set", "loss=nll", "--set", "alpha=0.1", "--space", "alpha=1.0", "--folds", 7]
    result = run(["tune", folder / "c.zarr", tmp_path / "m.model", "--quiet", *counting])
    assert result.exit_code == 0, result.output
    table, _, rest = result.stdout.partition("Best: alpha=1")
    assert "over documents" in rest and "or from a nested search" in " ".join(rest.split())
    of_table = re.search(r"(\d\.\d{4}) .* alpha=1$", table, re.MULTILINE)[1]
    assert re.search(r"  log-loss (\d\.\d{4}),", rest)[1] == of_table


def test_the_table_is_written_where_nobody_reads_the_report(folder, tmp_path, monkeypatch):
    def closed(line):
        raise BrokenPipeError

    monkeypatch.setattr(sdem_dist.cli.tune, "say", closed)
    more = ["--space", "step=0.1", "--folds", 2, "--quiet", "--table", tmp_path / "t.csv"]
    run(["tune", folder / "c.zarr", tmp_path / "m.model", *more])
    assert len(list(csv.DictReader((tmp_path / "t.csv").open()))) == 2


def test_spaces(tmp_path):
    with pytest.raises(click.UsageError, match="as in Python"):
        space_of(("stop_words='a,b',c",))
    assert space_of(("ngram_range=(1,1),(1,2)", "loss=hinge,null")) == [
        {"ngram_range": [(1, 1), (1, 2)], "loss": ["hinge", None]}
    ]
    (tmp_path / "s.json").write_text('[{"loss": ["nll"], "alpha": [1, 0.5]}, {"ngram_range": [[1, 2]]}]')
    assert space_of((str(tmp_path / "s.json"), "min_df=2")) == [
        {"loss": ["nll"], "alpha": [1, 0.5], "min_df": [2]}, {"ngram_range": [(1, 2)], "min_df": [2]},
    ]  # fmt: skip
    (tmp_path / "bad.json").write_text('{"loss": "nll"}')
    with pytest.raises(click.UsageError, match="values"):
        space_of((str(tmp_path / "bad.json"),))
    assert space_of(()) is None


def test_suspects_are_listed(folder):
    result = run(["suspects", folder / "c.zarr", "-n", 5, "--folds", 3])
    assert result.exit_code == 0, result.output
    assert "of 300 documents" in result.output and "p(label)" in result.output and "--keep-text" in result.output
    objects = run(["suspects", folder / "c.zarr", "-n", 5, "--folds", 3, "--json"])
    found = [json.loads(line) for line in objects.stdout.splitlines()]
    assert len(found) == 5 and found[0]["doubt"] >= found[-1]["doubt"] > 0.5
    assert found[0]["label"] != found[0]["other"]


def test_a_named_classifier_of_suspects_has_the_loss_of_the_usual_one(folder, tmp_path):
    X, y, _ = made(300)
    write_corpus(tmp_path / "sets.zarr", X, [(label,) if i % 3 else (label, "more") for i, label in enumerate(y)])

    def found(corpus, *how):
        return run(["suspects", corpus, "-n", 9, "--folds", 3, "--json", *how]).stdout

    for corpus, name in ((folder / "c.zarr", "MultinomialNB"), (tmp_path / "sets.zarr", "MultiLabelNB")):
        usual = found(corpus)
        assert len(usual.splitlines()) == 9
        assert found(corpus, "--estimator", name) == usual == found(corpus, "--set", "alpha=laplace")
        assert found(corpus, "--set", "loss=hinge") != usual


def test_the_curve_of_several_labels_has_temperatures(tmp_path):
    X, y, _ = made(400)
    write_corpus(tmp_path / "sets.zarr", X, [(label,) if i % 3 else (label, "more") for i, label in enumerate(y)])
    how = ["--estimator", "MultiLabelNB", "--folds", 3, "--trials", 1, "--set", "step=3"]
    said = run(["tune", tmp_path / "sets.zarr", tmp_path / "m", *how, "--curve", tmp_path / "c.png"]).output
    drawn = float(re.findall(r"^ *[\d,]+  [\d.]+ \+- [\d.]+  ([\d.]+)", said, re.MULTILINE)[-1])
    winner = MultiLabelNB(step=3.0)
    corpus = open_corpus(tmp_path / "sets.zarr")
    assert drawn == round(learning_curve(winner, corpus, random_state=0).log_loss[-1].mean(), 4)
    plain = learning_curve(winner.set_params(validation_fraction=0.0), corpus, random_state=0)
    assert drawn < plain.log_loss[-1].mean()
