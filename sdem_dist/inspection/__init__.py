"""The content of a model, for people: words, topics, facts, pages."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
