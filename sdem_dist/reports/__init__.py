"""Reports, explanations, words, topics, model cards and HTML pages of fitted models."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
