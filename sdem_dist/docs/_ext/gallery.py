"""A directive that runs an example with ``--quick``, and shows its code, what it prints and its pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Example(SphinxDirective):
    """``{example} NAME.py``: a script of ``examples/``. It runs again only when it has changed."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the code, what was printed, and the pictures."""
        script = Path(self.env.srcdir).parents[1] / "examples" / self.arguments[0]
        self.env.note_dependency(str(script))
        code = script.read_text(encoding="utf-8")
        folder = Path(self.env.doctreedir) / "examples" / f"{script.stem}-{sha256(code.encode()).hexdigest()[:12]}"
        if not (folder / "printed.txt").exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(script), "--quick", "--out", "."]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise self.error(f"{script.name} failed:\n{ran.stderr}")
            (folder / "printed.txt").write_text(ran.stdout, encoding="utf-8")
        printed = (folder / "printed.txt").read_text(encoding="utf-8")
        found = [
            nodes.literal_block(code, code, language="python"),
            nodes.literal_block(printed, printed, language="text"),
        ]
        page = Path(self.env.doc2path(self.env.docname)).parent
        pictures = [(os.path.relpath(path, page), path.stem) for path in sorted(folder.glob("*.png"))]
        return [*found, *(nodes.image(uri=uri, alt=f"{script.stem}: {name}") for uri, name in pictures)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("example", Example)
    return {"parallel_read_safe": True}
