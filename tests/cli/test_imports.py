"""What is imported when: a light package, and no Dask where none is asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("dask", "distributed", "numba", "sklearn", "zarr", "scipy", "pandas", "matplotlib", "pyarrow")


def modules_after(code: str) -> set[str]:
    """Return the top-level modules of a new process that has run `code`."""
    code += "\nimport json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import sdem_dist",
        "import sdem_dist; dir(sdem_dist); sdem_dist.__version__",
        "from sdem_dist.cli import main",
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


def test_unknown_names():
    import sdem_dist

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sdem_dist.nonsense
    assert set(sdem_dist.__all__) <= set(dir(sdem_dist))
    for name in sdem_dist.__all__:
        assert getattr(sdem_dist, name).__name__ == name
