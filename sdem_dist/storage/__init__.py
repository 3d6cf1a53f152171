"""Bytes on disk: atomic publication, zarr arrays and groups, and one-file archives of arrays.

This is the only package that imports zarr.
"""
