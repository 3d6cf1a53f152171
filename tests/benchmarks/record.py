"""Runs a benchmark and writes what it printed into RESULTS.md, with the command, the day and the machine.

Run: python tests/benchmarks/record.py SCRIPT [ARGUMENTS]   (a section of the same command is replaced)
"""

import os
import platform
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
OLDER = "## Older figures\n"
"""What was not made anew stays at the end of the page."""


def section(command: list[str], printed: str) -> str:
    day, load = datetime.now(UTC).date().isoformat(), os.getloadavg()[0]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    body = "\n".join(f"    {line}".rstrip() for line in printed.rstrip().splitlines())
    return f"## `{shlex.join(command)}`\n\n{day}; {machine}, load {load:.1f} at the end.\n\n{body}\n"


def with_section(text: str, command: list[str], made: str) -> str:
    """Return the page with a section put in the place of the one of the same command, or before the older figures."""
    head = re.escape(f"## `{shlex.join(command)}`\n")
    old = re.search(rf"^{head}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if old is None:
        recorded, older, rest = text.partition(OLDER)
        return f"{recorded.rstrip()}\n\n{made}" + (f"\n{older}{rest}" if older else "")
    rest = text[old.end() :]
    return f"{text[: old.start()]}{made}" + (f"\n{rest}" if rest else "")


def main() -> None:
    command = sys.argv[1:]
    if not command or not (FOLDER / command[0]).is_file():
        raise SystemExit(f"name a script of {FOLDER}, and its arguments")
    printed = subprocess.check_output([sys.executable, str(FOLDER / command[0]), *command[1:]], text=True)
    print(printed, end="")
    RESULTS.write_text(with_section(RESULTS.read_text("utf-8"), command, section(command, printed)), "utf-8")


if __name__ == "__main__":
    main()
