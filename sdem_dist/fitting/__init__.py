"""What fits of all estimators share: the plan, held-out documents, the initial state, the executor."""

from sdem_dist.compat import import_scikit_learn

import_scikit_learn()
