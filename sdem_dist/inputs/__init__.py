"""Conversion of users' documents to documents for the engine."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
