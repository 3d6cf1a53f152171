"""``python -m sdem_dist``: the command ``sdem``."""

from sdem_dist.cli import main

main(prog_name="sdem")
