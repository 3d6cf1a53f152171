"""``sdem tune`` and ``sdem suspects``, as a user types them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from cli.commands import rows_of
from cli.commands import run as invoke
from selection.conftest import made

from sdem_dist import MultiLabelNB, learning_curve, load_model, open_corpus, write_corpus
from sdem_dist.cli import console


def run(line: str, code: int | None = 0):
    result = invoke(line)
    assert code is None or result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune")
    X, y, _ = made(300)
    write_corpus(path / "c.zarr", X, y)
    write_corpus(path / "sets.zarr", X, [(label,) if i % 3 else (label, "more") for i, label in enumerate(y)])
    rows = [f"{label}\t{' '.join(f'w{w}' for w in row.indices)}" for label, row in zip(y, X, strict=True)]
    (path / "posts.tsv").write_text("\n".join(rows) + "\n")
    (path / "half.tsv").write_text("\n".join("\t" + r.partition("\t")[2] if i < 100 else r for i, r in enumerate(rows)))
    return path


@pytest.fixture
def folder(sources, tmp_path, monkeypatch):
    shutil.copytree(sources, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_a_model_and_a_report(folder):
    spaces = "--space loss=hinge,ncll --space step=0.1,0.5"
    result = run(f"tune c.zarr m.model --folds 3 {spaces} --curve curve.png --table t.csv")
    for words in (
        "Tried 5 settings, each on 3 folds",
        "Best log-loss among settings with each value",
        "Best: ",
        "the default",
    ):
        assert words in result.output and "is optimistic" in result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "fit 1;" in result.stderr and "fold 1 of 3: 3 of 5 settings continue" in result.stderr
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")
    rows = rows_of("t.csv")
    assert len(rows) == 5 and rows[0]["setting"] == "the default"
    assert {row["param_loss"] for row in rows[1:]} == {"hinge", "ncll"} and {row["error"] for row in rows} == {""}
    assert rows[0]["param_loss"] == "" and {row["param_step"] for row in rows[1:]} == {"0.1", "0.5"}
    best = min(rows, key=lambda row: int(row["rank_test_score"]))
    model = load_model("m.model")
    assert f"loss={model.loss}" in best["setting"] or (best["setting"] == "the default" and model.loss == "auto")


def test_a_source_is_held_out(folder):
    run("ingest posts.tsv p.zarr")
    assert run("tune p.zarr w.model --trials 2 --quiet").stderr.count("to try words+characters, pass") == 1
    options = "--space step=0.1,0.5 --overwrite --quiet"
    said = [run(f"tune p.zarr v.model --validation {path} {options}").stdout for path in ("posts.tsv", "p.zarr")]
    assert said[0] == said[1] and "each on the held-out documents" in said[0]
    assert "is optimistic" in said[0] and "nested" not in said[0]  # there it is refused


def test_a_search_is_kept(folder):
    command = "tune c.zarr kept.model --space step=0.1,0.5 --checkpoint run"
    assert run(command).stderr.splitlines()[-1].startswith("training with the best setting on all documents; best ")
    assert "--resume" in run(f"{command} --overwrite", 1).output
    assert "already exists" in run("tune c.zarr kept.model --checkpoint new --resume", 1).stderr
    assert "fit 1;" not in run(f"{command} --resume").stderr  # it had ended
    Path("run", "setting-2-fold-0.sdem").unlink()
    assert "resuming the search in run after 2 fits; best log-loss" in run(f"{command} --resume").stderr
    run(f"{command} --resume --metric log-loss")  # what the metric was anyway
    assert "(n_trials: 2, was 17)" in run(f"{command} --resume --trials 2", 1).stderr
    source = "tune posts.tsv kept.model --space step=0.5 --checkpoint kept"
    run(f"{source} --overwrite")
    again = run(f"{source} --resume --trials 3", 1)  # said before the source is counted
    assert "n_trials: 3, was 17" in again.stderr and len(again.stderr.splitlines()) < 4
    other = run(f"{command} --resume --folds 4 --set alpha=2", 1)
    assert "(folds: 4, was 5; parameters.alpha: 2, was 'laplace')" in other.stderr


@pytest.mark.parametrize(("settings", "other", "message"), [
    ("EMMixtureClassifier --space n_components=1,2", "unlabelled=none", "parameters.unlabelled: 'none', was ''"),
    ("EMMixtureClassifier --space n_components=1,2", "components=gaussian", "needs dense documents"),
    ("MultinomialNB --space step=0.1", "unlabelled=none", "parameters.unlabelled: 'none', was ''"),
])  # fmt: skip
def test_a_search_whose_documents_settle_a_parameter_goes_on(folder, settings, other, message):
    command = ["tune", "half.tsv", "m", "--folds", "2", "--unlabelled", "", "--checkpoint", "run", "--estimator"]
    command += settings.split()
    first, again = invoke(*command), invoke(*command, "--resume")
    assert (first.exit_code, again.exit_code) == (0, 0), first.output + again.output
    assert again.stdout == first.stdout
    refused = invoke(*command, "--resume", "--set", other)
    assert refused.exit_code == 1 and message in refused.stderr, refused.output


def test_the_winners_score_is_that_of_the_table(folder):
    counting = "--set loss=nll --set alpha=0.1 --space alpha=1.0 --folds 7"
    table, _, rest = run(f"tune c.zarr m.model --quiet {counting}").stdout.partition("Best: alpha=1")
    assert "over documents" in rest and "or a nested search" in " ".join(rest.split())
    of_table = re.search(r"(\d\.\d{4}) .* alpha=1$", table, re.MULTILINE)[1]
    assert re.search(r"  log-loss (\d\.\d{4}),", rest)[1] == of_table


def test_the_table_is_written_where_nobody_reads_the_report(folder, monkeypatch):
    def closed(line):
        raise BrokenPipeError

    monkeypatch.setattr(console, "say", closed)
    invoke("tune c.zarr m.model --space step=0.1 --folds 2 --quiet --table t.csv")
    assert len(rows_of("t.csv")) == 2


@pytest.mark.parametrize(("space", "params"), [
    ("ngram_range=(1,1),(1,2) --space class_weight=balanced,null", {"ngram_range", "class_weight"}),
    ("s.json --space min_df=2", {"loss", "alpha", "min_df", "ngram_range"}),
])  # fmt: skip
def test_spaces(folder, space, params):
    Path("s.json").write_text('[{"loss": ["nll"], "alpha": [1, 0.5]}, {"ngram_range": [[1, 1]]}]')
    run(f"tune posts.tsv m --space {space} --folds 2 --quiet --table t.csv")
    rows = rows_of("t.csv")
    assert {name.removeprefix("param_") for name in rows[0] if name.startswith("param_")} == params
    assert len(rows) == (5 if "null" in space else 4)


def test_suspects_are_listed(folder):
    shown = run("suspects c.zarr -n 5 --folds 3").output
    assert "of 300 documents" in shown and "p(label)" in shown and "--keep-text" in shown
    suspects = [json.loads(line) for line in run("suspects c.zarr -n 5 --folds 3 --json").stdout.splitlines()]
    assert len(suspects) == 5 and suspects[0]["doubt"] >= suspects[-1]["doubt"] > 0.5
    assert suspects[0]["label"] != suspects[0]["other"]
    mixture = "--estimator EMMixtureClassifier --set n_components=1"
    assert "p(label)" in run(f"suspects posts.tsv -n 5 --folds 2 {mixture}").output


@pytest.mark.parametrize(("corpus", "name"), [("c.zarr", "MultinomialNB"), ("sets.zarr", "MultiLabelNB")])
def test_a_named_classifier_of_suspects_has_the_loss_of_the_usual_one(folder, corpus, name):
    command = f"suspects {corpus} -n 9 --folds 3 --json"
    usual = run(command).stdout
    assert len(usual.splitlines()) == 9
    assert run(f"{command} --estimator {name}").stdout == usual == run(f"{command} --set alpha=laplace").stdout
    assert run(f"{command} --set loss=hinge").stdout != usual


def test_the_curve_of_several_labels_has_temperatures(folder):
    how = "--estimator MultiLabelNB --folds 3 --trials 1 --set step=3 --curve c.png"
    said = run(f"tune sets.zarr m {how}").output
    drawn = float(re.findall(r"^ *[\d,]+ +[\d.]+ \+- [\d.]+ +([\d.]+)", said, re.MULTILINE)[-1])
    winner, corpus = MultiLabelNB(step=3.0), open_corpus("sets.zarr")
    assert drawn == round(learning_curve(winner, corpus, random_state=0).log_loss[-1].mean(), 4)
    plain = learning_curve(winner.set_params(validation_fraction=0.0), corpus, random_state=0)
    assert drawn < plain.log_loss[-1].mean()
