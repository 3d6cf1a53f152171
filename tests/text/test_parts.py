"""Pieces on their own: who is held out, and the corpus of docstrings."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.errors import IngestError
from sdem_dist.text import docstrings
from sdem_dist.text.counting import held_out_mask


@given(st.integers(0, 2**40), st.integers(0, 50), st.integers(0, 50), st.integers(-5, 2**63), st.floats(0, 1))
def test_who_is_held_out_depends_on_the_position_only(first, left, right, seed, fraction):
    parts = held_out_mask(3, first, left, fraction, seed), held_out_mask(3, first + left, right, fraction, seed)
    assert (np.concatenate(parts) == held_out_mask(3, first, left + right, fraction, seed)).all()


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9])
def test_the_fraction_held_out(fraction):
    masks = [held_out_mask(split, 0, 20_000, fraction, seed) for split, seed in ((0, 0), (0, 1), (1, 0))]
    for mask in masks:
        assert abs(mask.mean() - fraction) < 0.02
        assert abs((mask[1:] & mask[:-1]).mean() - fraction**2) < 0.02, "neighbours are independent"
    for other in masks[1:]:
        assert abs((masks[0] & other).mean() - fraction**2) < 0.02, "seeds and splits are independent"


LONG = "This long text stands in the source of a package and says what numpy, np.dot and NumPy do for arrays."


def test_docstrings_of_a_package(tmp_path, monkeypatch):
    package = tmp_path / "numpy"
    (package / "sub" / "tests").mkdir(parents=True)
    (package / "a.py").write_text(
        f'"""{LONG} module"""\nif True:\n    class A:\n        """{LONG} class"""\n        async def f(self):\n'
        f'            """{LONG} method"""\n            return lambda: 1 if 2 else 3\n    def g():\n        """Short."""\n'
        f'try:\n    pass\nexcept ValueError:\n    def h():\n        r"""{LONG} method"""\n'
    )
    (package / "b.py").write_text("this is no python")
    (package / "sub" / "c.py").write_text(f'def f():\n    """{LONG} last"""\n')
    (package / "sub" / "tests" / "d.py").write_text(f'def f():\n    """{LONG} test"""\n')

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr(docstrings, "PACKAGES", {"numpy": ("numpy", "np")})
    monkeypatch.setattr(docstrings.importlib.util, "find_spec", lambda name: Spec if name == "numpy" else None)
    texts, labels = docstrings.collect_docstrings()
    assert [t.rsplit(" ", 1)[1] for t in texts] == ["module", "class", "method", "last"]
    assert labels == ["numpy"] * 4
    assert texts[0] == LONG.replace("numpy", "").replace("np", "").replace("NumPy", "") + " module"
    monkeypatch.setattr(docstrings, "PACKAGES", {"absent": ("absent",)})
    with pytest.raises(IngestError, match="pip install"):
        docstrings.collect_docstrings()


def test_nothing_is_missed_that_a_full_walk_finds():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    folder = Path(importlib.util.find_spec("distributed").submodule_search_locations[0])
    for file in sorted(folder.glob("*.py"))[:20]:
        tree = ast.parse(file.read_bytes())
        walked = [ast.get_docstring(n, clean=True) for n in ast.walk(tree) if isinstance(n, kinds)]
        assert sorted(docstrings._docstrings_of(file)) == sorted(d.strip() for d in walked if d is not None)


@pytest.mark.slow
def test_the_docstrings_tell_their_packages_apart():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    texts, labels = docstrings.collect_docstrings()
    assert set(labels) == set(docstrings.PACKAGES) and len(texts) == len(set(zip(texts, labels, strict=True))) > 8000
    train, test, y, y_test = train_test_split(texts, labels, test_size=0.2, random_state=0)
    assert 0.8 < make_pipeline(CountVectorizer(min_df=2), MultinomialNB()).fit(train, y).score(test, y_test) < 0.95
