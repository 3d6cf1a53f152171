"""What a fitted model says for people: reports, explanations, words, topics, cards and pages."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
