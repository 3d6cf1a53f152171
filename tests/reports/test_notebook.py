"""A notebook in a real kernel: what each cell shows."""

import json

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient and ipykernel run notebooks: pip install .[test]")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

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
