"""``sdem demo``, from nothing to a trained model."""

import subprocess
import sys

import pytest

from sdem_dist import load_model, open_corpus


@pytest.mark.slow
def test_demo_end_to_end(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", "from sdem_dist.cli import main; main()", "demo", "--epochs", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "sdem-demo"
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    test = open_corpus(folder / "docstrings-held-out.zarr")
    assert len(test.header.classes) == 8
    for loss in ("nll", "ncll", "hinge"):
        accuracy = load_model(folder / f"{loss}.model").evaluate(test)["accuracy"]
        assert accuracy > 0.7
        assert f"{accuracy:.4f}" in result.stdout and loss.upper() in result.stdout
    for said in (
        "accuracy",
        "perplexity",
        "cannot be compared",
        "documents/s",
        "words that speak most",
        "sdem predict",
    ):
        assert said in result.stdout
