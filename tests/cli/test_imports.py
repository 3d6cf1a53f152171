"""What is imported when: a light package, and no Dask where none is asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import sdem_dist

HEAVY = ("dask", "distributed", "numba", "sklearn", "zarr", "scipy", "pandas", "matplotlib", "pyarrow")


def modules_after(code: str) -> set[str]:
    """Return the modules of a new process that has run `code`."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import sdem_dist",
        "import sdem_dist; dir(sdem_dist); sdem_dist.__version__",
        "from sdem_dist.cli import main",
        "import sdem_dist.cli.ingest, sdem_dist.cli.inspect",
        """from click.testing import CliRunner
from sdem_dist.cli import main
for command in ("train", "predict", "evaluate", "demo"):
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0
assert CliRunner().invoke(main, ["--help"]).exit_code == 0""",
    ],
)
def test_nothing_heavy(code):
    assert not modules_after(code) & set(HEAVY)


def test_training_in_this_process_needs_no_dask():
    loaded = modules_after(
        "import numpy as np, tempfile, pathlib\n"
        "from sdem_dist import MultinomialNB, write_corpus, load_model\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.poisson(1.0, (60, 9)), np.arange(60) % 3\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "corpus = write_corpus(folder / 'c', X, y)\n"
        "model = MultinomialNB(n_epochs=2, n_jobs=2).fit(corpus, validation=corpus, checkpoint=folder / 'run')\n"
        "model.save(folder / 'm')\n"
        "load_model(folder / 'm').predict_proba(X)\n"
        "MultinomialNB(merge='sum').fit(X, y).partial_fit(X, y)"
    )
    assert "numba" in loaded and "sklearn" in loaded
    assert not loaded & {"dask", "distributed"}


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    from sdem_dist import MultinomialNB

    path = tmp_path_factory.mktemp("text") / "news.model"
    MultinomialNB(n_epochs=1).fit(
        ["a late goal", "the bank", "goal", "bank"], ["sport", "money", "sport", "money"]
    ).save(path)
    path.with_name("new.txt").write_text("goal at last\nthe bank\n")
    path.with_name("new.tsv").write_text("sport\tgoal at last\nmoney\tthe bank\n")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "MODEL", "new.txt"],
        ["inspect", "MODEL"],
        ["evaluate", "MODEL", "new.tsv"],
        ["explain", "MODEL", "new.txt"],
    ],
)
def test_a_command_with_a_model_imports_what_it_needs(command, text_model):
    arguments = [str(text_model) if a == "MODEL" else str(text_model.with_name(a)) for a in command[1:]]
    loaded = modules_after(
        "from click.testing import CliRunner\n"
        "from sdem_dist.cli import main\n"
        f"result = CliRunner().invoke(main, {[command[0], *arguments]!r})\n"
        "assert result.exit_code == 0, result.output"
    )
    assert "numba" in loaded and "sklearn" in loaded
    unneeded = {
        "dask",
        "distributed",
        "zarr",
        "pandas",
        "pyarrow",
        "matplotlib",
        "scipy.stats",
        "numpy.f2py",
    }
    if command[0] == "predict":
        unneeded.add("rich.progress")
    assert not loaded & unneeded


def test_unknown_names():
    import sdem_dist

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sdem_dist.nonsense
    assert set(sdem_dist.__all__) <= set(dir(sdem_dist))
    for name in sdem_dist.__all__:
        assert getattr(sdem_dist, name).__name__ == name


def test_modules_that_pages_name_are_there_after_one_import():
    loaded = modules_after("import sdem_dist\nassert callable(sdem_dist.plots.history) and sdem_dist.text.ingest")
    assert "sdem_dist.plots" in loaded
    with pytest.raises(AttributeError, match="no attribute 'plot'"):
        sdem_dist.plot  # noqa: B018
