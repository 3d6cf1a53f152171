"""Reports of every kind of model, as text, pages and in notebooks."""

import json
import pickle  # noqa: TID251  as joblib and Dask send reports
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import r2_score

import sdem_dist as sd
from sdem_dist.reports.page import report_page, write_page
from sdem_dist.reports.reporting import mistakes
from sdem_dist.storage.encoding import to_json
from sdem_dist.table import Html, Table

ODD = "<b>|\x1b[1m `x` a"
WORDS = [ODD, "\x1b[1m", "a\tb", "<i>", "y", "z"]
RNG = np.random.default_rng(0)
N = 200
Y = RNG.integers(0, 2, N)
NAMES = np.array([ODD, "other"])[Y]
X = RNG.poisson(0.8 + 0.7 * (np.arange(6) % 2 == Y[:, None]))
NUMBERS = X[:, 0] + RNG.normal(size=N)
SETS = [ODD, "b"], [ODD]
CASES = {
    "classes": (sd.MultinomialNB(n_epochs=1), {"y": NAMES, "vocabulary": WORDS}),
    "table": (sd.GaussianNB(), {"X": X.astype(float), "y": NAMES, "dense": True}),
    "labels": (sd.MultiLabelNB(n_epochs=1), {"y": [SETS[label] for label in Y], "vocabulary": WORDS}),
    "numbers": (sd.SupervisedLDARegressor(n_components=2, n_epochs=1), {"targets": NUMBERS, "vocabulary": WORDS}),
    "dense numbers": (sd.GaussianRegressor(), {"X": np.column_stack([X, NUMBERS]), "dense": True}),
    "clusters": (sd.MultinomialMixture(3, n_init=1, n_epochs=2), {"y": NAMES, "vocabulary": WORDS}),
    "topics": (sd.LatentDirichletAllocation(3, n_epochs=2), {"y": NAMES, "vocabulary": WORDS}),
    "topics of classes": (sd.LDAClassifier(n_epochs=1), {"y": NAMES, "vocabulary": WORDS}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    estimator, arguments = CASES[request.param]
    corpus = sd.write_corpus(tmp_path_factory.mktemp("reports") / "c.zarr", **{"X": X, **arguments})
    return estimator.fit(corpus), corpus, corpus.subset(np.arange(N) % 3 == 1)


def test_every_report_has_every_form(case):
    model, corpus, _ = case
    report = model.report(corpus)
    html, shown = report._repr_html_(), str(report)
    assert shown.startswith(f"{N} documents") and repr(report) == shown and "<table>" in html
    assert "\x1b" not in shown + html and "<b>" not in html and "<i>" not in html
    for table in report.tables():
        assert table.text() in shown and len(table.markdown().splitlines()) == len(table.rows) + 2
    plain = json.loads(json.dumps(to_json(report.to_dict(), lambda v: None), allow_nan=False))
    assert plain["documents"] == N and set(report.figures) <= set(plain)
    frame = report.to_frame()
    assert [row[report.kind] for row in plain[report.kinds]] == frame.index.tolist() == list(report.names)
    assert list(frame) == list(report.columns)
    again = pickle.loads(pickle.dumps(report))  # noqa: S301
    assert str(again) == shown
    if hasattr(report, "errors"):
        errors = report.errors_frame()
        assert errors.index.tolist() == report.positions[report.errors].tolist() and errors.equals(again.errors_frame())
        assert ("words_for" in errors) == hasattr(model, "classes_")


def test_a_report_of_a_part_is_of_its_documents(case):
    model, corpus, part = case
    report = model.report(part)
    assert report.n_documents == part.mask.sum() < model.report(corpus).n_documents
    assert set(report.positions.tolist()) == set(np.flatnonzero(part.mask).tolist())
    metrics = model.evaluate(part)
    for name in set(report.figures) & set(metrics):
        assert report.figures[name] == pytest.approx(metrics[name], rel=1e-9, abs=1e-12), name
    if hasattr(report, "errors"):
        listed = [document for block in mistakes(model, report, part) for document in block["id"]]
        assert listed and set(listed) <= set(part.ids_at(np.flatnonzero(part.mask)))
    if hasattr(model, "score_samples"):
        np.testing.assert_array_equal(model.score_samples(part), model.score_samples(corpus)[part.mask])
    if isinstance(model, sd.GaussianRegressor):
        assert [len(values) for values in model.predict(part, return_std=True)] == [part.mask.sum()] * 2
    if isinstance(model, sd.LatentDirichletAllocation):
        rows = corpus.read(0, N).to_csr()[part.mask]
        assert model.score(part) == pytest.approx(model.score(rows))
        assert model.perplexity(part) == pytest.approx(model.perplexity(rows))


def test_numbers():
    model = sd.GaussianRegressor().fit(X, NUMBERS)
    report = model.report(X, NUMBERS)
    assert report.figures["r2"] == pytest.approx(r2_score(NUMBERS, model.predict(X)))
    assert report.figures["rmse"] ** 2 == pytest.approx(report.figures["mse"])
    assert report.errors[0] == abs(model.predict(X) - NUMBERS).argmax() and "R2" in str(report)


def test_clusters_and_topics_with_and_without_labels():
    mixture = sd.MultinomialMixture(2, random_state=0).fit(X)
    report = mixture.report(X, Y)
    assert report.figures == pytest.approx(sd.cluster_scores(Y, mixture.predict(X))) and report.sizes.sum() == N
    model = sd.LatentDirichletAllocation(3, n_epochs=2).fit(X)
    topics, theta = model.report(X, Y), model.transform(X)
    means = [theta[k == Y].mean(axis=0) for k in (0, 1)]
    np.testing.assert_allclose(topics.prevalence, means)
    np.testing.assert_allclose(topics.prevalence_frame().to_numpy(), means)
    np.testing.assert_allclose(topics.shares, theta.mean(axis=0))
    assert topics.examples(1, 1) == [theta[:, 1].argmax()]
    assert model.report(X).prevalence is None and mixture.report(X).figures == {}
    of_some = mixture.report(X, np.where(np.arange(N) < 4, None, NAMES.astype(object)))
    assert of_some.labels[:4].tolist() == [-1] * 4 and (of_some.labels[4:] >= 0).all()
    assert mixture.report(X, np.full(N, -1)).labels is None


def test_cells_are_harmless_everywhere():
    table = Table(("name", "n"), [(ODD, 1), (Html("<i>kept</i>"), 22)], caption=ODD, note=ODD)
    assert all("\x1b" not in form for form in (table.text(), table.html(), table.markdown()))
    assert "<b>" not in table.html() and "<i>kept</i>" in table.html()
    assert all(line.count(" | ") == 1 for line in table.markdown().splitlines())


def test_lines_are_aligned_and_names_cut():
    lines = Table(("name", "n", "m"), [("x" * 30, 1, 5), ("y", 1_000, 5)], widths={0: 10, 2: 0}).text().splitlines()
    assert {len(line) for line in lines} == {10 + 2 + 4}
    assert Table((), [("a", "b")]).text() == "a  b" and "<th" not in Table(("", ""), [("a", "b")]).html()
    html = Table(("name", "share"), [("a", "0.250"), ("b", "1.000")], bars=[1]).html()
    assert "25.0%" in html and "100.0%" in html


BEGIN = """
import sdem_dist as sd
from sdem_dist.text import Reading
_ = sd.ingest("posts.jsonl", "posts.zarr", reading=Reading(label="kind", text="body"))
"""
BAR = ["<progress", 'value="2" max="2"', "epoch 2"]
CELLS = {
    "corpus = sd.open_corpus('posts.zarr'); corpus": ["<table>", "60", "&lt;b&gt;sport", "money"],
    "model = sd.MultinomialNB(n_epochs=2, validation_fraction=0, verbose=True); model.fit(corpus);": BAR,
    "model": ["MultinomialNB", "n_epochs"],
    "model.report(corpus)": ["<table>", "macro-F1", "&lt;b&gt;sport"],
    "model.explain(['a <i>goal</i>', 'the bank'])": ["<mark", "goal", "money"],
    "sd.LatentDirichletAllocation(2, n_epochs=1).fit(corpus).topics()": ["<table>", "goal", "bank"],
}
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    nbformat, nbclient, _ = map(pytest.importorskip, ("nbformat", "nbclient", "ipykernel"))
    folder = tmp_path_factory.mktemp("notebook")
    kinds = ("<b>sport", "goal match"), ("money", "bank share")
    rows = [{"kind": kinds[i % 2][0], "body": f"{kinds[i % 2][1]} <i>word{i % 7}</i>"} for i in range(60)]
    (folder / "posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (BEGIN, *CELLS)])
    where = {"metadata": {"path": folder}}
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources=where).execute()
    found = {}
    for name, cell in zip(CELLS, notebook.cells[1:], strict=True):
        assert not any(output.output_type == "error" for output in cell.outputs)
        data = [output.data for output in cell.outputs if "data" in output]
        found[name] = "".join(d.get("text/html", "") for d in data), "".join(d.get("text/plain", "") for d in data)
    return found


@pytest.mark.parametrize(("cell", "said"), CELLS.items())
def test_a_cell_shows_itself(shown, cell, said):
    html, plain = shown[cell]
    assert all(part in html for part in said), html[:2000]
    assert "<b>sport" not in html and "<i>" not in html
    assert plain and "\x1b" not in plain


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    folder, rng = tmp_path_factory.mktemp("page"), np.random.default_rng(0)
    labels = rng.integers(0, 6, 300)
    names = [f"a.class.with.a.long.name.{k}" for k in range(6)]
    texts = [" ".join(rng.choice([f"word{3 * k + i}" for i in range(5)], 30)) for k in labels]
    (folder / "d.tsv").write_text("".join(f"{names[k]}\t{text}\n" for k, text in zip(labels, texts, strict=True)))
    sd.ingest(folder / "d.tsv", folder / "d.zarr", keep_text=True)
    corpus = sd.open_corpus(folder / "d.zarr")
    parts = report_page(sd.MultinomialNB().fit(corpus), corpus, "model", "texts")
    write_page(folder / "report.html", "A report", parts)
    return folder / "report.html"


def shown_page(page, name, width, *more):
    picture = page.parent / f"{name}.png"
    command = [BROWSER, *QUIET, f"--user-data-dir={page.parent / name}", f"--screenshot={picture}", *more]
    command += [f"--window-size={width},2400", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return np.asarray(Image.open(picture).convert("L"), np.float64)


@pytest.mark.slow
def test_light_and_dark(page):
    light = shown_page(page, "light", 1100)
    dark = shown_page(page, "dark", 1100, "--blink-settings=preferredColorScheme=0")
    assert np.median(light) > 240 and np.median(dark) < 40 and light.std() > 10 and dark.std() > 10


@pytest.mark.slow
def test_a_phone_sees_the_whole_width(page):
    found = shown_page(page, "phone", 400)
    assert found.shape[1] == 400
    assert (found[:, -8:] > 240).all(), "something reaches the right edge: the page is wider than the phone"
