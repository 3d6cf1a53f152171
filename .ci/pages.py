"""Write what the blocks of some pages print, and the tutorial as a notebook.

Run: python .ci/pages.py [PAGE...]     (default: all of them; and examples/tutorial.ipynb)

A block of ``console`` has commands after ``$ ``, each followed by what it prints. A block of ``python`` may be followed
by one of ``text``. Blocks are run one after the other, in a folder that holds the data of the tutorial.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from sdem_dist.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "sdem_dist/docs"
NOTEBOOK = ROOT / "examples/tutorial.ipynb"
PAGES = ("tutorial.md", "coming-from.md", "your-data.md")
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def answer(line: str) -> str:
    """Return what a command prints, or its error; ``sdem`` runs in this process, which is faster."""
    if not line.startswith("sdem "):
        return subprocess.run(line, shell=True, capture_output=True, text=True, check=False).stdout
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    shown = result.stderr if result.exit_code else result.stdout
    return f"{shown.strip(chr(10))}\n" if shown.strip() else ""


def printed(block: re.Match[str], names: dict[str, object]) -> str:
    """Run a block, and return it with what it prints."""
    kind, code, _ = block.groups()
    if kind == "console":
        return "".join(["```console\n", *(f"$ {line}\n{answer(line)}" for line in COMMAND.findall(code)), "```\n"])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "page", "exec"), names)
    return f"```python\n{code}```\n" + (f"\n```text\n{out.getvalue()}```\n" if out.getvalue() else "")


def run_page(text: str, folder: Path) -> str:
    """Run the blocks of a page in a folder, and return the page with what they print."""
    for path in (ROOT / "examples").glob("speeches-*"):
        shutil.copy(path, folder)
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        return BLOCK.sub(lambda block: printed(block, names), text)


def lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def markdown(text: str) -> dict[str, object]:
    """Return a cell of prose, whose links and pictures lead from the notebook's folder to the pages."""
    text = re.sub(r"\]\((?!http)", "](../sdem_dist/docs/", text)
    return {"cell_type": "markdown", "metadata": {}, "source": lines(text)}


def code(kind: str, block: str, output: str | None) -> dict[str, object]:
    if kind == "console":
        block, output = "".join(f"!{command}\n" for command in COMMAND.findall(block)), COMMAND.sub("", block)
    stream = {"name": "stdout", "output_type": "stream", "text": (output or "").splitlines(keepends=True)}
    outputs = [stream] if output else []
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs, "source": lines(block)}


def notebook(page: str) -> str:
    cells, end = [], 0
    for block in BLOCK.finditer(page):
        cells += [markdown(page[end : block.start()]), code(*block.groups())]
        end = block.end()
    cells = [cell for cell in [*cells, markdown(page[end:])] if cell["source"]]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}, indent=1) + "\n"


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    for name in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            (DOCS / name).write_text(run_page((DOCS / name).read_text("utf-8"), Path(folder)), "utf-8")
    NOTEBOOK.write_text(notebook((DOCS / "tutorial.md").read_text("utf-8")), "utf-8")
