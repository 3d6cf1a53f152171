"""How a fit goes, for all estimators: its plan, its held-out documents, its start, its executor."""
