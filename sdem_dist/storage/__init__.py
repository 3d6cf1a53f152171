"""Bytes on disk and in buckets: atomic publication, arrays in zarr's format, and one-file archives of arrays."""
