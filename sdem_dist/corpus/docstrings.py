"""A corpus from every installation: docstrings of eight packages, labelled with the package."""

import ast
import importlib.util
import inspect
import re
import warnings
from pathlib import Path

from sdem_dist.errors import IngestError

# Packages, and their names in their own texts, which are removed since they reveal the label.
PACKAGES = {
    "numpy": ("numpy", "np"),
    "scipy": ("scipy", "sp"),
    "sklearn": ("scikit-learn", "sklearn", "scikit"),
    "numba": ("numba", "nb"),
    "dask": ("dask", "da", "dd", "db"),
    "distributed": ("distributed",),
    "matplotlib": ("matplotlib", "mpl", "plt"),
    "rich": ("rich",),
}
SHORTEST = 80
HALVES = re.compile("[\ud800-\udfff]")  # surrogates, which valid UTF-8 cannot contain


def collect_docstrings() -> tuple[list[str], list[str]]:
    """Return the docstrings of packages without their names, and the package of each; IngestError if one is missing.

    They are distinct docstrings of modules, classes and functions outside tests, with at least `SHORTEST` characters,
    sorted by package as in `PACKAGES`, then by file.
    """
    texts, labels = dict[str, str](), list[str]()
    for package, names in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise IngestError(f"the package {package} has no docstrings, or is not installed: install it with pip")
        # skip tests: they are two fifths of the source, and say little about their package
        roots = list(map(Path, spec.submodule_search_locations))
        every = ((file, root) for root in roots for file in root.rglob("*.py"))
        own_names = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
        for file in sorted(file for file, root in every if not {"test", "tests"} & set(file.relative_to(root).parts)):
            try:
                with warnings.catch_warnings(action="ignore"):  # for invalid escapes in other packages
                    pending: list[ast.AST] = [ast.parse(file.read_bytes())]
            except (SyntaxError, ValueError, RecursionError, OSError):
                continue
            while pending:
                node, docstring = pending.pop(), None
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    docstring = ast.get_docstring(node, clean=False)
                if docstring is not None and HALVES.search(docstring) is None:
                    docstring = inspect.cleandoc(docstring).strip()
                    if len(docstring) >= SHORTEST and docstring not in texts:
                        texts[docstring] = own_names.sub("", docstring)
                        labels.append(package)
                # only statements: expressions have no docstrings, and are most of the tree
                for body in ("finalbody", "orelse", "handlers", "cases", "body"):
                    pending.extend(reversed(getattr(node, body, [])))
    return list(texts.values()), labels
