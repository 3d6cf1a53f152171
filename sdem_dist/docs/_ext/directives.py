"""Directives that ask the package itself: functions of formulas, what commands print, and examples that run."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def functions_of(page: Path) -> list[str]:
    """Return the full names of the functions that the tables of a page name, each once."""
    tables = "\n".join(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|"))
    return sorted(set(re.findall(r"\{py:obj\}`[^<`\n]*<?(sdem_dist[\w.]+)>?`", tables)))


class FormulaFunctions(SphinxDirective):
    """The documentation of every function that ``formulas.md`` names, but what the reference has anyway."""

    def run(self) -> list[nodes.Node]:
        from sdem_dist.catalogue import PUBLIC

        page = Path(self.env.srcdir) / "formulas.md"
        self.env.note_dependency(str(page))
        reference = (page.parent / "reference" / "index.md").read_text(encoding="utf-8")
        listed = {f"sdem_dist.{name}" for name in re.findall(r"^   ([a-z_.]+)$", reference, re.MULTILINE)}
        lines: list[str] = []
        for name in functions_of(page):
            target = pkgutil.resolve_name(name)
            module = name
            while module not in sys.modules:
                module = module.rpartition(".")[0]
            inside = name.removeprefix(f"{module}.")
            if inside.split(".")[0] not in PUBLIC and module not in listed:
                kind = "class" if isinstance(target, type) else "method" if "." in inside else "function"
                lines += [f".. auto{kind}:: {module}.{inside}", ""]
        parsed = nodes.container()
        self.state.nested_parse(StringList(lines, source=str(page)), self.content_offset, parsed)
        return parsed.children


class CommandHelp(SphinxDirective):
    """What ``sdem COMMAND --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from click.testing import CliRunner

        from sdem_dist.cli import main

        command = [part for part in self.arguments[0].split("/") if part != "sdem"]
        arguments = command if command[:1] == ["help"] else [*command, "--help"]
        text = CliRunner().invoke(main, arguments, prog_name="sdem", terminal_width=100).output
        return [nodes.literal_block(text, text, language="text")]


class Example(SphinxDirective):
    """``{example} NAME.py``: the code of a script of ``examples/``, what ``--quick`` prints, and its pictures."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return them; the script runs again only when it has changed."""
        script = Path(self.env.srcdir).parents[1] / "examples" / self.arguments[0]
        self.env.note_dependency(str(script))
        code = script.read_text(encoding="utf-8")
        folder = Path(self.env.doctreedir) / "examples" / f"{script.stem}-{sha256(code.encode()).hexdigest()[:12]}"
        if not (folder / "printed.txt").exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(script), "--quick", "--out", "."]
            process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if process.returncode:
                raise self.error(f"{script.name} failed:\n{process.stderr}")
            (folder / "printed.txt").write_text(process.stdout, encoding="utf-8")
        printed = (folder / "printed.txt").read_text(encoding="utf-8")
        page = Path(self.env.doc2path(self.env.docname)).parent
        pictures = [(os.path.relpath(path, page), path.stem) for path in sorted(folder.glob("*.png"))]
        return [
            nodes.literal_block(code, code, language="python"),
            nodes.literal_block(printed, printed, language="text"),
            *(nodes.image(uri=uri, alt=f"{script.stem}: {name}") for uri, name in pictures),
        ]


def _skip(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out what estimators inherit from scikit-learn: its documentation has it."""
    module = getattr(member, "__module__", "") or ""
    inherited = module.startswith("sklearn") or re.fullmatch(r"set_\w+_request", name)
    return True if what == "class" and inherited else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("formula-functions", FormulaFunctions)
    app.add_directive("command-help", CommandHelp)
    app.add_directive("example", Example)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
