"""Write what the blocks of some pages print, and the tutorial as a notebook.

Run: python .ci/pages.py [PAGE...]     (default: all of them; and examples/tutorial.ipynb)

A block of ``console`` has commands after ``$ ``, each followed by what it prints. A block of ``python`` may be followed
by one of ``text``. Blocks are run one after the other, in a folder that holds the data of the tutorial. Pages of the
guide are run together: each uses what the pages before have written.
"""

import contextlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pyarrow as pa
from click.testing import CliRunner

import sdem_dist as sd
from sdem_dist.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "sdem_dist/docs"
NOTEBOOK = ROOT / "examples/tutorial.ipynb"
PAGES = ("tutorial.md", "coming-from.md", "your-data.md")
SUBJECTS = [
    "ingest",
    "train",
    "tuning",
    "evaluate",
    "calibration",
    "explain",
    "predict",
    "incremental",
    "serve",
    "topics",
]
GUIDE = [f"guide/{name}.md" for name in SUBJECTS]
NEW = """Inflation takes money from every working family.
The frigate was captured by an enemy of superior force.
The tariff on silver is too high.
Our ships were seized on the high seas.
"""
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```(console)\n(.*?)^```\n()", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^ {4}(sdem .*)$", re.MULTILINE)
NEEDS_MORE = ("--scheduler", "--cluster", "s3://", "--trials 50", "sdem demo")
"""Commands with one of these need a cluster, a bucket or much time: other tests run them."""
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def answer(line: str) -> str:
    """Return what a command prints, or its error; ``sdem`` runs in this process, which is faster."""
    if not line.startswith("sdem "):
        return subprocess.run(line, shell=True, capture_output=True, text=True, check=False).stdout
    result = CliRunner().invoke(main, shlex.split(line)[1:])
    shown = (result.stderr if result.exit_code else result.stdout).replace(f"{Path.cwd()}/", "")
    return f"{shown.strip(chr(10))}\n" if shown.strip() else ""


def printed(block: re.Match[str], names: dict[str, object]) -> str:
    """Run a block, and return it with what it prints."""
    kind, code, _ = block.groups()
    if kind == "console":
        return "".join(["```console\n", *(f"$ {line}\n{answer(line)}" for line in COMMAND.findall(code)), "```\n"])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "page", "exec"), names)
    return f"```python\n{code}```\n" + (f"\n```text\n{out.getvalue()}```\n" if out.getvalue() else "")


def copy_speeches(folder: Path) -> None:
    shutil.copytree(ROOT / "sdem_dist/data", folder, dirs_exist_ok=True)


def write_lines(path: Path, labels: pd.Series, rows: pd.DataFrame) -> None:
    path.write_text("".join(labels + "\t" + rows["text"] + "\n"), "utf-8")


def write_sources(folder: Path, n: int | None = None) -> None:
    """Write the files of the guide as its first page does; `n`: keep only the first lines of each."""
    copy_speeches(folder)
    with contextlib.chdir(folder):
        exec(BLOCK.findall((DOCS / "guide/index.md").read_text("utf-8"))[0][1], {})
    for path in folder.glob("*.tsv") if n else ():
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:n]), "utf-8")
    (folder / "new.txt").write_text(NEW, "utf-8")


def write_other_sources(folder: Path, n: int) -> None:
    """Write sources of other formats, which commands without an output name."""
    rows, numbers = pd.read_csv(folder / "speeches-train.csv.xz")[:n], np.arange(n)
    for name in ("items.tsv", "new.tsv", "multi.tsv"):
        write_lines(folder / name, rows["label"], rows)
    write_lines(folder / "stars.tsv", pd.Series([f"{i % 5:02}" for i in numbers]), rows)
    rows = rows.assign(title="a title", body=rows["text"], topic=rows["label"], key=numbers, author=numbers % 20)
    for name, separator in (("posts.csv", ";"), ("test.csv", ","), ("new.csv", ",")):
        rows.to_csv(folder / name, sep=separator, index=False)
    rows.assign(label=rows["label"].where(numbers % 2 == 0)).to_csv(folder / "half.csv", index=False)
    rows.to_json(folder / "posts.jsonl", orient="records", lines=True)
    rows[["text"]].to_json(folder / "new.jsonl", orient="records", lines=True)
    with pa.CompressedOutputStream(str(folder / "posts.jsonl.zst"), "zstd") as file:
        file.write((folder / "posts.jsonl").read_bytes())
    for i, (label, text) in enumerate(zip(rows["label"], rows["text"], strict=True)):
        path = folder / "news" / label / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    counts = np.random.default_rng(0).poisson(0.5, (n, 40))
    sd.write_corpus(folder / "replies.zarr", counts, targets=numbers % 4.0)


def words(line: str) -> list[str]:
    """Return the words of a command after ``sdem``, up to a comment, a pipe or a redirection."""
    split = shlex.shlex(line, posix=True, punctuation_chars="|>&;")
    split.whitespace_split = True
    return list(itertools.takewhile(lambda word: word[:1] not in ("|", ">", "&", ";"), split))[1:]


def run_commands(text: str, folder: Path) -> list[str]:
    """Run the commands of a page that stand without their output, on little data; return those that fail, and why."""
    write_sources(folder, 300)
    write_other_sources(folder, 300)
    first = ["sdem ingest posts.tsv posts.zarr --held-out 0.1", "sdem train posts.zarr posts.model"]
    failed = []
    with contextlib.chdir(folder):
        for line in [*first, *TYPED.findall(text)]:
            if any(part in line.partition("  #")[0] for part in NEEDS_MORE):
                continue
            arguments = words(line)
            command = main.get_command(click.Context(main), arguments[0])
            if arguments[0] == "ingest":  # which refuses to leave held-out documents of another corpus beside it
                shutil.rmtree(f"{arguments[2]}-held-out", ignore_errors=True)
            more = ["--overwrite"] * any("--overwrite" in option.opts for option in command.params)
            result = CliRunner().invoke(main, [*arguments, *more])
            if result.exit_code:
                failed.append(f"{line}: {result.output[-300:]} {result.exception!r}")
    return failed


def run_guide(texts: list[str], folder: Path) -> list[str]:
    """Run the commands of the guide's pages, in order, and return the pages with what they print."""
    write_sources(folder)
    with contextlib.chdir(folder):
        return [SHELL.sub(lambda block: printed(block, {}), text) for text in texts]


def run_page(text: str, folder: Path) -> str:
    """Run the blocks of a page in a folder, and return the page with what they print."""
    copy_speeches(folder)
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
    for name in set(sys.argv[1:] or PAGES) - set(GUIDE):
        with tempfile.TemporaryDirectory() as folder:
            (DOCS / name).write_text(run_page((DOCS / name).read_text("utf-8"), Path(folder)), "utf-8")
    if not sys.argv[1:] or set(sys.argv[1:]) & set(GUIDE):
        with tempfile.TemporaryDirectory() as folder:
            pages = run_guide([(DOCS / name).read_text("utf-8") for name in GUIDE], Path(folder))
            for name, page in zip(GUIDE, pages, strict=True):
                (DOCS / name).write_text(page, "utf-8")
    NOTEBOOK.write_text(notebook((DOCS / "tutorial.md").read_text("utf-8")), "utf-8")
