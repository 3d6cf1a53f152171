"""How a fit goes, for all estimators: its plan, its held-out documents, its start, its executor."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
