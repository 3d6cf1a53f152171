"""The examples of dense features run, on little data, and show what they promise."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def run(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path) -> str:
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(out)])
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out


def test_toy_gaussian(monkeypatch, capsys, tmp_path):
    shown = run("toy_gaussian.py", monkeypatch, capsys, tmp_path)
    accuracy = [float(a) for a in re.findall(r"(0\.\d+)$", shown, re.MULTILINE)]
    assert accuracy[0] == pytest.approx(0.79, abs=0.02)
    assert len(accuracy) == 5
    assert min(accuracy[1:]) >= 0.91
    assert (tmp_path / "toy-gaussian.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.slow
def test_your_own_family(monkeypatch, capsys, tmp_path):
    shown = run("your_own_family.py", monkeypatch, capsys, tmp_path)
    assert "obeys the laws" in shown
    accuracy = dict(re.findall(r"^(nll|ncll|hinge) +accuracy (\S+)", shown, re.MULTILINE))
    assert float(accuracy["ncll"]) > float(accuracy["nll"])
    assert "the same after loading: True" in shown
