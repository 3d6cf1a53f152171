"""Formulas as MathML, which browsers draw by themselves: no scripts, no fonts, no network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

ACCENT_WITH_INDEX = re.compile(
    r"<munderover>\s*(<mi[^>]*>[^<]*</mi>)\s*((?:(?!<munderover>).)+?)\s*"
    r'(<mo stretchy="false">[\u02c6\u02c9~]</mo>)\s*</munderover>',
    re.DOTALL,
)
"""What docutils makes of an index of an accented letter: it stands below the letter, as a limit of a sum would."""


def converted(latex: str, *, block: bool) -> str:
    """Return a formula as MathML; a formula that cannot be read stops the build."""
    try:
        formula = str(tex2mathml(latex, as_block=block))
    except (MathError, SyntaxError, ValueError, KeyError, AttributeError) as error:
        raise ExtensionError(f"the formula cannot be read: {error}\n{latex}") from error
    formula = ACCENT_WITH_INDEX.sub(r'<msub><mover accent="true">\1\3</mover>\2</msub>', formula)
    # Browsers leave no space between a function and its argument, and too much around bars.
    function = r"<mo>(&ApplyFunction;|\u2061)</mo>(?!\s*<mo[^>]*>\()"
    formula = re.sub(function, r'\g<0><mspace width="0.17em"></mspace>', formula)
    return re.sub(r"<mo[^>]*>\|</mo>", '<mo lspace="0.05em" rspace="0.05em" stretchy="false">|</mo>', formula)


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(converted(node.astext(), block=False))
    raise SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    number = f'<span class="eqno">({get_node_equation_number(self, node)})</span>' if node["number"] else ""
    name = f' id="{node["ids"][0]}"' if node["ids"] else ""
    self.body.append(f'<div class="math"{name}>{number}{converted(node.astext(), block=True)}</div>\n')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
