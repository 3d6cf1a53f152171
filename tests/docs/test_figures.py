"""Figures say where they come from: every measured one stands in a section that names a script that exists, and a day."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "tests" / "benchmarks"
DOCS = ROOT / "sdem_dist" / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.name != "changelog.md"),
]
DAY = re.compile(
    r"\b\d{1,2}\s(?:January|February|March|April|May|June|July|August|September|October|November|December)\s20\d\d\b"
)
SCRIPT = re.compile(r"`(?:\S*/)?(\w+\.py)\b")
NOT_PROSE = re.compile(r"^```.*?^```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|^    .*?$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"(?<![\w.])\.\d\d|\|\s*\**[-+]?\d*\.\d|\d\.\d+ (?:s|ms|GiB|times|%)(?!\w)")
"""The house's way to write a share: .95, .003; and rows of tables with decimals. Settings have one digit: alpha .1."""


def sections(text: str) -> list[tuple[str, str]]:
    """Return headings and what stands below each, up to the next heading."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return list(zip(["(top)", *parts[1::2]], parts[::2], strict=True))


def without_a_source(text: str) -> list[str]:
    """Return the headings under which there are figures, but no script that exists or no day."""
    found = []
    for heading, body in sections(text):
        scripts = [
            name for name in SCRIPT.findall(body) if list(BENCHMARKS.glob(name)) or (ROOT / "examples" / name).exists()
        ]
        if MEASURED.search(NOT_PROSE.sub("", body)) and not (scripts and DAY.search(body)):
            found.append(heading)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_of_pages_name_a_script_and_a_day(page):
    assert not without_a_source(page.read_text(encoding="utf-8"))


def test_a_figure_without_a_source_is_found():
    source = "(`speed.py`, 23 November 2026)"
    assert without_a_source(f"# A\n\nIt reaches .951.\n\n# B\n\nIt reaches .951 {source}.\n") == ["A"]
    assert without_a_source(f"# A\n\n| x | 1.9 |\n\n{source.replace('speed', 'no_such')}\n") == ["A"]
    assert without_a_source("# A\n\n`step=.25`, alpha .1, and $x = .123$: settings.\n") == []


def test_every_benchmark_is_in_the_list():
    listed = set(SCRIPT.findall((DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    helpers = {"corpora.py", "harness.py", "record.py"}
    assert {path.name for path in BENCHMARKS.glob("*.py") if not path.name.startswith("test_")} - helpers <= listed


def test_every_result_has_a_command_and_a_day():
    page = (BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8")
    recorded, _, older = page.partition("\n## Older figures\n")
    for heading, body in [*sections(recorded)[2:], *sections(older)[1:]]:
        command = re.match(r"`(\S+\.py)\b", heading)
        assert command, heading
        assert (BENCHMARKS / command[1]).exists(), heading
        assert re.match(r"\s*20\d\d-\d\d-\d\d", body), heading


def test_results_are_written_by_scripts():
    recorded = (BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8").partition("\n## Older figures\n")[0]
    for heading, body in sections(recorded)[2:]:
        first, *printed = body.strip().splitlines()
        assert re.fullmatch(r"[\d-]{10}; \d+ cores, \S+, Python [\d.]+, load [\d.]+ at the end\.", first), heading
        assert all(not line or line.startswith("    ") for line in printed), heading
