"""A corpus that every installation has: docstrings of eight packages, labelled with the package."""

import ast
import importlib.util
import inspect
import re
import warnings
from pathlib import Path

from sdem_dist.errors import IngestError
from sdem_dist.text.validation import not_unicode

# Packages and the names that their own texts use for them; these would give the label away.
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


def collect_docstrings() -> tuple[list[str], list[str]]:
    """Collect the docstrings of the packages, without importing them.

    Docstrings of modules, classes and functions outside tests count if they have `SHORTEST` characters or more; of
    equal ones the first is kept. The names of its own package are taken out of each text.

    Returns
    -------
    texts, labels : list of str
        Sorted by package as in `PACKAGES`, then by file, then as they stand there.

    Raises
    ------
    IngestError
        If a package is not installed as files.
    """
    texts, labels = dict[str, str](), list[str]()
    for package, names in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise IngestError(
                f"the package {package} has no docstrings here, since it is not installed: pip install it"
            )
        # tests are two fifths of the source to parse, and say little about their package
        folders = list(map(Path, spec.submodule_search_locations))
        files = [(file, folder) for folder in folders for file in folder.rglob("*.py")]
        kept = sorted(file for file, folder in files if not {"test", "tests"} & set(file.relative_to(folder).parts))
        own_names = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
        for file in kept:
            try:
                with warnings.catch_warnings(action="ignore"):  # about invalid escapes in other people's code
                    pending: list[ast.AST] = [ast.parse(file.read_bytes())]
            except (SyntaxError, ValueError, RecursionError, OSError):
                continue
            while pending:
                node, docstring = pending.pop(), None
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    docstring = ast.get_docstring(node, clean=False)
                if docstring is not None and not_unicode(docstring) is None:
                    docstring = inspect.cleandoc(docstring).strip()
                    if len(docstring) >= SHORTEST and docstring not in texts:
                        texts[docstring] = own_names.sub("", docstring)
                        labels.append(package)
                # statements only: expressions hold no docstring, and are most of the tree
                for body in ("finalbody", "orelse", "handlers", "cases", "body"):
                    pending.extend(reversed(getattr(node, body, [])))
    return list(texts.values()), labels
