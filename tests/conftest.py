"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The first call of a kernel compiles it, which no deadline for one example could allow for.
settings.register_profile("sdem", deadline=None)
settings.load_profile("sdem")
