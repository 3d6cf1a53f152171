"""What people see: cells of a notebook in a real kernel, and a report in a real browser."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.reports.page import report_page, write_page

BEGIN = """
import sdem_dist as sd
from sdem_dist.text import Reading
_ = sd.ingest("posts.jsonl", "posts.zarr", reading=Reading(label="kind", text="body"))
"""
CELLS = {
    "corpus": "corpus = sd.open_corpus('posts.zarr'); corpus",
    "bar": "model = sd.MultinomialNB(n_epochs=2, validation_fraction=0, verbose=True); model.fit(corpus);",
    "estimator": "model",
    "report": "model.report(corpus)",
    "explanations": "model.explain(['a <i>goal</i>', 'the bank'])",
    "topics": "sd.LatentDirichletAllocation(2, n_epochs=1).fit(corpus).topics()",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Return the HTML and the text of each cell's outputs."""
    nbformat, nbclient, _ = map(pytest.importorskip, ("nbformat", "nbclient", "ipykernel"))
    folder = tmp_path_factory.mktemp("notebook")
    kinds = ("<b>sport", "goal match"), ("money", "bank share")
    rows = [{"kind": kinds[i % 2][0], "body": f"{kinds[i % 2][1]} <i>word{i % 7}</i>"} for i in range(60)]
    (folder / "posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = [nbformat.v4.new_code_cell(code) for code in (BEGIN, *CELLS.values())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    run = nbclient.NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    run.execute()
    found = {}
    for name, cell in zip(CELLS, notebook.cells[1:], strict=True):
        assert not any(output.output_type == "error" for output in cell.outputs)
        data = [output.data for output in cell.outputs if "data" in output]
        found[name] = "".join(d.get("text/html", "") for d in data), "".join(d.get("text/plain", "") for d in data)
    return found


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("corpus", ["<table>", "60", "&lt;b&gt;sport", "money"]),
        ("bar", ["<progress", 'value="2" max="2"', "epoch 2"]),
        ("estimator", ["MultinomialNB", "n_epochs"]),
        ("report", ["<table>", "macro-F1", "&lt;b&gt;sport"]),
        ("explanations", ["<mark", "goal", "money"]),
        ("topics", ["<table>", "goal", "bank"]),
    ],
)
def test_a_cell_shows_itself(shown, cell, said):
    html, plain = shown[cell]
    assert all(part in html for part in said), html[:2000]
    assert "<b>sport" not in html and "<i>" not in html
    assert plain and "\x1b" not in plain


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 300)
    names = [f"a.class.with.a.long.name.{k}" for k in range(6)]
    texts = [" ".join(rng.choice([f"word{3 * k + i}" for i in range(5)], 30)) for k in labels]
    (folder / "d.tsv").write_text("".join(f"{names[k]}\t{text}\n" for k, text in zip(labels, texts, strict=True)))
    ingest(folder / "d.tsv", folder / "d.zarr", keep_text=True)
    corpus = open_corpus(folder / "d.zarr")
    write_page(folder / "report.html", "A report", report_page(MultinomialNB().fit(corpus), corpus, "model", "texts"))
    return folder / "report.html"


def shown_page(page, name, width, *more):
    picture = page.parent / f"{name}.png"
    command = [BROWSER, *QUIET, f"--user-data-dir={page.parent / name}", f"--screenshot={picture}", *more]
    subprocess.run(
        [*command, f"--window-size={width},2400", page.as_uri()], check=True, capture_output=True, timeout=120
    )
    return np.asarray(Image.open(picture).convert("L"), np.float64)


@pytest.mark.slow
def test_light_and_dark(page):
    light = shown_page(page, "light", 1100)
    dark = shown_page(page, "dark", 1100, "--blink-settings=preferredColorScheme=0")
    assert np.median(light) > 240 and np.median(dark) < 40
    assert light.std() > 10 and dark.std() > 10


@pytest.mark.slow
def test_a_phone_sees_the_whole_width(page):
    found = shown_page(page, "phone", 400)
    assert found.shape[1] == 400
    assert (found[:, -8:] > 240).all(), "something reaches the right edge: the page is wider than the phone"
