"""How values on the command line become parameters."""

from __future__ import annotations

import pytest

from sdem_dist.cli.settings import parse_setting


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("False", False),
        ("false", False),
        ("None", None),
        ("null", None),
        ("[.5,.5]", [0.5, 0.5]),
        ("0.5", 0.5),
        ("gibbs", "gibbs"),
    ],
)
def testparse_settings_of_parameters_are_read_as_json_or_python(text, value):
    assert parse_setting("name", text) == value
