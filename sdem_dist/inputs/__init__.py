"""From what users hand over to documents that the engine reads."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
