"""Disks that are full or read-only, for as long as a test needs them."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip("there is no command to mount a small disk with")
    if done.returncode:
        pytest.skip(f"this user may not mount a small disk: {done.stderr.strip()}")


@contextlib.contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[Path]:
    """Mount a disk of so many bytes at an empty folder."""
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], timeout=30, check=True)


def make_read_only(folder: Path) -> None:
    _mount("-o", "remount,ro", str(folder))


@contextlib.contextmanager
def filled(folder: Path, leaving: int) -> Iterator[None]:
    """Fill the disk of a folder but for some bytes."""
    ballast = folder / "ballast"
    disk = os.statvfs(folder)
    with ballast.open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_bsize - leaving)))
    try:
        yield
    finally:
        ballast.unlink()
