"""Settings of the documentation: ``sphinx-build -W -b html sdem_dist/docs OUT``, and what its pages ask the package."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

import sdem_dist
from sdem_dist.catalogue import PUBLIC
from sdem_dist.cli import main

project = "sdem_dist"
author = "The authors of sdem_dist"
version = release = sdem_dist.__version__
copyright = "2026, the sdem_dist developers; MIT licence"  # noqa: A001

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "myst_parser", "numpydoc"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
default_role = "py:obj"

# A reference into the package must lead somewhere; names of other packages are not looked up: no network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!sdem_dist\.).*")]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # else names are wider than their column
numpydoc_show_class_members = False

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "sdem_dist"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars: dict[str, list[str]] = {"*": []}  # pages outside of the sections have none

DOCS = Path(__file__).parent


class FormulaFunctions(SphinxDirective):
    """The documentation of every function that ``formulas.md`` names, but what the reference has anyway."""

    def run(self) -> list[nodes.Node]:
        page, lines = DOCS / "formulas.md", list[str]()
        self.env.note_dependency(str(page))
        reference = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
        listed = {f"sdem_dist.{name}" for name in re.findall(r"^   ([a-z_.]+)$", reference, re.MULTILINE)}
        for name in sorted(set(re.findall(r"`[^<`\n]*<?(sdem_dist[\w.]+)>?`", page.read_text(encoding="utf-8")))):
            target, module = pkgutil.resolve_name(name), name
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
        command = [part for part in self.arguments[0].split("/") if part != "sdem"]
        arguments = command if command[:1] == ["help"] else [*command, "--help"]
        text = CliRunner().invoke(main, arguments, prog_name="sdem", terminal_width=100).output
        return [nodes.literal_block(text, text, language="text")]


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers draw without scripts or network; one that is wrong stops the build."""
    is_block = isinstance(node, nodes.math_block)
    mathml = str(tex2mathml(node.astext(), as_block=is_block))
    # Browsers leave no space between a function and its argument, and too much around bars.
    mathml = re.sub(r"<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>\()", r'\g<0><mspace width="0.17em"></mspace>', mathml)
    mathml = re.sub(r"<mo[^>]*>\|</mo>", '<mo lspace="0.05em" rspace="0.05em" stretchy="false">|</mo>', mathml)
    translator.body.append(f'<div class="math">{mathml}</div>\n' if is_block else mathml)
    raise nodes.SkipNode


def skip_inherited(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out what estimators inherit from scikit-learn: its documentation has it."""
    inherited = str(getattr(member, "__module__", "")).startswith("sklearn")
    return True if what == "class" and (inherited or re.fullmatch(r"set_\w+_request", name)) else None


def setup(app: Sphinx) -> None:
    """Add the above, and run the scripts whose output and pictures ``examples.md`` has."""
    app.add_directive("formula-functions", FormulaFunctions)
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-skip-member", skip_inherited)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    folder = DOCS / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    for script in ("pictures", "toy_gaussian"):
        command = [sys.executable, DOCS.parents[1] / "examples" / f"{script}.py", "--quick", "--out", folder]
        with (folder / f"{script}.txt").open("w") as printed:
            subprocess.run(command, stdout=printed, check=True)
