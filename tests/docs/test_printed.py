"""Pages show what their blocks print, and so does the notebook. `.ci/pages.py` writes both."""

import re
import runpy
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci/pages.py"
MAKER = runpy.run_path(str(CI))
TUTORIAL = (MAKER["DOCS"] / "tutorial.md").read_text("utf-8")
pytestmark = pytest.mark.timeout(900)  # kernels of many estimators may have to be compiled
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-\d+)?")


def assert_alike(text: str, expected: str) -> None:
    """Compare texts whose figures may differ a little, since other processors have other bits; seconds are left out."""
    text, expected = (re.sub(r"\([\d.]+ s\)", "", t) for t in (text, expected))
    assert " ".join(NUMBER.sub("#", text).split()) == " ".join(NUMBER.sub("#", expected).split())
    for a, b in zip(NUMBER.findall(text), NUMBER.findall(expected), strict=True):
        assert float(a) == pytest.approx(float(b), rel=0.1, abs=0.03)


@pytest.mark.parametrize("name", MAKER["PAGES"][1:])
def test_blocks_print_what_the_page_says(name, tmp_path):
    page = (MAKER["DOCS"] / name).read_text("utf-8")
    assert len(MAKER["BLOCK"].findall(page)) > 5
    assert_alike(MAKER["run_page"](page, tmp_path), page)


def test_commands_of_the_guide_print_what_it_says(tmp_path):
    pages = [(MAKER["DOCS"] / name).read_text("utf-8") for name in MAKER["GUIDE"]]
    assert all(MAKER["SHELL"].search(page) for page in pages)
    for text, page in zip(MAKER["run_guide"](pages, tmp_path), pages, strict=True):
        assert_alike(text, page)


@pytest.mark.parametrize("name", ["../../README.md", "getting-started.md", "guide/clusters.md", *MAKER["GUIDE"]])
def test_other_commands_of_pages_run(name, tmp_path):
    assert MAKER["run_commands"]((MAKER["DOCS"] / name).read_text("utf-8"), tmp_path) == []


def test_the_notebook_is_the_tutorial_and_prints_what_it_says(tmp_path):
    """Its commands run in its kernel's process, since starting twelve takes half a minute."""
    nbformat, nbclient, _ = map(pytest.importorskip, ("nbformat", "nbclient", "ipykernel"))
    assert MAKER["NOTEBOOK"].read_text("utf-8") == MAKER["notebook"](TUTORIAL)
    notebook, expected = (nbformat.read(MAKER["NOTEBOOK"], 4) for _ in range(2))
    start = f"import runpy; run = runpy.run_path({str(CI)!r}); run['run_page']('', run['Path']())\n"
    start += "get_ipython().system = lambda line: print(run['answer'](line), end='')"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(start))
    where = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources=where).execute()
    for cell, before in zip(notebook.cells[1:], expected.cells, strict=True):
        if cell.cell_type == "code":
            text, said = ("".join(out.get("text", "") for out in c.outputs) for c in (cell, before))
            assert_alike(text, said)


def test_other_figures_and_other_words_are_found():
    for other in (TUTORIAL.replace("0.9017", "0.8017"), TUTORIAL.replace("silver", "gold")):
        with pytest.raises(AssertionError):
            assert_alike(other, TUTORIAL)
