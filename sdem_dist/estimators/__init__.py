"""Estimators with the interface of scikit-learn."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
