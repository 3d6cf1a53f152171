"""Settings of the documentation: ``sphinx-build -W -b html sdem_dist/docs OUT``."""

import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import sdem_dist
from sdem_dist.cli import main

project = "sdem_dist"
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"*": []}  # pages outside of the sections have none

# What pages include: the help of commands, what scripts print, and their pictures.
docs = Path(__file__).parent
html_search_scorer = str(docs / "_static" / "scorer.js")
generated = docs / "reference" / "generated"
generated.mkdir(exist_ok=True)
included = (docs / "reference" / "commands.md").read_text(encoding="utf-8")
for page in re.findall(r"generated/sdem([\w-]*)\.txt", included):
    arguments = page.split("-")[1:] if page.startswith("-help-") else [*page.split("-")[1:], "--help"]
    printed = CliRunner().invoke(main, arguments, prog_name="sdem", terminal_width=100).output
    (generated / f"sdem{page}.txt").write_text(printed, encoding="utf-8")
for script in ("pictures", "toy_gaussian"):
    command = [sys.executable, str(docs.parents[1] / "examples" / f"{script}.py"), "--quick", "--out", str(generated)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (generated / f"{script}.txt").write_text(printed, encoding="utf-8")


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers draw without scripts or network; one that is wrong stops the build."""
    is_block = isinstance(node, nodes.math_block)
    mathml = str(tex2mathml(node.astext(), as_block=is_block))
    # Browsers leave no space between a function and its argument, and too much around bars.
    mathml = re.sub(r"<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>\()", r'\g<0><mspace width="0.17em"></mspace>', mathml)
    mathml = re.sub(r"<mo[^>]*>\|</mo>", '<mo lspace="0.05em" rspace="0.05em" stretchy="false">|</mo>', mathml)
    translator.body.append(f'<div class="math">{mathml}</div>\n' if is_block else mathml)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", lambda *about: True if "Alias for field" in str(about[3].__doc__) else None)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
