"""Directives that ask the package itself, and formulas as MathML, which browsers draw without scripts or network."""

import os
import pkgutil
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

ACCENT_WITH_INDEX = re.compile(  # what docutils makes of it: the index stands below the letter, as a limit of a sum
    r"<munderover>\s*(<mi[^>]*>[^<]*</mi>)\s*((?:(?!<munderover>).)+?)\s*"
    r'(<mo stretchy="false">[\u02c6\u02c9~]</mo>)\s*</munderover>',
    re.DOTALL,
)


class FormulaFunctions(SphinxDirective):
    """The documentation of every function that ``formulas.md`` names, but what the reference has anyway."""

    def run(self) -> list[nodes.Node]:
        from sdem_dist.catalogue import PUBLIC

        page = Path(self.env.srcdir) / "formulas.md"
        self.env.note_dependency(str(page))
        reference = (page.parent / "reference" / "index.md").read_text(encoding="utf-8")
        listed = {f"sdem_dist.{name}" for name in re.findall(r"^   ([a-z_.]+)$", reference, re.MULTILINE)}
        lines: list[str] = []
        tables = "\n".join(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|"))
        for name in sorted(set(re.findall(r"\{py:obj\}`[^<`\n]*<?(sdem_dist[\w.]+)>?`", tables))):
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
        script = Path(self.env.srcdir).parents[1] / "examples" / self.arguments[0]
        self.env.note_dependency(str(script))
        code = script.read_text(encoding="utf-8")
        # The script runs again only when it has changed.
        folder = Path(self.env.doctreedir) / "examples" / f"{script.stem}-{sha256(code.encode()).hexdigest()[:12]}"
        if not (output := folder / "printed.txt").exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(script), "--quick", "--out", "."]
            process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if process.returncode:
                raise self.error(f"{script.name} failed:\n{process.stderr}")
            output.write_text(process.stdout, encoding="utf-8")
        printed = output.read_text(encoding="utf-8")
        page = Path(self.env.doc2path(self.env.docname)).parent
        pictures = [(os.path.relpath(path, page), path.stem) for path in sorted(folder.glob("*.png"))]
        return [
            nodes.literal_block(code, code, language="python"),
            nodes.literal_block(printed, printed, language="text"),
            *(nodes.image(uri=uri, alt=f"{script.stem}: {name}") for uri, name in pictures),
        ]


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML; a formula that cannot be read stops the build."""
    latex, block = node.astext(), isinstance(node, nodes.math_block)
    try:
        mathml = str(tex2mathml(latex, as_block=block))
    except (MathError, SyntaxError, ValueError, KeyError, AttributeError) as error:
        raise ExtensionError(f"the formula cannot be read: {error}\n{latex}") from error
    mathml = ACCENT_WITH_INDEX.sub(r'<msub><mover accent="true">\1\3</mover>\2</msub>', mathml)
    # Browsers leave no space between a function and its argument, and too much around bars.
    function = r"<mo>(&ApplyFunction;|\u2061)</mo>(?!\s*<mo[^>]*>\()"
    mathml = re.sub(function, r'\g<0><mspace width="0.17em"></mspace>', mathml)
    mathml = re.sub(r"<mo[^>]*>\|</mo>", '<mo lspace="0.05em" rspace="0.05em" stretchy="false">|</mo>', mathml)
    if block:
        number = get_node_equation_number(translator, node) if node["number"] else ""
        name = f' id="{node["ids"][0]}"' if node["ids"] else ""
        label = f'<span class="eqno">({number})</span>' if number else ""
        mathml = f'<div class="math"{name}>{label}{mathml}</div>\n'
    translator.body.append(mathml)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    def skip(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
        """Leave out what estimators inherit from scikit-learn: its documentation has it."""
        inherited = str(getattr(member, "__module__", "")).startswith("sklearn")
        return True if what == "class" and (inherited or re.fullmatch(r"set_\w+_request", name)) else None

    app.add_directive("formula-functions", FormulaFunctions)
    app.add_directive("command-help", CommandHelp)
    app.add_directive("example", Example)
    app.connect("autodoc-skip-member", skip)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
