"""Directives that ask the package itself: its public names, functions of formulas, what commands say of themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx


def functions_of(page: Path) -> list[str]:
    """Return the full names of the functions that the tables of a page name, each once."""
    found: dict[str, None] = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            found.update(dict.fromkeys(re.findall(r"\{py:obj\}`[^<`]*<?(sdem_dist[\w.]+)>?`", line)))
    return sorted(found)


def resolved(name: str) -> tuple[str, object, str]:
    """Return the module of a full name, what it names, and its name in the module."""
    from importlib import import_module

    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            module = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        found: object = module
        for part in parts[cut:]:
            found = getattr(found, part)
        return module.__name__, found, ".".join(parts[cut:])
    raise ModuleNotFoundError(name)


class FormulaFunctions(SphinxDirective):
    """The documentation of every function that ``formulas.md`` names, but what the reference has anyway."""

    def run(self) -> list[nodes.Node]:
        """Return the documentation."""
        page = Path(self.env.srcdir) / "formulas.md"
        self.env.note_dependency(str(page))
        parsed = nodes.container()
        lines = list(self._lines(page))
        self.state.nested_parse(StringList(lines, source=str(page)), self.content_offset, parsed)
        return parsed.children

    def _lines(self, page: Path) -> Iterator[str]:
        from sdem_dist.catalogue import PUBLIC

        reference = (Path(self.env.srcdir) / "reference" / "index.md").read_text(encoding="utf-8")
        listed = {f"sdem_dist.{name}" for name in re.findall(r"^   ([a-z_.]+)$", reference, re.MULTILINE)}
        for name in functions_of(page):
            module, found, inside = resolved(name)
            if inside.split(".")[0] in PUBLIC or module in listed:
                continue
            kind = "class" if isinstance(found, type) else "method" if "." in inside else "function"
            yield from (f".. auto{kind}:: {module}.{inside}", "")


class CommandHelp(SphinxDirective):
    """What ``sdem COMMAND --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the text."""
        from click.testing import CliRunner

        from sdem_dist.cli import main

        command = [part for part in self.arguments[0].split("/") if part != "sdem"]
        said = CliRunner().invoke(main, [*command, "--help"], prog_name="sdem", terminal_width=100).output
        return [nodes.literal_block(said, said, language="text")]


def _skip(app: Sphinx, what: str, name: str, found: object, skip: bool, options: object) -> bool | None:
    """Leave out what estimators inherit from scikit-learn: its documentation has it."""
    module = getattr(found, "__module__", "") or ""
    if what == "class" and (module.startswith("sklearn") or re.fullmatch(r"set_\w+_request", name)):
        return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("formula-functions", FormulaFunctions)
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
