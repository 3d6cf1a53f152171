"""From the documents of users to those that the engine reads."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
