"""``python -m sdem_dist``: the command ``sdem``."""

from sdem_dist.cli import main

if __name__ == "__main__":
    main(prog_name="sdem")
