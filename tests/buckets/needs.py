"""What tests of URLs need beside the package."""

from importlib.util import find_spec

import pytest

needs_obstore = pytest.mark.skipif(find_spec("obstore") is None, reason="URLs need obstore")
everywhere = pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"], indirect=True)
"""For tests of all kinds of buckets."""
