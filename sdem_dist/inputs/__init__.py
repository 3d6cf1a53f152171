"""From what users hand over to documents that the engine reads."""

from __future__ import annotations

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
