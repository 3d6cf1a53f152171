"""What is imported when: a light package, no Dask where none is asked for, and no circles."""

import json
import subprocess
import sys

import pytest
from benchmarks.house import ROOT, circles

import sdem_dist

HEAVY = ("dask", "distributed", "numba", "sklearn", "zarr", "scipy", "pandas", "matplotlib", "pyarrow")
UNNEEDED = ["dask", "distributed", "zarr", "pandas", "pyarrow", "matplotlib", "scipy.stats"]
COMMANDS = ["predict plain.model latin.txt --on-error skip", "inspect plain.model", "evaluate plain.model plain.tsv",
            "explain plain.model goal", "ingest plain.tsv new.zarr", "train plain.tsv words.model",
            "train new.zarr new.model --validation new.zarr --checkpoint run"]  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Return the modules of a new process that has run `code`."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_nothing_heavy():
    code = """
import sdem_dist, sdem_dist.cli.ingest, sdem_dist.cli.inspect
dir(sdem_dist), sdem_dist.__version__
from click.testing import CliRunner
from sdem_dist.cli import main
for command in ([], ["train"], ["predict"], ["evaluate"], ["demo"]):
    assert CliRunner().invoke(main, [*command, "--help"]).exit_code == 0"""
    assert not modules_after(code) & set(HEAVY)


def test_training_in_python_needs_no_dask():
    code = "X, y = [[1, 0], [0, 1]] * 9, [0, 1] * 9\nMultinomialNB(merge='sum', n_jobs=2).fit(X, y).partial_fit(X, y)"
    loaded = modules_after(f"from sdem_dist import MultinomialNB\n{code}")
    assert "numba" in loaded and "sklearn" in loaded and not loaded & {"dask", "distributed"}


@pytest.mark.parametrize("commands", [COMMANDS[:1], COMMANDS], ids=["predict", "all"])
def test_commands_import_what_they_need(commands, desk):
    loaded = modules_after(
        "from click.testing import CliRunner\n"
        "from sdem_dist.cli import main\n"
        f"for command in {commands!r}:\n"
        "    result = CliRunner().invoke(main, command.split())\n"
        "    assert result.exit_code == 0, result.output"
    )
    assert {"numba", "sklearn"} <= loaded
    assert not loaded & {*UNNEEDED, *(["rich.progress"] if len(commands) == 1 else [])}


def test_names_that_modules_have_and_have_not():
    loaded = modules_after("import sdem_dist\nassert callable(sdem_dist.plots.history) and sdem_dist.text.ingest")
    assert "sdem_dist.plots" in loaded
    assert set(sdem_dist.__all__) <= set(dir(sdem_dist))
    for name in sdem_dist.__all__:
        assert getattr(sdem_dist, name).__name__ == name


def test_there_are_no_circles():
    assert not [sorted(group) for group in circles(ROOT)]


def test_a_circle_is_found(tmp_path):
    package = tmp_path / "sdem_dist"
    package.mkdir()
    (package / "one.py").write_text("def f():\n    from sdem_dist.two import g\n")
    (package / "two.py").write_text("from sdem_dist.three import h\n")
    (package / "three.py").write_text("from sdem_dist import one\n")
    (package / "four.py").write_text("from sdem_dist import one\n")
    assert circles(tmp_path) == {frozenset({"sdem_dist.one", "sdem_dist.two", "sdem_dist.three"})}
