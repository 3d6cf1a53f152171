"""The pages keep their promises: formulas name functions that exist, commands are understood, figures name a script and a day."""

import re
import runpy
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

import sdem_dist
from sdem_dist.cli import main

DOCS = Path(sdem_dist.__file__).parent / "docs"
ROOT = DOCS.parents[1]
MAKER = runpy.run_path(str(ROOT / ".ci/pages.py"))
PAGES = sorted(page for page in DOCS.rglob("*.md") if "generated" not in page.parts)
TYPED = re.compile(r"^(?: {4}|\$ )(?:\S+ \| )*(sdem .*)$", re.MULTILINE)
TYPED_PAGES = [ROOT / "README.md", *PAGES]
COMMANDS = sorted({line for page in TYPED_PAGES for line in TYPED.findall(page.read_text(encoding="utf-8"))})
REFERENCE = re.compile(r"\{py:\w+\}`[^`<]*<?(sdem_dist[\w.]*)>?`")


def rows() -> list[tuple[str, str]]:
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (DOCS / "formulas.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and "---" not in line and not line.startswith("| formula")
    ]
    return [(f"{formula} {equation}", functions) for formula, equation, _, functions in cells]


@pytest.mark.parametrize(("equation", "functions"), rows())
def test_every_equation_has_a_function_that_exists(equation, functions):
    names = REFERENCE.findall(functions)
    assert names, f"{equation} names no function"
    for name in names:
        assert callable(resolve_name(name)), name


def numbers(text: str) -> set[int]:
    """Return the equations that a text names, such as "(1), (5) to (7)"."""
    text = re.sub(r"\$[^$]*\$", "", text)
    found = {int(number) for number in re.findall(r"\((\d+)\)", text)}
    for first, last in re.findall(r"\((\d+)\) to \((\d+)\)", text):
        found |= set(range(int(first), int(last) + 1))
    return found


@pytest.mark.parametrize(("part", "last"), [(1, 18), (2, 19), (3, 72)], ids=["sdEM", "mixtures", "mirror descent"])
def test_every_equation_has_a_row_or_is_named_above_the_table(part, last):
    section = (DOCS / "formulas.md").read_text(encoding="utf-8").split("\n## ")[part]
    rows = "\n".join(line.split(" | ")[1] for line in section.splitlines() if line.startswith("| "))
    prose = " ".join(line for line in section.splitlines() if not line.startswith("|"))
    assert not set(range(1, last + 1)) - numbers(rows) - numbers(prose) and not numbers(rows) & numbers(prose)


def test_the_reference_has_every_public_name_and_every_command():
    from sdem_dist.catalogue import PUBLIC

    listed = set(re.findall(r"^   (\w+)$", (DOCS / "reference" / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(PUBLIC) <= listed
    shown = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    for command in main.list_commands(click.Context(main)):
        assert f"## sdem {command}\n" in shown, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_references_lead_somewhere_and_prose_has_at_most_120_characters(page):
    fenced, long = False, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        if len(line) > 120 and not fenced and not line.startswith(("|", "    ")):
            long.append(number)
    assert not long
    for name in REFERENCE.findall(page.read_text(encoding="utf-8")):
        resolve_name(name)  # raises where a part of it does not exist


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documentation_are_understood(line):
    assert len(COMMANDS) > 50
    name, *arguments = MAKER["words"](line)
    command = main.get_command(click.Context(main), name)
    command = command.commands[arguments.pop(0)] if isinstance(command, click.Group) else command
    parent = click.Context(main, **main.context_settings)  # which a command keeps of its first context
    with command.make_context(name, arguments, parent=parent) as context:
        assert context.params


BENCHMARKS = ROOT / "tests" / "benchmarks"
WITH_FIGURES = [ROOT / "README.md", ROOT / "examples" / "README.md", *(p for p in PAGES if p.name != "changelog.md")]
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DAY = re.compile(rf"\b\d{{1,2}}\s(?:{MONTHS})\s20\d\d\b")
SCRIPT = re.compile(r"`(?:\S*/)?(\w+\.py)\b")
FINISHED = set(SCRIPT.findall((BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8").partition("\n## ")[0]))
"""Scripts that the head of the results names: git has those that are finished."""
NOT_PROSE = re.compile(r"^```.*?^```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|^    .*?$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"(?<![\w.])\.\d\d|\|\s*\**[-+]?\d*\.\d|\d\.\d+ (?:s|ms|GiB|times|%)(?!\w)")
"""The house's way to write a share: .95, .003; and rows of tables with decimals. Settings have one digit: alpha .1."""


def sections(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return list(zip(["(top)", *parts[1::2]], parts[::2], strict=True))


def without_a_source(text: str) -> list[str]:
    """Return the headings under which there are figures, but no script that exists or no day."""
    found = []
    for heading, body in sections(text):
        there = {path.name for at in (BENCHMARKS, ROOT / "examples") for path in at.glob("*.py")}
        scripts = FINISHED.union(there).intersection(SCRIPT.findall(body))
        if MEASURED.search(NOT_PROSE.sub("", body)) and not (scripts and DAY.search(body)):
            found.append(heading)
    return found


@pytest.mark.parametrize("page", WITH_FIGURES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_of_pages_name_a_script_and_a_day(page):
    assert not without_a_source(page.read_text(encoding="utf-8"))


def test_a_figure_without_a_source_is_found():
    source = "(`speed.py`, 23 November 2026)"
    assert without_a_source(f"# A\n\nIt reaches .951.\n\n# B\n\nIt reaches .951 {source}.\n") == ["A"]
    assert without_a_source(f"# A\n\n| x | 1.9 |\n\n{source.replace('speed', 'no_such')}\n") == ["A"]
    assert without_a_source("# A\n\n`step=.25`, alpha .1, and $x = .123$: settings.\n") == []


def test_every_benchmark_is_in_the_list():
    listed = set(SCRIPT.findall((DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    helpers = {"corpora.py", "guests.py", "harness.py", "record.py"}
    assert {path.name for path in BENCHMARKS.glob("*.py") if not path.name.startswith("test_")} - helpers <= listed


def test_every_result_has_a_command_and_a_day_and_is_written_by_a_script():
    recorded, _, older = (BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8").partition("\n## Older figures\n")
    for heading, body in [*sections(recorded)[2:], *sections(older)[1:]]:
        command = re.match(r"`(\S+\.py)\b", heading)
        assert command, heading
        assert command[1] in FINISHED or (BENCHMARKS / command[1]).exists(), heading
        assert re.match(r"\s*20\d\d-\d\d-\d\d", body), heading
    for heading, body in sections(recorded)[2:]:
        first, *printed = body.strip().splitlines()
        assert re.fullmatch(r"[\d-]{10}; \d+ cores, \S+, Python [\d.]+, load [\d.]+ at the end\.", first), heading
        assert all(not line or line.startswith("    ") for line in printed), heading
