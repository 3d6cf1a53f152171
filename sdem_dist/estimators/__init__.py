"""Estimators as scikit-learn has them."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
