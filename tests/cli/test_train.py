"""``sdem train``: its options, its lines, its checkpoints, and the same model by every way in."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ok, refused, rows_of, run
from cli.conftest import PLAIN, SEVERAL

from sdem_dist import load_model, open_corpus
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll

LOSSES = {"hinge": "hinge", "perceptron": Hinge(0.0), "hinge:2": Hinge(2.0), "blend:.1": Blend(Ncll(), 0.1)}
LOSSES |= {"blend:.1:hinge:2": Blend(Hinge(2.0), 0.1)}


def equal_states(a, b) -> None:
    for one, other in zip(load_model(a).state_, load_model(b).state_, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("options", "expected"), [
    (
        "--loss hinge --alpha 0.5 --epochs 4 --lanes 2 --rounds 3 --patience 2 --seed 9 --validation test.zarr",
        {"loss": "hinge", "alpha": 0.5, "n_epochs": 4, "n_lanes": 2, "rounds_per_epoch": 3, "patience": 2,
         "random_state": 9, "merge": "mean", "verbose": False},
    ),
    ("--merge sum --alpha log --batch-size 2", {"alpha": "log", "batch_size": 2, "merge": "sum"}),
    (
        "--estimator LDAClassifier --epochs 2 --set n_components=3 --set inference=gibbs --set verbose=false",
        {"n_components": 3, "inference": "gibbs", "n_epochs": 2, "loss": "ncll", "verbose": False},
    ),
    ("--set patience=None --set alpha=.5 --set fit_prior=False", {"patience": None, "alpha": 0.5, "fit_prior": False}),
    ("--set class_prior=[.5,.3,.2] --set n_jobs=null", {"class_prior": (0.5, 0.3, 0.2), "n_jobs": None}),
], ids=lambda value: value[:12] if isinstance(value, str) else "")  # fmt: skip
def test_every_option_reaches_the_estimator(desk, options, expected):
    ok(f"train posts.zarr m --quiet {options}")
    model = load_model("m")
    assert {name: model.get_params()[name] for name in expected} == expected
    assert ("validation_accuracy" in model.history_[0]) == ("--validation" in options)


def test_a_loss_has_its_numbers_in_its_name_and_costs_are_of_classes_by_name(desk):
    options = [(f"{option}{name}", loss) for name, loss in LOSSES.items() for option in ("--loss ", "--set loss=")]
    for option, loss in (*options, ("--costs costs.csv", CostSensitiveHinge(((0.0, 3.0), (1.0, 0.0))))):
        Path("costs.csv").write_text(",sport,money\nmoney,3,0\nsport,0,1\n")
        ok(f"train plain.tsv m --overwrite --quiet --epochs 1 {option}")
        assert load_model("m").loss == loss


def test_progress_is_on_standard_error_and_quiet_says_nothing(desk):
    Path("many.tsv").write_text(PLAIN * 1800)
    result = run("train many.tsv m --epochs 2")
    assert "epoch 1" in result.stderr and "epoch 2" in result.stderr and "documents" in result.stderr
    assert "epoch 1" not in result.stdout
    assert not run("train many.tsv m --epochs 1 --overwrite --quiet").stderr


def test_with_patience_the_figures_are_those_of_the_epoch_that_is_kept(desk):
    options = "--validation posts.zarr-held-out --patience 2 --epochs 60 --lanes 1 --loss hinge --set evaluate_every=1"
    result = run(f"train posts.zarr m {options}")
    history = load_model("m").history_
    kept = min(history, key=lambda h: h["validation_hinge"])
    assert kept["epoch"] < len(history) and f"keeping epoch {kept['epoch']}" in result.stderr
    assert f"{len(history)} epochs, best epoch {kept['epoch']}; training documents: accuracy" in result.stdout
    assert f"hinge loss {kept['hinge']:.4f}" in result.stdout
    assert json.loads(ok("evaluate m posts.zarr-held-out --json"))["hinge"] == pytest.approx(kept["validation_hinge"])
    assert f"best: epoch {kept['epoch']}" in ok("inspect m")


def test_checkpoint_and_resume(desk):
    command = "train posts.zarr m --epochs 2 --checkpoint run --set validation_fraction=0 --overwrite"
    assert "checkpoint" in run(command).stderr
    assert len(list(Path("run").iterdir())) == 2
    Path("m").rename("before")
    max(Path("run").iterdir()).unlink()
    assert "from epoch 2" in run(f"{command} --resume").stderr
    equal_states("m", "before")
    assert "other settings" in refused(f"{command} --resume --seed 3 --quiet")
    assert "already exists" in refused("train posts.zarr m --checkpoint empty --resume"), "nothing to resume from"


def test_on_worker_processes_of_this_machine_the_bits_are_the_same(desk):
    ok("train posts.zarr m --epochs 3 --quiet --workers 1")
    equal_states("m", "posts.model")


TSV = "".join(f"{line}\n" for line in PLAIN.splitlines() * 5)
WAYS = {
    "a delimiter": ("d.csv", "label#text\n" + TSV.replace("\t", "#"), "--delimiter #"),
    "no header": ("d.csv", TSV.replace("\t", ","), "--no-header --label 0 --text 1"),
    "TABs and a header": ("d.tsv", "label\ttext\n" + TSV, r"--header --delimiter '\t'"),
    "two columns": ("d.csv", "label,title,body\n" + TSV.replace("\t", ",").replace(" ", ","), "--text title,body"),
    "standard input": ("-", TSV, ""),
    "word options": ("d.tsv", TSV, "--ngrams 1,2 --min-df 2 --stop-words english --encoding utf-8"),
    "utf-16": ("w.tsv", TSV, "--encoding utf-16"),
    "utf-32-be": ("w.csv", "label,text\n" + TSV.replace("\t", ","), "--encoding utf-32-be"),
    "utf-16-be": ("w.jsonl", "".join('{{"label": "{}", "text": "{}"}}\n'.format(*line.split("\t"))
                                     for line in TSV.splitlines()), "--encoding utf-16-be"),
}  # fmt: skip


@pytest.fixture(scope="module")
def of_lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    (folder / "d.tsv").write_text(TSV)
    ok("train", folder / "d.tsv", folder / "m", "--quiet")
    return folder / "m"


@pytest.mark.parametrize("way", WAYS)
def test_a_source_and_the_corpus_of_it_give_the_model_of_its_documents(way, of_lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, content, options = WAYS[way]
    wide, content = way.startswith("utf"), content.encode(way if way.startswith("utf") else "utf-8")
    if name != "-":
        Path(name).write_bytes(content)
    if wide:
        for command in (f"train {name} m", f"ingest {name} c --on-error skip"):
            assert f"use --encoding {way}" in refused(command)
    piped = {"input": content} if name == "-" else {}
    ok(f"train {name} m --quiet {options}", **piped)
    ok(f"ingest {name} c --quiet {options}", **piped)
    ok("train c n --quiet")
    assert load_model("m").vocabulary_ == load_model("n").vocabulary_
    assert ("bank goal" in load_model("m").vocabulary_) == ("--ngrams" in options)
    equal_states("m", "n")
    if "--ngrams" not in options:
        equal_states("m", of_lines)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["d.csv", "d.txt", "d.jsonl"])
def test_clusters_and_topics_need_no_labels(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [line.split("\t")[1] for line in TSV.splitlines()]
    content = {"csv": ["text", *texts], "txt": texts, "jsonl": [f'{{"text": "{text}"}}' for text in texts]}[name[2:]]
    Path(name).write_text("\n".join(content) + "\n")
    for estimator, of in (("KMeans", "n_clusters=2"), ("LatentDirichletAllocation", "n_components=2")):
        ok(f"train {name} {estimator} --quiet --estimator {estimator} --set {of}")
        assert "20 documents" in ok(f"evaluate {estimator} {name} --no-labels")
    assert "no labels" in ok(f"ingest {name} c --no-labels")
    assert run("train c m").exit_code != 0
    ok("train - m --quiet --format lines --estimator KMeans", input="\n".join(texts))


def test_ratings_from_text_to_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = ["bad dull", "good bright"]
    Path("stars.tsv").write_text("\n".join(f"{1 + 4 * (i % 2)}\t{kinds[i % 2]} film no {i % 7}" for i in range(120)))
    assert "120 documents, targets" in ok("ingest stars.tsv stars.zarr --targets")
    assert "targets" in ok("inspect stars.zarr")
    ok("ingest stars.tsv test.zarr --vocabulary-from stars.zarr")
    assert sorted(set(open_corpus("test.zarr").read(0, 120).targets[:, 0])) == [1.0, 5.0]
    options = "--estimator SupervisedLDARegressor --set n_components=3 --set batch_size=10 --epochs 30 --quiet"
    assert re.search(r"; validation documents: .*R2 [.\d]+", ok(f"train stars.zarr m {options} --validation test.zarr"))
    assert "R2" in ok("evaluate m test.zarr") and "of each topic" in ok("inspect m")
    Path("new.txt").write_text("good bright film\nbad dull film\n")
    high, low = (float(line) for line in ok("predict m new.txt").split())
    assert high > low + 1.0
    Path("stars.tsv").write_text("3\tgood\nmany\tbad\nnan\tbad\n-2.5\tfair\n")
    ok("ingest stars.tsv c.zarr --targets --on-error skip")
    corpus = open_corpus("c.zarr")
    assert sorted(corpus.read(0, 2).targets[:, 0]) == [-2.5, 3.0] and not corpus.header.classes


def test_a_column_of_texts_as_labels_is_warned_of(desk):
    Path("p.tsv").write_text("".join(f"{('sport', 'money')[i % 2]}\tgoal {i}\n" for i in range(180)))
    swapped, warning = "--label 1 --text 0", "Warning: 180 distinct labels, such as 'goal 0"
    said = run(f"ingest p.tsv wrong.zarr {swapped}").stderr
    assert warning in said and "is column '1' the right column? Use --label COLUMN to choose another" in said
    for arguments in ("wrong.zarr a", f"p.tsv b {swapped}"):
        assert run(f"train {arguments} --epochs 1 --quiet").stderr.count(warning) == 1
    assert warning not in run("train wrong.zarr c --estimator KMeans --set n_clusters=2").stderr  # looks at no labels
    assert "Warning" not in run("ingest p.tsv right.zarr").stderr


@pytest.mark.parametrize("name", ["SdemMixtureClassifier", "EMMixtureClassifier"])
def test_text_makes_components_of_mixtures_multinomials(desk, name):
    said = run(f"train plain.tsv m --estimator {name} --set n_components=1 --quiet")
    assert said.exit_code == 0 and "word counts: using components=multinomial" in said.stderr, said.output
    assert ("perplexity" in said.stdout and "NLL " in said.stdout) == (name == "EMMixtureClassifier")
    assert load_model("m").components == "multinomial"
    assert ok("predict m plain.tsv --no-proba").splitlines()[:3] == ["sport", "money", "sport"]


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    rng = np.random.default_rng(0)
    words = {"sport": ["goal", "match", "team", "score"], "money": ["bank", "share", "profit", "price"]}
    both, path = [*words["sport"], *words["money"]], tmp_path_factory.mktemp("half") / "half.tsv"
    names = ["sport", "money"] * 200
    texts = (" ".join([*rng.choice(words[name], 2), *rng.choice(both, 4)]) for name in names)
    labels = [*names[:200], *[""] * 200]
    path.write_text("".join(f"{label}\t{text}\n" for label, text in zip(labels, texts, strict=True)))
    return path


WHAT_CAME = {
    "": "",
    "--set unlabelled_weight=0.01": "the model also learned from them, with unlabelled_weight 0.01",
    "--set unlabelled_weight=0": "the model was trained only on 200 labelled documents",
    "--loss nll": "the model also learned from them",
}


@pytest.mark.parametrize("settings", WHAT_CAME)
def test_what_came_of_documents_without_a_label_is_said(half, tmp_path, settings):
    said = ok(f"train {half} {tmp_path}/m --unlabelled '' {settings}")
    if settings:
        assert said.splitlines()[-1] == f"200 documents had no label: {WHAT_CAME[settings]}"
        return
    figures = r"held-out accuracy [.\d]+, log-loss [.\d]+\n"
    assert re.search(rf"had no label: .*\n  with them    {figures}  without them {figures}", said), said
    assert "held-out log-loss, trained" not in said and len(said.splitlines()) < 30
    shown = ok("inspect", tmp_path / "m")
    assert "held-out accuracy, trained on labelled documents" in shown
    assert re.search(r"settings +unlabelled ''$", shown, re.MULTILINE), shown
    assert re.search(r"unlabelled documents +(used, with unlabelled_weight [\d.e-]+|not used)$", shown, re.M)
    assert "unlabelled_weight" not in next(line for line in shown.splitlines() if "held-out" in line)
    words = {"sport": "goal match", "money": "bank share"}
    lines = [f"{name if i < 300 else ''}\t{words[name]}\n" for i, name in enumerate(["sport", "money"] * 300)]
    (tmp_path / "easy.tsv").write_text("".join(lines))
    said = ok("train", tmp_path / "easy.tsv", tmp_path / "n", "--unlabelled", "", "--quiet")
    assert "\n  no clear difference: log-loss changed by +0.0000 (standard error 0.0000)\n" in said


def test_half_labelled_sources_and_corpora_are_taken_by_every_command(half, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half.tsv").write_bytes(half.read_bytes())
    assert "200 documents without a label" in ok("ingest half.tsv c --unlabelled ''")
    assert "400, 200 without a label" in ok("inspect c")
    assert "\n200 documents had no label: " in ok("train c m")
    for place, options in (("c", ""), ("half.tsv", "--unlabelled ''")):
        said = run(f"evaluate m {place} {options}").output
        assert "skipped 200 documents without a label" in said and f"200 documents from {place}" in said
        said = run(f"suspects {place} {options} --set n_epochs=1").output
        assert "200 documents without a label\n" in said and "of 200 documents" in said
    assert len(ok("predict m c").splitlines()) == 400
    ok("train half.tsv n --unlabelled '' --quiet")
    equal_states("m", "n")


def figures(model, source, *more):
    return json.loads(ok(f"evaluate {model} {source} --json", *more))


def test_a_model_remembers_what_stands_between_labels(desk, scheduler):
    assert load_model("several.model").label_separator_ == "|"
    found = figures("several.model", "several.tsv")
    assert found["accuracy"] == 1.0
    assert figures("several.model", "several.tsv", "--label-separator", "|", "--on-error", "skip") == found
    assert figures("several.model", "several.tsv", "--scheduler", scheduler) == pytest.approx(found)
    Path("other.tsv").write_text((SEVERAL * 15).replace("|", ";"))
    assert figures("several.model", "other.tsv", "--label-separator", ";") == found


@pytest.mark.parametrize("estimator", ["MultiLabelNB", "SupervisedLDAClassifier"])
def test_corpora_tell_their_models_what_stands_between_labels(desk, estimator):
    ok("ingest several.tsv a.zarr --label-separator |")
    ok("ingest several.tsv b.zarr --label-separator | --vocabulary-from a.zarr")
    ok(f"train a.zarr b.zarr m --estimator {estimator} --epochs 1 --quiet")
    assert load_model("m").label_separator_ == "|"
    assert "MultinomialNB supports only one: use MultiLabelNB or SupervisedLDAClassifier" in refused("train a.zarr n")


def test_a_separator_that_never_occurs_is_named(desk):
    warning = "Warning: no document has more than one label (example: 'sport'): is ';' the label separator?"
    train, ingest = "train several.tsv m --estimator MultiLabelNB --epochs 1 --quiet", "ingest several.tsv c"
    for command in (train, ingest):
        assert warning in run(f"{command} --label-separator ;").stderr
        found = run(f"{command} --label-separator | --overwrite")
        assert found.exit_code == 0 and "Warning" not in found.stderr


def test_labels_with_the_sign_between_labels_can_be_told_apart(desk):
    lines = "a|b,c\tant cow\na|b\tant arm\nc\tcow cat\nc\tant arm\n"  # of the last one the label is wrong
    Path("p.tsv").write_text(lines * 20)
    ok("train p.tsv m --estimator MultiLabelNB --label-separator , --quiet")
    ok("evaluate m p.tsv --errors wrong.csv")
    ok("predict m p.tsv -o said.csv")
    rows = [*rows_of("wrong.csv"), *rows_of("said.csv")]
    cells = {row[name] for row in rows for name in ("labels", "predictions") if name in row}
    read = {tuple(json.loads(cell)) if cell.startswith("[") else tuple(filter(None, cell.split("|"))) for cell in cells}
    assert ("a|b",) in read and all(set(labels) <= {"a|b", "c"} for labels in read)
