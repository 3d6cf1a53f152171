"""Measures of the code itself: sizes, types, borders, and how far it is from `fit` to the next mu.

An estimator's depth is that of its longest chain of classes of the package that have methods: it is 1 for a class with no
base but scikit-learn's. Groups of parameters, which are fields alone, and protocols do not count, since nothing that they
have can be overridden or called. What an estimator overrides are methods that a class of its chain has with a body.

Two counts say how far it is. The first is of all functions of the package that a fit calls up to the end of the first
update, each once: checks, properties and limits of memory too. The second is of a document's path: the functions that are
running when a shard is read, when a learner prepares, maps, combines or updates, or when a kernel is entered.

Run: python tests/benchmarks/house.py [FOLDER]   (a checkout; default: this one)
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WALK = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, scipy.sparse as sp, tempfile
import sdem_dist as sd
from sdem_dist.engine import executor
X, y = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (60, 9))), np.arange(60) % 3
corpus = sd.write_corpus(tempfile.mkdtemp() + "/c", X, y)
settings = {"merge": "sum", "n_epochs": 1, "n_lanes": 1, "n_jobs": 1, "evaluate_every": 0}
sd.MultinomialNB(**settings).fit(corpus)
called, walked, ended = set(), set(), []
def place(frame):
    code = frame.f_code
    own = "/sdem_dist/" in code.co_filename and not code.co_name.startswith("<")
    return (code.co_filename.partition("/sdem_dist/")[2], code.co_qualname) if own else None
def has_documents(file, name):
    if file.startswith("learners/"):
        return name.split(".")[-1] in ("prepare", "map", "combine", "update")
    return file.startswith("kernels/") or (file, name) == ("corpus/shards.py", "read_shard")
def look(frame, event, _):
    at = place(frame)
    if at is None or ended:
        return
    if event == "call":
        called.add(at)
        while has_documents(*at) and frame is not None:
            walked.add(place(frame))
            frame = frame.f_back
    elif at[0].startswith("learners/") and at[1].endswith(".update"):
        ended.append(True)
model = sd.MultinomialNB(**settings)
corpus = sd.write_corpus(tempfile.mkdtemp() + "/other", X[::-1], y[::-1])
sys.setprofile(look)
model.fit(corpus)
sys.setprofile(None)
made, plain = [], executor.InProcess.__init__
executor.InProcess.__init__ = lambda self, *a, **k: (made.append(1), plain(self, *a, **k))[1]
sd.MultinomialMixture(2).fit(X)
walked.discard(None)
loops = [w for w in walked if w[0].startswith("kernels/")]
print(*(n for found in (called, walked, loops) for n in (len(found), len({file for file, _ in found}))), len(made))
"""

CLASSES = """
import inspect
from sdem_dist.catalogue import ESTIMATORS, estimator_class
def methods(cls):
    kinds = (property, classmethod, staticmethod)
    found = {n for n, v in vars(cls).items() if inspect.isfunction(v) or isinstance(v, kinds)}
    return {n for n in found if not n.startswith("__") or n.startswith("__sklearn")}
def counts(cls):
    return cls.__module__.startswith("sdem_dist.") and not getattr(cls, "_is_protocol", False) and bool(methods(cls))
def depth(cls):
    return counts(cls) + max(map(depth, cls.__bases__), default=0)
def overridden(cls):
    above = set().union(*(methods(c) for c in cls.__mro__[1:] if counts(c)))
    return len(methods(cls) & above)
found = [estimator_class(name) for name in ESTIMATORS]
depths, replaced = [depth(c) for c in found], [overridden(c) for c in found]
print(max(depths), sum(depths) / len(depths), max(replaced), sum(replaced) / len(replaced))
"""


def functions(path: Path) -> list[tuple[str, ast.FunctionDef]]:
    """Return all functions of a file by name."""
    return [
        (f"{path.name}:{n.name}", n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)
    ]


def n_statements(function: ast.FunctionDef) -> int:
    """Return the statements of a function, its docstring and inner functions' own apart."""
    return sum(isinstance(n, ast.stmt) for n in ast.walk(function)) - 1 - bool(ast.get_docstring(function))


def circles(root: Path) -> set[frozenset[str]]:
    """Return the groups of modules that import each other, imports for types and in functions included."""
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (root / "sdem_dist").rglob("*.py")
    }
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                graph[name] |= {m for a in node.names if (m := f"{node.module}.{a.name}") in modules} or (
                    {node.module} & modules.keys()
                )
    reach: dict[str, set[str]] = {}
    for start in graph:
        found, todo = set(), [start]
        while todo:
            for other in graph[todo.pop()] - found:
                found.add(other)
                todo.append(other)
        reach[start] = found
    return {frozenset(o for o in reach if o in reach[m] and m in reach[o]) for m in reach if m in reach[m]}


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    files = sorted((root / "sdem_dist").rglob("*.py"))
    texts = {path: path.read_text() for path in files}
    n_lines = sum(text.count("\n") for text in texts.values())
    own = [path for path in files if path.parent.name == "estimators"]
    every = [entry for path in files for entry in functions(path)]
    kernels = [entry for path in files if path.parent.name == "kernels" for entry in functions(path)]
    longest, most = max(every, key=lambda e: n_statements(e[1])), max(kernels, key=lambda e: len(e[1].args.args))
    anys = sum(len(re.findall(r"\bAny\b", text)) for text in texts.values())
    ignored = sum(text.count("type: ignore") for text in texts.values())
    walk = subprocess.run([sys.executable, "-c", WALK], cwd=root, capture_output=True, text=True, check=False)
    walked = walk.stdout.split() or ["?"] * 7
    classes = subprocess.run([sys.executable, "-c", CLASSES], cwd=root, capture_output=True, text=True, check=False)
    depths = [float(figure) for figure in classes.stdout.split()] or [float("nan")] * 4
    rows = {
        "estimators/: files, lines": f"{len(own)}, {sum(texts[p].count(chr(10)) for p in own):,}",
        "sdem_dist/: files, lines": f"{len(files)}, {n_lines:,}",
        "files past 400 lines": str(sum(text.count("\n") > 400 for text in texts.values())),
        "most arguments of a kernel": f"{len(most[1].args.args)} ({most[0]})",
        "statements in the longest function": f"{n_statements(longest[1])} ({longest[0]})",
        "Any per 1,000 lines; type: ignore": f"{1000 * anys / n_lines:.1f}; {ignored}",
        "circles of imports, those for types included": str(len(circles(root))),
        "functions called from fit to the new mu, files": f"{walked[0]}, {walked[1]}",
        "of these on a document's path, files": f"{walked[2]}, {walked[3]}",
        "of these kernels, files": f"{walked[4]}, {walked[5]}",
        "depth of estimators: most, mean": f"{depths[0]:.0f}, {depths[1]:.1f}",
        "methods that an estimator overrides: most, mean": f"{depths[2]:.0f}, {depths[3]:.1f}",
        "executors in a fit of MultinomialMixture": walked[6],
    }
    for name, value in rows.items():
        print(f"{name:48}{value}")


if __name__ == "__main__":
    main()
