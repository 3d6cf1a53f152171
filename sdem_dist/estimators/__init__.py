"""Estimators as scikit-learn has them."""

from __future__ import annotations

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
