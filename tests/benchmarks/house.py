"""Measures of the code itself: its budget of lines, its words, and how far it is from `fit` to the next mu.

Run: python tests/benchmarks/house.py [FOLDER] [--check]     (a checkout; default: this one)

``--check`` measures what needs no training, prints what is above its budget, and exits with 1 if anything is. Budgets never
rise: a feature pays for its lines by what it replaces.

Two counts say how far it is from `fit` to a new mu. The first is of all functions of the package that a fit calls up to the
end of the first update, each once. The second is of a document's path: the functions that are running when a shard is
read, when a pass prepares, maps, combines or updates, or when a kernel is entered.

Words that say nothing are counted among all names of the code: `found`, `its` and others say that a value exists, not what
it holds.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]


BUDGETS: dict[str, tuple[tuple[str, ...], int]] = {
    "learners, models, families": (("learners", "losses.py", "evaluation.py", "models", "families"), 5_300),
    "kernels": (("kernels",), 3_700),
    "engine": (("engine",), 1_700),
    "estimators, fitting": (("estimators", "fitting"), 3_600),
    "selection": (("selection",), 1_500),
    "text": (("text",), 3_300),
    "corpus": (("corpus",), 2_900),
    "storage": (("storage",), 1_200),
    "inputs": (("inputs",), 900),
    "reports, plots, export": (("reports", "plots.py", "table.py", "export.py"), 2_600),
    "cluster": (("cluster",), 550),
    "cli": (("cli",), 2_600),
    "top level, docs": (("docs", "*.py"), 1_150),
}
"""Lines that some folders and files may have together."""
MOST = {
    "lines of sdem_dist": 31_000,
    "files": 190,
    "statements": 20_500,
    "lines of the longest file": 450,
    "statements of the longest function": 60,
    "lines of tests": 24_000,
    "statements of tests": 16_500,
    "empty words in 1,000 names": 4.0,
}
"""What all files together may have."""
EMPTY_WORDS = set(
    (  # noqa: SIM905
        "found there whole kept given told asked shown seen heard doubt begun said known made taken coming alone together "
        "reach due ahead kin owner blame claim sound dealt stretch walk piece answer its"
    ).split()
)
WALK = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, scipy.sparse as sp, tempfile
import sdem_dist as sd
X, y = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (60, 9))), np.arange(60) % 3
corpus = sd.write_corpus(tempfile.mkdtemp() + "/c", X, y)
settings = {"merge": "sum", "n_epochs": 1, "n_lanes": 1, "n_jobs": 1, "evaluate_every": 0}
sd.MultinomialNB(**settings).fit(corpus)
called, path, ended = set(), set(), []
def place(frame):
    code = frame.f_code
    own = "/sdem_dist/" in code.co_filename and not code.co_name.startswith("<")
    return (code.co_filename.partition("/sdem_dist/")[2], code.co_qualname) if own else None
def has_documents(file, name):
    if file.startswith("learners/"):
        return name.split(".")[-1] in ("prepare", "map", "combine", "update")
    return file.startswith("kernels/") or name.split(".")[-1] == "read_shard"
def look(frame, event, _):
    at = place(frame)
    if at is None or ended:
        return
    if event == "call":
        called.add(at)
        while has_documents(*at) and frame is not None:
            path.add(place(frame))
            frame = frame.f_back
    elif at[0].startswith("learners/") and at[1].split(".")[-1] == "update":
        ended.append(True)
model = sd.MultinomialNB(**settings)
corpus = sd.write_corpus(tempfile.mkdtemp() + "/other", X[::-1], y[::-1])
sys.setprofile(look)
model.fit(corpus)
sys.setprofile(None)
path.discard(None)
kernels = {p for p in path if p[0].startswith("kernels/")}
ancestors = [c for c in sd.MultinomialNB.__mro__[1:] if c.__module__.startswith("sdem_dist.")]
print(*(n for p in (called, path, path - kernels) for n in (len(p), len({file for file, _ in p}))), len(ancestors))
"""


def n_statements(tree: ast.AST) -> int:
    """Return the statements below a node, docstrings apart."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node is not tree)
    return sum(not (isinstance(n, ast.Expr) and isinstance(getattr(n.value, "value", None), str)) for n in nodes)


def empty_words(texts: list[str]) -> float:
    """Return how many of 1,000 names have a word that says nothing."""
    n_names = n_empty = 0
    for text in texts:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                parts = token.string.lower().strip("_").split("_")
                n_names += 1
                n_empty += any(part in EMPTY_WORDS or part.removesuffix("s") in EMPTY_WORDS for part in parts)
    return 1000.0 * n_empty / n_names


def circles(root: Path) -> set[frozenset[str]]:
    """Return the groups of modules that import each other, imports for types and in functions included."""
    paths = (root / "sdem_dist").rglob("*.py")
    modules = {".".join(p.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                named = {m for a in node.names if (m := f"{node.module}.{a.name}") in modules}
                graph[name] |= named or ({node.module} & modules.keys())
    below: dict[str, set[str]] = {}
    for start in graph:
        below[start], todo = set(), [start]
        while todo:
            for other in graph[todo.pop()] - below[start]:
                below[start].add(other)
                todo.append(other)
    return {frozenset(o for o in below if o in below[m] and m in below[o]) for m in below if m in below[m]}


def sizes(root: Path) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return what has a budget (now, budget), and other measures that need no training."""
    package = root / "sdem_dist"
    files = sorted(package.rglob("*.py"))
    texts = {path: path.read_text() for path in files}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = {path: text.count("\n") for path, text in texts.items()}
    counted: set[Path] = set()
    measures: dict[str, tuple[float, float]] = {}
    for name, (parts, budget) in BUDGETS.items():
        folders = [package / part for part in parts]
        own = {p for folder in folders for p in package.rglob("*.py") if folder in p.parents or p.match(str(folder))}
        measures[f"lines of {name}"] = (sum(lines[p] for p in own - counted), budget)
        counted |= own
    for path in set(files) - counted:
        measures[f"lines of {path.relative_to(package)}, which has no budget"] = (lines[path], 0)
    tests = {path: path.read_text() for path in sorted((root / "tests").rglob("*.py"))}
    every = [(path, node) for path in files for node in ast.walk(trees[path]) if isinstance(node, ast.FunctionDef)]
    kernels = [entry for entry in every if entry[0].parent.name == "kernels"]
    longest, most = max(every, key=lambda e: n_statements(e[1])), max(kernels, key=lambda e: len(e[1].args.args))
    values = {
        "lines of sdem_dist": sum(lines.values()),
        "files": len(files),
        "statements": sum(map(n_statements, trees.values())),
        "lines of the longest file": max(lines.values()),
        "statements of the longest function": n_statements(longest[1]),
        "lines of tests": sum(text.count("\n") for text in tests.values()),
        "statements of tests": sum(n_statements(ast.parse(text)) for text in tests.values()),
        "empty words in 1,000 names": empty_words(list(texts.values())),
    }
    measures |= {name: (value, MOST[name]) for name, value in values.items()}
    n_any = sum(len(re.findall(r"\bAny\b", text)) for text in texts.values())
    rows = {
        "median lines of a file (at least 130 planned)": f"{statistics.median(n for path, n in lines.items() if path.name != '__init__.py'):g}",
        "functions": f"{len(every):,}",
        "the longest function": f"{longest[0].name}:{longest[1].name}",
        "most arguments of a kernel": f"{len(most[1].args.args)} ({most[0].name}:{most[1].name})",
        "Any per 1,000 lines; type: ignore": f"{1000 * n_any / sum(lines.values()):.1f}; {''.join(texts.values()).count('type: ignore')}",
        "circles of imports, those for types included": str(len(circles(root))),
    }
    return measures, rows


def walk(root: Path) -> dict[str, str]:
    """Return how far it is from `fit` to the first mu, and the ancestors of `MultinomialNB`."""
    run = subprocess.run([sys.executable, "-c", WALK], cwd=root, capture_output=True, text=True, check=True)
    counts = run.stdout.split()
    return {
        "functions called from fit to the new mu, files": f"{counts[0]}, {counts[1]}",
        "of these on a document's path, files": f"{counts[2]}, {counts[3]}",
        "of these no kernels, files": f"{counts[4]}, {counts[5]}",
        "ancestors of MultinomialNB in the package": counts[6],
    }


def main() -> None:
    """Print the table."""
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = Path(arguments[0]).absolute() if arguments else ROOT
    measures, rows = sizes(root)
    print(f"{'':48}{'now':>9}{'budget':>9}")
    above = [name for name, (now, budget) in measures.items() if now > budget]
    for name, (now, budget) in measures.items():
        digits = 1 if isinstance(budget, float) else 0
        print(f"{name:48}{now:9,.{digits}f}{budget:9,.{digits}f}{'  ABOVE' * (name in above)}")
    if "--check" in sys.argv[1:]:
        if above:
            raise SystemExit(f"above the budget: {', '.join(above)}")
        return
    for name, value in (rows | walk(root)).items():
        print(f"{name:48}{value}")


if __name__ == "__main__":
    main()
