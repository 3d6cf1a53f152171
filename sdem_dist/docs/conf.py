"""Settings of the documentation: ``sphinx-build -W -b html sdem_dist/docs OUT``."""

import sys
from pathlib import Path

import sdem_dist

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "sdem_dist"
author = "The authors of sdem_dist"
version = release = sdem_dist.__version__
copyright = "2026, the sdem_dist developers; MIT licence"  # noqa: A001

extensions = [f"sphinx.ext.{name}" for name in ("autodoc", "autosummary", "viewcode")]
extensions += ["myst_parser", "numpydoc", "directives"]
exclude_patterns = ["_ext", "_templates", "toy"]
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
