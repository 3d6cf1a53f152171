"""Every command that the documentation types has the options and arguments that it is typed with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from sdem_dist.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "sdem_dist/docs").rglob("*.md"))]
TYPED = re.compile(r"^(?: {4}|\$ )(?:\S+ \| )*(sdem .*)$", re.MULTILINE)
COMMANDS = sorted({line for page in PAGES for line in TYPED.findall(page.read_text(encoding="utf-8"))})


def words(line: str) -> list[str]:
    """Return the words of a command after ``sdem``, up to a comment, a pipe or a redirection."""
    split = shlex.shlex(line, posix=True, punctuation_chars="|>&;")
    split.whitespace_split = True
    found = []
    for word in split:
        if word[:1] in ("|", ">", "&", ";"):
            break
        found.append(word)
    return found[1:]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documentation_are_understood(line):
    name, *arguments = words(line)
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"sdem {name}"
    parent = click.Context(main, **main.context_settings)  # which a command keeps of its first context
    with command.make_context(name, arguments, parent=parent) as context:
        assert context.params


def test_there_are_commands_to_be_checked():
    assert len(COMMANDS) > 50
