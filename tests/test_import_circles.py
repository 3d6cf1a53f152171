"""No module imports one that imports it, not for types and not in a function either."""

from benchmarks.house import ROOT, circles


def test_there_are_no_circles():
    assert not [sorted(group) for group in circles(ROOT)]


def test_a_circle_is_found(tmp_path):
    package = tmp_path / "sdem_dist"
    package.mkdir()
    (package / "one.py").write_text("def f():\n    from sdem_dist.two import g\n")
    (package / "two.py").write_text("from sdem_dist.three import h\n")
    (package / "three.py").write_text("from sdem_dist import one\n")
    (package / "four.py").write_text("from sdem_dist import one\n")
    names = {"sdem_dist.one", "sdem_dist.two", "sdem_dist.three"}
    assert circles(tmp_path) == {frozenset(names)}
