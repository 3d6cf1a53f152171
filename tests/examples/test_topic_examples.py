"""The example of supervised topics runs, on little data, and shows what it promises."""

from __future__ import annotations

import lzma
import re
import runpy
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "examples"


def test_supervised_topics(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "imdb").mkdir()
    for part in ("train", "test"):
        lines = []
        for i in range(400):
            stars = int(rng.integers(1, 11))
            words = rng.choice(["good", "bad", "film"], 30, p=[stars / 20, 0.5 - stars / 20, 0.5])
            numbered = " ".join(f"{w}{rng.integers(9)}" for w in words)
            lines.append(f"{'pos' if stars > 5 else 'neg'}\t{stars}\t{i}\t{numbered}<br />end\n")
        (tmp_path / f"imdb/imdb-{part}.tsv.xz").write_bytes(lzma.compress("".join(lines).encode()))
    monkeypatch.setattr(
        sys, "argv", ["supervised_topics.py", "--quick", "--corpora", str(tmp_path), "--out", str(tmp_path)]
    )
    runpy.run_path(str(FOLDER / "supervised_topics.py"), run_name="__main__")
    shown = capsys.readouterr().out
    found = dict(re.findall(r"^(AUC|R2) over topics, BP-sLDA: \{5: ([\d.]+)", shown, re.MULTILINE))
    assert float(found["AUC"]) > 0.9
    assert float(found["R2"]) > 0.3
    assert "topic of" in shown
    for picture in ("supervised-topics.png", "supervised-topics-words.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
