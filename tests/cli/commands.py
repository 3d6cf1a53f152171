"""Running the command in this process."""

from __future__ import annotations

from click.testing import CliRunner

from sdem_dist.cli import main


def run(*arguments: object, **more):
    return CliRunner().invoke(main, list(map(str, arguments)), **more)


def ok(*arguments: object, **more) -> str:
    result = run(*arguments, catch_exceptions=False, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object, code: int = 1, **more) -> str:
    """Run a command that must fail with a message and no traceback."""
    result = run(*arguments, **more)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stderr.strip()
    return " ".join(result.stderr.split())
