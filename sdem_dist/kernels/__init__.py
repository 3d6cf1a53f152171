"""Loops over arrays, compiled by numba."""

beside = ""
"""Code that another process runs where this one begins to compile, so that two compile; it ends with this one."""
